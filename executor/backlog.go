package executor

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/strandjobs/strand/executor/internal/backlog"
)

// Overflow says what Enqueue does when the backlog is full.
type Overflow string

const (
	// OverflowRefuse returns a [FullError]. The default.
	OverflowRefuse Overflow = "Refuse"
	// OverflowWait waits until there is room, or ctx ends: then the error is the
	// cause of ctx, and a [FullError] at the same time. Calls go on in the order in
	// which they came. Before Start, and in OnStart, there is no end to it, because
	// no job ends. A handler has to enqueue with its own context, or it may wait
	// for itself.
	OverflowWait Overflow = "Wait"
)

// FullError says what was full, and when to call again. It matches [ErrFull].
//
// A handler whose own Enqueue got it because the disk is full, and that returns it,
// spends no retry: its job waits as long as after a first failure, and at least a
// second.
type FullError struct {
	// Disk is true when the disk is full. Then only RetryAfter is set beside it.
	Disk bool

	// Queue is the queue whose QueueConfig.MaxBacklog was reached; "":
	// Config.MaxBacklog, which is over all queues.
	Queue string
	// Bytes says what Waiting and Limit count: bytes, or if it is false payloads.
	// Waiting is how much the backlog holds, and Limit the setting.
	Bytes          bool
	Waiting, Limit int

	// RetryAfter is an estimate of when the call will find room, from 10 ms to a
	// minute. It is the time until the call fits and an eighth of the limit is free, if
	// payloads keep ending at the pace of the last 10 to 20 seconds. If none has ended
	// in that time, it is the time since the last one ended, but at least a second. For
	// a full disk it is one second; the executor itself looks for room ten times a
	// second.
	RetryAfter time.Duration

	cause error // of a disk
}

func (e *FullError) Error() string {
	if e.Disk {
		return fmt.Sprintf("executor: full: %v", e.cause)
	}
	unit, setting := limitOf(e.Queue, e.Bytes)
	are := unit + " are"
	if e.Waiting == 1 {
		are = strings.TrimSuffix(unit, "s") + " is"
	}
	return fmt.Sprintf("executor: full: %d %s waiting, %s is %d; try again in %v",
		e.Waiting, are, setting, e.Limit, e.RetryAfter.Round(time.Millisecond))
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

// Is makes errors.Is(err, ErrFull) true.
func (e *FullError) Is(target error) bool { return target == ErrFull }

// Unwrap returns what the journal said about the disk.
func (e *FullError) Unwrap() error { return e.cause }

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

// tellStalled logs a limit under which nothing moves.
func (x *Executor) tellStalled(s backlog.Stall) {
	x.cfg.Logger.Warn("backlog stands still", slog.Any("error", stalled(s)))
}
