package executor

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/strandjobs/strand/lock"
)

// Durability says what Enqueue waits for.
type Durability uint8

const (
	// DurabilityDefault is DurabilitySync for an executor, and the executor's own
	// for a queue.
	DurabilityDefault Durability = iota
	// DurabilitySync: Enqueue returns when the payload is on disk (fsynced).
	DurabilitySync
	// DurabilityAsync: Enqueue returns at once, unless it has an idempotency key or
	// a source, or the disk is more than 4 MiB behind; the payload is on disk after
	// the next commits, usually within a millisecond. A crash before that loses it.
	// The order of calls is kept, so a crash loses the newest.
	DurabilityAsync
)

// Config of an executor. The zero Config is usable.
//
// In Config, [QueueConfig], [Locks], [Unique] and [SlotsConfig] the zero value of a
// field means its default, which the field says. A number below zero switches off
// what the field bounds or does: no limit, no retry, no wait. Where that would make
// no sense, it is refused with [ErrConfig], as is what is too large; the error has
// the field and the value. Below zero are refused: Workers, StuckAfter,
// MaxPayloadBytes, IdempotencyTTL and SlotTTL here, Weight, Shards and BatchSize of a queue,
// TTL and Heartbeat of Unique, TTL and MaxSteps of slots, and all of [LimitConfig]. A
// Priority below zero is a low one.
type Config struct {
	// What most programs set, if anything.

	// Workers is how many handlers run at a time, over all queues, at most 65536.
	// Default 5.
	Workers int

	// Logger gets what no call returns. The first run of a queue that fails is a
	// warning at once; after that there is one a minute at most, with the number of
	// others. What goes to the morgue, or is halted until RunNow, is a warning,
	// what panicked an error with its stack: ten lines a second at most of each
	// kind and queue, and the next one says how many were left out. A full disk is
	// a warning. A start and a stop are one line each, Info unless there is
	// something to be warned of: what waits or is halted, what was recovered from a
	// crash and which jobs are suspected, before the first job runs; what was done,
	// failed (runs, not payloads), buried and left, and which handlers. Default
	// [slog.Default] as of Open; slog.New(slog.DiscardHandler): silence.
	Logger *slog.Logger

	// OnFatal is called once, on a goroutine of its own, with the error of an
	// executor that can't go on: as soon as the journal has failed, or after the stop
	// that a handler has asked for with [Fatal]. It may call Stop. Default nil.
	OnFatal func(error)

	// MaxBacklog and MaxBacklogBytes bound the payloads that are accepted and not
	// over, over all queues; bytes count as in the journal, with ids and a few
	// bytes of overhead. A payload counts once, while it waits, runs, is put off or
	// halted, but not in the morgue. A call that would exceed a limit gets
	// [ErrFull], or waits, as Overflow says.
	//
	// A call with the context of a handler counts, too, and is neither refused nor
	// kept waiting: what is in hand can always end. So the backlog may exceed its
	// limits by what the handlers enqueue, and by what is in the journal when it is
	// opened or comes back from the morgue. It takes in other calls again when it
	// is back under them. Jobs of queues that are not registered do not count: they
	// could not end. Default: no limit; below zero the same.
	MaxBacklog, MaxBacklogBytes int

	// Overflow says what Enqueue does when the backlog is full. Default
	// OverflowRefuse.
	Overflow Overflow

	// MemoryBudget is how many bytes of accepted payloads, with their ids, stay in
	// memory. Above it the oldest are on disk only, and are read back when their
	// jobs run or merge; so a backlog may be larger than memory, except for about
	// 80 bytes a job. An executor without a directory has no disk to read from, and
	// ignores it. Default 64 MiB; below zero there is no limit.
	MemoryBudget int

	// Durability of queues that don't set it. Default DurabilitySync. An executor
	// that was opened without a directory keeps everything in memory and ignores
	// it.
	Durability Durability

	// StopTimeout is how long Run waits for running handlers after its context has
	// ended. Default 30 s; below zero it doesn't wait.
	StopTimeout time.Duration

	// Scheduler decides whose job gets the next free worker. Default [Fair]: the
	// queues share the workers' time, and inside a queue the oldest job comes
	// first. [OldestFirst], which is Lowkiq's default, takes the oldest job of all.
	// [StrictPriority] goes by the order of the queues; QueueConfig.Priority, under
	// Fair, by numbers.
	Scheduler Scheduler

	// Defaults and bounds for all queues.

	// MaxPayloadBytes is the largest encoded payload, at most 256 MiB. Default
	// 1 MiB.
	MaxPayloadBytes int

	// IdempotencyTTL is how long the key of an [IdempotencyKey] is remembered, from
	// when it was accepted, by the wall clock: from then on the same key enqueues
	// again. Default 24 h. Each key takes about 100 bytes of the journal, and no
	// memory.
	IdempotencyTTL time.Duration

	// Unique is for all queues: what a queue leaves out of its own is as here, and one
	// with UniqueNever takes no part. Key gets the payload as the type of its queue, and
	// queues for which it returns the same key exclude each other. With While
	// UniqueNever here the rest is for queues that set a While of their own. Default: which
	// queues take part is each queue's to say, and none does; resque-locket's default
	// is all.
	Unique Unique[any]

	// SlotTTL is how long a job keeps its slot that can't extend it, where neither
	// SlotsConfig nor the Timeout of its queue says so. Default 60 s.
	SlotTTL time.Duration

	// The start.

	// OnStart is called by Start before the first job runs. Its error is returned
	// by Start, and no job runs. Default nil.
	OnStart func(context.Context) error

	// Strict makes Start refuse while the journal has jobs of queues that are not
	// registered. Default false: they are kept, counted in Stats, and run when
	// their queue is registered again.
	Strict bool

	// Handlers that do not return.

	// StuckAfter is how long a handler may go on after its QueueConfig.Timeout. One
	// that does is reported to Logger with its stack, a second later at most,
	// counted in Stats.Stuck, and its jobs stay blocked: they must not overtake
	// themselves. Default 10 s.
	StuckAfter time.Duration

	// SpareWorkers is how many workers may be started in the place of those whose
	// handlers are stuck, at most 65536. A handler that got a substitute does not
	// count in the Concurrency and MaxConcurrent of its queue either, so that only
	// its own ids wait for it. When it returns, its worker goes. Default, and below
	// zero: a stuck handler keeps its worker.
	SpareWorkers int

	// Jobs that end the process.

	// CrashLimit is how many deaths of the process a job may be the cause of before
	// it is given up: QueueConfig.OnExhausted decides as if it had failed for the
	// last time, and RetriesExhausted is not called. What was running at a death
	// runs again at once. A job that was running at two in a row, and may have
	// caused both, is held back at the next start, for 150 times as long as it had
	// run then and at most 10 s, and runs without the other suspects. If the
	// process dies while the suspect is held, the suspect is cleared; if it dies
	// right after the suspect starts, the suspect is blamed. So a job that ends the
	// process at once does so three times, one that takes seconds for it a few
	// times more, and kills from outside, at random moments, hardly ever cost a
	// job. No death counts after which the machine had another boot, or that came
	// by a signal in a report; see CrashReports. The room for what has to be noted of
	// that, 16 KiB, is kept in the journal's directory. Where there is none Start logs
	// it, and jobs that are held stay so until the next start. Default 3; below zero no
	// job is held or given up.
	CrashLimit int

	// CrashReports has Go write what it says about a fatal error, or about an
	// unrecovered panic, to a file in the journal's directory, too. The next start
	// reads there which job it was, if it was the goroutine of a handler or one
	// that a handler started: then no other is suspected. It uses
	// [runtime/debug.SetCrashOutput], of which there is one in a process: the
	// executor that started last has it, until it is stopped. Default false.
	CrashReports bool

	// Many jobs that are put off.

	// TimerSlack: a job put off for at least 100 × TimerSlack, by [At], [In], a
	// retry or [Snooze], may start up to TimerSlack late. Jobs of all queues that
	// become due within one slack start together, and share a wake-up and most of
	// them a commit. Hundreds of them in a second take less than half of the
	// processor time with 25 ms, which is for what is put off for 2.5 s or more.
	// Nothing starts before it is due; what is put off for less, and what is due
	// now, does not wait; due times stay what they are. After a restart what counts
	// is how much later a job is due. At most 1 s. Default, and below zero: a due
	// time wakes its job directly.
	TimerSlack time.Duration

	// What stands around calls.

	// Middleware stands around the calls of the handlers of all queues, and around
	// the calls that enqueue, the first of them outermost, outside of
	// QueueConfig.Middleware. Default none.
	Middleware []Middleware

	// EventBuffer is how many events [Executor.Events] keeps for its readers, at
	// about 150 bytes with ids and errors beside them; at most 1048576. Default
	// 4096; below zero there are no events. There is no ring before a first reader.
	EventBuffer int

	// What a person sees and does while it runs.

	// ControlSocket has the executor listen, from Open until Stop has waited for the
	// handlers, on a unix socket in the journal's directory, control.sock, of mode 0600:
	// the strand command, run by the same user or by root, finds it there, and looks at
	// the jobs and acts on them as [Executor.Inspect] does; see Looking from outside.
	// Open returns [ErrControlSocket] where there can't be one: on Windows, when the path
	// has more than 89 bytes, when every user may write to the directory, or when
	// something else is in its place, or in that of control.new, the directory in which
	// it is made; and ErrConfig in memory. Default false: there is no socket.
	ControlSocket bool

	// Several processes.

	// Splitter says which ids belong to this process, where several share the work,
	// each with a journal of its own; [ByNode] is the usual one. Default: all.
	Splitter Splitter
}

