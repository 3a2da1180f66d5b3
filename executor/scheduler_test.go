package executor_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
)

func TestRegisterWhileRunning(t *testing.T) {
	disk := new(journal.Memory)
	x := openOn(t, disk, executor.Config{})
	p := &probe{}
	q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{Shards: 64})
	for i := range 1000 {
		enqueue(t, q, string(rune('a'+i)), "x")
	}
	stop(t, x)
	x = openOn(t, disk, executor.Config{})
	other := handle(t, x, "other", func(context.Context, executor.Merged[string]) error { runtime.Gosched(); return nil }, executor.QueueConfig[string]{})
	start(t, x)
	for i := range 1000 {
		_, _ = other.Enqueue(t.Context(), string(rune('a'+i)), "x")
		if i == 500 {
			q = handle(t, x, "q", p.handle, executor.QueueConfig[string]{Shards: 64})
		}
	}
	drained(t, q)
	assert.Len(t, p.seen(), 1000)
}

type goexitScheduler struct{ n atomic.Int64 }

func (s *goexitScheduler) Pick(r []executor.Candidate) int {
	if s.n.Add(1)%2 == 0 {
		runtime.Goexit()
	}
	return 0
}

func TestSchedulerExits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 2, Scheduler: &goexitScheduler{}})
		p := &probe{}
		q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{Shards: 8})
		for i := range 200 {
			enqueue(t, q, string(rune('a'+i)), "x")
		}
		start(t, x)
		synctest.Wait()
		require.Len(t, p.seen(), 200)
		stop(t, x)
	})
}
