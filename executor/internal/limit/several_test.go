package limit

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor/internal/admit"
)

// lasting has a job come, wait, run for as long as takes says and end; then is called with how long it has waited.
func (s *simulation) lasting(id string, needs []Need, takes func() int64, then func(waited int64)) {
	owner, came := admit.Owner{Queue: "q", ID: id}, s.now
	var come func()
	wake := func() { s.after(s.r.Int64N(ms), come) }
	come = func() {
		if g := s.table.Enter(s.now, owner, needs, wake); g != nil {
			waited := s.now - came
			s.after(takes(), func() {
				s.table.Release(s.now, g)
				then(waited)
			})
		}
	}
	come()
}

// A job that needs several keys has its turn, although later jobs of its queue keep each of them busy: after a few of each,
// and then no place is kept any more.
func TestAJobOfSeveralBusyKeys(t *testing.T) {
	for name, of := range map[string][]Config{
		"two permits": {{Concurrent: 1}}, "six permits": {{Concurrent: 3}}, "rates": {{Rate: 20}, {Rate: 7}},
		"both": {{Rate: 20, Concurrent: 1}}, "either": {{Concurrent: 1}, {Rate: 20}, {Rate: 3, Burst: 5}},
	} {
		for _, keys := range []int{2, 3, 10} {
			for seed := range uint64(1) {
				s := &simulation{t: t, r: rand.New(rand.NewPCG(seed, 5)), table: NewTable()}
				started, all, most, shown := make([]int, keys), []Need(nil), 0, ""
				takes := func() int64 { return (25 + s.r.Int64N(50)) * ms }
				var look func()
				look = func() {
					if k := all[0].Limit.Key(s.now, "k"); k.Kept > 0 {
						shown = k.String()
					}
					s.after(ms, look)
				}
				for k := range keys {
					c, err := of[k%len(of)].WithDefaults()
					require.NoError(t, err)
					all = append(all, Need{s.table.NewLimit(0, fmt.Sprint(k), c), "k"})
					for i := range c.Concurrent + 3 {
						n := 0
						var again func(int64)
						again = func(int64) {
							n++
							started[k]++
							s.lasting(fmt.Sprint(k, " ", i, " ", n), all[k:k+1:k+1], takes, again)
						}
						again(0)
					}
				}
				s.after(1010*ms, func() {
					look()
					clear(started)
					s.lasting("all", all, takes, func(int64) { most = slices.Max(started) })
				})
				s.run(int64(20 * time.Second))
				require.NotZero(t, most, "%s, %d keys, seed %d", name, keys, seed)
				require.Less(t, most, 40, "%s, %d keys, seed %d", name, keys, seed)
				if name == "two permits" {
					require.Contains(t, shown, ", 1 kept for jobs that wait for other keys, too")
				}
				for _, n := range all {
					require.Empty(t, n.Limit.key(n.Key).kept)
				}
			}
		}
	}
}

// patient is a job of several keys, of limits with one permit each, whose turn has come mostTurns times in vain: later jobs
// leave it a place in each. The first of the keys is free now, so it is called once more.
type patient struct {
	*rig
	owner admit.Owner
	needs []Need
	now   int64
}

// crowded makes one whose turn comes each minute. The last need may be of a limit that holds nobody up.
func crowded(t *testing.T, others ...Config) *patient {
	r := newRig(t, Config{Concurrent: 1})
	c := &patient{rig: r, owner: admit.Owner{Queue: "q", ID: "w"}, needs: []Need{{r.limit, "x"}, {r.limit, "y"}}}
	for i, of := range others {
		of, err := of.WithDefaults()
		require.NoError(t, err)
		c.needs = append(c.needs, Need{r.table.NewLimit(0, fmt.Sprint("other", i), of), "k"})
	}
	held := map[string]string{"x": "x0", "y": "y0"}
	require.True(t, r.enter(0, "q", "x0", "x"))
	require.True(t, r.enter(0, "q", "y0", "y"))
	c.ask()
	for i := range mostTurns {
		key := []string{"x", "y"}[i%2]
		c.now += int64(time.Minute)
		r.release(c.now, held[key])
		c.ask() // in vain: the other is taken
		if held[key] = fmt.Sprint(key, i+1); i < mostTurns-1 {
			require.True(t, r.enter(c.now, "q", held[key], key))
		}
	}
	return c
}

// ask has it come, in vain.
func (c *patient) ask() {
	require.Nil(c.t, c.table.Enter(c.now, c.owner, c.needs, func() {}))
	c.drain()
}

// keeps reports whether a key of the rig's limit is kept from later jobs, which it has a permit for.
func (c *patient) keeps(key string) bool { return c.limit.Key(c.now, key).Kept > 0 }

// A job that is called for one of its keys and does not come gives up its places in the others when its number is forgotten.
func TestAPlaceIsForgottenWithItsNumber(t *testing.T) {
	c := crowded(t)
	require.True(t, c.keeps("x") && c.keeps("y"))
	c.release(c.now, "x7") // its turn; all workers are busy
	for end := c.now + int64(3*time.Minute); c.next() < end; {
		c.now = c.next()
		c.expire(c.now)
	}
	require.Empty(t, c.table.waiters)
	require.False(t, c.keeps("x") || c.keeps("y"))
	require.True(t, c.enter(c.now, "q", "later", "y"))
}

// A job that a paused key holds up keeps no places: it can't have them before the pause is over.
func TestNoPlaceDuringAPause(t *testing.T) {
	c := crowded(t, Config{})
	require.True(t, c.keeps("y"))
	c.needs[2].Limit.Pause(c.now, "k", c.now+int64(time.Hour))
	c.release(c.now, "x7")
	c.ask()
	require.False(t, c.keeps("x") || c.keeps("y"))
	require.True(t, c.enter(c.now+1, "q", "later", "y"))
}

// A queue that is paused hears which of its jobs have places, and gives these to others.
func TestPlacesOfAPausedQueue(t *testing.T) {
	c := crowded(t)
	require.Empty(t, c.table.keeping("other"))
	require.Equal(t, []string{"w"}, c.table.keeping("q"))
	c.table.Aside(c.now, c.owner, true)
	require.True(t, c.enter(c.now, "q", "later", "y"))
}

// While a job of several keys waits for a permit of another limit, a key with both a rate and permits starts others: only
// one of its permits is kept.
func TestAPlaceInARateWithPermits(t *testing.T) {
	c := crowded(t, Config{Rate: 20, Concurrent: 2})
	require.True(t, c.keeps("y"))
	other := c.needs[2].Limit
	require.Equal(t, 1, other.Key(c.now, "k").Kept)
	start := func(id string) *Grant {
		return c.table.Enter(c.now, admit.Owner{Queue: "q", ID: id}, c.needs[2:], func() {})
	}
	for i := range 10 {
		g := start(fmt.Sprint("one ", i))
		require.NotNil(t, g, "start %d", i)
		require.Nil(t, start("two"), "the other permit is kept")
		c.table.Aside(c.now, admit.Owner{Queue: "q", ID: "two"}, true)
		c.table.Release(c.now, g)
		c.now += int64(100 * time.Millisecond)
	}
}
