package shard

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal"
)

// Whatever comes, comes back, comes late and goes, in whatever order, the ages know the
// oldest as one that keeps them all, to a second; and they keep few of them.
func TestAgesAreLikeTheirModel(t *testing.T) {
	for seed := range uint64(200 / oneIn) {
		r := rand.New(rand.NewPCG(seed, 24))
		var a ages
		live, now, next := map[journal.Position]int64{}, int64(1e18), journal.Position(1)
		var list []journal.Position
		come := func(p journal.Position, e journal.Entry) {
			a.came(&e, p)
			list = append(list, p)
			if live[p] = e.AcceptedAt(); e.Restored {
				live[p] = e.Due
			}
		}
		for range 2000 {
			now += r.Int64N(int64(2 * time.Second))
			switch n := r.IntN(20); {
			case n == 0 && len(live) > 0:
				p := list[r.IntN(len(list))]
				if _, lives := live[p]; !lives {
					come(p, journal.Entry{Restored: true, Due: now, Accepted: now - int64(time.Hour)})
				}
			case n == 1:
				next += 2
				come(next, journal.Entry{Due: now})
				come(next-1, journal.Entry{Due: now - int64(time.Minute)})
			case n == 2 && next > 1:
				p, q := list[r.IntN(len(list))], list[len(list)-1]
				_, older := live[p]
				if _, newer := live[q]; older && newer && p != q {
					a.inherit(q, p)
					a.went(p)
					live[q] = min(live[q], live[p])
					delete(live, p)
				}
			case n < 10:
				next++
				come(next, journal.Entry{Due: now + int64(time.Hour), Accepted: now})
			default:
				for p := range live {
					a.went(p)
					delete(live, p)
					break
				}
			}
			oldest := int64(0)
			for _, at := range live {
				if oldest == 0 || at < oldest {
					oldest = at
				}
			}
			if off := oldest - a.oldest(); off < 0 || off >= int64(time.Second) { // testify takes longer than all else here
				require.FailNow(t, "not like the model", "seed %d: off by %v", seed, time.Duration(off))
			}
			if len(a.spans) > 2*len(live)+66 || len(a.others) > len(live) || len(a.times) > len(a.others) {
				require.FailNow(t, "too much is kept", "seed %d, live %d: %d spans, %d others, %d times", seed, len(live), len(a.spans), len(a.others), len(a.times))
			}
		}
	}
}

// Ten million that live, and end in any order: the oldest of them is known to a second at each
// moment, from some tens of spans.
func TestAgesOfTenMillion(t *testing.T) {
	n := 10_000_000 / oneIn
	var a ages
	for i := range n {
		a.came(&journal.Entry{Due: int64(1e18) + int64(i)*int64(time.Millisecond)}, journal.Position(i+1))
	}
	order := rand.New(rand.NewPCG(7, 24)).Perm(n)
	gone, oldest := make([]bool, n), 0
	for i, k := range order[:n-1] {
		a.went(journal.Position(k + 1))
		for gone[k] = true; gone[oldest]; oldest++ {
		}
		if i%1000 == 0 || i > n-1000 {
			require.InDelta(t, int64(1e18)+int64(oldest)*int64(time.Millisecond), a.oldest(), float64(time.Second))
		}
	}
	require.LessOrEqual(t, len(a.spans), 66)
}

// Payloads that are accepted and end one after the other leave nothing behind, and cost a
// few nanoseconds.
func BenchmarkAges(b *testing.B) {
	var a ages
	e := journal.Entry{Due: 1}
	p := journal.Position(0)
	for b.Loop() {
		p++
		e.Due += 1000
		a.came(&e, p)
		a.went(p)
	}
	require.LessOrEqual(b, len(a.spans), 66)
}
