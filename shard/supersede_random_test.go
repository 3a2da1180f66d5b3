package shard

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/strandjobs/strand/journal"
)

// TestSupersedeRandomOperations drives cores under MergeSupersede and a dumb twin, which
// knows of each id what waits, what runs, what is dead and the newest that was done, and
// compares after every step; also after crashes.
func TestSupersedeRandomOperations(t *testing.T) {
	for name, cfg := range map[string]Config{"BuryOldest": {}, "BuryAll": {BuryAll: true}, "Halt": {Halt: true}} {
		for _, single := range []bool{false, true} {
			t.Run(name+map[bool]string{true: "Single"}[single], func(t *testing.T) {
				rapidFor(t, 60, 60)
				cfg.Merge, cfg.Single = MergeSupersede, single
				rapid.Check(t, func(t *rapid.T) { newStates(t, cfg).drive(t) })
			})
		}
	}
}

// states is cores of a superseding queue and their twin.
type states struct {
	*rig
	ids    map[string]*twin
	runs   []*stateRun
	parked map[string]bool
	counts Counts

	disk  *journal.Memory // when the last payload was accepted
	saved map[string]twin
}

// twin is what there is of an id.
type twin struct {
	scored             int // of four payloads
	waiting, out, dead version
	ran                version // the newest that is done
	dueWaiting         int64
	retry              int
	halted             bool
	until              int64   // it rests
	own, restEnd       int64   // while it rests: when waiting is due by itself, and when that is over
	doom               Verdict // that a person wants for out
}

type stateRun struct {
	core *Core
	run  *Run
}

func newStates(t *rapid.T, cfg Config) *states {
	cfg.MaxRetries = rapid.IntRange(0, 2).Draw(t, "retries")
	cfg.Concurrency = rapid.IntRange(1, 3).Draw(t, "concurrency")
	if !cfg.Single {
		cfg.BatchSize = rapid.IntRange(1, 3).Draw(t, "batch")
	}
	switch rapid.IntRange(0, 4).Draw(t, "timing") {
	case 0:
		cfg.Throttle = time.Duration(rapid.IntRange(1, 9).Draw(t, "throttle")) * time.Second
	case 1:
		cfg.Quiet, cfg.MaxWait = 2*time.Second, 5*time.Second
	}
	s := &states{
		rig: newRig(quick{t}, cfg, rapid.SampledFrom(shardCounts).Draw(t, "shards")), ids: make(map[string]*twin), parked: make(map[string]bool),
	}
	s.now = int64(1e18)
	for id, scored := range map[string]int{"a": 4, "b": 2, "c": 0, "d": 3} {
		s.ids[id] = &twin{retry: -1, scored: scored}
	}
	s.accepted()
	return s
}

func (s *states) drive(t *rapid.T) {
	defer func() { s.close() }()
	t.Repeat(map[string]func(*rapid.T){
		"":         func(*rapid.T) { s.compare() },
		"put":      s.arriveSome,
		"put more": s.arriveSome,
		"advance": func(t *rapid.T) {
			s.now += rapid.Int64Range(0, 6).Draw(t, "time") * int64(time.Second)
			s.tick()
		},
		"take":     s.takeSome,
		"take on":  s.takeSome,
		"finish":   s.finishOne,
		"end":      s.finishOne,
		"postpone": s.postponeOne,
		"unpark":   s.unparkOne,
		"now":      s.runNow,
		"remove":   s.removeOne,
		"restore":  s.restoreOne,
		"crash":    s.crashNow,
		"set":      s.setClock,
		"power":    s.powerCut,
	})
}

// setClock sets the clock, by as much as is written down.
func (s *states) setClock(t *rapid.T) {
	step := int64(clockNote)
	if rapid.Bool().Draw(t, "back") {
		step = -step
	}
	for _, c := range s.cores {
		c.stepClock(s.now, step)
		c.Record(s)
	}
	for _, w := range s.ids {
		w.set(s.now, step)
	}
	s.now += step
	s.tick()
	s.accepted()
}

