package executor

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/strandjobs/strand/shard"
)

// Durability says what Enqueue waits for.
type Durability uint8

const (
	// Default is Sync for an executor, and the executor's own for a queue.
	Default Durability = iota
	// Sync: Enqueue returns when the payload is on disk (fsynced).
	Sync
	// Async: Enqueue returns at once, unless it has a [Key] or a [Once], or the disk
	// is more than 4 MiB behind; the payload is on disk after the next commits,
	// usually within a millisecond. A crash before that loses it. The order of calls
	// is kept, so a crash loses the newest.
	Async
)

// Config of an executor. The zero Config is usable.
type Config struct {
	// Workers is how many handlers run at a time, over all queues. Default 5.
	Workers int

	// Logger gets what no caller is told. The first run of a queue that fails is a
	// warning at once; after that there is one a minute at most, with the number of
	// others. What goes to the morgue, or is halted until RunNow, is a warning, what
	// panicked an error with its stack: ten lines a second at most of each kind and queue,
	// and the next one says how many were left out. A full disk is a warning. A start and
	// a stop are one line each, Info unless there is something to be warned of: what waits
	// or is halted, what was recovered from a crash and who is suspected, before the first
	// job runs; what was done, failed (runs, not payloads), buried and left, and which
	// handlers. Default [slog.Default] as of Open; slog.New(slog.DiscardHandler): silence.
	Logger *slog.Logger

	// Scheduler decides whose job gets the next free worker. Default [Fair]: the
	// queues share the workers' time, and inside a queue the oldest job comes
	// first. [InOrder] is strict priority.
	Scheduler Scheduler

	// Durability of queues that don't say. Default Sync. An executor that was
	// opened without a directory keeps everything in memory and ignores it.
	Durability Durability

	// MaxPayloadBytes is the largest encoded payload. Default 1 MiB.
	MaxPayloadBytes int

	// MaxBacklog and MaxBacklogBytes bound the payloads that are accepted and
	// not over, over all queues; bytes count as in the journal, with ids and a
	// few bytes of overhead. A payload counts once, while it waits, runs, is put off
	// or halted, but not in the morgue. A call that would exceed a limit gets
	// [ErrFull], or waits, as Overflow says.
	//
	// A call with the context of a handler counts, too, and is neither refused nor
	// kept waiting: what is in hand can always end. So the backlog may exceed its
	// limits by what the handlers enqueue, and by what is in the journal when it is
	// opened or comes back from the morgue. It takes in other calls again when it is
	// back under them. Jobs of queues that are not registered do not count: they
	// could not end. Default 0: no limit.
	MaxBacklog, MaxBacklogBytes int

	// MemoryBudget is how many bytes of accepted payloads, with their ids, stay in
	// memory. Above it the oldest are on disk only, and are read back when their
	// jobs run or merge; so a backlog may be larger than memory, except for about
	// 80 bytes a job. An executor without a directory has no disk to read from,
	// and ignores it. Default 64 MiB; below zero there is no limit.
	MemoryBudget int

	// Overflow says what Enqueue does when the backlog is full. Default Refuse.
	Overflow Overflow

	// KeyTTL is how long a [Key] is remembered, from when it was accepted, by the
	// wall clock: from then on the same key enqueues again. Default 24 h. Each
	// key takes about 100 bytes of the journal, and no memory.
	KeyTTL time.Duration

	// Unique says whether equal payloads of a queue may run at the same time, for
	// queues that don't say. Default UniqueNever.
	Unique Uniqueness

	// CrashLimit is how many deaths of the process a job may be the cause of
	// before it is given up: QueueConfig.OnExhausted decides as if it had failed
	// for the last time. What was running at a death runs again at once. Who was
	// running at two in a row, and may have caused both, is held back at the next
	// start, for 150 times as long as it had run then and at most 10 s, and runs
	// without others of its kind. If the process dies without it, it is innocent;
	// if it dies again as soon as that one has begun, that one is the cause. So a
	// job that ends the process at once does so three times, one that takes
	// seconds for it a few times more, and kills from outside, at random moments,
	// hardly ever cost a job. No death counts after which the machine had another
	// boot, or that came by a signal in a report; see CrashReports. Default 3; below
	// zero no job is held or given up.
	CrashLimit int

	// CrashReports has Go write what it says about a fatal error, or about an
	// unrecovered panic, to a file in the journal's directory, too. The next
	// start reads there which job it was, if it was the goroutine of a handler or
	// one that a handler started: then no other is suspected. It uses
	// [runtime/debug.SetCrashOutput], of which there is one in a process: the
	// executor that started last has it, until it is stopped. Default false.
	CrashReports bool

	// TimerSlack is how late a job may start that is put off, by [At], [In], a
	// retry or [Snooze], for at least a hundred times as long: jobs of all queues
	// that become due within one slack start together, and share a wake-up and
	// most of them a commit. Hundreds of them in a second take a third of the
	// processor time with 25 ms, which is for what is put off for 2.5 s or more.
	// Nothing starts before it is due; what is put off for less, and what is due
	// now, does not wait; due times stay what they are. After a restart what
	// counts is how much later a job is due. At most 1 s. Default 0: a due time
	// wakes its job directly.
	TimerSlack time.Duration

	// Strict makes Start refuse while the journal has jobs of queues that are not
	// registered. Default false: they are kept, counted in Stats, and run when
	// their queue is registered again.
	Strict bool

	// StuckAfter is how long a handler may go on after its QueueConfig.Timeout. One that
	// does is reported to Logger with its stack, a second later at most, counted in
	// Stats.Stuck, and its jobs stay blocked: they must not overtake themselves.
	// Default 10 s.
	StuckAfter time.Duration

	// SpareWorkers is how many workers may be started in the place of those
	// whose handlers are stuck. A handler that got a substitute does not count
	// in the Concurrency of its queue either, so that only its own ids wait for
	// it. When it returns, its worker goes. Default 0: a stuck handler keeps its
	// worker.
	SpareWorkers int

	// StopTimeout is how long Run waits for running handlers after its context
	// has ended. Default 30 s; below zero it doesn't wait.
	StopTimeout time.Duration

	// OnStart is called by Start before the first job runs. Its error is
	// returned by Start, and no job runs. Default nil.
	OnStart func(context.Context) error

	// OnFailure is called once, on a goroutine of its own, with the last words
	// of an executor that can't go on: the journal failed. It may call Stop.
	// Default nil.
	OnFailure func(error)
}

