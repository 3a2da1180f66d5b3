package executor

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/strandjobs/strand/executor/internal/engine"
	"github.com/strandjobs/strand/executor/internal/guard"
	"github.com/strandjobs/strand/executor/internal/setting"
)

// Durability says what Enqueue waits for before it returns. Left out, it is
// DurabilitySync for an executor, and that of the executor for a queue.
type Durability string

const (
	// DurabilitySync: Enqueue returns when the payload is on disk (fsynced). Calls that
	// wait at the same time share an fsync.
	DurabilitySync Durability = "Sync"
	// DurabilityAsync: Enqueue returns as soon as the payload has its place in the
	// order, and the disk follows with the next commits, usually within a millisecond.
	// If the process or the machine dies before that, the payload is lost, and a later
	// one may get its position. A crash loses the newest ones and none in between; on a
	// full disk, those that wait for room. Enqueue still waits for the disk when the call
	// has an [IdempotencyKey], [FromSource] or [IfAbsent], and when the disk is more than 4 MiB behind.
	DurabilityAsync Durability = "Async"
)

// Config of an executor. The zero Config is usable.
//
// In Config, [QueueConfig], [Locks], [Unique] and [SlotsConfig] the zero value of a
// field means its default, which the field's comment names. A number below zero
// switches off what the field bounds or does: no limit, no retry, no wait. Where that
// makes no sense, a number below zero is refused with [ErrConfig], and so is one that
// is too large; the error has the field and the value. Below zero are refused: Workers,
// Stuck.After, Advanced.MaxPayloadBytes, Advanced.IdempotencyTTL, Advanced.SlotTTL,
// Splitter.Nodes and Splitter.Self of Config; Share.Weight, Share.Shards and BatchSize of
// a queue; WhenBlocked.After of Locks; TTL and Heartbeat of Unique; TTL and MaxSteps of
// slots; and all fields of [LimitConfig]. A Share.Priority below zero is a low one.
type Config struct {
	// What people set first.

	// Workers is how many handlers run at a time, over all queues. Default 5; at most 65536.
	Workers int

	// Logger gets what no call returns:
	//
	//   - The first failed run of a queue is a warning at once. After that there is at
	//     most one a minute, with the number of further failures.
	//   - A payload that is dead-lettered, and an id that is halted until RunNow, is a
	//     warning; a panic is an error with its stack. At most ten lines a second are
	//     written of each kind and queue, and the next one says how many were left out.
	//   - A full disk is a warning.
	//   - Start is one line, before the first job runs: what waits or is halted, what
	//     was recovered from a crash, and which jobs are suspected. Stop is one line:
	//     what was done, failed (in runs, not payloads), dead-lettered and left, and
	//     which handlers still run. Both are Info unless they have something to warn
	//     of, and nobody waits for one that takes long.
	//
	// Default: [slog.Default] at the time of Open. For silence use
	// slog.New(slog.DiscardHandler).
	Logger *slog.Logger

	// OnFatal is called once, on a goroutine of its own, with the error of an executor
	// that can't go on: when the journal has failed, [ErrFailed], or after the stop that a handler
	// asked for with [Fatal]. It may call Stop. Default nil.
	OnFatal func(error)

	// Durability of queues that do not set it. Default DurabilitySync. An executor in
	// memory, which Open with an empty dir makes, ignores it.
	Durability Durability

	// MaxBacklog bounds the payloads of all queues that are accepted and have not
	// ended. A payload counts once, while it waits, runs, is delayed, retried, blocked
	// or halted, but not as a dead letter. A call that would exceed the limit gets
	// [ErrFull], or with WaitForRoom waits.
	//
	// Calls with the context of a handler count, but always get in, so that running jobs can
	// end. So the backlog may exceed its limit by what handlers enqueue, by what the journal
	// holds when it is opened, and by dead letters that are put back. Other calls get in again
	// when it is below the limit. Jobs of unregistered queues do not count, because they could
	// not end. Default, and below zero: no limit.
	MaxBacklog BacklogLimit

	// WaitForRoom: a call that MaxBacklog leaves no room for waits until there is room, or
	// ctx ends: then the error is the cause of ctx, and a [FullError] at the same time. Calls
	// go on in the order in which they came. Before Start, and in OnStart, the wait has no
	// end, because no job ends. A handler has to enqueue with its own context, or it may wait
	// for itself. Default false: it gets a [FullError].
	WaitForRoom bool

	// StopTimeout is how long Run waits for running handlers after its context has
	// ended. Default 30 s; below zero it does not wait.
	StopTimeout time.Duration

	// OnStart is called by Start before the first job runs. If it returns an error or
	// panics, Start returns that, no job runs, and a second Start is ErrState. Default nil.
	OnStart func(context.Context) error

	// Middleware is called around the handlers of all queues and around the calls that
	// enqueue. The first of the list is outermost, and all of it is outside of
	// QueueConfig.Middleware. Default none.
	Middleware []Middleware

	// ControlSocket makes the executor listen on a unix socket in the journal's
	// directory, control.sock with mode 0600, from Open until Stop has waited for the
	// handlers. The strand command finds it there, when the same user or root runs it,
	// and looks at jobs and acts on them as [Executor.Inspect] does. See "The control
	// socket" in the guide (README.md).
	//
	// Open returns ErrConfig where there can't be a socket: in memory, on Windows, when
	// its path has more than 89 bytes, when every user may write to the directory, or
	// when something else is in its place or in that of control.new, the directory in
	// which it is made. Where the system refuses one, or can't say what is in its place, it
	// returns what that says. On a full disk it goes on without one until there is room, and
	// logs both. Default false: there is no socket.
	ControlSocket bool

	// How jobs are chosen.

	// Scheduler decides which queue's job gets the next free worker. Default [Fair]:
	// queues share the workers' time, by QueueConfig.Share.Priority and Weight, and
	// inside a queue the oldest job comes first. [OldestFirst], the default of Lowkiq,
	// takes the oldest job of all queues. [RegistrationOrder] goes by the order in which
	// the queues were registered.
	Scheduler Scheduler

	// Unique has the defaults for QueueConfig.Conditions.Unique: each field that a queue leaves out comes from
	// here, but a queue with its own TTL does not take Heartbeat from here. Key gets the payload as the type
	// of the queue; queues for which it returns the same key exclude each other. A queue that sets Key, TTL,
	// Heartbeat or UniqueWhileRunning takes part. If one of these is set here, and not UniqueNever, so does a
	// queue that sets nothing. A queue that sets UniqueNever does not. Default: one that sets nothing does not.
	Unique Unique[any]

	// Splitter says which ids belong to this process, when several processes share the
	// work, each with a journal of its own. Default: all ids do.
	Splitter Splitter

	// Groups.

	// Stuck is about handlers that do not return.
	Stuck Stuck

	// Crash is about jobs that end the process.
	Crash Crash

	// Advanced are settings that few programs need.
	Advanced Advanced
}

