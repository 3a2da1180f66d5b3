// Package tally bounds the lines of a log. When what all jobs depend on is down, a
// line for each of them would fill the disk: so many are logged, and the next one
// says how many were left out.
package tally

import (
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

// Unsaid returns how many were left out since the last line.
func (t *Lines) Unsaid() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.leftOut
}
