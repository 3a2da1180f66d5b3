package shard

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal"
)

// stagedRig notes what came with which ends.
type stagedRig struct {
	*rig
	ended  int
	staged []any
}

func (g *stagedRig) Record(c *Change) {
	g.ended, g.staged = g.ended+len(c.Ended), append(g.staged, c.Staged...)
	g.rig.Record(c)
}

// run takes one item with four payloads in hand.
func (g *stagedRig) run(cfg Config) (*Core, *Run, *Item) {
	c := g.cores[0]
	c.pace = 8
	for range 4 {
		g.put(journal.Entry{ID: []byte("a"), Due: 1})
	}
	r := c.NewRun()
	require.True(g.t, c.Take(1, r))
	items := r.Next(nil, 1)
	require.Len(g.t, items, 1)
	require.Len(g.t, items[0].Payloads, 4)
	return c, r, items[0]
}

// What is staged with a payload comes with its end as done, when the run is over or
// before, and not at all if it does not end so.
func TestStagedComesWithItsPayload(t *testing.T) {
	cfg := Config{Single: true}
	for _, v := range []Verdict{VerdictDone, VerdictFailed, VerdictSnoozed, VerdictCanceled, VerdictDiscarded, VerdictInterrupted} {
		g := &stagedRig{rig: newRig(t, cfg, 1)}
		c, r, it := g.run(cfg)
		it.Stage("first")
		it.Stage("first, too")
		require.True(t, it.Pass())
		require.True(t, it.Pass(), "the second has none")
		c.reclaim(1 + int64(Quantum)) // the run is taken apart
		c.Record(g)
		require.Equal(t, []any{"first", "first, too"}, g.staged, "what is done is settled, with what belongs to it")
		require.Equal(t, 2, g.ended)

		it.Stage("third")
		require.False(t, it.Pass(), "the shard wants the rest back")
		it.Outcome.Verdict = v
		r.Elapsed = time.Second
		c.Finish(2+int64(Quantum), r)
		c.Record(g)
		if v == VerdictDone {
			require.Equal(t, []any{"first", "first, too", "third"}, g.staged)
		} else {
			require.Equal(t, []any{"first", "first, too"}, g.staged, "verdict %d", v)
		}
		require.Nil(t, it.staged.Load(), "the item is used again")
	}
}

// Without Config.Single it comes with the end of all that the verdict is about.
func TestStagedComesWithTheJob(t *testing.T) {
	for _, v := range []Verdict{VerdictDone, VerdictFailed, VerdictUnstarted} {
		g := &stagedRig{rig: newRig(t, Config{}, 1)}
		c, r, it := g.run(Config{})
		it.Stage("it")
		it.Outcome.AddPart(Part{Index: 1, Verdict: VerdictCanceled, Error: "no"})
		it.Outcome.Verdict = v
		c.Finish(2, r)
		c.Record(g)
		require.Equal(t, v == VerdictDone, len(g.staged) == 1)
	}
}
