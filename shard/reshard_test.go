package shard

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal"
)

// everyPair returns a walk over 1..n in which each number follows each number
// once: n² steps.
func everyPair(n int) (walk []int) {
	for i := 1; i <= n; i++ {
		walk = append(walk, i)
		for j := i + 1; j <= n; j++ {
			walk = append(walk, i, j)
		}
	}
	return append(walk, 1)
}

// Whatever the number of shards was and is, from 1 to 64, the events
// of an id are done in order, each once.
func TestEveryPairOfShardCounts(t *testing.T) {
	most := 64
	if oneIn > 1 {
		most = 24
	}
	walk := everyPair(most)
	require.Len(t, walk, most*most+1)
	seed := rand.Uint64()
	t.Log("seed", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	g := newRig(t, Config{Merge: MergeKeepAll, MaxRetries: 1 << 20, MaxPayloads: 3, Concurrency: 2}, walk[0])
	put, done, now := map[string]int{}, map[string]int{}, int64(0)
	enqueue := func() {
		id := fmt.Sprint("id ", r.IntN(40))
		put[id]++
		g.put(journal.Entry{ID: []byte(id), Payload: []byte{byte(put[id]), byte(put[id] >> 8)}, Due: now})
	}
	// work runs what a core has, and ends it somehow, or leaves it to the crash.
	work := func(c *Core, leave bool) bool {
		run := c.NewRun()
		if !c.Take(now, run) {
			return false
		}
		for i := range run.Items {
			it := &run.Items[i]
			require.True(t, it.start(i))
			for j, p := range it.Payloads {
				var e journal.Entry
				p.Ref.Read(&e)
				require.Equal(t, done[it.ID]+j+1, int(e.Payload[0])|int(e.Payload[1])<<8, "an event of %s", it.ID)
			}
			if it.Outcome.Verdict = []Verdict{VerdictDone, VerdictDone, VerdictFailed, VerdictSnoozed}[r.IntN(4)]; it.Outcome.Verdict == VerdictDone && !leave {
				done[it.ID] += len(it.Payloads)
			}
		}
		if !leave {
			c.Finish(now, run)
			c.Record(g)
		}
		return true
	}
	for _, shards := range walk[1:] {
		for range r.IntN(4) {
			enqueue()
		}
		for range 4 {
			c := g.core(fmt.Sprint("id ", r.IntN(40)))
			work(c, r.IntN(4) == 0)
		}
		g.flush()
		g.crash(shards)
		now++
	}
	for again := true; again; now++ {
		again = false
		for _, c := range g.cores {
			again = work(c, false) || again
		}
	}
	require.Equal(t, put, done)
	require.Len(t, put, 40)
	g.close()
}