// set sets the clock, which said before.
func (w *twin) set(before, step int64) {
	if w.until != 0 {
		w.until += step
	}
	due := &w.dueWaiting
	if w.restEnd != 0 {
		due = &w.own
	}
	if *due >= 0 && (*due <= before || w.restEnd == 0 && w.retry >= 0 && w.out.at == 0) {
		*due += step
	}
	if w.restEnd != 0 {
		w.rest()
	}
}

// rest has what waits be due when the id has rested, too.
func (w *twin) rest() {
	if w.restEnd == 0 {
		w.own = w.dueWaiting
	}
	w.restEnd = w.until
	w.dueWaiting = max(w.own, w.restEnd)
}

func (s *states) tick() {
	for _, c := range s.cores {
		c.Tick(s.now)
		c.Record(s)
	}
}

func (s *states) accepted() {
	s.flush()
	s.disk, s.saved = s.mem.Crash(), make(map[string]twin)
	for id, w := range s.ids {
		s.saved[id] = *w
	}
}

func (s *states) anyID(t *rapid.T) string {
	return rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "id")
}

func (s *states) arriveSome(t *rapid.T) {
	var entries []journal.Entry
	for range rapid.IntRange(1, 3).Draw(t, "n") {
		id := s.anyID(t)
		e := journal.Entry{ID: []byte(id), Payload: []byte("x"), Accepted: s.now, Due: s.now + int64(rapid.SampledFrom([]time.Duration{0, 0, 4 * time.Second}).Draw(t, "due")), Score: journal.ScoreOf(s.now)}
		s.drawScore(t, &e)
		entries = append(entries, e)
	}
	s.arrived(s.put(entries...)...)
}

// drawScore gives a payload a score, or not.
func (s *states) drawScore(t *rapid.T, e *journal.Entry) {
	if rapid.IntRange(1, 4).Draw(t, "scored") <= s.ids[string(e.ID)].scored {
		e.Score = float64(rapid.IntRange(-5, 5).Draw(t, "score"))
	}
}

// isNewer reports whether one of two states is newer, by what callers are told.
func isNewer(v, than version) bool {
	if isTime(v.score) || isTime(than.score) || v.score == than.score {
		return v.at > than.at
	}
	return v.score > than.score
}

func isTime(score float64) bool { return score > 1e6 }

func (s *states) arrived(in ...*arrival) {
	for _, a := range in {
		w, p := s.ids[string(a.entry.ID)], version{a.entry.Score, a.entry.Position}
		into := w.deliver(s, p, &a.entry)
		require.Equal(s.t, into, a.into, "%s#%d", a.entry.ID, p.at)
		if w.waiting == p {
			delete(s.parked, string(a.entry.ID)) // what waited for a lock is asked again
		}
	}
	s.accepted()
}

// deliver takes in a payload, and returns what is newer.
func (w *twin) deliver(s *states, p version, e *journal.Entry) (into journal.Position) {
	if w.dead == p {
		w.dead = version{}
	}
	for i, v := range []version{w.waiting, w.out, w.ran} {
		if v.at != 0 && (i != 1 || w.doom == 0) && isNewer(v, p) {
			s.counts.Superseded++
			return v.at
		}
	}
	if w.dead.at != 0 && isNewer(p, w.dead) {
		w.dead = version{}
		s.counts.SupersededDead++
	}
	due := e.Due
	if w.waiting.at != 0 {
		s.counts.Superseded++
		if e.Due <= s.now {
			due = min(w.dueWaiting, due)
		}
	}
	w.waiting, w.dueWaiting, w.restEnd = p, due, 0
	if w.out.at == 0 {
		w.retry, w.halted = -1, false
		if !e.Restored {
			w.rest()
		}
	}
	return 0
}

// gaveWay ends what is out, because a newer one waits.
func (w *twin) gaveWay(s *states) {
	s.counts.Superseded++
	w.out, w.retry, w.halted, w.doom = version{}, -1, false, 0
	w.rest()
}

