package executortest

import (
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// guard watches over a bubble from outside: a goroutine that waits for something that
// is no part of it keeps [synctest.Wait] from returning, and nothing inside can tell.
type guard struct {
	over chan struct{}

	// mu guards what follows. count is called under it, which takes the lock of a record.
	mu    sync.Mutex
	count func() int // of what has happened; nil: nobody waits
}

func startGuard(test string) *guard {
	g := &guard{over: make(chan struct{})}
	go g.watch(test, 30*time.Second, func(message string) {
		debug.SetTraceback("all") // the stacks say what it is
		panic(message)
	})
	return g
}

func (g *guard) watch(test string, limit time.Duration, stalled func(string)) {
	const looks = 30
	tick := time.NewTicker(limit / looks)
	defer tick.Stop()
	for last, same := -1, 0; ; {
		select {
		case <-g.over:
			return
		case <-tick.C:
		}
		n := -1 // nobody waits
		g.mu.Lock()
		if g.count != nil {
			n = g.count()
		}
		g.mu.Unlock()
		if n < 0 || n != last {
			last, same = n, 0
			continue
		}
		if same++; same == looks {
			stalled(fmt.Sprintf("executortest: %s: for %v of real time a goroutine of the bubble has been at work, or waits for something outside of it, "+
				"such as the network, a mutex or a system call; the stacks below say which", test, limit))
			return
		}
	}
}

// set says what to look at; nil: nobody waits any more.
func (g *guard) set(count func() int) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.count = count
}

func (g *guard) stop() { close(g.over) }
