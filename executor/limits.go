package executor

import (
	"sync"
	"time"

	"github.com/strandjobs/strand/executor/internal/limit"
)

// limits are all limits of an executor, and the jobs that wait for them. A queue
// that has none does not come here.
type limits struct {
	base time.Time // when the clock of the table was 0

	// mu guards what follows. Nothing is called under it.
	mu     sync.Mutex
	table  *limit.Table
	named  map[string]*Limit
	all    []*Limit
	timer  *time.Timer // of the next job that may run, over all keys; nil until one waits
	rings  int64       // when it does; 0: it does not
	closed bool        // no timer any more, and no job is woken
}

func (l *limits) init() {
	l.base, l.table, l.named = time.Now(), limit.NewTable(), make(map[string]*Limit)
}

// do lets f look at the table or change it, and wakes the jobs that may run then.
func (l *limits) do(f func(t *limit.Table, now int64)) {
	l.mu.Lock()
	now := int64(time.Since(l.base))
	f(l.table, now)
	woken := l.table.Drain()
	if l.closed {
		woken = nil
	}
	l.arm(now)
	l.mu.Unlock()
	for _, wake := range woken {
		wake()
	}
}

// arm sets the timer to what happens next by itself. mu is held.
func (l *limits) arm(now int64) {
	at, ok := l.table.Next()
	switch {
	case !ok || l.closed:
		if l.rings = 0; l.timer != nil {
			l.timer.Stop()
		}
		return
	case l.rings > 0 && l.rings <= at: // it may ring for nothing, once
		return
	case l.timer == nil:
		l.timer = time.AfterFunc(time.Duration(at-now), l.ring)
	default:
		l.timer.Reset(time.Duration(at - now))
	}
	l.rings = at
}

// ring is what the timer calls.
func (l *limits) ring() {
	l.do(func(t *limit.Table, now int64) {
		l.rings = 0
		t.Expire(now)
	})
}

// close stops the timer.
func (l *limits) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.arm(0)
}
