package executor

import (
	"context"
	"strings"

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
func attemptOf(ctx context.Context) *attempt.Attempt {
	a, ok := ctx.(*attempt.Attempt)
	if !ok && ctx != nil {
		_ = guard.Call(func() error { a, _ = ctx.Value(attempt.Key{}).(*attempt.Attempt); return nil })
	}
	return a
}

// opening returns the first n bytes of a text, as far as they are valid UTF-8, in memory
// of its own.
func opening(s string, n int) string {
	return strings.Clone(strings.ToValidUTF8(s[:min(n, len(s))], ""))
}
