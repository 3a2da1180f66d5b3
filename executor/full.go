package executor

import (
	"fmt"
	"time"

	"github.com/strandjobs/strand/shard"
)

// FullError says what was full, and when it is worth while to call again. It matches
// [ErrFull]. A handler that returns the one of a full disk, which a follow-up of it
// got, spends no retry: its job waits as it would after a first failure, a second at
// least.
type FullError struct {
	// Disk: the disk is full. Of what follows, only RetryAfter is set.
	Disk bool

	// Queue is the queue whose QueueConfig.MaxBacklog or MaxBacklogBytes was reached.
	// Empty: those of Config, which are over all queues.
	Queue string
	// Bytes: Waiting and Limit are bytes, and not payloads.
	Bytes          bool
	Waiting, Limit int

	// RetryAfter is a hint: how long it takes until there is room for the call, and an
	// eighth of the limit is free, if payloads end as fast as in the last 10 to 20
	// seconds. It is 10 ms at least and a minute at most. When none has ended in that
	// time, it is as long as none has, but a second at least. Of a disk, which is
	// looked at ten times a second, it is a second.
	RetryAfter time.Duration

	cause error // of a disk
}

func (e *FullError) Error() string {
	if e.Disk {
		return fmt.Sprintf("executor: full: %v", e.cause)
	}
	unit, setting := limitOf(e.Queue, e.Bytes)
	return fmt.Sprintf("executor: full: %d %s are waiting, %s is %d; try again in %v",
		e.Waiting, unit, setting, e.Limit, e.RetryAfter.Round(time.Millisecond))
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

// The bounds of FullError.RetryAfter.
const (
	retrySoonest  = 10 * time.Millisecond
	retryUnknown  = time.Second
	retryLatest   = time.Minute
	retryFullDisk = time.Second
)

// full says why there is no room for more under a limit. The caller holds mu.
func (b *backlog) full(c *quota, more shard.Weight) *FullError {
	e := &FullError{Queue: c.queue, Waiting: c.used.Payloads, Limit: c.limit.Payloads}
	payloads, bytes, quiet := c.pace.rate(b.now())
	need, rate := more.Payloads, payloads
	if c.limit.Payloads == 0 || c.used.Payloads+need <= c.limit.Payloads && c.limit.Bytes > 0 {
		e.Bytes, e.Waiting, e.Limit = true, c.used.Bytes, c.limit.Bytes
		need, rate = more.Bytes, bytes
	}
	if rate == 0 {
		e.RetryAfter = min(max(quiet, retryUnknown), retryLatest)
		return e
	}
	seconds := float64(e.Waiting+max(e.Limit/8, need)-e.Limit) / rate
	e.RetryAfter = time.Duration(min(max(seconds, retrySoonest.Seconds()), retryLatest.Seconds()) * float64(time.Second))
	return e
}

// outgrown returns why a call can't fit under a limit, however little waits.
func (c *quota) outgrown(w shard.Weight) error {
	n, limit, bytes := w.Payloads, c.limit.Payloads, false
	if within(w, shard.Weight{Payloads: limit}) {
		n, limit, bytes = w.Bytes, c.limit.Bytes, true
	}
	if within(w, c.limit) {
		return nil
	}
	unit, setting := limitOf(c.queue, bytes)
	return fmt.Errorf("%w: the call is %d %s, %s is %d", ErrTooLarge, n, unit, setting, limit)
}

// paceWindow is how far back a pace looks, or twice as far.
const paceWindow = int64(10 * time.Second)

// pace counts what has ended lately. Times are those of backlog.now.
type pace struct {
	begun  int64        // when the window began
	ended  shard.Weight // in this window
	before int64        // when the one before began
	former shard.Weight // ended in that
	last   int64        // when anything ended
}

func (p *pace) count(now int64, w shard.Weight) {
	p.turn(now)
	p.ended = p.ended.Plus(w)
	p.last = now
}

// turn begins a window when the last one is over.
func (p *pace) turn(now int64) {
	switch age := now - p.begun; {
	case age < paceWindow:
		return
	case age < 2*paceWindow:
		p.before, p.former = p.begun, p.ended
	default:
		p.before, p.former = now, shard.Weight{}
	}
	p.begun, p.ended = now, shard.Weight{}
}

// rate returns how much ends in a second, and for how long nothing has.
func (p *pace) rate(now int64) (payloads, bytes float64, quiet time.Duration) {
	p.turn(now)
	if w, seconds := p.ended.Plus(p.former), time.Duration(now-p.before).Seconds(); seconds > 0 {
		payloads, bytes = float64(w.Payloads)/seconds, float64(w.Bytes)/seconds
	}
	return payloads, bytes, time.Duration(now - p.last)
}
