package executor

import (
	"cmp"
	"context"
	"math"
	"time"

	"github.com/strandjobs/strand/shard"
)

// QueueConfig of one queue. The zero QueueConfig is usable. What zero and numbers
// below zero mean, [Config] says.
type QueueConfig[T any] struct {
	// What most queues set, if anything.

	// Merge says what becomes of equal payloads of a waiting id, or with MergeSupersede,
	// which is for state, of all but the newest. Default MergeKeepAll.
	Merge Merge

	// MaxRetries is how often a failed job, with [Handle] a payload, is run again
	// before it is exhausted. Default 25, which is about 20 days with the default
	// RetryIn; below zero a job is never run again.
	MaxRetries int

	// RetryIn returns the pause before retry n, counted from 0. Default [RetryIn],
	// which is used, too, when it panics, and for an error whose methods do. Below
	// zero means zero.
	RetryIn func(n int) time.Duration

	// Timeout is how long a handler has for a payload, a job or a batch with its
	// halves: the deadline of its context, which ends then with the cause
	// [ErrTimeout]. An error that the handler returns after it is a failure which
	// spends a retry. What a handler that does not return means: Config.StuckAfter.
	// Default, and below zero: no limit, and no deadline.
	Timeout time.Duration

	// MaxConcurrent is how many handlers of the queue may run at a time, over all
	// its shards; Concurrency is for each of them. Those that are stuck and got a
	// substitute do not count. At most 131072. Default, and below zero: no limit
	// but the workers.
	MaxConcurrent int

	// OnExhausted says what happens after the last retry. Default
	// OnExhaustedBuryOldest.
	OnExhausted OnExhausted

	// BatchSize is the most ids that a batch handler gets in one call, at most
	// 4096. Default 1.
	BatchSize int

	// Codec of the payloads. Default [JSON]; [Raw] for []byte.
	Codec Codec[T]

	// Unique lets equal payloads run one after the other, whatever their ids.
	// What it leaves out is as Config.Unique says.
	Unique Unique[T]

	// Locks make jobs wait until others have completed. Default: none.
	Locks Locks[T]

	// Failures.

	// OnFailure says what a failure means for later payloads. Default
	// OnFailureMerge; with [Handle] it is OnFailureBlock.
	OnFailure OnFailure

	// OnFresh says what a fresh payload does to a job in back-off. Default
	// OnFreshWait.
	OnFresh OnFresh

	// FormatError is the text that is kept of a failure, at most 4 KiB. Default:
	// the error's own.
	FormatError func(error) string

	// RetriesExhausted is called, on the worker, with the jobs of a run that failed
	// for the last time, before they are dead letters. Each has those of its payloads
	// that OnExhausted buries, and no other: the first one under
	// OnExhaustedBuryOldest, all that failed under OnExhaustedBuryAll. LastError is
	// that failure. It is not called under OnExhaustedHalt, for what [Cancel] buries,
	// nor for a job that Config.CrashLimit gives up. Default nil.
	RetriesExhausted func(ctx context.Context, jobs []Merged[T])

	// Defaults of a call to Enqueue, and what it waits for.

	// ID, Score and Due compute what a call to Enqueue leaves out. Default nil: an
	// id must be given, score and due time are now.
	ID    func(T) string
	Score func(T) float64
	Due   func(T) time.Time

	// Durability of Enqueue. Default: the executor's.
	Durability Durability

	// MaxBacklog and MaxBacklogBytes bound the payloads of this queue, beside those
	// of Config and in the same way. Default, and below zero: no limit of its own.
	MaxBacklog, MaxBacklogBytes int

	// How much runs at a time.

	// Weight is the queue's share of the workers' time, under [Fair], beside the
	// weights of others that have jobs due. Default 1; at most 65536.
	Weight int

	// Concurrency is how many jobs of a shard may run at a time, of different ids,
	// at most 131072; MaxConcurrent is for the queue as a whole. Default, and below
	// zero: as many as there are workers. Jobs of a few microseconds run one after
	// the other all the same, until one of them takes a millisecond.
	Concurrency int

	// Shards is how many shards the queue has. Its ids are divided among them, and
	// each decides about its jobs one at a time, beside the others. At most 4096;
	// default 5. It may be changed from one start to the next.
	Shards int

	// MaxPayloads is the most payloads of one id that a handler of [HandleMerged]
	// or [HandleBatch] gets in one call, oldest first; the others follow in the
	// next run. Default 1000; below zero there is no limit. With [Handle] it is 1.
	MaxPayloads int

	// SharedLanes names lanes that queues share: all that give the same name have one
	// order for each id. Payloads of an id run in the order in which they were
	// accepted, one at a time, whichever of these queues they are for, so that what
	// was created is created before it is paid. Only [Handle] takes it, and only
	// before Start. See One order over several kinds. Default "": the ids are the
	// queue's own.
	SharedLanes string

	// Slots, and former names of the queue.

	// Slots that each running job has one value of; see [NewSlots]. Default none.
	Slots []SlotSource

	// RenamedFrom are names that the queue had before. Jobs and dead payloads that
	// the journal has under one of them become the queue's own, for good, when it
	// is registered; a name that the journal does not know is passed over, so they
	// can stay in the configuration. Locks go along, and so do kept slots of
	// sequences that this queue has, too; keys of [IdempotencyKey] stay with the
	// old name. Registering fails with ErrConfig when the journal has something
	// under more than one of the names. Default nil.
	RenamedFrom []string

	// What stands around calls.

	// Middleware stands around the calls of this queue's handler, and around the
	// calls that enqueue for it, the first of them outermost, inside of
	// Config.Middleware. Default none.
	Middleware []Middleware

	// HeartbeatTimeout is how long a handler may be at it without a sign of life:
	// a call of [Heartbeat] or [Progress], from any of its goroutines. Then, an
	// eighth of that time later at most, and no more than a second, its context
	// ends with the cause [ErrNoHeartbeat]. An error that the handler returns after
	// that is a failure which spends a retry; what a handler that does not return
	// means: Config.StuckAfter, which counts from there. It stands beside Timeout.
	// Default, and below zero: none are asked for.
	HeartbeatTimeout time.Duration

	// Priority, and limits.

	// Priority: under [Fair] the jobs of a queue with a higher number go first, and
	// the workers come to the others when these have no job that can run. What runs
	// goes on. Queues of one priority share the workers by Weight. From -65536 to
	// 65536; below zero is lower than the default, which is 0. [Queue.Tune] changes
	// it.
	Priority int

	// Limits are what the jobs of the queue run under; see [NewLimit]. A limit may
	// be that of several queues, and one may be there more than once, with other
	// Key functions: from and to, say. A job needs all keys of its payloads, each
	// once, for each of its runs: one that is merged of several payloads, too. Each
	// id of a batch is a job; that the batch is tried again in halves does not count
	// again. A job has what it needs until its handler has returned. Default none.
	Limits []LimitOf[T]

	// What becomes of the dead.

	// MorgueRetention says how long, and how many of them, the dead payloads of the
	// queue are kept. Default: all, until a person decides.
	MorgueRetention MorgueRetention

	// When a job is due that has several payloads.

	// Debounce has a job wait until no payload has come for some time. Default: it
	// is due when its first payload is.
	Debounce Debounce

	// Throttle has an id rest after a run, while the first one waits for no rest:
	// the next begins so long after the end of the last, at the earliest, and gets
	// what has come meanwhile; with [Handle] that is one payload for each run.
	// Retries, snoozes, RunNow and Requeue don't wait for it. A restart makes no
	// difference: an id that has no payload left writes its rest down, in about 30
	// bytes and the id, and takes about 150 bytes of memory meanwhile. Default, and
	// below zero: no rest. Neither with Debounce nor with FreshDue.
	Throttle time.Duration

	// FreshDue says whether a fresh payload moves the due time of a job that waits.
	// Default FreshDueKeep, which it is with Debounce.
	FreshDue FreshDue

	// Fold makes one payload of two of an id, of which waiting was accepted before
	// next, so that the handler gets one that stands for all that wait. It is for
	// [HandleMerged] and [HandleBatch]; see Folding. It has to be associative, as both
	// may be folded already, and may use what it gets and change it. An error, a panic,
	// Goexit and a result of more than Config.MaxPayloadBytes mean that the two don't go
	// together: they are run one after the other. It is called by several goroutines at
	// a time and without a context: it has to be quick. Neither with Merge, MaxPayloads
	// nor Locks that lock or unlock. Default nil.
	Fold func(waiting, next T) (T, error)
}

