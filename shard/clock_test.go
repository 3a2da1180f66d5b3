package shard

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal"
)

// steps are how a clock is set: by people, by a dead battery, by NTP.
var steps = []time.Duration{10 * year, -10 * year, time.Hour, -time.Hour, 2 * time.Second, -2 * time.Second}

const year = 365 * 24 * time.Hour

// settable makes the clock of a shard one that can be set.
func settable(t *testing.T, s *Shard) (set func(time.Duration)) {
	var offset time.Duration
	require.NoError(t, s.Do(t.Context(), func(*Core) {
		system := s.clock
		s.clock = func() (int64, time.Duration) {
			wall, mono := system()
			return wall + int64(offset), mono
		}
	}))
	return func(d time.Duration) {
		require.NoError(t, s.Do(t.Context(), func(*Core) { offset += d }))
	}
}

// What is due runs, a pause is as long as it was to be, and a time that a caller
// asked for is that time, whatever is done to the clock. Nothing runs twice.
func TestClockIsSetWhileRunning(t *testing.T) {
	for i, step := range slices.Concat(steps, steps) {
		cfg := Config{MaxRetries: 5, Block: true}
		if i >= len(steps) {
			cfg.Slack = slack
		}
		t.Run(fmt.Sprint(step, " slack ", cfg.Slack), func(t *testing.T) {
			var runs []string
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				failed := false
				gate := make(chan struct{})
				h := newHouse(t, 1, 1, cfg, nil)
				h.handler = func(it *Item) Outcome {
					if it.ID == "first" {
						<-gate
					} else {
						runs = append(runs, fmt.Sprintf("%s %v", it.ID, time.Since(begin)))
					}
					if it.ID == "retry" && !failed {
						failed = true
						return Outcome{Verdict: VerdictFailed, Delay: time.Hour, Error: "no"}
					}
					return Outcome{Verdict: VerdictDone}
				}
				set := settable(t, h.shards[0])
				h.put("retry", "1", begin)
				synctest.Wait()
				h.put("retry", "2", begin) // behind the failed one
				h.put("first", "", begin)
				synctest.Wait()
				h.put("due", "", begin) // waits for the one worker
				set(step)
				h.put("asked for", "", begin.Add(step+2*time.Hour))
				close(gate)
				time.Sleep(3 * time.Hour)
				synctest.Wait()
				require.Equal(t, []string{"retry 0s", "due 0s", "retry 1h0m0s", "retry 1h0m0s", "asked for 2h0m0s"}, rounded(step, runs))
				h.close()
			})
		})
	}
}

// rounded lets a run be as late as the clock was set unnoticed: the time that a
// caller asks for is looked at every minute.
func rounded(step time.Duration, runs []string) (exact []string) {
	for _, r := range runs {
		var name string
		var at time.Duration
		for i := len(r) - 1; i >= 0; i-- {
			if r[i] == ' ' {
				name = r[:i]
				at, _ = time.ParseDuration(r[i+1:])
				break
			}
		}
		if late := at % time.Hour; late > 0 && late <= clockCheck {
			at -= late
		}
		exact = append(exact, fmt.Sprintf("%s %v", name, at))
	}
	return exact
}

// What was taken back from a worker after the clock went back is due at once,
// and after a restart too.
func TestClockIsSetWhileAJobRuns(t *testing.T) {
	for _, step := range steps {
		t.Run(step.String(), func(t *testing.T) {
			g := newRig(t, Config{}, 1)
			now := int64(20 * year)
			g.put(journal.Entry{ID: []byte("a"), Due: now}, journal.Entry{ID: []byte("b"), Due: now + int64(time.Hour)})
			c := g.cores[0]
			r := c.NewRun()
			require.True(t, c.Take(now, r))
			require.True(t, r.Items[0].start(0))
			c.stepClock(now, int64(step))
			now += int64(step)
			c.Finish(now, r) // not run at all: it goes back
			c.Record(g)
			_, ok := c.ready(now)
			require.True(t, ok)
			g.close()
			g.open(1)
			c = g.cores[0]
			_, ok = c.ready(now)
			require.True(t, ok, "after a restart")
			c.pace = 2
			r = c.NewRun()
			require.True(t, c.Take(now, r))
			ran := map[string]bool{}
			for i := range r.Items {
				ran[r.Items[i].ID] = true
			}
			require.Equal(t, map[bool]map[string]bool{true: {"a": true, "b": true}, false: {"a": true}}[step >= time.Hour], ran, "b when it was asked for")
		})
	}
}

