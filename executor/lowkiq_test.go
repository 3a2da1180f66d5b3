package executor_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
)

// Each row of what Lowkiq does has a test of its number. Handlers that pause for
// longer than the quantum keep a run at one batch, so that the order between ids
// can be seen.
func pause(context.Context, seen) error { time.Sleep(2 * time.Millisecond); return nil }

func TestLowkiq_L01_JobHasIDPayloadsDueAndRetryCount(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		var jobs []executor.Merged[string]
		q := handle(t, x, "q", func(_ context.Context, job executor.Merged[string]) error {
			jobs = append(jobs, job)
			if job.Attempt < 3 {
				return errBoom
			}
			return nil
		}, executor.QueueConfig[string]{RetryIn: always(time.Minute)})
		due := time.Now().Add(time.Hour)
		first := enqueue(t, q, "a", "new", executor.Score(2), executor.At(due))
		second := enqueue(t, q, "a", "old", executor.Score(1))
		start(t, x)
		time.Sleep(2 * time.Hour)
		settled(t, q)
		require.Len(t, jobs, 3)
		for i, job := range jobs {
			assert.Equal(t, "q", job.Queue)
			assert.Equal(t, "a", job.ID)
			assert.Equal(t, i+1, job.Attempt, "1 new, 2 failed once, …")
			assert.True(t, due.Add(time.Duration(i)*time.Minute).Equal(job.Due), "due %v", job.Due)
			assert.Equal(t, []executor.Payload[string]{
				{Value: "old", Score: 1, Position: second.Position, EnqueuedAt: job.Payloads[0].EnqueuedAt},
				{Value: "new", Score: 2, Position: first.Position, EnqueuedAt: job.Payloads[1].EnqueuedAt},
			}, job.Payloads)
			assert.Equal(t, "new", job.Latest())
		}
	})
}

func TestLowkiq_L02_AShardIsProcessedByOneThreadAtATime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const shards, workers = 3, 8
		const many = 50 // ids: none of the shards is without any, whatever the hash's seed
		x := open(t, "", executor.Config{Workers: workers})
		var mu sync.Mutex
		running, most := 0, 0
		p := &probe{decide: func(context.Context, seen) error {
			mu.Lock()
			running++
			most = max(most, running)
			mu.Unlock()
			time.Sleep(5 * time.Millisecond)
			mu.Lock()
			running--
			mu.Unlock()
			return nil
		}}
		q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{Share: executor.Share{Shards: shards, Concurrency: 1}})
		start(t, x)
		for i := range 200 {
			enqueue(t, q, fmt.Sprint("id", i%many), fmt.Sprint(i))
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Minute)
		mu.Lock()
		assert.Equal(t, shards, most)
		mu.Unlock()
		p.assertNoOverlap(t)
		for i := range many { // one id, one shard: in order
			var want []string
			for v := i; v < 200; v += many {
				want = append(want, fmt.Sprint(v))
			}
			assert.Equal(t, want, p.of(fmt.Sprint("id", i)))
		}
	})
}

// By default only the workers bound what runs at a time, of one shard, too; an id is alone all
// the same.
func TestLowkiq_L02_WorkersAreTheBoundByDefault(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 8})
		var together most
		p := &probe{decide: func(context.Context, seen) error {
			together.do(func() { time.Sleep(5 * time.Millisecond) })
			return nil
		}}
		q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{Share: executor.Share{Shards: 1}})
		start(t, x)
		for i := range 200 {
			enqueue(t, q, fmt.Sprint("id", i%20), fmt.Sprint(i))
		}
		time.Sleep(time.Minute)
		assert.Equal(t, 8, together.peak())
		p.assertNoOverlap(t)
	})
}

func TestLowkiq_L03_OldestDueFirstUpToBatchSize(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 2})
		var mu sync.Mutex
		var batches [][]string
		q, err := executor.HandleBatch(x, "q", func(_ context.Context, jobs []executor.Merged[string]) error {
			var ids []string
			for _, job := range jobs {
				ids = append(ids, job.ID)
			}
			mu.Lock()
			batches = append(batches, ids)
			mu.Unlock()
			time.Sleep(2 * time.Millisecond)
			return nil
		}, executor.QueueConfig[string]{BatchSize: 3, Share: executor.Share{Shards: 1, Concurrency: 1}})
		require.NoError(t, err)
		for _, i := range []int{4, 7, 1, 6, 2, 5, 3} {
			enqueue(t, q, fmt.Sprint(i), "x", executor.At(time.Now().Add(time.Duration(i)*time.Minute)))
		}
		time.Sleep(time.Hour)
		start(t, x)
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		assert.Equal(t, [][]string{{"1", "2", "3"}, {"4", "5", "6"}, {"7"}}, batches)
	})
}

