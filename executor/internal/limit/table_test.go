package limit

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/admit"
)

const ms = int64(time.Millisecond)

// rig is a table with one limit, and jobs that note when they are called.
type rig struct {
	t      *testing.T
	table  *Table
	limit  *Limit
	called []string
	grants map[string]*Grant
}

func newRig(t *testing.T, c Config) *rig {
	c, err := c.WithDefaults()
	require.NoError(t, err)
	r := &rig{t: t, table: NewTable(), grants: map[string]*Grant{}}
	r.limit = r.table.NewLimit(0, "l", c)
	return r
}

// enter has a job come, named as queue and id, for one key.
func (r *rig) enter(now int64, queue, id, key string) bool {
	g := r.table.Enter(now, admit.Owner{Queue: queue, ID: id}, []Need{{r.limit, key}}, func() { r.called = append(r.called, id) })
	if g != nil {
		r.grants[id] = g
	}
	r.drain()
	return g != nil
}

func (r *rig) release(now int64, id string) {
	r.table.Release(now, r.grants[id])
	r.drain()
}

func (r *rig) expire(now int64) {
	r.table.Expire(now)
	r.drain()
}

func (r *rig) drain() {
	for _, wake := range r.table.Drain() {
		wake()
	}
}

func (r *rig) next() int64 {
	at, ok := r.table.Next()
	if !ok {
		return never
	}
	return at
}

// Jobs of one queue are called in the order in which they came, and one that comes
// between does not get ahead of a job that was called.
func TestTheLine(t *testing.T) {
	r := newRig(t, Config{Concurrent: 1})
	require.True(t, r.enter(0, "q", "a", "k"))
	for _, id := range []string{"b", "c", "d"} {
		require.False(t, r.enter(1, "q", id, "k"))
	}
	r.release(2, "a")
	require.Equal(t, []string{"b"}, r.called)
	assert.False(t, r.enter(3, "q", "e", "k"), "the turn is b's")
	assert.True(t, r.enter(4, "q", "b", "k"))
	r.release(5, "b")
	r.table.Aside(6, admit.Owner{Queue: "q", ID: "c"}, true)
	r.drain()
	assert.Equal(t, []string{"b", "c", "d"}, r.called, "c was deleted")
	assert.True(t, r.enter(7, "q", "d", "k"))
	r.release(8, "d")
	assert.Equal(t, []string{"b", "c", "d", "e"}, r.called)
}

// Queues that wait for one key take turns, whichever came first and with how many.
func TestQueuesTakeTurns(t *testing.T) {
	r := newRig(t, Config{Concurrent: 1})
	require.True(t, r.enter(0, "flood", "first", "k"))
	for i := range 100 {
		r.enter(0, "flood", fmt.Sprint("flood ", i), "k")
	}
	for i := range 3 {
		r.enter(0, "calm", fmt.Sprint("calm ", i), "k")
	}
	r.release(1, "first")
	for i := range 6 {
		id := r.called[i]
		require.True(t, r.enter(1, id[:len(id)-2], id, "k"), id)
		r.release(1, id)
	}
	assert.Equal(t, []string{"flood 0", "calm 0", "flood 1", "calm 1", "flood 2", "calm 2"}, r.called[:6])
}

// The turn of a job that does not come goes to the next one after a while, and the
// job keeps its number.
func TestATurnIsKeptForAWhile(t *testing.T) {
	r := newRig(t, Config{Concurrent: 1})
	require.True(t, r.enter(0, "q", "a", "k"))
	for _, id := range []string{"b", "c", "d"} {
		r.enter(0, "q", id, "k")
	}
	r.release(0, "a")
	require.Equal(t, patience, r.next())
	r.expire(patience)
	require.Equal(t, []string{"b", "c"}, r.called)
	r.expire(3 * patience)
	require.Equal(t, []string{"b", "c", "d"}, r.called, "the second turn is longer")
	assert.True(t, r.enter(3*patience, "q", "b", "k"), "it came before")
	assert.False(t, r.enter(3*patience, "q", "d", "k"))
	assert.False(t, r.enter(3*patience, "q", "c", "k"))
	r.release(3*patience, "b")
	assert.Equal(t, []string{"b", "c", "d", "c"}, r.called, "in their old order")
}