// Runs that were handed out before the clock went back are still taken back in
// time.
func TestClockIsSetBeforeReclaim(t *testing.T) {
	g := newRig(t, Config{}, 1)
	c := g.cores[0]
	c.pace = 2
	now := int64(20 * year)
	g.put(journal.Entry{ID: []byte("a"), Due: now}, journal.Entry{ID: []byte("b"), Due: now})
	r := c.NewRun()
	require.True(t, c.Take(now, r))
	require.Len(t, r.Items, 2)
	c.stepClock(now, -int64(10*year))
	now -= int64(10 * year)
	require.Equal(t, now+int64(Quantum), c.reclaim(now))
}

// What has waited behind a retry is due when it was accepted, however often the clock was set
// since; and what came after that is due when its caller said.
func TestClockIsSetTwiceWhileSomethingWaitsBehindARetry(t *testing.T) {
	const minute = int64(time.Minute)
	g := newRig(t, Config{MaxRetries: 5, Block: true}, 1)
	c := g.cores[0]
	now := int64(20 * year)
	set := func(step int64) {
		c.stepClock(now, step)
		now += step
	}
	fail := func(id string) {
		g.put(journal.Entry{ID: []byte(id), Due: now})
		r := c.NewRun()
		require.True(t, c.Take(now, r))
		require.True(t, r.Items[0].start(0))
		r.Items[0].Outcome = Outcome{Verdict: VerdictFailed, Delay: time.Second}
		c.Finish(now, r)
		c.Record(g)
	}
	retry := func() {
		now += int64(time.Second)
		r := c.NewRun()
		require.True(t, c.Take(now, r))
		require.True(t, r.Items[0].start(0))
		r.Items[0].Outcome = Outcome{Verdict: VerdictDone}
		c.Finish(now, r)
		c.Record(g)
	}
	fail("was due")
	g.put(journal.Entry{ID: []byte("was due"), Due: now})
	set(-10 * minute)
	set(-2 * int64(time.Second))
	retry()
	_, ok := c.ready(now)
	require.True(t, ok, "it was due before the clock was set")
	retry()

	fail("asked for")
	set(-10 * minute)
	later := now + 5*minute
	g.put(journal.Entry{ID: []byte("asked for"), Due: later}) // below what the clock said before
	retry()
	_, ok = c.ready(now)
	require.False(t, ok, "it was asked for later")
	_, ok = c.ready(later)
	require.True(t, ok)
}

// What was due when the clock was set back is due after a restart, too, where a journal remembers no
// other time for it: behind a retry, behind a run, and while it runs.
func TestClockIsSetBackBeforeARestart(t *testing.T) {
	const minute = int64(time.Minute)
	done, failed := Outcome{Verdict: VerdictDone}, Outcome{Verdict: VerdictFailed, Delay: time.Minute}
	for name, play := range map[string]func(g *rig, now *int64){
		"behind a retry": func(g *rig, now *int64) {
			g.run(*now, failed)
			g.put(journal.Entry{ID: []byte("a"), Due: *now, Accepted: *now})
			g.step(now, -int64(year))
			g.crash(1)
			*now += minute
			g.run(*now, done)
		},
		"back from the morgue behind a retry": func(g *rig, now *int64) {
			g.run(*now, Outcome{Verdict: VerdictCanceled})
			g.put(journal.Entry{ID: []byte("a"), Due: *now, Accepted: *now - 1})
			g.run(*now, failed)
			*now += minute // so that it is due at another time than it was accepted
			for p := range g.morgue() {
				g.restore(p, *now)
			}
			g.step(now, -int64(year))
			g.crash(1)
			g.run(*now, done)
		},
		"behind a run": func(g *rig, now *int64) {
			r := g.begin(*now)
			g.put(journal.Entry{ID: []byte("a"), Due: *now, Accepted: *now})
			g.step(now, -int64(year))
			g.finish(*now, r, done)
			g.crash(1)
		},
		"while it runs": func(g *rig, now *int64) {
			g.begin(*now)
			g.step(now, -int64(year))
			g.crash(1)
		},
		"while a retry runs": func(g *rig, now *int64) {
			g.run(*now, failed)
			g.begin(*now + minute)
			g.step(now, -int64(year))
			g.crash(1)
			*now += minute
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, Config{MaxRetries: 5, Block: true}, 1)
			now := int64(20 * year)
			g.put(journal.Entry{ID: []byte("a"), Due: now, Accepted: now})
			play(g, &now)
			_, ok := g.cores[0].ready(now)
			require.True(t, ok)
			g.cores[0].check(t)
		})
	}
}

