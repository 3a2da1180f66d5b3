package shard

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal"
)

// What is left of a job is due when the job was, also after a crash: the due time may
// have come from a payload that a person has removed.
func TestRemovedPayloadsLeaveTheirDueTime(t *testing.T) {
	for name, cfg := range map[string]Config{"kept": {}, "pulled": {DuePull: true}, "pushed": {DuePush: true}} {
		t.Run(name, func(t *testing.T) {
			cfg.Merge = MergeKeepAll
			g := newRig(t, cfg, 1)
			t.Cleanup(func() { g.close() })
			payload := func(data string, due int64) journal.Position {
				return g.put(journal.Entry{ID: []byte("a"), Payload: []byte(data), Due: due})[0].ref.Position()
			}
			payload("middle", 20)
			source := map[string]journal.Position{"pulled": payload("early", 10), "pushed": payload("late", 30)}[name]
			if source == 0 {
				source = g.cores[0].lanes.find([]byte("a")).first().Ref.Position()
			}
			due := g.cores[0].NextDue()
			ended, _ := g.cores[0].Remove(1, "a", &Removal{Verdict: VerdictDeleted, Of: []journal.Position{source}})
			require.Equal(t, 1, ended)
			g.cores[0].Record(g)
			require.Equal(t, due, g.cores[0].NextDue())
			g.check()
			g.flush()
			g.crash(1)
			require.Equal(t, due, g.cores[0].NextDue(), "after a crash")
			require.Equal(t, map[string]int64{"kept": 20, "pulled": 10, "pushed": 30}[name], due)
		})
	}
}

// Where there is no throttle any more, an id that rested does not: what waits of it is due when it is by itself.
func TestRestsEndWithTheThrottle(t *testing.T) {
	for _, merge := range []Merge{MergeKeepAll, MergeSupersede} {
		g := newRig(t, Config{Throttle: 100, Merge: merge}, 1)
		t.Cleanup(func() { g.close() })
		put := func(id string, due int64) { g.put(journal.Entry{ID: []byte(id), Payload: []byte("p"), Due: due}) }
		put("rests", 0)
		g.run(0, Outcome{Verdict: VerdictDone})
		put("rested", 0)
		g.run(0, Outcome{Verdict: VerdictDone})
		put("rested", 1)
		put("ran", 0)
		r := g.begin(0)
		put("ran", 5)
		g.finish(0, r, Outcome{Verdict: VerdictDone})
		require.Equal(t, int64(100), g.cores[0].NextDue())
		g.cfg.Throttle = 0
		g.crash(1)
		for id, due := range map[string]int64{"rested": 1, "ran": 5} {
			v, _ := g.cores[0].view(id)
			require.Equal(t, due, v.due, id)
		}
		put("rests", 2)
		v, _ := g.cores[0].view("rests")
		require.Equal(t, int64(2), v.due)
		g.check()
	}
}

// An id whose payloads a person removes rests on: what comes next has to wait for that, also after a crash.
func TestRemovedPayloadsLeaveTheRest(t *testing.T) {
	for name, crash := range map[string]bool{"": false, "after a crash": true} {
		g := newRig(t, Config{Throttle: 10}, 1)
		t.Cleanup(func() { g.close() })
		put := func(due int64) { g.put(journal.Entry{ID: []byte("a"), Payload: []byte("p"), Due: due}) }
		put(0)
		g.run(0, Outcome{Verdict: VerdictDone})
		g.cores[0].Tick(1)
		put(1)
		require.Equal(t, int64(10), g.cores[0].NextDue())
		ended, _ := g.cores[0].Remove(2, "a", &Removal{Verdict: VerdictDeleted})
		require.Equal(t, 1, ended)
		g.cores[0].Record(g)
		if g.flush(); crash {
			g.crash(1)
		}
		g.cores[0].Tick(3)
		put(3)
		require.Equal(t, int64(10), g.cores[0].NextDue(), name)
		g.check()
	}
}

// An id that has not run does not rest, however long it would.
func TestRemovedPayloadsThatHaveNotRun(t *testing.T) {
	g := newRig(t, Config{Throttle: math.MaxInt64}, 1)
	t.Cleanup(func() { g.close() })
	g.put(journal.Entry{ID: []byte("a"), Payload: []byte("p"), Due: 1})
	ended, _ := g.cores[0].Remove(2, "a", &Removal{Verdict: VerdictDeleted})
	require.Equal(t, 1, ended)
	g.cores[0].Record(g)
	g.put(journal.Entry{ID: []byte("a"), Payload: []byte("p"), Due: 3})
	require.Equal(t, int64(3), g.cores[0].NextDue())
	g.check()
}

