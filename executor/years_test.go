package executor_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
)

// calendar knows when each job is to run next, and how often it will fail.
type calendar struct {
	mu       sync.Mutex
	r        *rand.Rand
	next     map[string]time.Time
	failures map[string]int
	slack    time.Duration
	runs     int
	wrong    []string
}

func (c *calendar) handle(_ context.Context, job executor.Merged[int]) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs++
	now := time.Now()
	if late := now.Sub(c.next[job.ID]); late < 0 || late > 0 && late >= c.slack {
		c.wrong = append(c.wrong, fmt.Sprintf("%s ran %v after its time", job.ID, late))
	}
	delete(c.next, job.ID)
	if c.failures[job.ID] == 0 {
		return nil
	}
	c.failures[job.ID]--
	pause := time.Duration(c.r.Int64N(int64(24 * time.Hour)))
	c.next[job.ID] = now.Add(pause)
	return executor.RetryAfter(pause, errBoom)
}

// Ten years, four with the race detector, of delays, retries, restarts and long idle times, a thousand in the
// long tier: every job runs at its very moment, or within the slack after it. A
// bubble begins in the year 2000 and time ends in 2262.
func TestYears(t *testing.T) {
	times, years := 1, sampled(10)
	if long() {
		times, years = 5, 200
	}
	for range times {
		for _, slack := range []time.Duration{0, 25 * time.Millisecond} {
			seed := rand.Uint64()
			t.Run(fmt.Sprint("slack ", slack, " seed ", seed), func(t *testing.T) { live(t, years, seed, slack) })
		}
	}
}

func live(t *testing.T, years int, seed uint64, slack time.Duration) {
	const year, jobs = 365 * 24 * time.Hour, 40
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		c := &calendar{r: rand.New(rand.NewPCG(seed, 0)), slack: slack, next: map[string]time.Time{}, failures: map[string]int{}}
		for n := range years {
			newYear := time.Now()
			x := openOn(t, disk, executor.Config{Advanced: executor.Advanced{TimerSlack: slack}})
			q := handle(t, x, "q", c.handle, executor.QueueConfig[int]{Share: executor.Share{Shards: 2}})
			start(t, x)
			c.mu.Lock()
			ids := map[string]time.Time{}
			middle := time.Duration(c.r.Int64N(int64(8 * 24 * time.Hour)))
			for i := range jobs {
				id := fmt.Sprintf("%d-%d", n, i)
				ids[id] = newYear.Add(time.Duration(c.r.Int64N(int64(10 * 24 * time.Hour))))
				c.next[id], c.failures[id] = ids[id], c.r.IntN(5)
			}
			c.mu.Unlock()
			for id, due := range ids {
				enqueue(t, q, id, n, executor.At(due))
			}
			time.Sleep(middle)
			stop(t, x)
			x = openOn(t, disk, executor.Config{Advanced: executor.Advanced{TimerSlack: slack}})
			q = handle(t, x, "q", c.handle, executor.QueueConfig[int]{Share: executor.Share{Shards: 3}})
			start(t, x)
			time.Sleep(20 * 24 * time.Hour)
			assert.Zero(t, stats(t, q).Jobs)
			c.mu.Lock()
			assert.Empty(t, c.next)
			c.mu.Unlock()
			time.Sleep(time.Until(newYear.Add(year)))
			stop(t, x)
		}
		require.Empty(t, c.wrong)
		t.Logf("%d runs, until %v", c.runs, time.Now().Year())
	})
}
