package executor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrNoHeartbeat is the cause of a handler's context when the handler has given no
// sign of life for QueueConfig.HeartbeatTimeout. The error of a job that failed after
// that wraps it.
var ErrNoHeartbeat = errors.New("executor: no sign of life from the handler")

// ProgressReport is what a handler has said of its progress last.
type ProgressReport struct {
	Done, Total int64  // as the handler has said it
	Message     string // its first 256 bytes
	At          time.Time
}

// maxProgressText is how much of a message is kept.
const maxProgressText = 256

// progressEvery is the pause between two events about the progress of a call.
const progressEvery = time.Second

// A handler that says something of itself pays for it: a worker knows nothing of the
// signs of its handlers before there is one.

// sign is what an attempt has said last.
type sign struct {
	ProgressReport
	of   *attempt
	told time.Time // when an event said so
}

// attemptKey finds the attempt in the context of a handler.
type attemptKey struct{}

// Progress says how far a handler has come: done of total, in units of its own. It is
// also a sign of life, see QueueConfig.HeartbeatTimeout. ctx is that of the handler, or
// made of it; with another context, and after the handler has returned, Progress has no
// effect. Any goroutine may call it, as often as it likes. The last call counts, and at
// most once a second it becomes an [events.Progress] for those who read events. Progress
// is in memory only.
func Progress(ctx context.Context, done, total int64, message string) {
	if a := attemptOf(ctx); a != nil {
		a.say(func(r *ProgressReport) { r.Done, r.Total, r.Message = done, total, opening(message, maxProgressText) })
	}
}

// Heartbeat is a sign of life of a handler, as Progress is, and leaves what Progress
// said as it is; see QueueConfig.HeartbeatTimeout. Any goroutine may call it.
func Heartbeat(ctx context.Context) {
	if a := attemptOf(ctx); a != nil {
		a.say(nil)
	}
}

// attemptOf returns the attempt that ctx is of, nil if there is none.
func attemptOf(ctx context.Context) (a *attempt) {
	if a, ok := ctx.(*attempt); ok {
		return a
	}
	if ctx != nil {
		_ = guarded(func() error { a, _ = ctx.Value(attemptKey{}).(*attempt); return nil })
	}
	return a
}

// say gives a sign of life, with what is to change of the last report; nil: nothing.
// After its end an attempt says nothing more, so that it is not taken for the next
// one of its worker.
func (a *attempt) say(change func(*ProgressReport)) {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended != nil {
		return
	}
	w, s := a.worker, &sign{of: a}
	if last := w.sign.Load(); last != nil && last.of == a {
		s.ProgressReport, s.told = last.ProgressReport, last.told
	}
	s.At = now
	if change != nil {
		change(&s.ProgressReport)
		// The attempt goes on as long as a.mu is held, and so does the run of its
		// worker: its queue and what it has in hand stay.
		if w.queue.events.Watched() && now.Sub(s.told) >= progressEvery {
			s.told = now
			w.tellProgress(s)
		}
	}
	w.sign.Store(s)
}

// progressOf returns what the handler that a worker has called has said last; false:
// nothing, or it has returned. Any goroutine may call it.
func progressOf(w *worker) (ProgressReport, bool) {
	s := w.sign.Load()
	if s == nil || s.of.hasEnded() {
		return ProgressReport{}, false
	}
	return s.ProgressReport, true
}

func (a *attempt) hasEnded() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ended != nil
}

// overdue returns why the context of the last attempt has ended before its handler
// returned, if its time was over; then it is no stop that kept it from its work.
func (w *worker) overdue() error {
	switch a := w.attempt; {
	case a.late():
		return fmt.Errorf("%w after %v", ErrTimeout, w.queue.timeout)
	case w.queue.heartbeat > 0 && a.silent():
		return fmt.Errorf("%w for %v", ErrNoHeartbeat, w.queue.heartbeat)
	}
	return nil
}

func (a *attempt) silent() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ended == ErrNoHeartbeat
}

// tellProgress sends an event about the job in hand, of a batch about the first.
func (w *worker) tellProgress(s *sign) {
	w.mu.Lock()
	it := w.batch[0]
	w.mu.Unlock()
	w.queue.events.Progress(it, s.At, s.Done, s.Total, s.Message)
}

// opening returns the first n bytes of a text, as far as they are valid UTF-8, in memory
// of its own.
func opening(s string, n int) string {
	return strings.Clone(strings.ToValidUTF8(s[:min(n, len(s))], ""))
}
