package executor_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
)

// The clock of this start is behind that of the one before, as in a machine that
// has not asked for the time yet. Each bubble begins in 2000.
func TestScoreWhenTheClockIsBehind(t *testing.T) {
	for name, options := range map[string][]executor.Option{
		"due now": nil, "due before": {executor.At(time.Unix(1, 0))}, "due later": {executor.At(time.Date(2000, 1, 2, 0, 0, 0, 0, time.UTC))},
	} {
		t.Run(name, func(t *testing.T) {
			disk := new(journal.Memory)
			life := func(t *testing.T, ahead time.Duration, payload string, options ...executor.Option) *probe {
				time.Sleep(ahead)
				p := &probe{}
				x := openOn(t, disk, executor.Config{})
				q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{})
				enqueue(t, q, "order", payload, options...)
				enqueue(t, q, "other", payload, executor.Score(7))
				if payload == "3 settled" {
					start(t, x)
					time.Sleep(1000 * time.Hour)
				}
				stop(t, x)
				return p
			}
			bubble(t, func(t *testing.T) { life(t, 9*time.Hour+time.Millisecond, "1 placed", options...) })
			bubble(t, func(t *testing.T) { life(t, 5*time.Hour, "2 cancelled") })
			bubble(t, func(t *testing.T) {
				p := life(t, 7*time.Hour, "3 settled")
				synctest.Wait()
				require.Equal(t, []string{"1 placed", "2 cancelled", "3 settled"}, p.of("order"))
				require.Equal(t, []string{"1 placed", "2 cancelled", "3 settled"}, p.of("other"))
			})
		})
	}
}

// The clock is set back while payloads are accepted. What is accepted then is due
// at once all the same, and the journal keeps the order.
func TestScoreWhenTheClockIsSetBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var wall skewed
		disk := new(journal.Memory)
		x := openOn(t, disk, executor.Config{})
		x.SetClock(wall.now)
		q := handle(t, x, "q", (&probe{}).handle, executor.QueueConfig[string]{})
		time.Sleep(time.Millisecond)
		enqueue(t, q, "a", "1")
		wall.set(-time.Hour)
		enqueue(t, q, "a", "2")
		_, err := q.EnqueueMany(t.Context(), []executor.Item[string]{{ID: "a", Payload: "3"}, {ID: "a", Payload: "4"}})
		require.NoError(t, err)
		_, err = enqueueRaw(t.Context(), x, "q", "a", []byte(`"5"`), executor.IdempotencyKey("k"))
		require.NoError(t, err)
		enqueue(t, q, "a", "0", executor.Score(1))
		stop(t, x)

		x = openOn(t, disk, executor.Config{})
		x.SetClock(wall.now)
		p := &probe{}
		q = handle(t, x, "q", p.handle, executor.QueueConfig[string]{})
		enqueue(t, q, "a", "6")
		enqueue(t, q, "b", "1")
		start(t, x)
		time.Sleep(time.Second)
		require.Equal(t, []string{"0", "1", "2", "3", "4", "5", "6"}, p.of("a"))
		require.Equal(t, []string{"1"}, p.of("b"))
		stop(t, x)
	})
}

// A score that a caller has given is no time, even if it is far above all times: it
// moves nothing for those without one.
func TestScoreOfACallerMovesNoOther(t *testing.T) {
	for _, given := range []float64{4e9, 1<<53 - 1, 1.7e12, 946684800123.25, 1e300, -5.5, 0.5} {
		bubble(t, func(t *testing.T) {
			disk := new(journal.Memory)
			x := openOn(t, disk, executor.Config{})
			q := handle(t, x, "q", (&probe{}).handle, executor.QueueConfig[string]{})
			enqueue(t, q, "a", "given", executor.Score(given))
			stop(t, x)
			x = openOn(t, disk, executor.Config{})
			var got []executor.Payload[string]
			q = handle(t, x, "q", func(_ context.Context, job executor.Merged[string]) error {
				got = job.Payloads
				return nil
			}, executor.QueueConfig[string]{})
			enqueue(t, q, "a", "fresh")
			start(t, x)
			synctest.Wait()
			require.Len(t, got, 2)
			for _, p := range got {
				want := map[string]float64{"given": given, "fresh": journal.ScoreOf(time.Now().UnixNano())}[p.Value]
				require.Equal(t, want, p.Score, p.Value)
			}
			stop(t, x)
		})
	}
}

// skewed is a wall clock that may be set, and ticks in nanoseconds.
type skewed struct{ skew, ticks atomic.Int64 }

func (c *skewed) now() time.Time {
	return time.Now().Add(time.Duration(c.skew.Load() + c.ticks.Add(1)))
}

func (c *skewed) set(by time.Duration) { c.skew.Store(int64(by)) }