// All or nothing: a job that can't have one of its keys has none.
func TestNothingIsHeldWhileAJobWaits(t *testing.T) {
	r := newRig(t, Config{Concurrent: 1})
	other := r.table.NewLimit(0, "other", Config{Rate: 1, Per: time.Second, Burst: 1})
	both := []Need{{other, ""}, {r.limit, "k"}}
	x := admit.Owner{Queue: "q", ID: "x"}
	woken := 0
	wake := func() { woken++ }
	require.True(t, r.enter(0, "q", "a", "k"))
	require.Nil(t, r.table.Enter(0, x, both, wake))
	assert.Zero(t, other.Stats().InUse, "no token was taken")
	y := r.table.Enter(0, admit.Owner{Queue: "q", ID: "y"}, both[:1], nil)
	require.NotNil(t, y)
	r.release(1, "a")
	require.Equal(t, 1, woken)
	require.Nil(t, r.table.Enter(1, x, both, wake), "the token is gone")
	require.True(t, r.enter(1, "q", "b", "k"), "and the permit is free")
	r.release(2, "b")
	r.table.Release(2, y)
	r.expire(r.next())
	require.Equal(t, 2, woken)
	require.NotNil(t, r.table.Enter(int64(time.Second), x, both, wake))
}

// What was told to wait waits, and only that.
func TestPauseOfAKey(t *testing.T) {
	r := newRig(t, Config{})
	require.True(t, r.enter(0, "q", "a", "k"))
	r.enter(0, "q", "other", "other")
	r.table.Throttle(0, r.grants["a"], nil, 500*ms)
	r.table.Throttle(0, r.grants["a"], nil, 200*ms) // a shorter pause ends no longer one
	r.release(0, "a")
	require.False(t, r.enter(1, "q", "b", "k"))
	require.False(t, r.enter(1, "q", "a", "k"))
	require.True(t, r.enter(1, "q", "c", "other"))
	require.Equal(t, 500*ms, r.next())
	r.table.Throttle(2, r.grants["other"], r.limit, 100*ms)
	r.expire(499 * ms)
	require.Empty(t, r.called)
	r.expire(500 * ms)
	require.Equal(t, []string{"a", "b"}, r.called, "a came first")
	r.limit.Pause(500*ms, "k", 900*ms)
	require.False(t, r.enter(500*ms, "q", "a", "k"))
	r.limit.Pause(501*ms, "k", 0)
	r.drain()
	require.True(t, r.enter(501*ms, "q", "a", "k"))
}

// A limit can be changed while jobs wait, up and down, for all keys.
func TestSet(t *testing.T) {
	r := newRig(t, Config{Rate: 1, Per: time.Hour})
	require.True(t, r.enter(0, "q", "a", "k"))
	require.False(t, r.enter(0, "q", "b", "k"))
	require.GreaterOrEqual(t, r.next(), int64(time.Hour))
	c, _ := Config{Rate: 10}.WithDefaults()
	r.limit.Set(1, c)
	require.Less(t, r.next(), 2*100*ms, "an hour was the old law")
	r.expire(110 * ms)
	require.Equal(t, []string{"b"}, r.called)
	r.limit.Set(110*ms, Config{Concurrent: 1})
	require.False(t, r.enter(110*ms, "q", "b", "k"), "a runs")
	two, _ := Config{Concurrent: 2}.WithDefaults()
	r.limit.Set(111*ms, two)
	r.drain()
	require.Equal(t, []string{"b", "b"}, r.called)
	require.True(t, r.enter(111*ms, "q", "b", "k"))
	require.Equal(t, two, Config(r.limit.Key(0, "k").Config))
	r.limit.Set(112*ms, Config{Concurrent: 1})
	require.False(t, r.enter(112*ms, "q", "c", "k"))
	r.release(113*ms, "a")
	require.False(t, r.enter(113*ms, "q", "c", "k"))
	r.limit.Set(114*ms, Config{})
	r.drain()
	require.True(t, r.enter(114*ms, "q", "c", "k"))
}

// A new limit has no burst: the process before may have used it. What is not used
// is saved up, and forgotten keys have all of it.
func TestBurst(t *testing.T) {
	burst := func(r *rig, now int64) (n int) {
		for n < 100 && r.enter(now, "q", fmt.Sprint(now, " ", n), "k") {
			n++
		}
		return n
	}
	r := newRig(t, Config{Rate: 10, Burst: 5})
	assert.Equal(t, 1, burst(r, 0))
	r = newRig(t, Config{Rate: 10, Burst: 5})
	assert.Equal(t, 3, burst(r, 205*ms))
	r = newRig(t, Config{Rate: 10, Burst: 5})
	assert.Equal(t, 5, burst(r, 1e6*ms))
}

