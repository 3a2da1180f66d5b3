package executor

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/strandjobs/strand/executor/internal/attempt"
	"github.com/strandjobs/strand/executor/internal/backlog"
	"github.com/strandjobs/strand/executor/internal/brief"
	"github.com/strandjobs/strand/executor/internal/engine"
	"github.com/strandjobs/strand/executor/internal/guard"
	"github.com/strandjobs/strand/executor/internal/keylock"
	"github.com/strandjobs/strand/executor/internal/life"
	"github.com/strandjobs/strand/executor/internal/setting"
	"github.com/strandjobs/strand/executor/internal/submit"
)

// ErrConfig is returned for a setting that makes no sense, like a queue that is registered
// twice; the text names it, with its value.
var ErrConfig = setting.ErrConfig

// Errors of enqueueing. After each of them nothing of the call was accepted, except after ErrUnknown.
var (
	// ErrInvalidID is returned for an empty id and for one of more than MaxIDBytes.
	ErrInvalidID = engine.ErrInvalidID

	// ErrInvalidItem is returned for a score that is not a finite number, for more
	// [Metadata] than there may be, and for an empty key in it.
	ErrInvalidItem = submit.ErrInvalidItem

	// ErrTooLarge is returned for a payload of more than Config.Advanced.MaxPayloadBytes,
	// and for a call that would not fit into an empty backlog.
	ErrTooLarge = submit.ErrTooLarge

	// ErrInvalidKey is returned for a key that does not have 1 to 512 bytes, and for such a name of a
	// source, a limit or slots; for two IdempotencyKeys in one call, and for two FromSource of one name;
	// for an IdempotencyKey that came with another number of items before; and when a key function of
	// [Locks], [Unique] or [LimitOf] panics or returns such a key.
	ErrInvalidKey = keylock.ErrInvalidKey

	// ErrEncode is returned for a payload that its codec, or a function of Defaults, fails for. It wraps why.
	ErrEncode = errors.New("executor: payload does not encode")

	// ErrUnknownQueue is returned for an unregistered queue.
	ErrUnknownQueue = engine.ErrUnknownQueue

	// ErrFull is matched by the [FullError] that is returned while the disk is full, and when a limit of the backlog
	// would be exceeded: MaxBacklog, of Config or of QueueConfig. It says which, and when to come back.
	ErrFull = errors.New("executor: full")

	// ErrUnknown is returned when it can't be said whether the payload was accepted: the commit failed, or ctx ended
	// while it was under way. A [PendingError] may wrap it, whose payload is accepted: look for that first.
	ErrUnknown = engine.ErrUnknown

	// ErrClosed is returned after Stop was called.
	ErrClosed = life.ErrClosed

	// ErrFailed is returned after the journal failed. Open it again to find out
	// what is on disk.
	ErrFailed = life.ErrFailed
)

// Errors of a running executor.
var (
	// ErrStopping is the cause of a handler's context when Stop ran out of time. Then nil, [Discard]
	// and [Snooze] count; after any other error, [Cancel] too, the job runs again, and spends no retry.
	ErrStopping = life.ErrStopping

	// ErrReturned is the cause of a handler's context once the handler has
	// returned: what it has left behind sees that it is over.
	ErrReturned = attempt.ErrReturned

	// ErrCanceledByOperator is the cause of a handler's context when a person cancels its job, with
	// [inspect.Inspector.Cancel]. The reason of a dead letter that was canceled so begins with it.
	ErrCanceledByOperator = attempt.ErrCanceled

	// ErrDeletedByOperator is the cause of a handler's context when a person deletes
	// its job, with [inspect.Inspector.Delete]. Who waits for the payload gets ErrDeleted.
	ErrDeletedByOperator = attempt.ErrDeleted

	// ErrTimeout is the cause of a handler's context when QueueConfig.Timeout is
	// over. The error of a job that failed after that wraps it.
	ErrTimeout = attempt.ErrTimeout

	// ErrStuck is returned by Stop for handlers that did not return, whose jobs the text names, and for a disk that did
	// not; and by Err while the handlers of all workers are stuck.
	ErrStuck = life.ErrStuck

	// ErrSlowDisk is what Err returns while the disk has been at one commit for more than five seconds. Calls wait
	// meanwhile, as long as their contexts let them, and go on when the disk does.
	ErrSlowDisk = errors.New("executor: the disk does not answer")

	// ErrHandlerExited is the error of a job whose handler ended its goroutine with
	// runtime.Goexit, as testing's FailNow does.
	ErrHandlerExited = attempt.ErrExited

	// ErrStalled is what Err returns when a call was refused for want of room in the backlog, or began to wait for it,
	// at least a minute ago, and since then no payload has ended and no call has got in: the jobs are not due, wait for
	// locks, fail, are halted, or take that long. One such call is enough. It wraps the [FullError] of that backlog.
	// Calls go on when something ends.
	ErrStalled = errors.New("executor: the backlog is full and nothing has ended")

	// ErrState is returned for a call at the wrong time or place, like a second Start, or
	// a follow-up for a queue of another executor.
	ErrState = submit.ErrState
)

// ErrContext is returned for a context that can't be asked whether it has ended: it
// is nil, or a method of it, or of its cause, panicked.
var ErrContext = guard.ErrContext