// Several callers at a time, each with an id of its own and one that all share, while
// the clock is set, calls are overtaken on their way and processes die. Of each id, what
// came without a score keeps its order, and what came with one keeps that.
func TestScoreUnderAnyClock(t *testing.T) {
	rounds := sampled(40)
	if long() {
		rounds = 4000
	}
	for seed := range rounds {
		bubble(t, func(t *testing.T) {
			s := scored{t: t, r: rand.New(rand.NewPCG(uint64(seed), 1)), disk: new(journal.Memory), accepted: make(map[string]float64)}
			s.wall.set(time.Millisecond) // a clock is hardly ever at a whole second
			for range 6 {
				s.life(s.r.IntN(3) == 0)
			}
			s.life(true)
			for id, n := range s.next {
				require.Len(t, s.ran[id], n, "seed %d, id %d", seed, id)
			}
			require.Zero(t, s.common, "seed %d", seed)
		})
	}
}

// scored are callers of a queue through several lives.
type scored struct {
	t    *testing.T
	r    *rand.Rand
	disk *journal.Memory
	wall skewed

	next     [3]int // the next payload of each id
	mu       sync.Mutex
	accepted map[string]float64 // scores that were given, by payload
	ran      [3][]string
	common   int // payloads of the id that all share
}

// life accepts some payloads and, if it runs, runs all there are.
func (s *scored) life(runs bool) {
	x := openOn(s.t, s.disk, executor.Config{})
	x.SetClock(s.wall.now)
	q := handle(s.t, x, "q", s.handle, executor.QueueConfig[string]{Middleware: []executor.Middleware{{Enqueue: overtaken}}})
	var callers sync.WaitGroup
	for id := range s.next {
		seed := s.r.Uint64()
		callers.Go(func() {
			r := rand.New(rand.NewPCG(seed, 2))
			for range r.IntN(6) {
				if r.IntN(4) == 0 {
					s.wall.set(time.Duration(r.Int64N(int64(20*time.Hour))) - 10*time.Hour)
				}
				s.call(r, q, id)
				time.Sleep(time.Duration(r.IntN(1e9)))
			}
		})
	}
	callers.Wait()
	if runs {
		start(s.t, x)
		time.Sleep(100 * time.Hour)
		synctest.Wait()
		require.Zero(s.t, stats(s.t, q).Jobs)
	}
	image := s.disk.Crash()
	stop(s.t, x)
	s.disk = image
}

// overtaken holds some calls between their time and their place in the journal.
func overtaken(ctx context.Context, c *executor.EnqueueCall, next func(context.Context) error) error {
	if c.Items[0].ID == "common" {
		time.Sleep(time.Duration(len(c.Items[0].Payload)%3) * 300 * time.Millisecond)
	}
	return next(ctx)
}

func (s *scored) call(r *rand.Rand, q *executor.Queue[string], id int) {
	s.next[id]++
	payload := fmt.Sprintf("%04d", s.next[id])
	var options []executor.Option
	switch r.IntN(4) {
	case 0:
		options = append(options, executor.In(time.Duration(r.Int64N(int64(time.Hour)))))
	case 1:
		options = append(options, executor.At(time.Now().Add(-time.Duration(r.Int64N(int64(time.Hour))))))
	}
	if r.IntN(4) == 0 {
		given := []float64{float64(r.IntN(10)), r.NormFloat64(), float64(r.Int64()), float64(time.Now().UnixMilli())}[r.IntN(4)]
		s.mu.Lock()
		s.accepted[fmt.Sprint(id, payload)] = given
		s.mu.Unlock()
		options = append(options, executor.Score(given))
	}
	enqueue(s.t, q, fmt.Sprint(id), payload, options...)
	if r.IntN(2) == 0 {
		enqueue(s.t, q, "common", fmt.Sprint("x", id, payload)[:2+r.IntN(4)]+fmt.Sprint(r.Uint64()))
		s.mu.Lock()
		s.common++
		s.mu.Unlock()
	}
}

func (s *scored) handle(_ context.Context, job executor.Merged[string]) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var plain []string
	if job.ID == "common" {
		s.common -= len(job.Payloads)
		assert.True(s.t, slices.IsSortedFunc(job.Payloads, func(a, b executor.Payload[string]) int { return cmp.Compare(a.Position, b.Position) }))
		return nil
	}
	for i, p := range job.Payloads {
		if given, found := s.accepted[job.ID+p.Value]; found {
			assert.Equal(s.t, given, p.Score)
		} else {
			plain = append(plain, p.Value)
		}
		assert.True(s.t, i == 0 || p.Score >= job.Payloads[i-1].Score)
		s.ran[job.ID[0]-'0'] = append(s.ran[job.ID[0]-'0'], p.Value)
	}
	assert.True(s.t, slices.IsSorted(plain), "%s: %v", job.ID, plain)
	return nil
}
