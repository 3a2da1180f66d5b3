package executor

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/strandjobs/strand/executor/internal/dispatch"
	"github.com/strandjobs/strand/executor/internal/roster"
	"github.com/strandjobs/strand/executor/internal/setting"
	"github.com/strandjobs/strand/executor/internal/verdict"
	"github.com/strandjobs/strand/shard"
)

// QueueConfig of one queue. The zero QueueConfig is usable, and so is the zero value of
// each group in it. What zero and numbers below zero mean, [Config] says.
type QueueConfig[T any] struct {
	// What people set first.

	// Timeout is how long one call of the handler may take, whether it is for a
	// payload, a job or a batch with its halves. It is the deadline of the handler's
	// context, which then ends with the cause [ErrTimeout]. An error that the handler
	// returns after that is a failure and spends a retry; wishes, as [Snooze], [Discard]
	// and [Cancel], still count. A handler that does not return at all is stuck: see
	// Config.Stuck.After. Default, and below zero: no deadline.
	Timeout time.Duration

	// HeartbeatTimeout is the longest time that a handler may go without a sign of
	// life: a call of [Heartbeat] or [Progress], from any of its goroutines. After it
	// the handler's context ends with the cause [ErrNoHeartbeat], up to an eighth of
	// HeartbeatTimeout late, but no more than a second. What the handler returns after that
	// counts as with Timeout, which applies as well. From then on Config.Stuck.After counts for
	// one that does not return. Default, and below zero: no signs of life are expected.
	HeartbeatTimeout time.Duration

	// MaxRetries is how many times a failed job, with [Handle] a failed payload, runs
	// again before DeadLetters decides what becomes of it. Default 25, which takes
	// about 20 days with the default RetryIn. Below zero a failed job never runs again.
	MaxRetries int

	// RetryIn returns how long a failed job waits before its next run. n counts the
	// retries from 0: it is 0 after the first failure, 1 after the second. A result
	// below zero means zero. Default: the function [RetryIn], which waits 15 s at first
	// and days at the end. The executor also uses that one when this function panics,
	// or when the methods of the handler's error do. A handler that returns
	// [RetryAfter] names the pause itself.
	RetryIn func(n int) time.Duration

	// MaxConcurrent is how many handlers of the queue may run at a time, over all of
	// its shards; Share.Concurrency limits each shard. A stuck handler whose worker was
	// replaced does not count. At most 131072. Default, and below zero: as many as
	// there are workers. [Queue.Tune] changes it.
	MaxConcurrent int

	// BatchSize is the most ids that a handler of [HandleBatch] gets in one call.
	// Default 1, at most 4096.
	BatchSize int

	// Merge says which payloads of a waiting id stay: by default all of them, otherwise
	// one of those with equal bytes, or with MergeSupersede the newest alone, which is
	// for state. Default MergeKeepAll.
	Merge Merge

	// Defaults compute what a call to Enqueue leaves out. Default: nothing is computed.
	Defaults Defaults[T]

	// Codec turns payloads into the bytes of the journal, and back. Default [JSON]; a
	// []byte is taken as it is, and the handler gets a copy of its own.
	Codec Codec[T]

	// Middleware is called around the handler of this queue and around the calls that
	// enqueue for it. The first of the list is outermost, and all of it is inside of
	// Config.Middleware. Default none.
	Middleware []Middleware

	// Groups.

	// Conditions are what a job waits for when its turn has come: locks, slots, limits,
	// its place in a shared lane. Default: none.
	Conditions Conditions[T]

	// Gather says which payloads of an id go into one run, and when that run is due.
	Gather Gather[T]

	// DeadLetters says what becomes of a job after its last retry, and how long its
	// dead letters are kept.
	DeadLetters DeadLetters[T]

	// MaxBacklog bounds the payloads of this queue that are accepted and have not
	// ended, as Config.MaxBacklog does for all queues; both apply. Default, and below
	// zero: no limit for this queue.
	MaxBacklog BacklogLimit

	// Share says how the queue shares the workers with other queues, and how many
	// shards it has.
	Share Share

	// RenamedFrom are names that the queue had before. When the queue is registered, it
	// takes over, for good, the jobs and dead letters that the journal has under one of
	// them. A name that the journal does not know, and the queue's own, are skipped, so all
	// names can stay in the configuration, unless another queue is to have one of them now:
	// registered after this one, it is refused with ErrConfig.
	//
	// Pauses and locks move along, and the kept slots of sequences that this queue uses as
	// well. Keys of [IdempotencyKey] stay with the old name. Under MergeSupersede the newest
	// of what the journal has of an id under any of the names counts, whether it waits, is
	// dead or was done. Otherwise registering fails with ErrConfig when two of the names have
	// payloads, waiting or dead. Default nil.
	//
	// A program that goes back to an old name has to have the new one here. Without it, it
	// knows nothing of what was done under the new name, until it goes forward again. A node of a cluster
	// that is of such a build may have a partition in between: there the payloads of both names are joined, in
	// the order of their positions.
	RenamedFrom []string
}

