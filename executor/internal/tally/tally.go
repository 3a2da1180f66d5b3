// Package tally bounds the lines of a log. When what all jobs depend on is down, a
// line for each of them would fill the disk: so many are logged, and the next one
// says how many were left out.
package tally

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Rate is how many lines of one kind are logged.
type Rate struct {
	Lines int
	Per   time.Duration // from the first of them on
}

// OneAMinute is for what stays as it is for long.
var OneAMinute = Rate{1, time.Minute}

// Lines counts the lines of one kind. The zero Lines has seen none.
type Lines struct {
	// mu guards what follows. Nothing is logged under it: a logger is user code.
	mu      sync.Mutex
	since   time.Time // of the first line that counts now
	lines   int       // since then
	leftOut int       // since the last line
}

// Line reports whether to log one more, and what to say of those that were left
// out.
func (t *Lines) Line(r Rate) (rest []slog.Attr, ok bool) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.Sub(t.since) >= r.Per {
		t.since, t.lines = now, 0
	}
	if t.lines == r.Lines {
		t.leftOut++
		return nil, false
	}
	t.lines++
	if t.leftOut > 0 {
		rest, t.leftOut = []slog.Attr{slog.Int("left_out", t.leftOut)}, 0
	}
	return rest, true
}

// tenASecond is for what happens to jobs.
var tenASecond = Rate{Lines: 10, Per: time.Second}

// Queue logs what happens to the jobs of a queue.
type Queue struct {
	Name    string
	Logger  *slog.Logger
	Context context.Context

	buried, halted, held, panicked, failed, strays Lines
}

func (q *Queue) log(level slog.Level, lines *Lines, rate Rate, message string, attrs ...slog.Attr) {
	if rest, ok := lines.Line(rate); ok {
		q.Logger.LogAttrs(q.Context, level, message, append(attrs, rest...)...)
	}
}

// Buried tells a person that a dead letter waits for a decision.
func (q *Queue) Buried(id string, position uint64, reason string, more ...slog.Attr) {
	q.log(slog.LevelWarn, &q.buried, tenASecond, "job went to the morgue",
		append(more, slog.String("queue", q.Name), slog.String("id", id), slog.Uint64("position", position), slog.String("error", reason))...)
}

// Canceled tells who has canceled so many payloads.
func (q *Queue) Canceled(payloads int, reason string) {
	q.log(slog.LevelWarn, &q.buried, tenASecond, "jobs were canceled: they are in the morgue, or will be when their handlers return",
		slog.String("queue", q.Name), slog.Int("payloads", payloads), slog.String("error", reason))
}

// Halted tells a person that an id waits for RunNow.
func (q *Queue) Halted(id string, attempt int, reason string) {
	q.log(slog.LevelWarn, &q.halted, tenASecond, "job is halted: its id runs again after RunNow",
		slog.String("queue", q.Name), slog.String("id", id), slog.Int("attempt", attempt), slog.String("error", reason))
}

// Held tells of a job that waits for room on the disk.
func (q *Queue) Held(id string, position uint64, reason string) {
	q.log(slog.LevelWarn, &q.held, tenASecond, "job is held: the disk has no room for its dead letter, or to halt it",
		slog.String("queue", q.Name), slog.String("id", id), slog.Uint64("position", position), slog.String("error", reason))
}

// Panicked tells of a bug, with the place where it is.
func (q *Queue) Panicked(id, reason, stack string) {
	q.log(slog.LevelError, &q.panicked, tenASecond, "handler panicked",
		slog.String("queue", q.Name), slog.String("id", id), slog.String("error", reason), slog.String("stack", stack))
}

// Failed tells of the first failure, so that an outage is seen at once, and then how many there are.
func (q *Queue) Failed(id string, attempt int, reason string) {
	q.log(slog.LevelWarn, &q.failed, OneAMinute, "a run failed",
		slog.String("queue", q.Name), slog.String("id", id), slog.Int("attempt", attempt), slog.String("error", reason))
}

// Stray tells of an error that no caller gets, because the payloads are accepted.
func (q *Queue) Stray(reason string) {
	q.log(slog.LevelError, &q.strays, tenASecond, "middleware failed after the payloads were accepted",
		slog.String("queue", q.Name), slog.String("error", reason))
}

// Unsaid returns how many dead letters were left out since the last line about one.
func (q *Queue) Unsaid() int {
	q.buried.mu.Lock()
	defer q.buried.mu.Unlock()
	return q.buried.leftOut
}
