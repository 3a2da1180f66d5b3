package executor

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/strandjobs/strand/executor/internal/attempt"
)

// Errors of registering a queue.
var (
	// ErrConfig is returned for a setting that makes no sense; the text names it,
	// with its value.
	ErrConfig = errors.New("executor: invalid configuration")

	// ErrDuplicateQueue is returned when a queue is registered twice.
	ErrDuplicateQueue = errors.New("executor: queue is registered already")
)

// Errors of enqueueing. After each of them nothing of the call was accepted, except
// after ErrUnknown.
var (
	// ErrInvalidID is returned for an empty id and for one of more than MaxIDBytes.
	ErrInvalidID = errors.New("executor: invalid id")

	// ErrInvalidScore is returned for a score that is not a finite number.
	ErrInvalidScore = errors.New("executor: invalid score")

	// ErrTooLarge is returned for a payload of more than Config.Advanced.MaxPayloadBytes,
	// and for a call that would not fit into an empty backlog.
	ErrTooLarge = errors.New("executor: payload too large")

	// ErrInvalidKey is returned for an empty key, for an empty name of an offset,
	// for one of more than MaxIDBytes, for two of them in one call, for a key that
	// came with another number of items before, and for what the key functions of
	// [Locks] and [Unique] return when it is no key, or when they panic.
	ErrInvalidKey = errors.New("executor: invalid key")

	// ErrInvalidMetadata is returned for more [Metadata] than there may be, and for
	// an empty key in it.
	ErrInvalidMetadata = errors.New("executor: invalid metadata")

	// ErrStale is matched by the [StaleError] that a call with [FromSource] returns
	// when its offset is not above the last one.
	ErrStale = errors.New("executor: stale")

	// ErrEncode is returned for a payload that its codec can't encode. It wraps
	// what the codec said.
	ErrEncode = errors.New("executor: payload does not encode")

	// ErrUnknownQueue is returned for an unregistered queue.
	ErrUnknownQueue = errors.New("executor: unknown queue")

	// ErrFull is matched by the [FullError] that is returned while the disk is
	// full, and when a limit of the backlog would be exceeded: MaxBacklog,
	// of Config or of QueueConfig. It says which, and when to come back.
	ErrFull = errors.New("executor: full")

	// ErrUnknown is returned when it can't be said whether the payload was
	// accepted: the commit failed, or ctx ended while it was under way.
	ErrUnknown = errors.New("executor: outcome unknown")

	// ErrClosed is returned after Stop was called.
	ErrClosed = errors.New("executor: closed")

	// ErrFailed is returned after the journal failed. Open it again to find out
	// what is on disk.
	ErrFailed = errors.New("executor: failed")
)

// Errors of a running executor.
var (
	// ErrStopping is the cause of a handler's context when Stop ran out of time.
	// What the handler returns then spends no retry.
	ErrStopping = errors.New("executor: stopping")

	// ErrReturned is the cause of a handler's context once the handler has
	// returned: what it has left behind sees that it is over.
	ErrReturned = attempt.ErrReturned

	// ErrCanceledByOperator is the cause of a handler's context when a person cancels
	// its job, with [inspect.Inspector.Cancel], and the beginning of why a payload that was
	// canceled so is a dead letter.
	ErrCanceledByOperator = errors.New("executor: canceled by an operator")

	// ErrDeletedByOperator is the cause of a handler's context when a person deletes
	// its job, with [inspect.Inspector.Delete].
	ErrDeletedByOperator = errors.New("executor: deleted by an operator")

	// ErrTimeout is the cause of a handler's context when QueueConfig.Timeout is
	// over. The error of a job that failed after that wraps it.
	ErrTimeout = attempt.ErrTimeout

	// ErrStuck is returned by Stop for handlers that did not return, whose jobs the
	// text names, and for a disk that did not; and by Err while the handlers of all
	// workers are stuck.
	ErrStuck = errors.New("executor: handlers do not return")

	// ErrSlowDisk is what Err returns while the disk has been at one commit for
	// more than five seconds. Calls wait meanwhile, as long as their contexts let
	// them, and go on when the disk does.
	ErrSlowDisk = errors.New("executor: the disk does not answer")

	// ErrHandlerExited is the error of a job whose handler ended its goroutine with
	// runtime.Goexit, as testing's FailNow does.
	ErrHandlerExited = errors.New("executor: handler called runtime.Goexit")

	// ErrStalled is what Err returns when calls have been refused for want of room
	// in the backlog, or have waited for it, for a minute in which nothing ended:
	// the jobs are not due, wait for locks, fail, are halted, or take that long. It
	// wraps the [FullError] of that backlog. Calls go on when something ends.
	ErrStalled = errors.New("executor: the backlog is full and nothing has ended")

	// ErrState is returned for a call at the wrong time, like a second Start.
	ErrState = errors.New("executor: wrong state")
)

// PanicError is the error of a job whose handler, or of a payload whose codec,
// panicked.
type PanicError struct {
	Value any
	Stack string
}

func (e *PanicError) Error() string {
	return "panic: " + text(func() string { return fmt.Sprint(e.Value) })
}

// Unwrap returns the value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// What happens on a full disk, from the outside in: the journal refuses what it has
// no room for and goes on with the rest, so jobs run and end; Enqueue returns a
// [FullError] with Disk; a job whose handler passes that on waits, and spends no
// retry; Err returns [ErrFull]; and the journal, which looks for room by itself,
// logs the begin and the end.

// retryFullDisk is the FullError.RetryAfter of a disk, and the shortest pause of a
// job that waits for one.
const retryFullDisk = time.Second

// diskFull is the error of a call that the journal had no room for.
func diskFull(cause error) error {
	return &FullError{Disk: true, RetryAfter: retryFullDisk, cause: cause}
}

// fromFullDisk reports whether an error says that there is no room on the disk, for a
// follow-up mostly: that is not the fault of the job.
func fromFullDisk(err error) bool {
	full, ok := errors.AsType[*FullError](err)
	return ok && full.Disk
}

// maxErrorText is how much of an error's text is kept with a job.
const maxErrorText = 4 << 10

// noText stands for what an error said.
const noText = "an error whose text can't be had: a method of it, or a hook, panicked or exited"

// text returns what the first of fs says that does not panic: at most 4 KiB of
// valid UTF-8.
func text(fs ...func() string) string {
	s := noText
	for _, f := range fs {
		if guarded(func() error { s = f(); return nil }) == nil {
			break
		}
	}
	s = strings.ToValidUTF8(s[:min(len(s), maxErrorText+utf8.UTFMax)], "\uFFFD")
	if s == "" {
		return "an error without text"
	}
	for len(s) > maxErrorText {
		_, size := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-size]
	}
	return s
}
