package executor

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/strandjobs/strand/executor/internal/backlog"
)

// Overflow says what Enqueue does when the backlog is full.
type Overflow uint8

const (
	// OverflowRefuse returns a [FullError]. The default.
	OverflowRefuse Overflow = iota
	// OverflowWait waits until there is room, or ctx ends: then the error is the
	// cause of ctx, and a [FullError] at the same time. Calls go on in the order in
	// which they came. Before Start, and in OnStart, there is no end to it, because
	// no job ends. A handler has to enqueue with its own context, or it may wait
	// for itself.
	OverflowWait
)

// Backlog says how full a backlog is. All of it is zero without a limit.
type Backlog struct {
	// Payloads and Bytes are what counts against the limits: what is accepted and
	// not over, with the calls that are under way.
	Payloads, Bytes int
	Refused         uint64 // calls that got [ErrFull] because of this limit, since Open
	Waiting         int    // calls that wait for room, under Overflow: [OverflowWait]

	// Stalled is for how long calls have been refused, or have waited, while
	// nothing ended. 0: something has ended since, or the last call was accepted.
	// See [ErrStalled].
	Stalled time.Duration
}

// FullError says what was full, and when it is worth while to call again. It
// matches [ErrFull]. A handler that returns the one of a full disk, which a
// follow-up of it got, spends no retry: its job waits as it would after a first
// failure, a second at least.
type FullError struct {
	// Disk: the disk is full. Of what follows, only RetryAfter is set.
	Disk bool

	// Queue is the queue whose QueueConfig.MaxBacklog or MaxBacklogBytes was
	// reached. Empty: those of Config, which are over all queues.
	Queue string
	// Bytes: Waiting and Limit are bytes, and not payloads.
	Bytes          bool
	Waiting, Limit int

	// RetryAfter is a hint: how long it takes until there is room for the call, and
	// an eighth of the limit is free, if payloads end as fast as in the last 10 to
	// 20 seconds. It is 10 ms at least and a minute at most. When none has ended in
	// that time, it is the time since the last one ended, but a second at least. Of
	// a disk, which is looked at ten times a second, it is a second.
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
	if unit, setting = "payloads", "MaxBacklog"; bytes {
		unit, setting = "bytes", "MaxBacklogBytes"
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
