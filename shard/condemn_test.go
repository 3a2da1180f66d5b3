package shard

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal"
)

// pendingJobs returns a core with jobs of some ids, due since time 1.
func pendingJobs(t *testing.T, cfg Config, ids ...string) (*Core, *journal.Log) {
	t.Helper()
	var c *Core
	l, err := journal.OpenMemory(new(journal.Memory), journal.Config{Deliver: func(d *journal.Delivery) {
		var e journal.Entry
		for i := range d.Len() {
			ref := must(d.Read(i, &e))
			c.deliver(&e, ref, hashOf(e.ID))
		}
		d.Done()
	}})
	require.NoError(t, err)
	c = NewCore(1, cfg)
	for _, id := range ids {
		ticket, err := l.Append(t.Context(), []journal.Entry{{Queue: 1, ID: []byte(id), Due: 1}}, nil)
		require.NoError(t, err)
		require.NoError(t, ticket.Wait(t.Context()))
	}
	return c, l
}

// writing writes changes into a log, and nothing else.
type writing struct{ *journal.Log }

func (w writing) Record(c *Change) { w.Log.Record(&c.Change) }

func TestParkedIDsDoNotRun(t *testing.T) {
	c, l := pendingJobs(t, Config{}, "a", "b")
	c.Hold("a", HoldWait)
	c.Hold("unknown", HoldWait)
	r := c.NewRun()
	require.True(t, c.Take(10, r))
	require.Equal(t, "b", r.Items[0].ID)
	require.Len(t, r.Items, 1)
	require.True(t, r.Items[0].start(0))
	r.Items[0].Outcome.Verdict = VerdictDone
	c.Finish(10, r)
	require.False(t, c.Take(10, r))
	c.Let("a", HoldWait)
	require.True(t, c.Take(10, r))
	require.Equal(t, "a", r.Items[0].ID)
	require.NoError(t, l.Close())
}

// TestTheLastIDIsCondemned: its turn, which is not valid any more, must not be
// looked for among lanes that are gone.
func TestTheLastIDIsCondemned(t *testing.T) {
	s := newStock(t, 2, numbered, numbered)
	c := NewCore(1, Config{})
	s.deliver(c, 0, 100)
	s.deliver(c, 1, 50) // sends the first one to the heap
	work(c, 60, c.NewRun())
	require.True(t, c.Condemn(60, string(numbered(0)), s.refs[0].Position(), "crashed", nil))
	c.Record(noRecord{})
	_, ready := c.ready(1000)
	require.False(t, ready)
}

func TestCondemnedIDsGoToTheMorgueOrHalt(t *testing.T) {
	c, l := pendingJobs(t, Config{}, "a", "b")
	require.True(t, c.Condemn(10, "a", 1, "crashed", nil))
	require.False(t, c.Condemn(10, "nobody", 1, "crashed", nil))
	c.Record(writing{l})
	require.NoError(t, l.Flush(t.Context()))
	for b, err := range l.Morgue(1, 0) {
		require.NoError(t, err)
		require.Equal(t, "a", string(b.Entry.ID))
		require.Equal(t, "crashed", b.Reason)
	}
	require.Equal(t, Counts{Jobs: 1, Payloads: 1, Buried: 1}, c.Counts())
	require.NoError(t, l.Close())

	c, l = pendingJobs(t, Config{Halt: true}, "a")
	require.True(t, c.Condemn(10, "a", 1, "crashed", nil))
	require.Equal(t, 1, c.Counts().Halted)
	require.False(t, c.Take(10, c.NewRun()))
	require.True(t, c.RunNow("a", 10, true))
	r := c.NewRun()
	require.True(t, c.Take(10, r))
	require.Equal(t, "crashed", r.Items[0].LastError)
	require.NoError(t, l.Close())
}