// Defaults of the calls that enqueue for a queue.
type Defaults[T any] struct {
	// ID, Score and Due compute what a call to Enqueue leaves out. Default nil: the call
	// must give an id, and score and due time are now. A Score tells whole numbers apart
	// up to 2^53, so nanoseconds since 1970 are too large for a version.
	ID    func(T) string
	Score func(T) float64
	Due   func(T) time.Time

	// Durability of the calls. Default: Config.Durability.
	Durability Durability
}

// Conditions of a queue: a job runs when all of them are met.
type Conditions[T any] struct {
	// Locks make jobs wait until other jobs have succeeded. Default: none.
	Locks Locks[T]

	// Unique lets one job at a time run for each key, whatever the ids: by default jobs
	// with equal payloads. A field that is left out is taken from Config.Unique.
	Unique Unique[T]

	// Limits bound how many jobs of a key run at a time, and how many start in a span
	// of time; see [NewLimit]. Several queues may use one limit. A queue may list one
	// limit more than once, with different Key functions: one for the sender, say, and
	// one for the receiver.
	//
	// Each run of a job needs every key of its payloads, and counts once for each key,
	// also when it has several payloads. In a batch each id is a job of its own; the
	// halves of a batch that failed do not count again. A job holds what it got until
	// its handler has returned. Default none.
	Limits []LimitOf[T]

	// Slots are the sequences of which each running job holds one value; see
	// [NewSlots]. Default none.
	Slots []SlotSource

	// SharedLanes is a name. All queues that give the same one have one order for each id: payloads of
	// an id run in the order in which they were accepted, one at a time, whichever of these queues they
	// are for. So an order is created before it is paid, with a queue and a payload type for each. Inside
	// a queue scores count: the turn of its earliest payload goes to the one with the lowest score.
	//
	// A payload waits until every earlier one of its id in these queues has ended, also
	// while that one is delayed, retried, blocked or halted. It takes no worker
	// meanwhile and spends no retry, and [inspect.Inspector.Explain] says what it waits for. A
	// payload that is dead-lettered, merged, discarded or canceled has ended, and those
	// behind it go on. Retries, limits, weights and dead letters are each queue's own.
	// Register all of the queues in each process: the jobs of an unregistered one hold
	// up no other.
	//
	// Only [Handle], [HandleResult] and [HandleLatest] take it, and only before Start. Default "": the
	// queue shares no ids. See "One order over several kinds of jobs" in the guide (README.md).
	SharedLanes string
}

