package executor

import (
	"log/slog"
	"sync"
	"time"
)

// rate is how many lines of one kind are logged about a queue. When what all jobs
// depend on is down, a line for each of them would fill the disk.
type rate struct {
	lines int
	per   time.Duration // from the first of them on
	rest  string        // what a line calls those that were left out before it
}

var (
	tenASecond = rate{10, time.Second, "left_out"}
	oneAMinute = rate{1, time.Minute, "others"}
)

// tally counts the lines of one kind about a queue.
type tally struct {
	// mu guards what follows. Nothing is logged under it: a logger is user code.
	mu      sync.Mutex
	since   time.Time // of the first line that counts now
	lines   int       // since then
	leftOut int       // since the last line
}

// line reports whether to log one more, and what to say of those that were left out.
func (t *tally) line(r rate) (rest []slog.Attr, ok bool) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.Sub(t.since) >= r.per {
		t.since, t.lines = now, 0
	}
	if t.lines == r.lines {
		t.leftOut++
		return nil, false
	}
	t.lines++
	if t.leftOut > 0 {
		rest, t.leftOut = []slog.Attr{slog.Int(r.rest, t.leftOut)}, 0
	}
	return rest, true
}

// unsaid returns how many were left out since the last line.
func (t *tally) unsaid() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.leftOut
}
