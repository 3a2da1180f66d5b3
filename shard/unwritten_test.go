package shard

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal"
)

// Between two records a job may be written about and then end: a person pauses it, or
// removes what waits behind it, and the same message settles what its worker has done.
// Then nothing is written about it, and what is about others stays theirs.

// openRun is a rig with one run of all that is put, of which nothing has started.
func openRun(t *testing.T, cfg Config, ids ...string) (*rig, *Core, *Run) {
	g := newRig(t, cfg, 1)
	t.Cleanup(g.close)
	g.now = 1
	for i, id := range ids {
		g.put(journal.Entry{ID: []byte(id), Payload: []byte{byte(i)}, Due: g.now, Score: -float64(i)})
	}
	c := g.cores[0]
	c.pace = maxRun
	r := c.NewRun()
	require.True(t, c.Take(g.now, r))
	c.Record(g)
	return g, c, r
}

func TestPausedAndOverInOneChange(t *testing.T) {
	g, c, r := openRun(t, Config{Single: true, Merge: MergeKeepAll}, "a", "a", "b", "b")
	a, b := &r.Items[0], &r.Items[1]
	require.True(t, a.start(0) && a.Pass())
	require.True(t, c.Hold("a", HoldPause), "writes down that one of a's is over")
	require.False(t, a.Pass(), "there is none")
	a.Outcome.Verdict = VerdictDone
	require.True(t, b.start(1) && b.Pass())
	require.True(t, c.Hold("b", HoldPause), "writes the same of b")
	g.now += int64(Quantum)
	c.reclaim(g.now) // a is over
	require.Len(t, c.change.States, 1, "of b alone")
	c.Record(g)
	g.check()
	require.False(t, c.Has("a"))
	require.True(t, c.lanes.find([]byte("b")).known().hasState())

	b.Outcome.Verdict = VerdictDone
	c.Finish(g.now, r)
	c.Record(g)
	g.check()
	require.Zero(t, c.Counts().Jobs)
}

// The place of a lane that is gone may be another id's in the same change.
func TestAPlaceWithoutAStateOfItsFormerLane(t *testing.T) {
	g, c, r := openRun(t, Config{Single: true, Merge: MergeKeepAll}, "a", "a")
	a := &r.Items[0]
	require.True(t, a.start(0) && a.Pass())
	c.Hold("a", HoldPause)
	a.Outcome.Verdict = VerdictDone
	c.Finish(g.now, r)
	record := g.record
	g.record = func(ch *journal.Change) {
		require.Empty(t, ch.States, "of a job that is over")
		record(ch)
	}
	g.put(journal.Entry{ID: []byte("c"), Payload: []byte("c"), Due: g.now}) // records all
	require.False(t, c.lanes.find([]byte("c")).known().hasState())
	g.check()
	before := g.lanes()
	g.flush()
	g.crash(1)
	require.Equal(t, before, g.lanes())
}

// The rest of another id keeps its state, although that gets another place.
func TestRestThatIsMovedInTheChange(t *testing.T) {
	g, c, r := openRun(t, Config{Merge: MergeKeepAll, MaxPayloads: 1, Throttle: time.Second}, "b", "a", "a", "a")
	b, a := &r.Items[0], &r.Items[1]
	require.True(t, b.start(0) && a.start(0))
	// The third of a has the lowest score and runs, the others wait behind it.
	first := a.lane.bag().first().Ref.Position() - 1
	ended, _ := c.Remove(g.now, "a", &Removal{Verdict: VerdictDeleted, Of: []journal.Position{first}})
	require.Equal(t, 1, ended)
	require.Len(t, c.change.States, 1, "that it is due as it was")
	b.Outcome.Verdict, a.Outcome.Verdict = VerdictDone, VerdictDone
	c.Finish(g.now, r)
	c.Record(g)
	g.check()
	require.False(t, c.rested.byID["b"].state.IsZero())
	require.Empty(t, c.stateOf)
	g.now += int64(time.Second)
	c.Tick(g.now)
	c.Record(g)
	g.check()
	require.Empty(t, c.rested.byID)
}