// back puts what is out back.
func (w *twin) back(s *states, due int64) {
	if w.waiting.at != 0 && isNewer(w.waiting, w.out) {
		w.gaveWay(s)
		return
	}
	if w.waiting.at != 0 { // it came after a person had wanted the other one to end, and that has not
		s.counts.Superseded++
	}
	w.waiting, w.out, w.dueWaiting, w.doom, w.restEnd = w.out, version{}, due, 0, 0
}

func (s *states) takeSome(t *rapid.T) {
	c := s.cores[rapid.IntRange(0, len(s.cores)-1).Draw(t, "core")]
	r := c.NewRun()
	c.Tick(s.now)
	if !c.Take(s.now, r) {
		return
	}
	c.Record(s)
	for _, it := range r.Next(nil, len(r.Items)) {
		w := s.ids[it.ID]
		require.Equal(s.t, []journal.Position{w.waiting.at}, refs(it.Payloads), it.ID)
		require.Equal(s.t, w.retry, it.Retry, it.ID)
		require.False(s.t, w.ran.at != 0 && isNewer(w.ran, w.waiting), "%s: an older state runs after a newer one", it.ID)
		w.out, w.waiting, w.restEnd = w.waiting, version{}, 0
	}
	s.runs = append(s.runs, &stateRun{c, r})
}

func (s *states) pick(t *rapid.T) *stateRun {
	if len(s.runs) == 0 {
		return nil
	}
	return s.runs[rapid.IntRange(0, len(s.runs)-1).Draw(t, "run")]
}

func (s *states) finishOne(t *rapid.T) {
	r := s.pick(t)
	if r == nil {
		return
	}
	r.core.Tick(s.now)
	var ids []string
	var outs []Outcome
	for i := range r.run.Items {
		it := &r.run.Items[i]
		if it.state.Load() != started {
			continue
		}
		it.Outcome = drawOutcome(t, map[bool]int{false: 1}[s.cfg.Single])
		ids, outs = append(ids, it.ID), append(outs, it.Outcome)
	}
	r.core.Finish(s.now, r.run)
	r.core.Record(s)
	s.runs = slices.DeleteFunc(s.runs, func(o *stateRun) bool { return o == r })
	for i, id := range ids {
		s.finished(s.ids[id], outs[i])
	}
}

func (s *states) finished(w *twin, o Outcome) {
	v := o.Verdict
	if len(o.Parts) > 0 {
		v = o.Parts[0].Verdict
	} else if w.doom != 0 && v != VerdictDone && v != VerdictDiscarded {
		v = w.doom
	}
	p := w.out
	w.doom = 0
	if v != VerdictUnstarted && v != VerdictInterrupted {
		s.rests(w)
	}
	switch v {
	case VerdictDeleted:
		w.out, w.retry = version{}, -1
		w.rest()
		s.counts.Deleted++
		return
	case VerdictFailed:
		s.counts.Failed++
	case VerdictSnoozed:
		s.counts.Snoozed++
	case VerdictInterrupted:
		s.counts.Interrupted++
	}
	if v == VerdictDone || v == VerdictDiscarded {
		if w.out, w.retry = (version{}), -1; !isTime(p.score) && (w.ran.at == 0 || isNewer(p, w.ran)) {
			w.ran = p
		}
		if w.waiting.at != 0 && isNewer(p, w.waiting) {
			w.waiting = version{}
			s.counts.Superseded++
		}
		if w.rest(); v == VerdictDone {
			s.counts.Done++
		} else {
			s.counts.Discarded++
		}
		return
	}
	due := s.now + int64(max(0, o.Delay))
	switch {
	case w.waiting.at != 0 && isNewer(w.waiting, p):
		w.gaveWay(s)
	case v == VerdictCanceled, v == VerdictFailed && w.retry+1 >= s.cfg.MaxRetries && !s.cfg.Halt:
		w.out, w.retry = version{}, -1
		w.rest()
		s.bury(w, p)
	case v == VerdictFailed:
		w.retry++
		if w.halted = w.retry >= s.cfg.MaxRetries; w.halted {
			due = s.now
		}
		w.back(s, due)
	case v == VerdictSnoozed:
		w.back(s, due)
	default:
		w.back(s, -1)
	}
}