// BuryAll and Halt decide what is given up: one payload, what the next run would have, or nothing.
func TestCondemnedPayloads(t *testing.T) {
	for _, test := range []struct {
		cfg  Config
		want Counts
	}{
		{Config{}, Counts{Jobs: 1, Payloads: 2, Buried: 1}},
		{Config{BuryAll: true}, Counts{Jobs: 1, Payloads: 1, Buried: 2}},
		{Config{Halt: true}, Counts{Jobs: 1, Payloads: 3, Halted: 1}},
	} {
		test.cfg.Merge, test.cfg.MaxPayloads = MergeKeepAll, 2
		c, l := pendingJobs(t, test.cfg, "a", "a", "a")
		require.False(t, c.Condemn(10, "a", 99, "crashed", nil), "a person has ended it, and others are innocent")
		require.True(t, c.Condemn(10, "a", 1, "crashed", nil))
		c.Record(writing{l})
		require.Equal(t, test.want, c.Counts())
		r := c.NewRun()
		require.Equal(t, !test.cfg.Halt, c.Take(10, r), "what is left runs")
		require.NoError(t, l.Close())
	}
}

// Without BuryAll the payload goes that has killed the process, and none that came
// while it ran, however early its score. What it was merged with starts again as if new.
func TestCondemnedIsWhatRan(t *testing.T) {
	g := newRig(t, Config{Merge: MergeKeepAll, MaxRetries: 3}, 1)
	ran := g.put(journal.Entry{ID: []byte("a"), Score: 5}, journal.Entry{ID: []byte("a"), Score: 7})
	c, r := g.cores[0], g.cores[0].NewRun()
	require.True(t, c.Take(0, r))
	r.Next(nil, 1)[0].Outcome = Outcome{Verdict: VerdictFailed, Delay: 10, Error: "e"}
	c.Finish(0, r)
	c.Record(g)
	came := g.put(journal.Entry{ID: []byte("a"), Score: 1})
	require.True(t, c.Condemn(5, "a", ran[0].entry.Position, "crashed", nil))
	c.Record(g)
	g.check()
	require.Contains(t, g.morgue(), ran[0].entry.Position)
	v, _ := c.view("a")
	require.Equal(t, []any{int64(5), -1}, []any{v.due, v.retry})
	require.Equal(t, []journal.Position{came[0].entry.Position, ran[1].entry.Position}, refs(v.waiting))
	require.False(t, c.Condemn(5, "a", 99, "crashed", nil))
	g.close()
}

// Under Single the payload that could not be run goes, and no other of its id.
func TestOneEventIsCondemned(t *testing.T) {
	c, l := pendingJobs(t, Config{Single: true}, "a", "a", "a")
	require.False(t, c.Condemn(10, "a", 99, "crashed", nil))
	require.True(t, c.Condemn(10, "a", 2, "crashed", nil))
	c.Record(writing{l})
	require.NoError(t, l.Flush(t.Context()))
	var dead []journal.Position
	for b, err := range l.Morgue(1, 0) {
		require.NoError(t, err)
		dead = append(dead, b.Entry.Position)
	}
	require.Equal(t, []journal.Position{2}, dead)
	v, _ := c.view("a")
	require.Equal(t, []journal.Position{1, 3}, refs(v.waiting))
	require.NoError(t, l.Close())
}