// What waits behind a retry when the clock was set back before a restart, and whose caller asked for a
// time, waits for that.
func TestClockIsSetBackBeforeARestartAndACallerAskedForATime(t *testing.T) {
	g := newRig(t, Config{MaxRetries: 5, Block: true}, 1)
	now := int64(20 * year)
	g.put(journal.Entry{ID: []byte("a"), Due: now, Accepted: now})
	g.run(now, Outcome{Verdict: VerdictFailed})
	asked := now - int64(time.Hour)
	g.put(journal.Entry{ID: []byte("a"), Due: asked, Accepted: asked - 1})
	g.step(&now, -int64(year))
	g.crash(1)
	g.run(now, Outcome{Verdict: VerdictDone})
	require.Equal(t, asked, g.cores[0].Status("a").Due)
}

// begin has a job begin that is due.
func (g *rig) begin(now int64) *Run {
	g.t.Helper()
	r := g.cores[0].NewRun()
	require.True(g.t, g.cores[0].Take(now, r))
	require.True(g.t, r.Items[0].start(0))
	return r
}

func (g *rig) finish(now int64, r *Run, out Outcome) {
	r.Items[0].Outcome = out
	g.cores[0].Finish(now, r)
	g.cores[0].Record(g)
	g.flush()
}

func (g *rig) run(now int64, out Outcome) {
	g.t.Helper()
	g.finish(now, g.begin(now), out)
}

// step sets the clock, and has that written down.
func (g *rig) step(now *int64, step int64) {
	g.cores[0].stepClock(*now, step)
	g.cores[0].Record(g)
	g.flush()
	*now += step
	g.cores[0].Tick(*now)
	g.cores[0].Record(g)
}

// An id rests between two runs for as long as Throttle says, also when a payload waits for the
// end of that, and what a caller has asked for is when it said.
func TestClockIsSetWhileAnIDRests(t *testing.T) {
	for _, step := range steps {
		t.Run(step.String(), func(t *testing.T) {
			g := newRig(t, Config{Throttle: 8 * time.Second}, 1)
			c := g.cores[0]
			now := int64(20 * year)
			for _, id := range []string{"rests", "waits"} {
				g.put(journal.Entry{ID: []byte(id), Due: now})
			}
			g.put(journal.Entry{ID: []byte("asked for"), Due: now + int64(5*time.Second)})
			asked := now + int64(5*time.Second)
			for range 2 {
				r := c.NewRun()
				require.True(t, c.Take(now, r))
				require.True(t, r.Items[0].start(0))
				if r.Items[0].ID == "waits" {
					g.put(journal.Entry{ID: []byte("waits"), Due: now})
				}
				r.Items[0].Outcome = Outcome{Verdict: VerdictDone}
				c.Finish(now, r)
				c.Record(g)
			}
			g.put(journal.Entry{ID: []byte("rests"), Due: now})
			c.stepClock(now, int64(step))
			over := now + int64(step) + int64(8*time.Second)
			for _, id := range []string{"rests", "waits"} {
				require.Equal(t, over, c.Status(id).Due, id)
			}
			require.Equal(t, asked, c.Status("asked for").Due)
		})
	}
}

