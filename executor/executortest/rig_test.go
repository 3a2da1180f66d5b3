package executortest_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/executortest"
)

// fake is a test that may fail: what it is told is kept, and the real one goes on.
type fake struct {
	testing.TB
	mu       sync.Mutex
	told     []string
	cleanups []func()
}

func (f *fake) Helper() {}

func (f *fake) Errorf(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.told = append(f.told, fmt.Sprintf(format, args...))
}

func (f *fake) Fatalf(format string, args ...any) {
	f.Errorf(format, args...)
	runtime.Goexit()
}

func (f *fake) Cleanup(c func()) { f.cleanups = append(f.cleanups, c) }

// end does what the end of a test does.
func (f *fake) end() {
	for _, c := range f.cleanups {
		c()
	}
}

// of returns what is told during a call, which may end its goroutine.
func (f *fake) of(call func()) (told []string) {
	f.told = nil
	over := make(chan struct{})
	go func() {
		defer close(over)
		call()
	}()
	<-over
	return f.told
}

// failing opens an executor for a test that may fail.
func failing(t *testing.T, cfg executortest.Config, setup executortest.Setup, test func(t *testing.T, f *fake, x *executortest.Executor)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{TB: t}
		defer f.end()
		test(t, f, executortest.Open(f, cfg, setup))
	})
}

// queue is a setup of one queue.
func queue(q **executor.Queue[string], handle func(context.Context, executor.Job[string]) error, cfg executor.QueueConfig[string]) executortest.Setup {
	return func(x *executor.Executor) (err error) {
		*q, err = executor.Handle(x, "orders", handle, cfg)
		return err
	}
}

func done(context.Context, executor.Job[string]) error { return nil }
