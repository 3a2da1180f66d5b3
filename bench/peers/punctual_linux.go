package main

import (
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
)

// punctual has what sleeps in this process wake up in time, until stop is called.
//
// When nothing else is to be done, Go waits for its next timer in epoll, for a whole
// number of milliseconds, rounded up: a sleep of 1 ms takes up to 2, unless all sleep
// and wake together. A handler that waits for a network has no such delay. So a thread
// looks after the timers every 100 to 150 µs. It takes 0.5 to 2 µs of processor time a
// job, the same for all.
func punctual() (stop func()) {
	var over atomic.Bool
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		for !over.Load() {
			nap := syscall.NsecToTimespec(int64(100 * time.Microsecond))
			_ = syscall.Nanosleep(&nap, nil) // a signal ends it early
			runtime.Gosched()                // a goroutine that yields looks at the timers
		}
	}()
	return func() { over.Store(true) }
}