// Limits and defaults.
const (
	// MaxIDBytes is the length of the longest id.
	MaxIDBytes = 512

	defaultWorkers         = 5
	defaultMaxPayloadBytes = 1 << 20
	defaultCrashLimit      = 3
	defaultStopTimeout     = 30 * time.Second
	defaultIdempotencyTTL  = 24 * time.Hour
	defaultStuckAfter      = 10 * time.Second
	defaultEventBuffer     = 4096
	maxTimerSlack          = time.Second
)

func (c Config) withDefaults() (Config, error) {
	c.Workers = cmp.Or(c.Workers, defaultWorkers)
	c.MaxPayloadBytes = cmp.Or(c.MaxPayloadBytes, defaultMaxPayloadBytes)
	c.CrashLimit = cmp.Or(c.CrashLimit, defaultCrashLimit)
	c.MaxBacklog, c.MaxBacklogBytes = max(c.MaxBacklog, 0), max(c.MaxBacklogBytes, 0)
	c.TimerSlack, c.SpareWorkers = max(c.TimerSlack, 0), max(c.SpareWorkers, 0)
	c.StopTimeout = cmp.Or(c.StopTimeout, defaultStopTimeout)
	c.IdempotencyTTL = cmp.Or(c.IdempotencyTTL, defaultIdempotencyTTL)
	c.StuckAfter = cmp.Or(c.StuckAfter, defaultStuckAfter)
	c.SlotTTL = cmp.Or(c.SlotTTL, lock.DefaultSlotTTL)
	c.Durability = cmp.Or(c.Durability, DurabilitySync)
	c.Logger = slog.New(guardedHandler{cmp.Or(c.Logger, slog.Default()).Handler()})
	if c.Scheduler == nil {
		c.Scheduler = Fair()
	}
	c.Middleware = slices.Clone(c.Middleware)
	var wrong error
	c.Unique, wrong = c.Unique.settled(Unique[any]{While: UniqueNever, TTL: defaultLeaseTTL})
	c.EventBuffer = cmp.Or(c.EventBuffer, defaultEventBuffer)
	return c, errorsOf(
		inRange("Workers", c.Workers, 1, 1<<16),
		notAbove("SpareWorkers", c.SpareWorkers, 1<<16),
		notNegative("StuckAfter", c.StuckAfter),
		notAbove("TimerSlack", c.TimerSlack, maxTimerSlack),
		inRange("MaxPayloadBytes", c.MaxPayloadBytes, 1, 1<<28),
		notNegative("IdempotencyTTL", c.IdempotencyTTL),
		notNegative("SlotTTL", c.SlotTTL),
		wrong,
		inRange("Overflow", int(c.Overflow), int(OverflowRefuse), int(OverflowWait)),
		inRange("Durability", int(c.Durability), int(DurabilitySync), int(DurabilityAsync)),
		checkMiddleware(c.Middleware),
		notAbove("EventBuffer", c.EventBuffer, 1<<20),
		c.Splitter.check(),
	)
}

// inRange checks a setting whose zero value is its default, which counts by now.
func inRange(name string, v, low, high int) error {
	if v < low || v > high {
		zero := ""
		if low > 0 {
			zero = "0 (the default) or "
		}
		return fmt.Errorf("%w: %s is %d, it must be %sfrom %d to %d", ErrConfig, name, v, zero, low, high)
	}
	return nil
}

func notNegative(name string, d time.Duration) error {
	if d < 0 {
		return fmt.Errorf("%w: %s is %v, it must not be below zero", ErrConfig, name, d)
	}
	return nil
}

func notAbove[T int | time.Duration](name string, v, limit T) error {
	if v > limit {
		return fmt.Errorf("%w: %s is %v, it must not be above %v", ErrConfig, name, v, limit)
	}
	return nil
}

func errorsOf(errs ...error) error { return cmp.Or(errs...) }