func (s *states) rests(w *twin) {
	if s.cfg.Throttle > 0 {
		w.until = s.now + int64(s.cfg.Throttle)
	}
}

func (s *states) bury(w *twin, p version) {
	if w.dead.at != 0 && isNewer(w.dead, p) {
		s.counts.Superseded++
		return
	}
	if w.dead.at != 0 { // it was taken away while p ran
		s.counts.SupersededDead++
	}
	w.dead = p
	s.counts.Buried++
}

func (s *states) postponeOne(t *rapid.T) {
	r := s.pick(t)
	if r == nil {
		return
	}
	it := &r.run.Items[rapid.IntRange(0, len(r.run.Items)-1).Draw(t, "item")]
	if it.state.Load() != started {
		return
	}
	w, id := s.ids[it.ID], it.ID
	parked := rapid.Bool().Draw(t, "parked")
	if w.doom != 0 {
		s.finished(w, Outcome{})
	} else if gaveWay := w.waiting.at != 0; gaveWay {
		w.back(s, -1)
	} else if w.back(s, -1); parked {
		s.parked[id] = true
	}
	r.core.Postpone(it, parked)
	r.core.Record(s)
}

func (s *states) unparkOne(t *rapid.T) {
	id := s.anyID(t)
	s.core(id).Let(id, HoldWait)
	s.core(id).Record(s)
	delete(s.parked, id)
}

func (s *states) runNow(t *rapid.T) {
	id := s.anyID(t)
	w := s.ids[id]
	ok := s.core(id).RunNow(id, s.now, true)
	s.core(id).Record(s)
	require.Equal(s.t, w.waiting.at != 0 && w.out.at == 0, ok)
	if ok {
		w.dueWaiting, w.retry, w.halted, w.restEnd = s.now, -1, false, 0
	}
}

// removeOne ends what waits of an id, and wants what runs to end.
func (s *states) removeOne(t *rapid.T) {
	id := s.anyID(t)
	w := s.ids[id]
	v := rapid.SampledFrom([]Verdict{VerdictCanceled, VerdictDeleted}).Draw(t, "verdict")
	forget := v == VerdictDeleted && rapid.Bool().Draw(t, "forget")
	ended, inHand := s.core(id).Remove(s.now, id, &Removal{Verdict: v, Reason: "by hand", Version: forget})
	s.core(id).Record(s)
	if forget && w.ran.at != 0 {
		ended--
		w.ran = version{}
	}
	require.Equal(s.t, []int{count(w.waiting.at != 0), count(w.out.at != 0)}, []int{ended, inHand})
	if inHand > 0 {
		w.doom = v
	}
	if ended == 0 {
		return
	}
	p := w.waiting
	if w.waiting = (version{}); inHand == 0 {
		delete(s.parked, id)
		w.retry, w.halted = -1, false
	}
	if v == VerdictDeleted {
		s.counts.Deleted++
	} else {
		s.bury(w, p)
	}
}

// restoreOne puts a dead letter back, as a person does, while something newer may come.
func (s *states) restoreOne(t *rapid.T) {
	id := s.anyID(t)
	w := s.ids[id]
	dead := w.dead
	require.Equal(s.t, dead.at != 0, s.core(id).Depart(id, max(dead.at, 1)))
	if dead.at == 0 {
		return
	}
	if rapid.Bool().Draw(t, "meanwhile") {
		s.arriveWhileLeaving(t, id)
	}
	back := rapid.IntRange(0, 3).Draw(t, "fails") > 0
	if back {
		s.arrived(s.restore(dead.at, s.now))
	}
	s.core(id).Departed(id, dead.at, back)
	s.core(id).Record(s)
	if !back && w.waiting.at != 0 && isNewer(w.waiting, dead) || !back && w.out.at != 0 && isNewer(w.out, dead) {
		w.dead = version{}
		s.counts.SupersededDead++
	}
	s.accepted()
}