// The limits and defaults of the seed, and ours.
const (
	// MaxIDBytes is the length of the longest id.
	MaxIDBytes = 512

	defaultWorkers         = 5
	defaultShards          = 5
	defaultMaxRetries      = 25
	defaultMaxPayloads     = 1000
	defaultMaxPayloadBytes = 1 << 20
	defaultCrashLimit      = 3
	defaultStopTimeout     = 30 * time.Second
	defaultKeyTTL          = 24 * time.Hour
	defaultStuckAfter      = 10 * time.Second
	maxTimerSlack          = time.Second
	maxShards              = 1 << 12
	maxBatch               = 1 << 12
)

func (c Config) withDefaults() (Config, error) {
	c.Workers = cmp.Or(c.Workers, defaultWorkers)
	c.MaxPayloadBytes = cmp.Or(c.MaxPayloadBytes, defaultMaxPayloadBytes)
	c.CrashLimit = cmp.Or(c.CrashLimit, defaultCrashLimit)
	c.StopTimeout = cmp.Or(c.StopTimeout, defaultStopTimeout)
	c.KeyTTL = cmp.Or(c.KeyTTL, defaultKeyTTL)
	c.StuckAfter = cmp.Or(c.StuckAfter, defaultStuckAfter)
	c.Durability = cmp.Or(c.Durability, Sync)
	c.Logger = slog.New(guardedHandler{cmp.Or(c.Logger, slog.Default()).Handler()})
	if c.Scheduler == nil {
		c.Scheduler = Fair()
	}
	return c, errorsOf(
		inRange("Workers", c.Workers, 1, 1<<16),
		inRange("SpareWorkers", c.SpareWorkers, 0, 1<<16),
		notNegative("StuckAfter", c.StuckAfter),
		notNegative("TimerSlack", c.TimerSlack),
		notAbove("TimerSlack", c.TimerSlack, maxTimerSlack),
		inRange("MaxPayloadBytes", c.MaxPayloadBytes, 1, 1<<28),
		inRange("MaxBacklog", c.MaxBacklog, 0, math.MaxInt),
		inRange("MaxBacklogBytes", c.MaxBacklogBytes, 0, math.MaxInt),
		notNegative("KeyTTL", c.KeyTTL),
		inRange("Unique", int(c.Unique), int(UniqueDefault), int(UniqueWhileRunning)),
		inRange("Overflow", int(c.Overflow), int(Refuse), int(Wait)),
		inRange("Durability", int(c.Durability), int(Sync), int(Async)),
	)
}

