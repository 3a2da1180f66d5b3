package shard

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal"
)

// checkScan holds a walk over all jobs, in steps of any size, against the lanes.
func (c *Core) checkScan(t tester, now int64) {
	t.Helper()
	seen := make(map[string]View)
	for last, more := Cursor(0), true; more; {
		last, more = c.Scan(last, 1+len(seen)%3, now, func(v *View) {
			c.Identify(v)
			require.NotContains(t, seen, v.ID, "seen twice")
			seen[v.ID] = *v
		})
	}
	require.Len(t, seen, c.lanes.len())
	before, backwards := Cursor(math.MaxUint32), 0
	for last, more := Cursor(0), true; more; {
		last, more = c.ScanBack(last, 1+backwards%3, now, func(v *View) {
			require.Less(t, v.Cursor, before)
			before = v.Cursor
			backwards++
			c.Identify(v)
			require.Equal(t, seen[v.ID], *v)
		})
	}
	require.Len(t, seen, backwards)
	var got Counts
	for id, v := range seen {
		l := c.lanes.find([]byte(id))
		require.NotNil(t, l, id)
		lv, _ := c.view(id)
		require.Equal(t, len(lv.out)+len(lv.held)+len(lv.waiting), v.Payloads, id)
		parked := c.held[id] != 0
		require.Equal(t, parked && l.item() == nil && !l.halted, v.Parked && !v.Running && !v.Halted, "%s: %+v", id, v)
		require.Equal(t, l.halted, v.Halted, id)
		require.Equal(t, !v.Running && !v.Halted && !v.Parked, l.standing != absent, id)
		require.Equal(t, l.due > now, v.Delayed, id)
		got.Running += count(v.Running)
		got.Retrying += count(v.Retry >= 0)
		got.Payloads += v.Payloads
		require.Equal(t, id, string(must(v.First.ID())), "the entry that the id stands beside")
		again := View{}
		require.True(t, c.Look(v.Cursor, now, &again))
		again.ID = v.ID
		require.Equal(t, v, again)
	}
	require.Equal(t, Counts{Running: c.counts.Running, Retrying: c.counts.Retrying, Payloads: c.counts.Payloads}, got)
}

// What is there the whole time is seen once, while others come and go, slabs are
// given back, and the table of ids splits and joins.
func TestScanSurvivesChanges(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 14))
		g := newRig(t, Config{Concurrency: 4, BatchSize: 8}, 1)
		c := g.cores[0]
		scan := c.Scan
		if seed%2 == 1 {
			scan = c.ScanBack
		}
		stay := make(map[string]int)
		var batch []journal.Entry
		for i := range 700 {
			id := fmt.Sprintf("id-%d", i)
			due := int64(0)
			if i%5 == 0 { // what is due later is what stays
				stay[id], due = 0, 1000
			}
			batch = append(batch, journal.Entry{ID: []byte(id), Due: due})
		}
		g.put(batch...)
		examined := 0
		for last, more, step := Cursor(0), true, 0; more; step++ {
			n := 1 + r.IntN(40)
			before := examined
			last, more = scan(last, n, 0, func(v *View) {
				examined++
				c.Identify(v)
				if _, stays := stay[v.ID]; stays {
					stay[v.ID]++
				}
			})
			require.LessOrEqual(t, examined-before, n)
			for range r.IntN(4) { // others go
				run := c.NewRun()
				if !c.Take(0, run) {
					break
				}
				for _, it := range run.Next(nil, len(run.Items)) {
					it.Outcome.Verdict = VerdictDone
				}
				c.Finish(0, run)
				c.Record(g)
			}
			if r.IntN(3) == 0 { // and come
				g.put(journal.Entry{ID: fmt.Appendf(nil, "new-%d", step)})
			}
		}
		for id, n := range stay {
			require.Equal(t, 1, n, "seed %d: %s", seed, id)
		}
		g.close()
	}
}

// A job of many payloads is shown from its front, whatever order they came in and
// whichever of them are gone.
func TestDetail(t *testing.T) {
	r := rand.New(rand.NewPCG(14, 14))
	for _, merge := range []Merge{MergeKeepAll, MergeKeepLast} {
		g := newRig(t, Config{Merge: merge, MaxPayloads: 3}, 1)
		c := g.cores[0]
		for i := range 500 {
			g.put(journal.Entry{ID: []byte("id"), Score: float64(r.IntN(300)), Payload: fmt.Append(nil, i%200)})
			if i%20 != 0 {
				continue
			}
			n := 1 + r.IntN(30)
			d, ok := c.Detail("id", 0, n)
			require.True(t, ok)
			v, _ := c.view("id")
			require.Equal(t, v.waiting[:min(n, len(v.waiting))], d.Waiting)
			require.Equal(t, len(v.waiting), d.Payloads)
		}
		run := c.NewRun()
		require.True(t, c.Take(0, run))
		d, _ := c.Detail("id", 0, 5)
		v, _ := c.view("id")
		require.True(t, d.Running)
		require.Equal(t, v.out, d.InHand)
		require.Equal(t, v.waiting[:5], d.Waiting)
		_, ok := c.Detail("other", 0, 5)
		require.False(t, ok)
		require.Empty(t, must2(c.Detail("id", 0, 0)).Waiting)
		g.close()
	}
}

func must2(d Detail, _ bool) Detail { return d }