func (s *states) arriveWhileLeaving(t *rapid.T, id string) {
	w := s.ids[id]
	dead := w.dead
	w.dead = version{} // nobody touches it
	e := journal.Entry{ID: []byte(id), Payload: []byte("y"), Accepted: s.now, Due: s.now, Score: journal.ScoreOf(s.now)}
	s.drawScore(t, &e)
	s.arrived(s.put(e)...)
	w.dead = dead
	if w.out.at == 0 {
		c := s.core(id)
		r := c.NewRun()
		if c.Take(s.now, r) {
			for i := range r.Items {
				require.NotEqual(s.t, id, r.Items[i].ID, "it runs while a dead letter is on its way")
				c.putBack(r.Items[i].lane, &r.Items[i])
			}
			delete(c.runs, r)
			c.age(r)
		}
	}
}

func (s *states) crashNow(t *rapid.T) {
	s.flush()
	s.reopen(t, s.mem)
}

// powerCut takes back all that was decided since the last payload was accepted.
func (s *states) powerCut(t *rapid.T) {
	for id, w := range s.saved {
		*s.ids[id] = w
	}
	s.reopen(t, s.disk)
}

func (s *states) reopen(t *rapid.T, disk *journal.Memory) {
	disk = disk.Crash()
	s.close()
	s.mem, s.runs = disk, nil
	clear(s.parked)
	s.counts = Counts{}
	for _, w := range s.ids {
		if w.out.at != 0 {
			w.back(s, -1)
		}
		if w.dead.at != 0 && w.waiting.at != 0 && isNewer(w.waiting, w.dead) { // it died while that one ran
			w.dead = version{}
			s.counts.SupersededDead++
		}
	}
	s.open(rapid.SampledFrom(shardCounts).Draw(t, "shards"))
	s.tick()
	s.accepted()
}

func (s *states) compare() {
	totals := Counts{}
	for _, c := range s.cores {
		if c.lanes.len()+len(c.runs) > 0 {
			c.check(s.t)
		}
		n := c.Counts()
		require.Equal(s.t, n.Superseded, n.Merged)
		n.Jobs, n.Payloads, n.Retrying, n.Halted, n.Running, n.Parked, n.Paused, n.Merged, n.Replaced = 0, 0, 0, 0, 0, 0, 0, 0, 0
		totals = sumOf(totals, n)
	}
	require.Equal(s.t, s.counts, totals)
	morgue := s.morgue()
	for id, w := range s.ids {
		c := s.core(id)
		v, _ := c.view(id)
		require.Equal(s.t, of(w.waiting), refs(v.waiting), "%s waits", id)
		require.Equal(s.t, of(w.out), refs(v.out), "%s runs", id)
		require.Equal(s.t, w.dead.at, c.graves[id].at, "%s is dead", id)
		if w.dead.at != 0 {
			require.Contains(s.t, morgue, w.dead.at)
			delete(morgue, w.dead.at)
		}
		if len(v.waiting) == 0 || w.out.at != 0 {
			continue
		}
		require.Equal(s.t, []any{w.retry, w.halted, s.parked[id]}, []any{v.retry, v.halted, c.Holds(id, HoldWait)}, id)
		if s.cfg.Quiet == 0 && w.dueWaiting >= 0 && !w.halted {
			require.Equal(s.t, max(w.dueWaiting, s.now), max(v.due, s.now), "%s is due", id)
		}
	}
	require.Empty(s.t, slices.Collect(maps.Keys(morgue)), "dead letters that nobody knows")
	s.checkJournal()
}

// of lists a version, if there is one.
func of(v version) (at []journal.Position) {
	if v.at != 0 {
		at = append(at, v.at)
	}
	return at
}
