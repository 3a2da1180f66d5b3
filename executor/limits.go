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
	alarm  alarm // of the next job that may run, over all keys
	closed bool  // no alarm any more, and no job is woken
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
	l.arm()
	l.mu.Unlock()
	for _, wake := range woken {
		wake()
	}
}

// arm sets the alarm to what happens next by itself. mu is held.
func (l *limits) arm() {
	at, ok := l.table.Next()
	l.alarm.set(l.base, time.Duration(at), ok && !l.closed, l.ring)
}

// ring is what the alarm calls.
func (l *limits) ring() {
	l.do(func(t *limit.Table, now int64) {
		l.alarm.rang()
		t.Expire(now)
	})
}

// close stops the alarm.
func (l *limits) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.arm()
}