func TestLowkiq_L04_PayloadsComeFromOldToNew(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		p := &probe{}
		q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{})
		for _, score := range []float64{3, -1, 2.5, 1e300, 0, -1e300} {
			enqueue(t, q, "a", fmt.Sprint(score), executor.Score(score))
			enqueue(t, q, "a", fmt.Sprint(score, " later"), executor.Score(score))
		}
		start(t, x)
		synctest.Wait()
		assert.Equal(t, []string{"a[-1e+300 -1e+300 later -1 -1 later 0 0 later 2.5 2.5 later 3 3 later 1e+300 1e+300 later]"}, p.log())
	})
}

// A batch is ids with their payloads, those of each from old to new.
func TestLowkiq_L04_OfEachIDOfABatch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		got := map[string][]string{}
		q, err := executor.HandleBatch(x, "q", func(_ context.Context, jobs []executor.Merged[string]) error {
			assert.Len(t, jobs, 3)
			for _, job := range jobs {
				for _, p := range job.Payloads {
					got[job.ID] = append(got[job.ID], p.Value)
				}
			}
			return nil
		}, executor.QueueConfig[string]{BatchSize: 3, Share: executor.Share{Shards: 1}})
		require.NoError(t, err)
		for _, score := range []float64{3, 1, 2} {
			for _, id := range []string{"a", "b", "c"} {
				enqueue(t, q, id, fmt.Sprint(id, score), executor.Score(score))
			}
		}
		start(t, x)
		synctest.Wait()
		assert.Equal(t, map[string][]string{"a": {"a1", "a2", "a3"}, "b": {"b1", "b2", "b3"}, "c": {"c1", "c2", "c3"}}, got)
	})
}

// collector is a scheduler that remembers what it could choose from.
type collector struct {
	mu     sync.Mutex
	shards map[int]bool
}

func (c *collector) Pick(ready []executor.Candidate) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range ready {
		c.shards[r.Shard] = true
	}
	return 0
}

func (c *collector) seen() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.shards))
}

func TestLowkiq_L05_Defaults(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := &collector{shards: map[int]bool{}}
		x := open(t, "", executor.Config{Scheduler: c})
		begin, runs := time.Now(), 0
		var largest shared[int]
		many, err := executor.HandleBatch(x, "many", func(_ context.Context, jobs []executor.Merged[string]) error {
			if len(jobs) > 1 {
				largest.set(len(jobs))
			}
			require.Empty(t, jobs[0].Payloads[0].Value, "the payload is empty")
			assert.InDelta(t, float64(begin.UnixNano())/1e9, jobs[0].Payloads[0].Score, 1e-6, "the score is now")
			assert.True(t, begin.Equal(jobs[0].Due), "due is now")
			return nil
		}, executor.QueueConfig[string]{})
		require.NoError(t, err)
		failing := handle(t, x, "failing", func(context.Context, executor.Merged[int]) error { runs++; return errBoom }, executor.QueueConfig[int]{})
		for i := range 100 {
			_, err := many.EnqueueMany(t.Context(), []executor.Item[string]{{ID: fmt.Sprint(i)}})
			require.NoError(t, err)
		}
		start(t, x)
		synctest.Wait()
		assert.Equal(t, []int{0, 1, 2, 3, 4}, c.seen(), "5 shards")
		assert.Zero(t, largest.get(), "one id at a time")

		enqueue(t, failing, "a", 1)
		time.Sleep(40 * 24 * time.Hour)
		settled(t, failing)
		assert.Equal(t, 26, runs, "one run and 25 retries")
		dead := morgue(t, failing)
		require.Len(t, dead, 1)
		days := dead[0].At.Sub(begin).Hours() / 24
		assert.InDelta(t, 20.5, days, 0.2)
	})
}

func TestLowkiq_L13_AFixedNumberOfWorkers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		release := make(chan struct{})
		p := &probe{decide: func(context.Context, seen) error { <-release; return nil }}
		for i := range 6 {
			q := handle(t, x, fmt.Sprint("q", i), p.handle, executor.QueueConfig[string]{Share: executor.Share{Shards: 10}})
			for j := range 20 {
				enqueue(t, q, fmt.Sprint(i, "-", j), "x")
			}
		}
		start(t, x)
		synctest.Wait()
		assert.Len(t, p.seen(), 5, "5 workers serve all shards of all queues")
		s, err := x.Stats(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 5, s.Workers)
		assert.Equal(t, 5, s.Busy)
		close(release)
		synctest.Wait()
		assert.Len(t, p.seen(), 120)
	})
}

// backwards is a scheduler of the program's own.
type backwards struct {
	mu  sync.Mutex
	saw map[executor.Candidate]time.Time // without their due times
}