func TestConfigsThatMakeNoSense(t *testing.T) {
	for _, c := range []Config{
		{Concurrent: -1}, {Rate: -1}, {Rate: 1, Burst: -1}, {Rate: 1, Per: -1}, {Per: time.Second}, {Burst: 3},
		{Rate: math.MaxInt}, {Concurrent: math.MaxInt}, {Rate: 1, Burst: math.MaxInt}, {Rate: 1, Per: math.MaxInt64},
		{Rate: 2_000_000}, {Rate: 1, Per: time.Nanosecond}, {Rate: 1, Per: maxPer, Burst: 11},
	} {
		_, err := c.WithDefaults()
		assert.Error(t, err, "%+v", c)
	}
	for _, c := range []Config{{}, {Rate: 1_000_000}, {Rate: 1, Per: maxPer, Burst: 10}, {Rate: maxRate, Per: maxPer, Burst: maxBurst}} {
		c, err := c.WithDefaults()
		assert.NoError(t, err)
		assert.GreaterOrEqual(t, newLaw(c, false).ahead, int64(0))
	}
}

// Random jobs with random needs: no key has more than it may, no job that could run
// is forgotten, and in the end nothing is left.
func TestRandomOperations(t *testing.T) {
	seeds := uint64(10)
	if os.Getenv("STRAND_LONG") != "" {
		seeds = 2000
	}
	for seed := range seeds {
		random(t, rand.New(rand.NewPCG(seed, 1)))
	}
}

func random(t *testing.T, r *rand.Rand) {
	s := &simulation{t: t, r: r, table: NewTable()}
	var limits []*Limit
	running := map[Need]int{}
	for i := range 1 + r.IntN(3) {
		c := Config{Concurrent: r.IntN(4)}
		if r.IntN(2) == 0 {
			c.Rate, c.Per, c.Burst = 1+r.IntN(20), time.Duration(1+r.IntN(100))*time.Millisecond, r.IntN(3)
		}
		c, err := c.WithDefaults()
		require.NoError(t, err)
		limits = append(limits, s.table.NewLimit(0, fmt.Sprint(i), c))
	}
	jobs, done, gone := 200, 0, 0
	for i := range jobs {
		owner := admit.Owner{Queue: fmt.Sprint(r.IntN(3)), ID: fmt.Sprint(i)}
		var needs []Need
		for _, l := range limits {
			for k := range r.IntN(3) {
				needs = append(needs, Need{l, fmt.Sprint(k)})
			}
		}
		left := 1 + r.IntN(3)
		var come func()
		wake := func() { s.after(r.Int64N(30*ms), come) }
		come = func() {
			if left < 0 {
				return // deleted
			}
			if r.IntN(20) == 0 { // it waits for something else
				s.table.Aside(s.now, owner, false)
				s.after(r.Int64N(100*ms), come)
				return
			}
			g := s.table.Enter(s.now, owner, needs, wake)
			if g == nil {
				if r.IntN(50) == 0 {
					left, gone = -1, gone+1
					s.table.Aside(s.now, owner, true)
				}
				return
			}
			for _, n := range needs {
				running[n]++
				c := n.Limit.Key(s.now, n.Key).Config
				require.False(t, c.Concurrent > 0 && running[n] > c.Concurrent, "%+v", n)
			}
			s.after(r.Int64N(20*ms), func() {
				if r.IntN(10) == 0 {
					s.table.Throttle(s.now, g, nil, s.now+r.Int64N(50*ms))
				}
				for _, n := range needs {
					running[n]--
				}
				s.table.Release(s.now, g)
				if left--; left > 0 {
					come()
				} else {
					done++
					s.table.Aside(s.now, owner, true)
				}
			})
		}
		s.after(r.Int64N(int64(time.Second)), come)
	}
	s.run(int64(time.Hour))
	require.Equal(t, jobs, done+gone, "all came to their end")
	require.Empty(t, s.table.waiters)
	require.Empty(t, s.table.asides)
	require.Empty(t, s.table.agenda)
	for _, l := range limits {
		require.Equal(t, inspect.LimitStats{Limit: l.name, Config: inspect.LimitSetting(l.Config())}, l.Stats())
	}
}

func BenchmarkEnterAndRelease(b *testing.B) {
	table := NewTable()
	c, _ := Config{Concurrent: 4, Rate: 1_000_000}.WithDefaults()
	l := table.NewLimit(0, "l", c)
	names := make([]string, 1000)
	for i := range names {
		names[i] = fmt.Sprint(i)
	}
	now := int64(0)
	for i := 0; b.Loop(); i++ {
		now += 2000
		g := table.Enter(now, admit.Owner{Queue: "q", ID: "id"}, []Need{{l, names[i%1000]}}, nil)
		table.Release(now, g)
		table.Expire(now)
	}
}