// Gather says what becomes of payloads that arrive for an id with a job that waits,
// beside QueueConfig.Merge, and when that job is due.
type Gather[T any] struct {
	// MaxPayloads is the most payloads of one id that a handler of [HandleMerged] or
	// [HandleBatch] gets in one call, oldest first; the next run gets the others.
	// Default 1000; below zero there is no limit. With [Handle] and with
	// [MergeSupersede] it is 1, and anything but 0 and 1 is ErrConfig.
	MaxPayloads int

	// Fold makes one payload of two of an id; waiting was accepted before next. The
	// handler then gets one payload that stands for all that wait: a million updates of
	// a counter take the room of one. It is for [HandleMerged] and [HandleBatch].
	//
	// Fold must be associative, because both arguments may have been folded already. It
	// may keep and change what it gets. Several goroutines call it at a time, without a
	// context, so it should be quick. If it returns an error, panics, calls Goexit, or
	// returns more than Config.Advanced.MaxPayloadBytes, the two payloads stay apart
	// and run one after the other: nothing is lost, and no call is refused.
	//
	// The worker folds before it calls the handler. When many payloads wait for an id,
	// the queue folds them earlier, in the background, and writes down the result. The
	// result has the position, score, due time and metadata of the first payload; the
	// others have ended, as merged into it. A folded payload that is dead-lettered is
	// one dead letter.
	//
	// Fold excludes Merge, MaxPayloads and Locks that lock or unlock. Default nil:
	// payloads stay apart. See "Folding" in the guide (README.md).
	Fold func(waiting, next T) (T, error)

	// Block: the payloads of a failed run run again alone until they are done or
	// dead-lettered, and what arrives for the id meanwhile waits behind them. It is what
	// [Handle] does. Default false: the retry gets all of them, in score order.
	Block bool

	// Pull: a job that waits for a retry becomes due when a new payload is, if that is earlier. Its retry count
	// stays. With [Handle] and Block what failed is due then, and goes first. Default false: the job waits on.
	Pull bool

	// FreshDue says whether a new payload moves the due time of a job that waits.
	// Default FreshDueKeep, which is the only one with Debounce.
	FreshDue FreshDue

	// Debounce delays a job until no payload has come for some time. Default: the job
	// is due when its first payload is.
	Debounce Debounce

	// Throttle is the minimum time between the end of one run of an id and the start of
	// the next. The first run is not delayed. What arrives in between goes into the
	// next run; with [Handle] each run takes one payload. Retries, snoozes, RunNow and
	// Requeue do not wait for it.
	//
	// It holds over a restart, or a shorter one that is set by then. An id without a payload
	// left takes about 30 bytes and its id on disk, and about 150 bytes of memory, until the
	// time is over. Default, and below zero: no minimum. It excludes Debounce and FreshDue.
	Throttle time.Duration
}

// DeadLetters are the payloads of jobs that have used up their retries.
type DeadLetters[T any] struct {
	// OnExhausted says what happens to a job after its last retry. Default
	// OnExhaustedBuryOldest.
	OnExhausted OnExhausted

	// RetriesExhausted is called by the worker when a run has failed for the last time, before its payloads become dead
	// letters: each job has only these, the first one under OnExhaustedBuryOldest, all that failed under
	// OnExhaustedBuryAll. A payload that a person deletes meanwhile, or that a newer state replaces, does not become a
	// dead letter. LastError is the last failure. ctx has no Timeout, and ends when Stop has run out of time. A panic
	// is logged. After a crash it may be called again. It is not called under OnExhaustedHalt, for what [Cancel]
	// dead-letters, for payloads that do not decode, nor at Config.Crash.Limit. Default nil.
	RetriesExhausted func(ctx context.Context, jobs []Merged[T])

	// FormatError returns the text that the journal keeps of a failure, of which 4 KiB
	// are kept. Default: the text of the error.
	FormatError func(error) string

	// Retention says how long dead letters are kept, and how many. Default: all, until
	// a person decides.
	Retention Retention
}

// Share says how a queue shares the workers with others, and with itself.
type Share struct {
	// Weight is the queue's share of the workers' time under [Fair], relative to the
	// other queues that have jobs due. Default 1; at most 65536. [Queue.Tune] changes
	// it.
	Weight int

	// Priority decides under [Fair] which queue's jobs run first: those with the higher
	// number. Workers take jobs of the others when none of these can run. A job that
	// runs is not interrupted. Queues of equal priority share the workers by Weight.
	// From -65536 to 65536; below zero is lower than the default, which is 0.
	// [Queue.Tune] changes it.
	Priority int

	// Concurrency is how many jobs of one shard may run at a time, each of another id;
	// MaxConcurrent limits the queue as a whole. At most 131072. Default, and below
	// zero: as many as there are workers. Jobs of a few microseconds still run one
	// after the other, until one of them takes a millisecond.
	Concurrency int

	// Shards is how many shards the queue has. Each id belongs to one of them, and
	// shards decide about their jobs independently of each other. Default 5; at most
	// 4096. It may be changed from one start to the next.
	Shards int
}

