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
