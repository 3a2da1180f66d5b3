package shard

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal"
)

// What comes first of an id that waits for something else than its time is asked what it needs, whether it arrives
// while the id waits, while a worker finds out that it has to, or from the morgue. What comes later is not.
func TestWhatComesFirstIsAskedAtOnce(t *testing.T) {
	entry := func(score float64) journal.Entry {
		return journal.Entry{ID: []byte("a"), Score: score, Payload: []byte("p")}
	}
	for name, c := range map[string]struct {
		score            float64
		behind, restored bool
		want             float64
	}{
		"first":               {score: 1, want: 1},
		"first, meanwhile":    {score: 1, behind: true, want: 1},
		"later":               {score: 20},
		"later, meanwhile":    {score: 20, behind: true},
		"comes back":          {score: 1, restored: true, want: 1},
		"comes back as later": {score: 20, restored: true},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, Config{Single: true, Merge: MergeKeepAll, MaxPayloads: 1}, 1)
			t.Cleanup(func() { g.close() })
			core := g.cores[0]
			var dead journal.Position
			if c.restored {
				dead = g.put(entry(c.score))[0].ref.Position()
				g.run(0, Outcome{Verdict: VerdictCanceled, Error: "e"})
			}
			g.put(entry(10))
			r := g.begin(0)
			if c.behind {
				g.put(entry(c.score))
			}
			core.Postpone(&r.Items[0], true)
			core.Finish(0, r)
			core.Record(g)
			switch {
			case c.restored:
				g.restore(dead, 0)
			case !c.behind:
				g.put(entry(c.score))
			}
			g.check()
			if c.want == 0 {
				require.False(t, core.Take(0, core.NewRun()))
				require.True(t, core.Holds("a", HoldWait))
				return
			}
			r = g.begin(0)
			require.Equal(t, c.want, r.Items[0].Payloads[0].Score)
			g.finish(0, r, Outcome{Verdict: VerdictDone})
			r = g.begin(0)
			require.Equal(t, 10.0, r.Items[0].Payloads[0].Score, "it asks again")
			g.finish(0, r, Outcome{Verdict: VerdictDone})
			g.check()
		})
	}
}

// A payload that has failed, and that the others of its id wait behind, stays the next.
func TestWhatComesFirstWaitsBehindAFailure(t *testing.T) {
	g := newRig(t, Config{Single: true, Merge: MergeKeepAll, MaxPayloads: 1, MaxRetries: 3}, 1)
	t.Cleanup(func() { g.close() })
	g.put(journal.Entry{ID: []byte("a"), Score: 10})
	g.run(0, Outcome{Verdict: VerdictFailed, Error: "e"})
	r := g.begin(0)
	g.put(journal.Entry{ID: []byte("a"), Score: 1})
	g.cores[0].Postpone(&r.Items[0], true)
	g.cores[0].Finish(0, r)
	g.cores[0].Record(g)
	g.put(journal.Entry{ID: []byte("a"), Score: 2})
	require.True(t, g.cores[0].Holds("a", HoldWait))
	g.check()
}
