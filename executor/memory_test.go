package executor_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
)

// A backlog that has left memory runs as any other: in order, merged, retried
// and buried, before a restart and after it.
func TestBacklogBeyondMemory(t *testing.T) {
	const ids, each = 200, 10
	dir := t.TempDir() + "/journal"
	cfg := executor.Config{MemoryBudget: 10_000, Workers: 4}
	var mu sync.Mutex
	ran := make(map[string][]string)
	failed := make(map[string]bool)
	handler := func(_ context.Context, job executor.Job[string]) error {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case strings.HasPrefix(job.ID, "bad"):
			return executor.Cancel(errBoom)
		case strings.HasPrefix(job.ID, "slow") && !failed[job.ID]:
			failed[job.ID] = true
			return executor.RetryAfter(time.Millisecond, errBoom)
		}
		for _, p := range job.Payloads {
			ran[job.ID] = append(ran[job.ID], p.Value)
		}
		return nil
	}
	queue := executor.QueueConfig[string]{MaxPayloads: 3}
	x := open(t, dir, cfg)
	q := handle(t, x, "q", handler, queue)
	want := make(map[string][]string)
	buried := 0
	for n := range each {
		var items []executor.Item[string]
		for i := range ids {
			id := fmt.Sprintf("%s-%d", []string{"good", "slow", "bad", "twice"}[i%4], i)
			payload := fmt.Sprintf("payload %d of %s %s", n, id, strings.Repeat("x", 50))
			items = append(items, executor.Item[string]{ID: id, Payload: payload})
			switch i % 4 {
			case 2:
				buried++
			case 3:
				items = append(items, executor.Item[string]{ID: id, Payload: payload})
				fallthrough
			default:
				want[id] = append(want[id], payload)
			}
		}
		_, err := q.EnqueueMany(t.Context(), items)
		require.NoError(t, err)
		if n == each/2 {
			stop(t, x)
			x = open(t, dir, cfg)
			q = handle(t, x, "q", handler, queue)
		}
	}
	start(t, x)
	drained(t, q)
	s, err := x.Stats(t.Context())
	require.NoError(t, err)
	require.NotZero(t, s.Journal.ReadBacks)
	require.Equal(t, want, ran)
	stop(t, x) // the last burials are on disk then
	x = open(t, dir, cfg)
	q = handle(t, x, "q", handler, queue)
	require.Zero(t, stats(t, q).Jobs)
	dead := morgue(t, q)
	require.Equal(t, buried, len(dead))
	for _, d := range dead {
		require.Contains(t, d.Payload, "of "+d.ID+" ")
	}
	stop(t, x)
}

// An executor whose disk can't give back what left memory stops, hands no
// handler anything else instead, and loses nothing.
func TestUnreadableBacklog(t *testing.T) {
	for name, workersFirst := range map[string]bool{"in a shard": false, "in a worker": true} {
		t.Run(name, func(t *testing.T) {
			disk := new(journal.Memory)
			cfg := executor.Config{MemoryBudget: 1, Workers: 2}
			told := make(chan error, 1)
			cfg.OnFailure = func(err error) { told <- err }
			broken := errors.New("the disk does not answer")
			var ran atomic.Int64
			handler := func(_ context.Context, job executor.Job[int]) error {
				for _, p := range job.Payloads {
					require.Equal(t, fmt.Sprint(p.Value), job.ID)
				}
				if n := ran.Add(1); workersFirst && n == 100 {
					disk.FailReads(broken) // the ids of the run were read, the other payloads not
				}
				return nil
			}
			x := openOn(t, disk, cfg)
			q := handle(t, x, "q", handler, executor.QueueConfig[int]{Shards: 2})
			for i := range 500 {
				enqueue(t, q, fmt.Sprint(i), i)
			}
			if !workersFirst {
				disk.FailReads(broken)
			}
			start(t, x)
			err := <-told
			require.ErrorIs(t, err, broken)
			require.ErrorIs(t, x.Err(), executor.ErrFailed)
			_, err = q.Enqueue(t.Context(), "late", 1)
			require.ErrorIs(t, err, executor.ErrFailed)
			if !workersFirst {
				require.Zero(t, ran.Load())
				_, err = q.Stats(t.Context())
				require.ErrorIs(t, err, executor.ErrFailed)
			}
			require.ErrorIs(t, x.Stop(t.Context()), broken)

			disk.FailReads(nil)
			x = openOn(t, disk, cfg)
			disk.FailReads(broken)
			_, err = executor.Handle(x, "q", handler, executor.QueueConfig[int]{})
			require.ErrorIs(t, err, executor.ErrFailed)
			require.ErrorIs(t, err, broken)
			require.ErrorIs(t, x.Stop(t.Context()), broken)

			disk.FailReads(nil)
			workersFirst = false
			before := ran.Load()
			x = openOn(t, disk, executor.Config{MemoryBudget: 1})
			q = handle(t, x, "q", handler, executor.QueueConfig[int]{})
			start(t, x)
			drained(t, q)
			require.GreaterOrEqual(t, ran.Load(), int64(500), "every job ran")
			require.LessOrEqual(t, ran.Load()-before, int64(500))
			stop(t, x)
		})
	}
}