// Nor does one that a worker has given back without a run, to whom a person has ended it meanwhile.
func TestRemovedPayloadsThatCouldNotRun(t *testing.T) {
	for _, merge := range []Merge{MergeKeepAll, MergeSupersede} {
		g := newRig(t, Config{Throttle: 10, Merge: merge}, 1)
		t.Cleanup(func() { g.close() })
		g.put(journal.Entry{ID: []byte("a"), Payload: []byte("p"), Due: 1})
		r := g.begin(1)
		_, inHand := g.cores[0].Remove(2, "a", &Removal{Verdict: VerdictCanceled, Reason: "by hand"})
		require.Equal(t, 1, inHand)
		g.cores[0].Tick(2)
		g.cores[0].Postpone(&r.Items[0], true)
		g.cores[0].Finish(2, r)
		g.cores[0].Record(g)
		g.put(journal.Entry{ID: []byte("a"), Payload: []byte("p"), Due: 3})
		require.Equal(t, int64(3), g.cores[0].NextDue())
		g.check()
	}
}

// So does one whose payload a person ends before its retry, or the end of a snooze, which do not wait for that; what waits
// behind it has to, too.
func TestRemovedRetriesLeaveTheRest(t *testing.T) {
	failed, snoozed := Outcome{Verdict: VerdictFailed, Delay: 100, Error: "e"}, Outcome{Verdict: VerdictSnoozed, Delay: 100}
	for name, c := range map[string]struct {
		out           Outcome
		crash, behind bool
	}{
		"retry": {failed, false, false}, "retry, after a crash": {failed, true, false}, "behind a retry": {failed, false, true},
		"behind a retry, after a crash": {failed, true, true}, "snooze": {snoozed, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, Config{Single: true, Merge: MergeKeepAll, MaxRetries: 3, Throttle: 10}, 1)
			t.Cleanup(func() { g.close() })
			put := func(due int64) journal.Position {
				g.cores[0].Tick(due)
				return g.put(journal.Entry{ID: []byte("a"), Due: due})[0].ref.Position()
			}
			first := put(1)
			g.run(1, c.out)
			require.Equal(t, int64(101), g.cores[0].NextDue())
			if c.behind {
				put(2)
			}
			if c.crash {
				g.crash(1)
			}
			g.cores[0].Tick(3)
			ended, _ := g.cores[0].Remove(3, "a", &Removal{Verdict: VerdictDeleted, Of: []journal.Position{first}})
			require.Equal(t, 1, ended)
			g.cores[0].Record(g)
			if !c.behind {
				put(4)
			}
			require.Equal(t, int64(11), g.cores[0].NextDue())
			g.check()
			g.flush()
			g.crash(1)
			require.Equal(t, int64(11), g.cores[0].NextDue())
		})
	}
}

// Room on the disk is asked for what is to be ended, and for nothing that is left alone.
func TestLettersOfWhatHasFailed(t *testing.T) {
	g := newRig(t, Config{Single: true, Merge: MergeKeepAll, MaxRetries: 3}, 1)
	t.Cleanup(func() { g.close() })
	c, r := g.cores[0], &Removal{Verdict: VerdictCanceled, Reason: "by hand", Failed: true}
	one := g.put(journal.Entry{ID: []byte("a"), Payload: []byte("1")})[0].ref
	require.Zero(t, c.Letters("a", r), "it has not failed")
	g.run(1, Outcome{Verdict: VerdictFailed, Delay: 1, Error: "e"})
	g.put(journal.Entry{ID: []byte("a"), Payload: make([]byte, 1<<20)})
	var want journal.Room
	want.AddLetter(one.Size(), len(r.Reason))
	require.Equal(t, want, c.Letters("a", r), "without what is behind it")
	require.Greater(t, c.Letters("a", &Removal{Verdict: VerdictCanceled}).Bytes, 1<<20)
	run := g.begin(2)
	require.Zero(t, c.Letters("a", r), "it runs")
	g.finish(2, run, Outcome{Verdict: VerdictDone})
}