// TestTheHeirOfACondemnedState: what takes the place of a dead letter that was condemned
// is held at once, and handed to the recorder, whoever had that dead letter in hand.
func TestTheHeirOfACondemnedState(t *testing.T) {
	for _, way := range []string{"condemned", "loaded", "left"} {
		t.Run(way, func(t *testing.T) {
			s := newStock(t, 3, func(int) []byte { return []byte("a") }, numbered)
			c := NewCore(1, Config{Single: true, Merge: MergeSupersede})
			first, second, third := s.refs[0].Position(), s.refs[1].Position(), s.refs[2].Position()
			arrive := func(i int) {
				var e journal.Entry
				require.NoError(t, s.refs[i].Read(&e))
				require.Zero(t, c.deliver(&e, s.refs[i], hashOf(e.ID)))
			}
			arrive(0)
			require.True(t, c.Condemn(10, "a", first, "crashed", nil))
			c.Record(writing{s.log})
			if way == "loaded" {
				c = NewCore(1, Config{Single: true, Merge: MergeSupersede})
				c.LoadDead(&journal.Entry{Queue: 1, ID: []byte("a"), Position: first, Due: 1}, true)
			}
			if way == "left" {
				require.True(t, c.Depart("a", first))
			}
			arrive(1)
			if way == "left" {
				require.Empty(t, c.change.Heirs)
				c.Departed("a", first, false)
			}
			require.Equal(t, map[string]journal.Position{"a": second}, c.change.Heirs)
			require.Equal(t, []journal.Position{first}, c.change.Exhumed)
			r := c.NewRun()
			require.False(t, c.Take(10, r))
			require.True(t, c.Condemn(10, "a", second, "crashed", nil))
			c.Record(writing{s.log})
			require.Empty(t, c.change.Heirs)
			c.Let("a", HoldSuspect)
			require.Equal(t, second, c.graves["a"].at)
			require.True(t, c.graves["a"].guilty)

			// A person puts it back, and then anything newer runs.
			require.True(t, c.Depart("a", second))
			arrive(2)
			c.Departed("a", second, true)
			require.Empty(t, c.change.Heirs)
			require.True(t, c.Take(10, r))
			require.Equal(t, third, r.Items[0].Payloads[0].Ref.Position())
		})
	}
}

// TestTheHeirOfAHaltedState: under Halt what takes the place of a payload that was
// condemned is handed to the recorder, too, also if it was accepted before that was written
// and is loaded beside it.
func TestTheHeirOfAHaltedState(t *testing.T) {
	cfg := Config{Single: true, Merge: MergeSupersede, Halt: true}
	for _, way := range []string{"condemned", "loaded", "beside", "run"} {
		t.Run(way, func(t *testing.T) {
			s := newStock(t, 2, func(int) []byte { return []byte("a") }, numbered)
			first, second := s.refs[0].Position(), s.refs[1].Position()
			arrive := func(c *Core, i int) {
				var e journal.Entry
				require.NoError(t, s.refs[i].Read(&e))
				require.Zero(t, c.deliver(&e, s.refs[i], hashOf(e.ID)))
			}
			c := NewCore(1, cfg)
			arrive(c, 0)
			require.True(t, c.Condemn(10, "a", first, "crashed", nil))
			require.True(t, c.change.States[0].Entry.Crashed)
			c.Record(writing{s.log})
			var state journal.Entry
			ref := c.lanes.find([]byte("a")).past().state
			require.NoError(t, ref.Read(&state))
			if way == "loaded" || way == "beside" {
				c = NewCore(1, cfg)
				c.loading = true
				arrive(c, 0)
				if way == "beside" {
					arrive(c, 1)
				}
				c.load(&state, ref)
				c.loaded()
			}
			if way == "run" {
				require.True(t, c.RunNow("a", 10, true))
			}
			if way != "beside" {
				arrive(c, 1)
			}
			if way == "run" {
				require.Empty(t, c.change.Heirs)
				require.True(t, c.Take(10, c.NewRun()))
				return
			}
			require.Equal(t, map[string]journal.Position{"a": second}, c.change.Heirs)
			require.False(t, c.Take(10, c.NewRun()))
			require.True(t, c.Condemn(10, "a", second, "crashed", nil))
			c.Let("a", HoldSuspect)
			require.Equal(t, 1, c.Counts().Halted)
			require.False(t, c.Take(10, c.NewRun()))
		})
	}
}

// failedBefore returns a core with an id whose first payload has failed and is held, due 10;
// another one that is due at 100 waits behind it.
func failedBefore(t *testing.T, cfg Config) (g *rig, x, y journal.Position) {
	cfg.Single, cfg.Merge, cfg.MaxRetries = !cfg.Block, MergeKeepAll, 3
	g = newRig(t, cfg, 1)
	x = g.put(journal.Entry{ID: []byte("a")})[0].entry.Position
	c, r := g.cores[0], g.cores[0].NewRun()
	require.True(t, c.Take(0, r))
	r.Next(nil, 1)[0].Outcome = Outcome{Verdict: VerdictFailed, Delay: 10, Error: "e"}
	c.Finish(0, r)
	c.Record(g)
	return g, x, g.put(journal.Entry{ID: []byte("a"), Due: 100})[0].entry.Position
}