// settings fills in what is left out, and hands what does not depend on T to the queue.
func (c *QueueConfig[T]) settings(x Config, q *roster.Queue) error {
	tuning := QueueTuning{c.Share.Weight, c.MaxConcurrent, c.Share.Priority}
	q.Tuning, q.RenamedFrom, q.SharedLanes = dispatch.Share(tuning), c.RenamedFrom, c.Conditions.SharedLanes
	q.Limit = shard.Weight{Payloads: max(c.MaxBacklog.Payloads, 0), Bytes: max(c.MaxBacklog.Bytes, 0)}
	q.DeadAge, q.DeadCount = c.DeadLetters.Retention.Age, c.DeadLetters.Retention.Count
	q.Rules = verdict.Rules{
		Timeout:     max(c.Timeout, 0),
		Heartbeat:   max(c.HeartbeatTimeout, 0),
		RetryIn:     c.RetryIn,
		FormatError: c.DeadLetters.FormatError,
		Core: shard.Config{
			MaxRetries:  max(cmp.Or(c.MaxRetries, 25), 0),
			Concurrency: cmp.Or(max(c.Share.Concurrency, 0), x.Workers+x.Stuck.SpareWorkers),
			BatchSize:   cmp.Or(c.BatchSize, 1),
			MaxPayloads: max(cmp.Or(c.Gather.MaxPayloads, 1000), 0),
			Slack:       x.Advanced.TimerSlack,
		},
	}
	if err := c.policies(&q.Core); err != nil {
		return err
	}
	c.Share.Shards, c.Defaults.Durability = cmp.Or(c.Share.Shards, 5), cmp.Or(c.Defaults.Durability, x.Durability)
	q.Core.Throttle = max(c.Gather.Throttle, 0)
	if raw, ok := any(asBytes{}).(Codec[T]); ok {
		c.Codec = cmp.Or(c.Codec, raw)
	}
	c.Codec = cmp.Or(c.Codec, Codec[T](JSON[T]{}))
	if q.FormatError == nil {
		q.FormatError = error.Error
	}
	return cmp.Or(
		c.DeadLetters.Retention.check(),
		setting.InRange("Share.Shards", c.Share.Shards, 1, 1<<12),
		setting.NotAbove("Share.Concurrency", c.Share.Concurrency, 1<<17),
		tuning.check("Share."),
		setting.NotAbove("MaxRetries", c.MaxRetries, math.MaxInt32),
		setting.InRange("BatchSize", q.Core.BatchSize, 1, 1<<12),
		c.Gather.Debounce.settings(c.Gather.FreshDue, c.Gather.Throttle, &q.Core),
		checkSupersede(c.Merge, c.Gather.MaxPayloads, c.Gather.Block, c.Gather.Pull, c.Gather.FreshDue),
		setting.Among("Defaults.Durability", c.Defaults.Durability, DurabilitySync, DurabilityAsync),
		checkMiddleware(c.Middleware),
	)
}

// policies checks those of a queue, fills in what is left out, and hands them down.
func (c *QueueConfig[T]) policies(core *shard.Config) error {
	merges := []Merge{MergeKeepAll, MergeMinScore, MergeKeepFirst, MergeKeepLast, MergeSupersede} // as package shard has them
	exhausted, due := &c.DeadLetters.OnExhausted, &c.Gather.FreshDue
	c.Merge, *exhausted, *due = cmp.Or(c.Merge, MergeKeepAll), cmp.Or(*exhausted, OnExhaustedBuryOldest), cmp.Or(*due, FreshDueKeep)
	core.Merge, core.Block, core.Pull = shard.Merge(max(slices.Index(merges, c.Merge), 0)), c.Gather.Block, c.Gather.Pull
	core.Halt, core.BuryAll = *exhausted == OnExhaustedHalt, *exhausted == OnExhaustedBuryAll
	core.DuePull, core.DuePush = *due == FreshDuePull, *due == FreshDuePush
	return cmp.Or(
		setting.Among("Merge", c.Merge, merges...),
		setting.Among("DeadLetters.OnExhausted", *exhausted, OnExhaustedBuryOldest, OnExhaustedBuryAll, OnExhaustedHalt),
		setting.Among("Gather.FreshDue", *due, FreshDueKeep, FreshDuePull, FreshDuePush),
	)
}

// Retention bounds the dead letters of a queue. The zero Retention keeps all.
//
// From registration on, the executor deletes what is too old or too much, as
// [inspect.Inspector.DeleteDead] does, at most a thousand at a time. QueueStats.Expired counts
// it, and the log has at most a line a minute.
type Retention struct {
	// Age is how long a dead letter is kept after it died; it may be deleted up to a
	// 64th of Age later. That the wall clock is set forward while the process runs makes it
	// no older. At least a second. Default, and below zero: without end.
	Age time.Duration

	// Count is how many dead letters are kept. When there are more, those that were
	// accepted first are deleted. Default, and below zero: any number.
	Count int
}

func (r Retention) check() error {
	if r.Age > 0 && r.Age < time.Second {
		return fmt.Errorf("%w: DeadLetters.Retention.Age is %v, it must be a second at least; 0 keeps the dead for ever", ErrConfig, r.Age)
	}
	return nil
}