// The room for the dead letter of what runs is kept until that is written, or not.
func TestRoomForTheLetterOfWhatRuns(t *testing.T) {
	for verdict, letters := range map[Verdict]int{VerdictInterrupted: 1, VerdictFailed: 1, VerdictDone: 0} {
		for _, single := range []bool{false, true} {
			g := newRig(t, Config{Single: single, Merge: MergeKeepAll, MaxPayloads: 1, MaxRetries: 3}, 1)
			t.Cleanup(func() { g.close() })
			spent, buried := 0, 0
			g.record = func(c *journal.Change) { spent, buried = spent+c.Room, buried+len(c.Buried) }
			c, r := g.cores[0], &Removal{Verdict: VerdictCanceled, Reason: "by hand"}
			g.put(journal.Entry{ID: []byte("a"), Payload: []byte("1")})
			run := g.begin(1)
			room := c.Letters("a", r).Bytes
			g.put(journal.Entry{ID: []byte("a"), Payload: []byte("2")})
			r.Room = c.Letters("a", r).Bytes
			ended, inHand := c.Remove(1, "a", r)
			require.Equal(t, []int{1, 1}, []int{ended, inHand})
			c.Record(g)
			require.Equal(t, []int{r.Room - room, 1}, []int{spent, buried}, "of what waited")
			g.finish(2, run, Outcome{Verdict: verdict, Error: "e"})
			require.Equal(t, []int{r.Room, 1 + letters}, []int{spent, buried})
		}
	}
}

// A due time that is never stays that when the clock is set while its job runs.
func TestAnInterruptedJobThatIsNeverDue(t *testing.T) {
	g := newRig(t, Config{Merge: MergeKeepAll, DuePush: true}, 1)
	t.Cleanup(func() { g.close() })
	g.put(journal.Entry{ID: []byte("a"), Payload: []byte("1")})
	r := g.begin(1)
	g.put(journal.Entry{ID: []byte("a"), Payload: []byte("2"), Due: farFuture})
	now := int64(1)
	g.step(&now, int64(time.Hour))
	g.finish(now, r, Outcome{Verdict: VerdictInterrupted})
	require.Greater(t, g.cores[0].NextDue(), now+int64(time.Hour))
}

// Of what was folded all was done, also what another dead letter of its id stands before.
func TestLateBehindAFold(t *testing.T) {
	g := newRig(t, Config{Merge: MergeKeepAll, MaxPayloads: 3, Fold: func(*Fold) {}}, 1)
	t.Cleanup(func() { g.close() })
	var at []journal.Position
	for _, data := range []string{"1", "2", "3"} {
		at = append(at, g.put(journal.Entry{ID: []byte("a"), Payload: []byte(data)})[0].ref.Position())
	}
	r := g.begin(1)
	r.Items[0].Folded = []byte("1+3")
	g.finish(1, r, Outcome{Verdict: VerdictDone, Parts: []Part{{Index: 1, Verdict: VerdictCanceled, Error: "does not decode"}}})
	late, known := g.cores[0].Late("a", at[1])
	require.Equal(t, []bool{true, true}, []bool{late, known})
}

// On a disk that is short of room a snooze is not written, and what comes meanwhile moves the job no more than otherwise.
func TestASnoozeThatIsNotWrittenGathersNothing(t *testing.T) {
	g := newRig(t, Config{Merge: MergeKeepAll, MaxPayloads: 1, Quiet: 5, MaxWait: 1000, Short: func() bool { return true }}, 1)
	t.Cleanup(func() { g.close() })
	g.put(journal.Entry{ID: []byte("a"), Payload: []byte("1")})
	g.cores[0].Tick(5)
	g.run(5, Outcome{Verdict: VerdictSnoozed, Delay: 50})
	due := g.cores[0].NextDue()
	g.cores[0].Tick(54)
	g.put(journal.Entry{ID: []byte("a"), Payload: []byte("2"), Due: 54})
	require.Equal(t, due, g.cores[0].NextDue())
}

// What a job holds hears how it has ended, and not of another payload of its id that a person has deleted meanwhile.
func TestHoldsHearOfTheirOwnPayload(t *testing.T) {
	g := newRig(t, Config{Merge: MergeKeepAll}, 1)
	t.Cleanup(func() { g.close() })
	g.put(journal.Entry{ID: []byte("a"), Payload: []byte("1")})
	second := g.put(journal.Entry{ID: []byte("a"), Payload: []byte("2")})[0].ref.Position()
	r := g.begin(1)
	r.Items[0].Claim = struct{ Held }{}
	_, inHand := g.cores[0].Remove(1, "a", &Removal{Verdict: VerdictDeleted, Of: []journal.Position{second}})
	require.Equal(t, 1, inHand)
	r.Items[0].Outcome = Outcome{Verdict: VerdictCanceled, Error: "by the handler"}
	g.cores[0].Finish(1, r)
	require.Equal(t, VerdictCanceled, g.cores[0].change.Claims[0].Verdict)
}

