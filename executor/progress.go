package executor

import (
	"context"
	"fmt"
	"strings"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/attempt"
	"github.com/strandjobs/strand/executor/internal/guard"
)

// ErrNoHeartbeat is the cause of a handler's context when the handler has given no
// sign of life for QueueConfig.HeartbeatTimeout. The error of a job that failed after
// that wraps it.
var ErrNoHeartbeat = attempt.ErrNoHeartbeat

// maxProgressText is how much of a message is kept.
const maxProgressText = 256

// Progress says how far a handler has come: done of total, in units of its own. It is
// also a sign of life, see QueueConfig.HeartbeatTimeout. ctx is that of the handler, or
// made of it; with another context, and after the handler has returned, Progress has no
// effect. Any goroutine may call it, as often as it likes. The last call counts, and at
// most once a second it becomes an [events.Progress] for those who read events. Progress
// is in memory only.
func Progress(ctx context.Context, done, total int64, message string) {
	if a := attemptOf(ctx); a != nil {
		a.Progress(done, total, opening(message, maxProgressText))
	}
}

// Heartbeat is a sign of life of a handler, as Progress is, and leaves what Progress
// said as it is; see QueueConfig.HeartbeatTimeout. Any goroutine may call it.
func Heartbeat(ctx context.Context) {
	if a := attemptOf(ctx); a != nil {
		a.Heartbeat()
	}
}

// attemptOf returns the attempt that ctx is of, nil if there is none.
func attemptOf(ctx context.Context) (a *attempt.Attempt) {
	if a, ok := ctx.(*attempt.Attempt); ok {
		return a
	}
	if ctx != nil {
		_ = guard.Call(func() error { a, _ = ctx.Value(attempt.Key{}).(*attempt.Attempt); return nil })
	}
	return a
}

// progress returns what the handler that the worker has called has said last; false:
// nothing, or it has returned. Any goroutine may call it.
func (w *worker) progress() (inspect.ProgressReport, bool) {
	w.hand.Lock()
	a := w.attempt
	w.hand.Unlock()
	if a == nil {
		return inspect.ProgressReport{}, false
	}
	r, said := a.Said()
	return inspect.ProgressReport(r), said
}

// overdue returns why the context of the last attempt has ended before its handler
// returned, if its time was over; then it is no stop that kept it from its work.
func (w *worker) overdue() error {
	switch a := w.attempt; {
	case a.Late():
		return fmt.Errorf("%w after %v", ErrTimeout, w.queue.timeout)
	case w.queue.heartbeat > 0 && a.Ended() == ErrNoHeartbeat:
		return fmt.Errorf("%w for %v", ErrNoHeartbeat, w.queue.heartbeat)
	}
	return nil
}

// Progressed implements [attempt.Worker]: an event is about the job in hand, of a batch about
// the first. While the attempt goes on, so does the run: its queue and what is in hand stay.
func (w *worker) Progressed(r attempt.Report) bool {
	if !w.queue.events.Watched() {
		return false
	}
	w.hand.Lock()
	it := w.batch[0]
	w.hand.Unlock()
	w.queue.events.Progress(it, r.At, r.Done, r.Total, r.Message)
	return true
}

// opening returns the first n bytes of a text, as far as they are valid UTF-8, in memory
// of its own.
func opening(s string, n int) string {
	return strings.Clone(strings.ToValidUTF8(s[:min(n, len(s))], ""))
}