// BacklogLimit bounds the payloads that are accepted and not over. Default, and below zero: no limit.
type BacklogLimit struct {
	Payloads int // how many
	Bytes    int // of payloads and ids, as in the journal, with a few bytes of overhead
}

// Stuck is about handlers that do not return after QueueConfig.Timeout.
type Stuck struct {
	// After is how long a handler may run on after its QueueConfig.Timeout. After that
	// it is stuck: within a second Logger gets its stack, and Stats.Stuck counts it.
	// The ids that it has in hand wait until it returns, because runs of an id never
	// overlap. Default 10 s.
	After time.Duration

	// SpareWorkers is how many workers may be started to replace those whose handlers
	// are stuck. A stuck handler that was replaced no longer counts in MaxConcurrent
	// and Share.Concurrency of its queue, so that only its own ids wait for it. When it
	// returns, its worker ends. At most 65536. Default, and below zero: a stuck handler keeps its worker.
	SpareWorkers int
}

// Crash is about jobs that end the process.
type Crash struct {
	// Limit is how many process crashes a job may cause before it is dead-lettered: then DeadLetters.OnExhausted of its
	// queue applies as after the last failure, except that RetriesExhausted is not called. Default 3; below zero no job
	// is held back or dead-lettered for it, and its Crashes count all the same. A job is dead-lettered after fewer than
	// three crashes only if a report names it.
	//
	// What was running at a crash runs again at once. A job that was running at two crashes, and
	// may have caused both, is a suspect: at the next start it is held back, for 150 times as
	// long as it had run but at most 10 s, and then runs without the other suspects. A process
	// that crashes meanwhile clears it, unless it had lived for less than a second, or something
	// was running that was running at an earlier crash, too. A crash right after it has started
	// blames it. So a job that ends the process at once does so three times, one that takes seconds
	// for it a few times more, and kills from outside, at random moments, hardly ever cost a job.
	//
	// A payload that supersedes, merges with or folds a suspect inherits the suspicion.
	// Under MergeSupersede what is newer than a dead letter of this kind takes its place as
	// one, and does not run, until a person puts it back or deletes it: see [HandleLatest].
	//
	// A crash does not count if the machine has booted since, or if a report says that
	// a signal caused it; see Reports. The notes about running jobs need 16 KiB in the
	// journal's directory. Without room for them, Start logs that, and suspects stay
	// held back until the next start.
	Limit int

	// Reports makes Go write what it says about a fatal error or an unrecovered panic
	// to a file in the journal's directory, too. From that the next start learns which
	// job caused the crash, or which batch, if it was in the goroutine of a handler or one
	// that a handler started; no other job is suspected then. It uses
	// [runtime/debug.SetCrashOutput], of which a process has one: the executor that
	// started last has it until it is stopped. Default false.
	Reports bool
}