// An id rests, and what waits has a time of its own. When the clock is set each goes by its own rule,
// also after a restart, and in the next step.
func TestClockIsSetWhileAnIDRestsAndACallerAskedForATime(t *testing.T) {
	second := int64(time.Second)
	for _, step := range steps {
		for _, in := range []int64{5 * second, 20 * second} {
			for _, behind := range []bool{false, true} {
				t.Run(fmt.Sprint(step, " in ", time.Duration(in), " behind a run: ", behind), func(t *testing.T) {
					g := newRig(t, Config{Throttle: 8 * time.Second}, 1)
					g.now = int64(20 * year)
					g.put(journal.Entry{ID: []byte("a"), Due: g.now})
					asked, over := g.now+in, g.now+8*second
					r := g.begin(g.now)
					if behind {
						g.put(journal.Entry{ID: []byte("a"), Due: asked})
					}
					g.finish(g.now, r, Outcome{Verdict: VerdictDone})
					if !behind {
						g.put(journal.Entry{ID: []byte("a"), Due: asked})
					}
					for range 2 {
						require.Equal(t, max(asked, over), g.cores[0].Status("a").Due)
						if asked <= g.now {
							asked += int64(step)
						}
						over += int64(step)
						g.step(&g.now, int64(step))
						require.Equal(t, max(asked, over), g.cores[0].Status("a").Due)
						if step.Abs() >= clockNote {
							g.crash(1)
						}
					}
					g.cores[0].check(t)
				})
			}
		}
	}
}

// An id that has nothing to do rests for as long as it was to, and not longer, after a restart, too.
func TestClockIsSetWhileAnIDRestsBeforeARestart(t *testing.T) {
	for _, merge := range []Merge{MergeKeepAll, MergeSupersede} {
		for _, step := range []time.Duration{time.Hour, -time.Hour} {
			for _, wait := range []time.Duration{time.Second, time.Minute} { // and when it is over
				t.Run(fmt.Sprint(merge, step, wait), func(t *testing.T) {
					g := newRig(t, Config{Throttle: 8 * time.Second, Merge: merge}, 1)
					now := int64(20 * year)
					g.put(journal.Entry{ID: []byte("a"), Due: now, Score: 5})
					g.run(now, Outcome{Verdict: VerdictDone})
					over := now + int64(8*time.Second)
					now += int64(wait)
					g.step(&now, int64(step))
					g.crash(1)
					g.put(journal.Entry{ID: []byte("a"), Due: now, Score: 6})
					require.Equal(t, max(now, over+int64(step)), g.cores[0].Status("a").Due)
				})
			}
		}
	}
}

// A job is due when it has been quiet. A payload that comes at a time that the clock skips comes then.
func TestClockIsSetBeforeItIsQuiet(t *testing.T) {
	second := int64(time.Second)
	for _, step := range steps {
		t.Run(step.String(), func(t *testing.T) {
			g := newRig(t, Config{Quiet: 3 * time.Second, MaxWait: 30 * time.Second}, 1)
			g.now = int64(20 * year)
			first, last, limit := g.now, g.now+5*second, g.now+30*second
			g.put(journal.Entry{ID: []byte("a"), Due: first}, journal.Entry{ID: []byte("a"), Due: last})
			require.Equal(t, last+3*second, g.cores[0].Status("a").Due)
			g.step(&g.now, int64(step))
			due := min(max(last, g.now)+3*second, limit+int64(step))
			require.Equal(t, due, g.cores[0].Status("a").Due)
			if step.Abs() >= clockNote {
				g.crash(1)
			}
			require.Equal(t, due, g.cores[0].Status("a").Due)
		})
	}
}

// What supersedes a job that runs is due after a crash if it was so when the clock was set back.
func TestClockIsSetBackWhileAnOlderStateRuns(t *testing.T) {
	g := newRig(t, Config{Merge: MergeSupersede, MaxRetries: 5}, 1)
	now := int64(20 * year)
	g.put(journal.Entry{ID: []byte("a"), Due: now})
	g.run(now, Outcome{Verdict: VerdictFailed, Error: "no"})
	g.begin(now)
	g.put(journal.Entry{ID: []byte("a"), Due: now})
	g.step(&now, -int64(time.Hour))
	g.crash(1)
	_, ok := g.cores[0].ready(now)
	require.True(t, ok)
	require.Equal(t, Status{Known: true, Due: now, Retry: -1, Payloads: 1, Concurrency: 1}, g.cores[0].Status("a"))
}

