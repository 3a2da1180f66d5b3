package executor_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
)

// crowd is a queue whose job "slow" takes an hour, and whose other jobs take no
// time. Each locks and unlocks a key and has a slot.
type crowd struct {
	probe
	x     *executor.Executor
	q     *executor.Queue[string]
	slots *executor.Slots[int]
}

func newCrowd(t *testing.T, disk *journal.Memory, cfg executor.QueueConfig[string]) *crowd {
	c := &crowd{x: openOn(t, disk, executor.Config{Workers: 2})}
	var err error
	c.slots, err = executor.NewSlots(c.x, "serials", executor.SlotsConfig[int]{
		Next: func(i int) int { return i + 1 },
	})
	require.NoError(t, err)
	key := func(id, _ string) []string { return []string{id} }
	cfg.Conditions.Locks = executor.Locks[string]{OnEnqueue: key, Unlock: key}
	cfg.Conditions.Slots = []executor.SlotSource{c.slots}
	c.decide = func(ctx context.Context, s seen) error {
		if s.id == "slow" {
			select {
			case <-time.After(time.Hour):
			case <-ctx.Done():
			}
		}
		return ctx.Err()
	}
	c.q = handle(t, c.x, "q", c.handle, cfg)
	start(t, c.x)
	return c
}

// together has jobs run in one run: fast ones before and after the slow one.
func (c *crowd) together(t *testing.T, fast int) {
	for i := range 200 { // handlers are known to be fast
		enqueue(t, c.q, fmt.Sprint("warm", i), "")
	}
	due := executor.At(time.Now().Add(time.Minute))
	for i := range 2 * fast {
		enqueue(t, c.q, fmt.Sprint("fast", i), "1", due)
		if i == fast {
			enqueue(t, c.q, "slow", "1", due)
		}
	}
	time.Sleep(time.Minute + 2*time.Millisecond)
	synctest.Wait()
}

// An hour of one job holds back nothing of the others that were handed to a worker
// with it: neither their ids, nor their keys and slots.
func TestSlowJobHoldsBackNoOther(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCrowd(t, new(journal.Memory), executor.QueueConfig[string]{Share: executor.Share{Shards: 1}})
		c.together(t, 10)
		s := stats(t, c.q)
		assert.Equal(t, []int{1, 1}, []int{s.Jobs, s.Running})
		assert.EqualValues(t, 220, s.Done)
		require.Len(t, lockedKeys(c.x), 1)
		require.Equal(t, "slow", lockedKeys(c.x)[0].Key)
		require.Len(t, c.slots.Snapshot().Open, 1)
		for i := range 20 {
			enqueue(t, c.q, fmt.Sprint("fast", i), "2")
		}
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		for i := range 20 {
			require.Equal(t, []string{"1", "2"}, c.of(fmt.Sprint("fast", i)))
		}
		time.Sleep(time.Hour)
		require.Zero(t, stats(t, c.q).Jobs)
		c.assertNoOverlap(t)
	})
}

// A crash meanwhile runs the slow job again, and no other.
func TestCrashBesideASlowJob(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		c := newCrowd(t, disk, executor.QueueConfig[string]{Share: executor.Share{Shards: 1}})
		c.together(t, 10)
		again := newCrowd(t, disk.Crash(), executor.QueueConfig[string]{Share: executor.Share{Shards: 1}})
		time.Sleep(time.Minute)
		require.Equal(t, []string{"slow[1]"}, again.log())
	})
}

// The same with batches: of a run, the batch that is in hand waits for itself.
func TestSlowBatchHoldsBackNoOther(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 1})
		q, err := executor.HandleBatch(x, "q", func(ctx context.Context, jobs []executor.Merged[string]) error {
			for _, job := range jobs {
				if job.ID == "slow" {
					<-ctx.Done()
				}
			}
			return ctx.Err()
		}, executor.QueueConfig[string]{Share: executor.Share{Shards: 1}, BatchSize: 4})
		require.NoError(t, err)
		start(t, x)
		for i := range 400 {
			enqueue(t, q, fmt.Sprint("warm", i), "")
		}
		due := executor.At(time.Now().Add(time.Minute))
		for i := range 31 {
			enqueue(t, q, fmt.Sprint(i), "", due)
		}
		enqueue(t, q, "slow", "", due)
		time.Sleep(time.Minute - time.Millisecond)
		require.Equal(t, 32, stats(t, q).Jobs)
		time.Sleep(3 * time.Millisecond)
		synctest.Wait()
		s := stats(t, q)
		require.Equal(t, 4, s.Running, "the batch of the slow one")
		require.Less(t, s.Jobs, 32)
	})
}