// PanicError is the error of a job whose handler, or of a payload whose codec, panicked. Its text has Value, not Stack.
type PanicError struct {
	Value any
	Stack string
}

func (e *PanicError) Error() string {
	return "panic: " + guard.Text(func() string { return fmt.Sprint(e.Value) })
}

// Unwrap returns the value if it is an error.
func (e *PanicError) Unwrap() (err error) {
	if e != nil { // as a handler with a bug returns it
		err, _ = e.Value.(error)
	}
	return err
}

func init() {
	guard.Panicked = func(value any, stack string) error { return &PanicError{value, stack} }
	guard.StackOf = func(err error) (stack string, panicked bool) {
		if p, _ := err.(*PanicError); p != nil {
			return p.Stack, true
		}
		return "", false
	}
}

// What happens on a full disk, from the outside in: the journal refuses what it has no room for and goes on with the
// rest, so jobs run and end; Enqueue returns a [FullError] with Disk; a job whose handler passes that on waits, and
// spends no retry; Err returns [ErrFull]; and the journal, which looks for room by itself, logs the begin and the end.

// retryFullDisk is the FullError.RetryAfter of a disk, and the shortest pause of a
// job that waits for one.
const retryFullDisk = time.Second

// FatalError is what [Fatal] returns.
type FatalError struct{ Err error } // the reason

// Fatal returns an error with which a handler ends the executor in order, because of err: the program can't do its work
// any more, and may be able to in a new process. From then on no job begins, calls from outside return ErrClosed, and
// the running handlers have Config.StopTimeout to return. When they have, and all that they did is on disk, the
// executor calls Config.OnFatal with the [*FatalError]. Run and Stop return an error that wraps it.
//
// What becomes of the job depends on err. A plain error is a failure, which spends a retry: so a job that ends each
// process is dead-lettered at last. The job keeps its place, and makes that retry in the next process. With Snooze(0)
// as err it spends none. One Fatal among [BatchErrors] or [PayloadErrors] is enough; a batch is not halved.
func Fatal(err error) error { return &FatalError{err} }

func (e *FatalError) Error() string { return "fatal: " + reason(e.Err) }
func (e *FatalError) Unwrap() error { return e.Err }

func reason(err error) string {
	if err == nil {
		return "no reason given"
	}
	return err.Error()
}

// FullError says what was full, and when to call again. It matches [ErrFull].
//
// A handler whose own Enqueue got it because the disk is full, and that returns it, spends
// no retry: its job waits as long as after a first failure, and at least a second.
type FullError struct {
	// Disk is true when the disk is full. Then only RetryAfter is set beside it.
	Disk bool

	// Queue is the queue whose QueueConfig.MaxBacklog was reached; "":
	// Config.MaxBacklog, which is over all queues.
	Queue string
	// Bytes says what Waiting and Limit count: bytes, or if it is false payloads. Waiting is what has not ended,
	// running payloads too, and Limit the setting.
	Bytes          bool
	Waiting, Limit int

	// RetryAfter is an estimate of when the call will find room, from 10 ms to a minute. It is the time until the call
	// fits and an eighth of the limit is free, if payloads keep ending at the pace of the last 10 to 20 seconds. If
	// none has ended in that time, it is the time since the last one ended, but at least a second. For a full disk it
	// is one second; the executor itself looks for room ten times a second.
	RetryAfter time.Duration

	cause error // of a disk
}

func (e *FullError) Error() string {
	switch {
	case e.Disk && e.cause == nil: // it is another process's
		return ErrFull.Error()
	case e.Disk:
		return fmt.Sprintf("executor: full: %v", e.cause)
	}
	unit, setting := limitOf(e.Queue, e.Bytes)
	are := brief.Count(e.Waiting, strings.TrimSuffix(unit, "s")+" is", unit+" are")
	return fmt.Sprintf("executor: full: %s waiting, %s is %d; try again in %v", are, setting, e.Limit, e.RetryAfter.Round(time.Millisecond))
}

// Unwrap returns ErrFull, and what the journal said about the disk if that is full.
func (e *FullError) Unwrap() []error { return present(ErrFull, e.cause) }

// present leaves out what is nil: no error may wrap that.
func present(errs ...error) []error {
	return slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}

// limitOf names what a limit counts, and its setting.
func limitOf(queue string, bytes bool) (unit, setting string) {
	if unit, setting = "payloads", "MaxBacklog.Payloads"; bytes {
		unit, setting = "bytes", "MaxBacklog.Bytes"
	}
	if queue == "" {
		return unit, "Config." + setting
	}
	return unit, fmt.Sprintf("QueueConfig.%s of queue %q", setting, queue)
}

// noRoom is the error of a call that a limit keeps out.
func noRoom(f *backlog.Full) error {
	return &FullError{Queue: f.Queue, Bytes: f.Bytes, Waiting: f.Waiting, Limit: f.Limit, RetryAfter: f.RetryAfter}
}

// tooLarge is the error of a call that has no room under a limit, whatever ends.
func tooLarge(f *backlog.Full) error {
	unit, setting := limitOf(f.Queue, f.Bytes)
	return fmt.Errorf("%w: the call is %d %s, %s is %d", ErrTooLarge, f.Waiting, unit, setting, f.Limit)
}

func stalled(s backlog.Stall) error {
	return fmt.Errorf("%w for %v: %w", ErrStalled, s.For.Round(time.Second), noRoom(s.Full))
}