// QueueConfig of one queue. The zero QueueConfig is usable.
type QueueConfig[T any] struct {
	// Shards is how many actors share the ids of the queue. Default 5. It may be
	// changed from one start to the next.
	Shards int

	// Concurrency is how many jobs of a shard may run at a time, of different ids.
	// 1 is Lowkiq's rule: one thread at a time for each shard. Default: as many as
	// there are workers. Jobs of a few microseconds run one after the other all the
	// same, until one of them takes a millisecond.
	Concurrency int

	// MaxConcurrent is how many handlers of the queue may run at a time. Those that
	// are stuck and got a substitute do not count. Default 0: only the workers.
	MaxConcurrent int

	// Weight is the queue's share of the workers' time, under [Fair], beside the
	// weights of others that have jobs due. Default 1; at most 65536.
	Weight int

	// MaxBacklog and MaxBacklogBytes bound the payloads of this queue, beside those
	// of Config and in the same way. Default 0: no limit of its own.
	MaxBacklog, MaxBacklogBytes int

	// BatchSize is the most ids that a batch handler gets in one call. Default 1.
	BatchSize int

	// MaxPayloads is the most payloads of one id that a handler of [HandleMerged]
	// or [HandleBatch] gets in one call, oldest first; the others follow in the next
	// run. Default 1000; below zero there is no limit. With [Handle] it is 1.
	MaxPayloads int

	// MaxRetries is how often a failed job, with [Handle] a payload, is run again
	// before it is exhausted. Default 25, which is about 20 days with the default RetryIn;
	// below zero a job is never run again.
	MaxRetries int

	// RetryIn returns the pause before retry n, counted from 0. Default [RetryIn], which
	// is used, too, when it panics, and for an error whose methods do. Below zero means
	// zero.
	RetryIn func(n int) time.Duration

	// FormerNames are names that the queue had before. Jobs and dead payloads
	// that the journal has under one of them become the queue's own, for good,
	// when it is registered; a name that the journal does not know is passed
	// over, so they can stay in the configuration. Locks go along, and so do kept
	// slots of sequences that this queue has, too; keys of [Key] stay with the old
	// name. Registering fails with ErrConfig when the journal has something
	// under more than one of the names. Default nil.
	FormerNames []string

	// Timeout is how long a handler has for a payload, a job or a batch with its
	// halves: the deadline of its context, which ends then with the cause
	// [ErrTimeout]. An error that the handler returns after it is a failure which
	// spends a retry. What a handler that does not return means: Config.StuckAfter.
	// Default 0: no limit, and no deadline.
	Timeout time.Duration

	Merge       Merge       // equal payloads of a waiting id; default KeepAll
	OnFailure   OnFailure   // what a failure means for later payloads; default MergeFailed; with Handle it is BlockFailed
	OnExhausted OnExhausted // what happens after the last retry; default BuryOldest
	OnFresh     OnFresh     // what a fresh payload does to a job in back-off; default WaitWithRetry

	// Codec of the payloads. Default [JSON]; [Raw] for []byte.
	Codec Codec[T]

	// ID, Score and Due compute what a call to Enqueue leaves out. Default nil:
	// an id must be given, score and due time are now.
	ID    func(T) string
	Score func(T) float64
	Due   func(T) time.Time

	// FormatError is the text that is kept of a failure, at most 4 KiB.
	// Default: the error's own.
	FormatError func(error) string

	// RetriesExhausted is called, on the worker, with the jobs of a run that
	// failed for the last time, before OnExhausted is carried out; with [Handle] that
	// is one job with one payload. LastError is that failure. Default nil.
	RetriesExhausted func(ctx context.Context, jobs []Merged[T])

	// Durability of Enqueue. Default: the executor's.
	Durability Durability

	// Locks make jobs wait until others have completed. Default: none.
	Locks Locks[T]

	// Unique lets equal payloads run one after the other, whatever their ids.
	// Default: as Config.Unique.
	Unique Unique[T]

	// Slots that each running job has one value of; see [NewSlots]. Default none.
	Slots []SlotSource
}