// Advanced are settings of an executor that few programs need.
type Advanced struct {
	// MaxPayloadBytes is the size of the largest encoded payload. Default 1 MiB; at most 256 MiB.
	MaxPayloadBytes int

	// MemoryBudget is how many bytes of accepted payloads and their ids stay in memory.
	// Above it the oldest are on disk only, and are read back when their jobs run or merge.
	// So a backlog may be larger than memory, except for about 80 bytes a job. An executor
	// in memory ignores it. Default 64 MiB; below zero there is no limit.
	MemoryBudget int

	// IdempotencyTTL is how long the journal remembers an [IdempotencyKey] after the
	// call was accepted, by the wall clock. After that the same key enqueues again. A
	// key takes about 100 bytes of the journal, and no memory. Default 24 h.
	IdempotencyTTL time.Duration

	// SlotTTL is the TTL of a slot when neither SlotsConfig nor the Timeout of the
	// job's queue has one. Default 60 s.
	SlotTTL time.Duration

	// EventBuffer is how many events [Executor.Events] keeps for its readers, at about
	// 300 bytes each, plus ids and errors. The buffer is made for the first reader.
	// Default 4096; at most 1048576; below zero there are no events.
	EventBuffer int

	// TimerSlack lets delayed jobs start together: a job that is put off for at least
	// 100 × TimerSlack, by [At], a retry, [Debounce] or the like, may start up to TimerSlack
	// late. Jobs of all queues that become due within one TimerSlack share a wake-up,
	// and most of them a commit. With 25 ms, jobs that are put off for 2.5 s or more may start
	// late, and hundreds of them in a second take less than half of the processor time.
	//
	// No job starts before it is due, and due times stay what they are. Jobs that are
	// put off for less, or are due now, do not wait. After a restart, what counts is the
	// delay that is left then. Default, and below zero: a due time wakes its job directly. At most 1 s.
	TimerSlack time.Duration

	// Strict makes Start refuse while the journal has jobs of queues that are not
	// registered. Default false: they are kept, counted in Stats, and run when
	// their queue is registered again.
	Strict bool
}

// MaxIDBytes is the length of the longest id: 512.
const MaxIDBytes = engine.MaxIDBytes

func (c Config) withDefaults() (Config, error) {
	c.Workers = cmp.Or(c.Workers, 5)
	c.Advanced.MaxPayloadBytes = cmp.Or(c.Advanced.MaxPayloadBytes, 1<<20)
	c.Crash.Limit = cmp.Or(c.Crash.Limit, 3)
	c.MaxBacklog.Payloads, c.MaxBacklog.Bytes = max(c.MaxBacklog.Payloads, 0), max(c.MaxBacklog.Bytes, 0)
	c.Advanced.TimerSlack, c.Stuck.SpareWorkers = max(c.Advanced.TimerSlack, 0), max(c.Stuck.SpareWorkers, 0)
	c.StopTimeout = cmp.Or(c.StopTimeout, 30*time.Second)
	c.Advanced.IdempotencyTTL = cmp.Or(c.Advanced.IdempotencyTTL, 24*time.Hour)
	c.Stuck.After = cmp.Or(c.Stuck.After, 10*time.Second)
	c.Advanced.SlotTTL = cmp.Or(c.Advanced.SlotTTL, time.Minute)
	c.Durability = cmp.Or(c.Durability, DurabilitySync)
	c.Logger = slog.New(guard.Handler{Handler: cmp.Or(c.Logger, slog.Default()).Handler()})
	c.Scheduler = cmp.Or(c.Scheduler, Fair())
	c.Middleware = slices.Clone(c.Middleware)
	var wrong error
	c.Unique, wrong = c.Unique.settled(Unique[any]{While: UniqueNever, TTL: 35 * time.Second})
	c.Advanced.EventBuffer = cmp.Or(c.Advanced.EventBuffer, 4096)
	return c, cmp.Or(
		setting.InRange("Workers", c.Workers, 1, 1<<16),
		setting.NotAbove("Stuck.SpareWorkers", c.Stuck.SpareWorkers, 1<<16),
		setting.NotNegative("Stuck.After", c.Stuck.After),
		setting.NotAbove("Advanced.TimerSlack", c.Advanced.TimerSlack, time.Second),
		setting.InRange("Advanced.MaxPayloadBytes", c.Advanced.MaxPayloadBytes, 1, 1<<28),
		setting.NotNegative("Advanced.IdempotencyTTL", c.Advanced.IdempotencyTTL),
		setting.NotNegative("Advanced.SlotTTL", c.Advanced.SlotTTL),
		wrong,
		setting.Among("Durability", c.Durability, DurabilitySync, DurabilityAsync),
		checkMiddleware(c.Middleware),
		setting.NotAbove("Advanced.EventBuffer", c.Advanced.EventBuffer, 1<<20),
		c.Splitter.check(),
	)
}
