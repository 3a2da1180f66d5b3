package executor_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
)

// counted is a handler that takes the events of each id in their order, and fails at
// random.
type counted struct {
	mu    sync.Mutex
	r     *rand.Rand
	calm  bool // nothing fails
	done  map[string]int
	wrong []string
}

func (e *counted) handle(_ context.Context, job executor.Merged[int]) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, p := range job.Payloads {
		if want := e.done[job.ID] + i + 1; p.Value != want {
			e.wrong = append(e.wrong, fmt.Sprintf("%s: event %d, want %d", job.ID, p.Value, want))
		}
	}
	switch fate := e.r.IntN(4); {
	case e.calm || fate == 0:
		e.done[job.ID] += len(job.Payloads)
		return nil
	case fate == 1:
		return executor.Snooze(time.Hour)
	}
	return errors.New("not now")
}

// Each start has another number of shards and workers, every pair of numbers
// follows each other, and nothing is lost, done twice, or out of order. The long
// tier takes all pairs from 1 to 64.
func TestEveryPairOfSettings(t *testing.T) {
	counts := []int{1, 2, 3, 8, 64}
	if long() {
		counts = nil
		for n := range 64 {
			counts = append(counts, n+1)
		}
	}
	bubble(t, func(t *testing.T) {
		disk, seed := new(journal.Memory), rand.Uint64()
		t.Log("seed", seed)
		e := &counted{r: rand.New(rand.NewPCG(seed, 0)), done: map[string]int{}}
		put := map[string]int{}
		live := func(shards, workers, n int) int {
			x := openOn(t, disk, executor.Config{Workers: workers})
			q := handle(t, x, "q", e.handle, executor.QueueConfig[int]{
				Share: executor.Share{Shards: shards}, Merge: executor.MergeKeepAll, Gather: executor.Gather[int]{MaxPayloads: 2}, MaxRetries: 1 << 20, RetryIn: always(time.Hour),
			})
			start(t, x)
			for range n {
				id := fmt.Sprint("id ", e.draw(20))
				put[id]++
				enqueue(t, q, id, put[id])
			}
			time.Sleep(time.Hour)
			synctest.Wait()
			left := stats(t, q).Payloads
			stop(t, x)
			return left
		}
		for i := range counts {
			for j := range counts {
				live(counts[i], counts[len(counts)-1-j], 8)
				live(counts[j], counts[i], 8)
			}
		}
		e.calm = true
		for live(5, 5, 0) > 0 {
		}
		require.Empty(t, e.wrong)
		require.Equal(t, put, e.done)
	})
}

func (e *counted) draw(n int) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.r.IntN(n)
}