// What waits behind the retry of a job that runs, and was asked for at a time, is due then.
func TestClockIsSetWhileARetryRuns(t *testing.T) {
	for _, step := range steps {
		t.Run(step.String(), func(t *testing.T) {
			g := newRig(t, Config{MaxRetries: 5}, 1)
			now := int64(20 * year)
			g.put(journal.Entry{ID: []byte("a"), Due: now})
			g.run(now, Outcome{Verdict: VerdictFailed})
			r := g.begin(now)
			asked := now + int64(time.Hour)
			g.put(journal.Entry{ID: []byte("a"), Due: asked})
			g.step(&now, int64(step))
			g.finish(now, r, Outcome{Verdict: VerdictDone})
			require.Equal(t, asked, g.cores[0].Status("a").Due)
		})
	}
}

// whenRan returns a house that notes what ran, and how long after now.
func whenRan(t *testing.T) (h *house, ran func() []string) {
	begin := time.Now()
	var all []string
	h = newHouse(t, 1, 1, Config{}, func(it *Item) Outcome {
		all = append(all, fmt.Sprint(it.ID, " ", time.Since(begin)))
		return Outcome{Verdict: VerdictDone}
	})
	return h, func() []string { return all }
}

// A shard that has noticed that the clock was set forward is on time from then on, whatever
// its timer was set for before.
func TestClockIsSetForwardAndTheTimerGoesAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		h, ran := whenRan(t)
		set := settable(t, h.shards[0])
		h.put("later", "", begin.Add(30*time.Second))
		synctest.Wait()
		set(time.Hour)
		h.put("soon", "", begin.Add(time.Hour+time.Second))
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, []string{"later 0s", "soon 1s"}, ran())
		h.close()
	})
}

// On a disk that is short of room what a step of the clock moves is written down when there is some.
func TestClockIsSetBackOnADiskThatIsShortOfRoom(t *testing.T) {
	short := true
	g := newRig(t, Config{Short: func() bool { return short }}, 1)
	t.Cleanup(func() { g.close() })
	now := int64(20 * year)
	for _, id := range []string{"due", "gone"} {
		g.put(journal.Entry{ID: []byte(id), Due: now, Accepted: now})
	}
	written := 0
	g.record = func(c *journal.Change) { written += len(c.States) }
	g.step(&now, -int64(time.Hour))
	require.Zero(t, written)
	_, ok := g.cores[0].ready(now)
	require.True(t, ok)
	ended, _ := g.cores[0].Remove(now, "gone", &Removal{Verdict: VerdictDeleted})
	require.Equal(t, 1, ended)
	g.cores[0].Record(g)
	short = false
	require.False(t, g.cores[0].catchUp())
	g.cores[0].Record(g)
	require.Equal(t, 1, written)
	g.flush()
	g.crash(1)
	_, ok = g.cores[0].ready(now)
	require.True(t, ok)
	g.check()
}

// The clock is set back while a payload is under way to the shard, whose caller asked for no time: it is due as it comes.
func TestClockIsSetBackWhileAPayloadIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		h, ran := whenRan(t)
		settable(t, h.shards[0])(-time.Hour)
		h.put("under way", "", begin)
		h.put("asked for", "", begin.Add(-30*time.Minute))
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		require.Equal(t, []string{"under way 0s", "asked for 30m0s"}, ran())
		h.close()
	})
}