func (b *backwards) Pick(ready []executor.Candidate) int {
	last := 0
	for i := range ready {
		if ready[i].Index > ready[last].Index {
			last = i
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	c := ready[last]
	key := executor.Candidate{Queue: c.Queue, Shard: c.Shard, Index: c.Index}
	if _, again := b.saw[key]; !again {
		b.saw[key] = c.Due()
	}
	return last
}

// Three queues with one shard each: which of them gets the one worker, while each has a
// job due. The jobs of a are the oldest, and take twice as long: Lag, the default of
// Lowkiq, lets all others wait for them, ours gives each queue as much time.
func TestLowkiq_L15_Scheduler(t *testing.T) {
	own := &backwards{saw: map[executor.Candidate]time.Time{}}
	for name, test := range map[string]struct {
		scheduler executor.Scheduler
		want      string
	}{
		"default":   {nil, "a1 b1 c1 b2 c2 a2 b3 c3 a3"},
		"Fair":      {executor.Fair(), "a1 b1 c1 b2 c2 a2 b3 c3 a3"},
		"Lag":       {executor.OldestFirst(), "a1 a2 a3 b1 b2 b3 c1 c2 c3"},
		"Seq":       {executor.RoundRobin(), "a1 b1 c1 a2 b2 c2 a3 b3 c3"},
		"backwards": {own, "c1 c2 c3 b1 b2 b3 a1 a2 a3"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := open(t, "", executor.Config{Workers: 1, Scheduler: test.scheduler})
				p := &probe{decide: func(_ context.Context, s seen) error {
					time.Sleep(20 * time.Millisecond)
					if s.id[0] == 'a' {
						time.Sleep(20 * time.Millisecond)
					}
					return nil
				}}
				begin := time.Now()
				at := func(minute int) time.Time { return begin.Add(time.Duration(minute) * time.Minute) }
				due := map[string][]int{"a": {1, 2, 3}, "b": {4, 5, 6}, "c": {7, 8, 9}}
				for _, name := range []string{"a", "b", "c"} {
					q := handle(t, x, name, p.handle, executor.QueueConfig[string]{Share: executor.Share{Shards: 1}})
					for i, minute := range due[name] {
						enqueue(t, q, fmt.Sprint(name, i+1), "x", executor.At(at(minute)))
					}
				}
				time.Sleep(time.Hour)
				start(t, x)
				time.Sleep(time.Minute)
				assert.Equal(t, test.want, strings.Join(ids(p), " "))
				if test.scheduler == own {
					for i, queue := range []string{"a", "b", "c"} {
						first, seen := own.saw[executor.Candidate{Queue: queue, Index: i}]
						assert.True(t, seen)
						assert.True(t, at(due[queue][0]).Equal(first), "%s is due since %v", queue, first)
					}
					assert.Len(t, own.saw, 3)
				}
			})
		})
	}
}

// OldestFirst and RoundRobin choose among the shards of one queue as among those of
// several: a shard with a long line keeps no other waiting.
func TestLowkiq_L15_SchedulerAmongShards(t *testing.T) {
	const shards, jobs = 4, 80
	for name, scheduler := range map[string]executor.Scheduler{"Lag": executor.OldestFirst(), "Seq": executor.RoundRobin()} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := open(t, "", executor.Config{Workers: 1, Scheduler: scheduler})
				p := &probe{decide: pause}
				q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{Share: executor.Share{Shards: shards}})
				shardOf := map[string]int{}
				before := make([]int, shards)
				for i := range jobs {
					id := fmt.Sprint(i * 37 % jobs) // the order of ids is not that of due times
					enqueue(t, q, id, "x", executor.At(time.Now().Add(time.Duration(i*37%jobs)*time.Second)))
					for s, n := range x.JobsPerShard() {
						if n > before[s] {
							shardOf[id], before[s] = s, n
						}
					}
				}
				time.Sleep(time.Hour)
				start(t, x)
				time.Sleep(time.Minute)
				ran := ids(p)
				require.Len(t, ran, jobs)
				if name == "Lag" {
					for i, id := range ran {
						assert.Equal(t, fmt.Sprint(i), id, "the oldest due job of all")
					}
					return
				}
				var turns []int
				for _, id := range ran {
					turns = append(turns, shardOf[id])
				}
				for i := range slices.Min(before) * shards { // as long as all have jobs
					assert.Equal(t, i%shards, turns[i], "round %v", turns)
				}
			})
		})
	}
}

// ids are what ran, in order.
func ids(p *probe) (ids []string) {
	for _, s := range p.seen() {
		ids = append(ids, s.id)
	}
	return ids
}