// settings are the parts of a QueueConfig that don't depend on T.
type settings struct {
	shards, batch int
	share         share
	limit         shard.Weight // of the backlog; 0: none
	former        []string
	core          shard.Config
	durability    Durability
	timeout       time.Duration // of a handler; 0: none
	retryIn       func(int) time.Duration
	formatError   func(error) string
}

func (c *QueueConfig[T]) settings(x Config) (settings, error) {
	s := settings{
		shards:      cmp.Or(c.Shards, defaultShards),
		batch:       cmp.Or(c.BatchSize, 1),
		durability:  cmp.Or(c.Durability, x.Durability),
		share:       share{weight: float64(cmp.Or(c.Weight, 1)), limit: c.MaxConcurrent},
		limit:       shard.Weight{Payloads: c.MaxBacklog, Bytes: c.MaxBacklogBytes},
		former:      c.FormerNames,
		timeout:     c.Timeout,
		retryIn:     c.RetryIn,
		formatError: c.FormatError,
		core: shard.Config{
			Merge: c.Merge, OnFailure: c.OnFailure, OnExhausted: c.OnExhausted, OnFresh: c.OnFresh,
			MaxRetries:  max(cmp.Or(c.MaxRetries, defaultMaxRetries), 0),
			Concurrency: cmp.Or(c.Concurrency, x.Workers+x.SpareWorkers),
			BatchSize:   cmp.Or(c.BatchSize, 1),
			MaxPayloads: max(cmp.Or(c.MaxPayloads, defaultMaxPayloads), 0),
			Slack:       x.TimerSlack,
		},
	}
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
		inRange("Shards", s.shards, 1, maxShards),
		notNegative("Timeout", c.Timeout),
		inRange("Concurrency", s.core.Concurrency, 1, 1<<17),
		inRange("MaxConcurrent", c.MaxConcurrent, 0, 1<<17),
		inRange("Weight", c.Weight, 0, 1<<16),
		inRange("MaxBacklog", c.MaxBacklog, 0, math.MaxInt),
		inRange("MaxBacklogBytes", c.MaxBacklogBytes, 0, math.MaxInt),
		inRange("MaxRetries", s.core.MaxRetries, 0, math.MaxInt32),
		inRange("BatchSize", s.batch, 1, maxBatch),
		inRange("Merge", int(c.Merge), 0, int(KeepLast)),
		inRange("OnFailure", int(c.OnFailure), 0, int(BlockFailed)),
		inRange("OnExhausted", int(c.OnExhausted), 0, int(Halt)),
		inRange("OnFresh", int(c.OnFresh), 0, int(PullRetry)),
		inRange("Durability", int(s.durability), int(Sync), int(Async)),
	)
}

func inRange(name string, v, low, high int) error {
	if v < low || v > high {
		return fmt.Errorf("%w: %s is %d, it must be from %d to %d", ErrConfig, name, v, low, high)
	}
	return nil
}

func notNegative(name string, d time.Duration) error {
	if d < 0 {
		return fmt.Errorf("%w: %s is %v, it must not be below zero", ErrConfig, name, d)
	}
	return nil
}

func notAbove(name string, d, limit time.Duration) error {
	if d > limit {
		return fmt.Errorf("%w: %s is %v, it must not be above %v", ErrConfig, name, d, limit)
	}
	return nil
}

func errorsOf(errs ...error) error { return cmp.Or(errs...) }