// So it is after a crash, whatever it came to.
func TestClockIsSetBackWhileAPayloadIsUnderWayBeforeARestart(t *testing.T) {
	hour := int64(time.Hour)
	for name, tc := range map[string]struct {
		cfg  Config
		runs bool // another one of its id does
		gone bool // and it is over before the crash
	}{
		"alone":                       {},
		"behind a run":                {runs: true},
		"behind a run that is over":   {runs: true, gone: true},
		"pushes a run":                {cfg: Config{DuePush: true}, runs: true},
		"pulls":                       {cfg: Config{DuePull: true}},
		"gathers":                     {cfg: Config{Quiet: 1, MaxWait: 2}},
		"gathers behind a run":        {cfg: Config{Quiet: 1, MaxWait: 2}, runs: true},
		"the newest":                  {cfg: Config{Merge: MergeSupersede}},
		"supersedes a run":            {cfg: Config{Merge: MergeSupersede}, runs: true},
		"superseded a run":            {cfg: Config{Merge: MergeSupersede}, runs: true, gone: true},
		"rests":                       {cfg: Config{Throttle: time.Minute}},
		"rests behind a run":          {cfg: Config{Throttle: time.Minute}, runs: true, gone: true},
		"held behind a run":           {cfg: Config{Single: true, Merge: MergeKeepAll}, runs: true},
		"behind what else it is with": {cfg: Config{Merge: MergeKeepAll, MaxPayloads: 1}, runs: true, gone: true},
	} {
		t.Run(name, func(t *testing.T) {
			tc.cfg.MaxRetries = 5
			g := newRig(t, tc.cfg, 1)
			t.Cleanup(func() { g.close() })
			g.now, g.told = int64(20*year), true
			g.cores[0].Tick(g.now)
			put := func(data string, at int64) {
				g.put(journal.Entry{ID: []byte("a"), Payload: []byte(data), Due: at, Accepted: at, Score: journal.ScoreOf(at)})
			}
			was := g.now
			var r *Run
			if tc.runs {
				put("runs", was)
				g.now += 2
				g.cores[0].Tick(g.now)
				r = g.begin(g.now)
			}
			if tc.cfg.MaxPayloads == 1 {
				put("and another", was-2*hour)
			}
			g.step(&g.now, -hour)
			put("under way", was+1)
			if l := g.cores[0].lanes.find([]byte("a")); tc.cfg.Merge == MergeSupersede {
				require.True(t, math.IsNaN(l.one.Score), "nobody gave it")
			}
			if tc.gone {
				g.finish(g.now, r, Outcome{Verdict: VerdictDone})
			}
			if tc.cfg.MaxPayloads == 1 {
				g.run(g.now, Outcome{Verdict: VerdictDone})
			}
			soon := g.now + int64(tc.cfg.Throttle) + 2
			require.True(t, r != nil && !tc.gone || g.cores[0].NextDue() <= soon)
			g.check()
			g.flush()
			g.crash(1)
			require.LessOrEqual(t, g.cores[0].NextDue(), soon)
			g.check()
		})
	}
}

// Nor does it wait where a state says when its job is due, which it pulls.
func TestClockIsSetBackWhileAPayloadIsUnderWayToAState(t *testing.T) {
	g := newRig(t, Config{DuePull: true, MaxRetries: 5}, 1)
	t.Cleanup(func() { g.close() })
	g.now, g.told = int64(20*year), true
	g.cores[0].Tick(g.now)
	at := func(data string, due int64) journal.Entry {
		return journal.Entry{ID: []byte("a"), Payload: []byte(data), Due: due, Accepted: due}
	}
	g.put(at("first", g.now))
	g.run(g.now, Outcome{Verdict: VerdictSnoozed, Delay: 24 * time.Hour})
	was := g.now
	g.step(&g.now, -int64(time.Hour))
	g.put(at("under way", was))
	require.LessOrEqual(t, g.cores[0].NextDue(), g.now)
	g.check()
	g.flush()
	g.crash(1)
	require.LessOrEqual(t, g.cores[0].NextDue(), g.now)
	g.check()
}

// A person ends a job that has failed, or was put off, after the clock was set: its id rests for what is left of that.
func TestClockIsSetBeforeAPersonEndsARetry(t *testing.T) {
	second := int64(time.Second)
	for _, step := range steps {
		for name, out := range map[string]Outcome{"retry": {Verdict: VerdictFailed, Delay: time.Hour, Error: "e"}, "snooze": {Verdict: VerdictSnoozed, Delay: time.Hour}} {
			t.Run(fmt.Sprint(name, step), func(t *testing.T) {
				g := newRig(t, Config{MaxRetries: 5, Throttle: 8 * time.Second}, 1)
				t.Cleanup(func() { g.close() })
				now := int64(20 * year)
				g.put(journal.Entry{ID: []byte("a"), Due: now})
				g.run(now, out)
				now += 3 * second
				g.step(&now, int64(step))
				ended, _ := g.cores[0].Remove(now, "a", &Removal{Verdict: VerdictDeleted})
				require.Equal(t, 1, ended)
				g.cores[0].Record(g)
				g.put(journal.Entry{ID: []byte("a"), Due: now})
				require.Equal(t, now+5*second, g.cores[0].Status("a").Due)
			})
		}
	}
}
