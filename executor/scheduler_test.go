package executor_test

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
)

func TestRegisterWhileRunning(t *testing.T) {
	disk := new(journal.Memory)
	x := openOn(t, disk, executor.Config{})
	p := &probe{}
	q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{Share: executor.Share{Shards: 64}})
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
			q = handle(t, x, "q", p.handle, executor.QueueConfig[string]{Share: executor.Share{Shards: 64}})
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
		q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{Share: executor.Share{Shards: 8}})
		for i := range 200 {
			enqueue(t, q, string(rune('a'+i)), "x")
		}
		start(t, x)
		synctest.Wait()
		require.Len(t, p.seen(), 200)
		stop(t, x)
	})
}

// Of the shards of one queue RegistrationOrder picks the one with the oldest due job.
func TestInOrderByDueTimeInAQueue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 1, Scheduler: executor.RegistrationOrder()})
		p := &probe{decide: pause}
		q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{Share: executor.Share{Shards: 16}})
		const jobs = 40
		for i := range jobs {
			due := i * 17 % jobs
			enqueue(t, q, fmt.Sprint(due), "x", executor.At(time.Now().Add(time.Duration(due)*time.Second)))
		}
		time.Sleep(time.Hour)
		start(t, x)
		time.Sleep(time.Minute)
		for i, id := range ids(p) {
			assert.Equal(t, fmt.Sprint(i), id)
		}
		assert.Len(t, p.seen(), jobs)
	})
}

// A worker that comes back waits until the shard has said what it has next: a shard
// that is busy does not lose its turn to a queue behind it.
func TestInOrderWaitsForTheShard(t *testing.T) {
	waitsForTheShard(t, executor.RegistrationOrder(), 0)
}

func TestPriorityWaitsForTheShard(t *testing.T) { waitsForTheShard(t, executor.Fair(), 1) }

func waitsForTheShard(t *testing.T, scheduler executor.Scheduler, priority int) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 1, Scheduler: scheduler})
		goOn := make(chan struct{})
		p := &probe{decide: func(_ context.Context, s seen) error {
			if s.id == "high 1" {
				time.Sleep(time.Second) // a run of one
				<-goOn
			}
			return nil
		}}
		cfg := executor.QueueConfig[string]{Share: executor.Share{Shards: 1}}
		first := cfg
		first.Share.Priority = priority
		high, low := handle(t, x, "high", p.handle, first), handle(t, x, "low", p.handle, cfg)
		enqueue(t, low, "low", "x")
		enqueue(t, high, "high 1", "x")
		start(t, x)
		time.Sleep(2 * time.Second)
		require.Equal(t, []string{"high 1"}, ids(p))
		enqueue(t, high, "high 2", "x")
		release := x.HoldShards("high")
		synctest.Wait()
		close(goOn)
		synctest.Wait()
		assert.Equal(t, []string{"high 1"}, ids(p), "what comes next is not known yet")
		release()
		synctest.Wait()
		assert.Equal(t, []string{"high 1", "high 2", "low"}, ids(p))
		stop(t, x)
	})
}
