package executor_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
)

// Queues that feed each other, in cycles, too, under backlogs that are full all the
// time: all work in hand ends, and calls from outside come in, whatever the limits
// are, and whether they wait or come back.
func TestBacklogOfGraphsDrains(t *testing.T) {
	bubbles(t, 40, 14, drainGraph)
}

func drainGraph(t *testing.T, r *rand.Rand) {
	var disk *journal.Memory // nil: none
	cfg := executor.Config{
		Workers: 1 + r.IntN(4), MaxBacklog: executor.BacklogLimit{Payloads: r.IntN(4)}, WaitForRoom: pick(r, false, true), StopTimeout: -1,
		Scheduler: pick(r, executor.Fair(), executor.RegistrationOrder(), executor.OldestFirst()),
	}
	if r.IntN(2) == 0 {
		disk = new(journal.Memory)
	}
	var x *executor.Executor
	if disk == nil {
		x = open(t, "", cfg)
	} else {
		x = openOn(t, disk, cfg)
	}
	queues := make([]*executor.Queue[int], 1+r.IntN(4))
	var due, done atomic.Int64 // calls of handlers that there have to be, and that there were
	for i := range queues {
		feeds := r.Perm(len(queues))[:r.IntN(len(queues)+1)]
		once := r.IntN(2) == 0
		var failed sync.Map
		queues[i] = must(executor.Handle(x, fmt.Sprint("queue ", i), func(ctx context.Context, job executor.Job[int]) error {
			if _, again := failed.LoadOrStore(job.Position, true); !again && job.Position%3 == 0 {
				return errBoom
			}
			for _, to := range feeds {
				if job.Payload == 0 {
					break
				}
				var options []executor.Option
				if once {
					options = append(options, executor.IdempotencyKey(fmt.Sprint(job.Position, " ", to)))
				}
				due.Add(1)
				_, err := queues[to].Enqueue(ctx, job.ID, job.Payload-1, options...)
				require.NoError(t, err)
			}
			done.Add(1)
			return nil
		}, executor.QueueConfig[int]{MaxBacklog: executor.BacklogLimit{Payloads: 1 + r.IntN(3)}, RetryIn: always(time.Second), Share: executor.Share{Shards: 1 + r.IntN(2)}}))
	}
	start(t, x)
	var producers sync.WaitGroup
	for i := range 30 {
		to, depth := queues[r.IntN(len(queues))], r.IntN(4)
		due.Add(1)
		producers.Go(func() {
			for {
				_, err := to.Enqueue(t.Context(), fmt.Sprint("id ", i%7), depth)
				if full, is := errors.AsType[*executor.FullError](err); is && !cfg.WaitForRoom {
					time.Sleep(full.RetryAfter)
					continue
				}
				require.NoError(t, err)
				return
			}
		})
	}
	producers.Wait()
	time.Sleep(time.Hour)
	synctest.Wait()
	require.Equal(t, due.Load(), done.Load())
	s := must(x.Stats(t.Context()))
	require.Zero(t, s.Backlog.Payloads)
	for _, q := range s.Queues {
		require.Zero(t, q.Backlog.Payloads+q.Backlog.Bytes+q.Backlog.Waiting+q.Payloads, q.Name)
	}
	require.NoError(t, x.Err())
	stop(t, x)
}