// Under Single and Block the payload that is condemned has its own retry count and failures, and those
// that stay keep theirs, with their due time: p2 began while the end of p1's retry was not written yet.
func TestCondemnedBesideAFailedPayload(t *testing.T) {
	for _, block := range []bool{false, true} {
		t.Run(fmt.Sprint("block ", block), func(t *testing.T) { condemnedBesideAFailedPayload(t, Config{Block: block}) })
	}
}

func condemnedBesideAFailedPayload(t *testing.T, cfg Config) {
	g, x, y := failedBefore(t, cfg)
	c := g.cores[0]
	require.True(t, c.Condemn(5, "a", y, "crashed", nil))
	c.Record(g)
	g.check()
	v, _ := c.view("a")
	require.Equal(t, []any{int64(10), 0, "e"}, []any{v.due, v.retry, v.err})
	require.Equal(t, []journal.Position{x}, refs(v.held))
	dead := g.morgue()[y]
	require.Equal(t, -1, dead.Retry)
	require.Len(t, dead.History.Failures(dead.Reason), 1)
	require.True(t, dead.Crashed)
	g.close()

	g, x, y = failedBefore(t, cfg)
	c = g.cores[0]
	require.True(t, c.Condemn(5, "a", x, "crashed", nil))
	c.Record(g)
	g.check()
	v, _ = c.view("a")
	require.Equal(t, []any{int64(100), -1, ""}, []any{v.due, v.retry, v.err})
	require.Equal(t, []journal.Position{y}, refs(v.waiting))
	dead = g.morgue()[x]
	require.Equal(t, 0, dead.Retry)
	require.Len(t, dead.History.Failures(dead.Reason), 2)
	g.close()
}

// Under Block what has failed together with the payload that is condemned starts again as if new,
// and does not where that stood behind it.
func TestCondemnedOfSeveralFailedPayloads(t *testing.T) {
	for name, want := range map[string]struct {
		due   int64
		retry int
	}{"among them": {5, -1}, "behind them": {10, 0}} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, Config{Block: true, Merge: MergeKeepAll, MaxRetries: 3}, 1)
			at := g.put(journal.Entry{ID: []byte("a")}, journal.Entry{ID: []byte("a")})[0].entry.Position
			g.run(0, Outcome{Verdict: VerdictFailed, Delay: 10, Error: "e"})
			behind := g.put(journal.Entry{ID: []byte("a"), Due: 100})[0].entry.Position
			if want.retry == 0 {
				at = behind
			}
			c := g.cores[0]
			require.True(t, c.Condemn(5, "a", at, "crashed", nil))
			c.Record(g)
			g.check()
			v, _ := c.view("a")
			require.Equal(t, []any{want.due, want.retry}, []any{v.due, v.retry})
			g.close()
		})
	}
}

// Where a condemned job halts, the order of its payloads stays.
func TestHaltedInOrder(t *testing.T) {
	g, x, y := failedBefore(t, Config{Halt: true})
	fresh := newRig(t, Config{Single: true, Halt: true}, 1)
	first := fresh.put(journal.Entry{ID: []byte("a")}, journal.Entry{ID: []byte("a")})[0].entry.Position
	for g, at := range map[*rig][2]journal.Position{g: {x, y}, fresh: {first, first + 1}} {
		c := g.cores[0]
		require.True(t, c.Condemn(5, "a", at[1], "crashed", nil))
		c.Record(g)
		g.check()
		r := c.NewRun()
		require.False(t, c.Take(500, r))
		require.True(t, c.RunNow("a", 500, false))
		require.True(t, c.Take(500, r))
		require.Equal(t, at[0], r.Items[0].Payloads[0].Ref.Position())
		require.Equal(t, "crashed", r.Items[0].LastError)
		g.close()
	}
}