// Limits and defaults of a queue.
const (
	defaultShards      = 5
	defaultMaxRetries  = 25
	defaultMaxPayloads = 1000
	maxShards          = 1 << 12
	maxBatch           = 1 << 12
)

// settings are the parts of a QueueConfig that don't depend on T.
type settings struct {
	shards, batch int
	share         fairShare
	limit         shard.Weight // of the backlog; 0: none
	renamedFrom   []string
	core          shard.Config
	durability    Durability
	timeout       time.Duration // of a handler; 0: none
	heartbeat     time.Duration // between signs of life of a handler; 0: none are asked for
	retryIn       func(int) time.Duration
	formatError   func(error) string
	sharedLanes   string

	retention MorgueRetention
}

func (c *QueueConfig[T]) settings(x Config) (settings, error) {
	s := settings{
		shards:      cmp.Or(c.Shards, defaultShards),
		batch:       cmp.Or(c.BatchSize, 1),
		durability:  cmp.Or(c.Durability, x.Durability),
		share:       fairShare{weight: float64(cmp.Or(c.Weight, 1)), limit: max(c.MaxConcurrent, 0), tier: &tier{priority: c.Priority}},
		limit:       shard.Weight{Payloads: max(c.MaxBacklog, 0), Bytes: max(c.MaxBacklogBytes, 0)},
		renamedFrom: c.RenamedFrom,
		timeout:     max(c.Timeout, 0),
		heartbeat:   max(c.HeartbeatTimeout, 0),
		retryIn:     c.RetryIn,
		formatError: c.FormatError,
		sharedLanes: c.SharedLanes,

		retention: c.MorgueRetention,
		core: shard.Config{
			Merge: shard.Merge(c.Merge), OnFailure: shard.OnFailure(c.OnFailure),
			OnExhausted: shard.OnExhausted(c.OnExhausted), OnFresh: shard.OnFresh(c.OnFresh),
			MaxRetries:  max(cmp.Or(c.MaxRetries, defaultMaxRetries), 0),
			Concurrency: cmp.Or(max(c.Concurrency, 0), x.Workers+x.SpareWorkers),
			BatchSize:   cmp.Or(c.BatchSize, 1),
			MaxPayloads: max(cmp.Or(c.MaxPayloads, defaultMaxPayloads), 0),
			Slack:       x.TimerSlack,
		},
	}
	var err error
	s.core.FreshDue = shard.FreshDue(c.FreshDue)
	s.core.Throttle = max(c.Throttle, 0)
	s.core.Debounce, err = c.Debounce.settings(c.FreshDue)
	if c.Codec == nil {
		c.Codec = defaultCodec[T]()
	}
	if s.retryIn == nil {
		s.retryIn = RetryIn
	}
	if s.formatError == nil {
		s.formatError = error.Error
	}
	return s, errorsOf(
		c.MorgueRetention.check(),
		inRange("Shards", s.shards, 1, maxShards),
		notAbove("Concurrency", c.Concurrency, 1<<17),
		QueueTuning{c.Weight, c.MaxConcurrent, c.Priority}.check(),
		notAbove("MaxRetries", c.MaxRetries, math.MaxInt32),
		inRange("BatchSize", s.batch, 1, maxBatch),
		inRange("Merge", int(c.Merge), 0, int(MergeSupersede)),
		inRange("OnFailure", int(c.OnFailure), 0, int(OnFailureBlock)),
		inRange("OnExhausted", int(c.OnExhausted), 0, int(OnExhaustedHalt)),
		inRange("OnFresh", int(c.OnFresh), 0, int(OnFreshPull)),
		inRange("FreshDue", int(c.FreshDue), 0, int(FreshDuePush)), err,
		checkSupersede(c.Merge, c.OnFailure, c.OnFresh, c.FreshDue),
		checkThrottle(c.Throttle, c.Debounce, c.FreshDue),
		inRange("Durability", int(s.durability), int(DurabilitySync), int(DurabilityAsync)),
		checkMiddleware(c.Middleware),
	)
}