// What has failed under a larger MaxPayloads runs again some at a time, in order.
func TestFewerPayloadsInARetry(t *testing.T) {
	g := newRig(t, Config{Block: true, Merge: MergeKeepAll, MaxPayloads: 3, MaxRetries: 9}, 1)
	t.Cleanup(func() { g.close() })
	var all []journal.Position
	for i := range 4 {
		all = append(all, g.put(journal.Entry{ID: []byte("a"), Payload: []byte{byte(i)}})[0].ref.Position())
	}
	g.run(0, Outcome{Verdict: VerdictFailed, Error: "too many"})
	g.cfg.MaxPayloads = 2
	g.crash(1)
	retries := []int{0, -1}
	for len(all) > 0 {
		r := g.begin(0)
		require.Equal(t, all[:2], refs(r.Items[0].Payloads))
		require.Equal(t, retries[0], r.Items[0].Retry)
		g.finish(0, r, Outcome{Verdict: VerdictDone})
		g.check()
		all, retries = all[2:], retries[1:]
	}
}

// An id rests no longer than a shorter throttle says, from a restart on.
func TestAShorterThrottleCutsRestsShort(t *testing.T) {
	for _, merge := range []Merge{MergeKeepAll, MergeSupersede} {
		g := newRig(t, Config{Throttle: 100, Merge: merge, MaxRetries: 3}, 1)
		t.Cleanup(func() { g.close() })
		put := func(id string, due int64) { g.put(journal.Entry{ID: []byte(id), Payload: []byte("p"), Due: due}) }
		for _, id := range []string{"rests", "rested", "asked for"} {
			put(id, 0)
			g.run(0, Outcome{Verdict: VerdictDone})
		}
		put("rested", 1)
		put("asked for", 50)
		put("ran", 0)
		r := g.begin(0)
		put("ran", 5)
		g.finish(0, r, Outcome{Verdict: VerdictDone})
		put("retry", 0)
		g.run(0, Outcome{Verdict: VerdictFailed, Delay: 70})
		g.cores[0].Tick(20)
		g.cfg.Throttle = 10
		g.crash(1)
		put("rests", 21)
		for id, due := range map[string]int64{"rests": 30, "rested": 30, "asked for": 50, "ran": 30, "retry": 70} {
			require.Equal(t, due, g.cores[0].Status(id).Due, id)
		}
		g.check()
	}
}

// What came back from the morgue, or was hurried, comes to no run: the id rests for what is left of the rest after its last one.
func TestARestThatIsCutShortForNoRun(t *testing.T) {
	for name, hurry := range map[string]func(g *rig, dead journal.Position){
		"from the morgue": func(g *rig, dead journal.Position) { g.restore(dead, 3) },
		"run now": func(g *rig, _ journal.Position) {
			g.put(journal.Entry{ID: []byte("a"), Payload: []byte("p"), Due: 3})
			require.True(t, g.cores[0].RunNow("a", 3, false))
			g.cores[0].Record(g)
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, Config{Throttle: 8}, 1)
			t.Cleanup(func() { g.close() })
			unrun := Outcome{Verdict: VerdictCanceled, Unrun: true, Error: "e"}
			end := func(now int64, out Outcome) {
				g.cores[0].Tick(now)
				g.finish(now, g.begin(now), out)
			}
			dead := g.put(journal.Entry{ID: []byte("a"), Payload: []byte("p"), Due: 1})[0].entry.Position
			end(1, unrun)
			g.put(journal.Entry{ID: []byte("a"), Payload: []byte("p"), Due: 2})
			end(2, Outcome{Verdict: VerdictDone})
			g.cores[0].Tick(3)
			hurry(g, dead)
			end(3, unrun)
			g.put(journal.Entry{ID: []byte("a"), Payload: []byte("p"), Due: 4})
			require.Equal(t, int64(10), g.cores[0].NextDue())
			g.check()
		})
	}
}