// What is condemned and halts has failed, and what waits behind it has not: a person ends it alone, also after a
// crash. What is not the next of its id is not told from the others, and nobody ends them all.
func TestTheHaltedEndAlone(t *testing.T) {
	for name, cfg := range map[string]Config{"single": {Single: true}, "block": {Block: true, MaxPayloads: 1}, "all at once": {Block: true}} {
		for _, crash := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", crash ", crash), func(t *testing.T) {
				cfg.Merge, cfg.Halt = MergeKeepAll, true
				g := newRig(t, cfg, 1)
				t.Cleanup(func() { g.close() })
				put := func() journal.Position { return g.put(journal.Entry{ID: []byte("a")})[0].ref.Position() }
				guilty := put()
				if name != "all at once" {
					put()
				}
				require.True(t, g.cores[0].Condemn(5, "a", guilty, "crashed", nil))
				g.cores[0].Record(g)
				last := put()
				if crash {
					g.flush()
					g.crash(1)
				}
				g.check()
				ended, _ := g.cores[0].Remove(6, "a", &Removal{Verdict: VerdictCanceled, Reason: "by hand", Failed: true})
				require.Equal(t, 1, ended)
				g.cores[0].Record(g)
				g.check()
				require.Equal(t, "by hand: crashed", g.morgue()[guilty].Reason)
				require.Zero(t, g.cores[0].Counts().Halted)
				v, _ := g.cores[0].view("a")
				require.Contains(t, refs(v.waiting), last)
			})
		}
	}
	g := newRig(t, Config{Single: true, Halt: true}, 1)
	first := g.put(journal.Entry{ID: []byte("a")}, journal.Entry{ID: []byte("a")})[0].ref.Position()
	require.True(t, g.cores[0].Condemn(5, "a", first+1, "crashed", nil))
	ended, _ := g.cores[0].Remove(6, "a", &Removal{Verdict: VerdictDeleted, Failed: true})
	require.Zero(t, ended)
	g.close()
}

// A start knows what has taken the place of a payload also where nothing merges before all is
// loaded, because what failed must not.
func TestSuccessorOfWhatMergesWhenLoaded(t *testing.T) {
	g := newRig(t, Config{Single: true, Merge: MergeKeepLast}, 1)
	equal := journal.Entry{ID: []byte("a"), Payload: []byte("x")}
	ran := g.put(equal)[0].entry.Position
	r := g.cores[0].NewRun()
	require.True(t, g.cores[0].Take(0, r))
	require.Len(t, r.Next(nil, 1), 1)
	came := g.put(equal)[0].entry.Position
	g.flush()
	log, err := journal.OpenMemory(g.mem.Crash(), journal.Config{})
	require.NoError(t, err)
	c := NewCore(g.queue, g.cfg)
	_, err = LoadAll([]*Core{c}, log.PendingPages(g.queue), func([]byte) int { return 0 }, func([]journal.Entry) {})
	require.NoError(t, err)
	set := func(at journal.Position) journal.Set { return journal.Cleared(at) }
	require.Equal(t, came, c.Successor(ran, set))
	require.Equal(t, []journal.Set{journal.Cleared(ran), journal.Cleared(came)}, c.change.Sets)
	require.NoError(t, log.Close())
	g.close()
}

// What is condemned and halts while its id rests is held, also for the next start.
func TestTheHaltedEndAloneAfterARest(t *testing.T) {
	for _, crash := range []bool{false, true} {
		g := newRig(t, Config{Single: true, Block: true, MaxPayloads: 1, Merge: MergeKeepAll, Halt: true, Throttle: 10}, 1)
		put := func() journal.Position { return g.put(journal.Entry{ID: []byte("a")})[0].ref.Position() }
		put()
		guilty := put()
		g.run(1, Outcome{Verdict: VerdictDone})
		put()
		g.flush()
		g.crash(1)
		require.True(t, g.cores[0].Condemn(5, "a", guilty, "crashed", nil))
		g.cores[0].Record(g)
		if crash {
			g.flush()
			g.crash(1)
		}
		g.check()
		ended, _ := g.cores[0].Remove(6, "a", &Removal{Verdict: VerdictDeleted, Failed: true})
		require.Equal(t, 1, ended, "crash %v", crash)
		g.cores[0].Record(g)
		g.close()
	}
}
