package shard

import (
	"cmp"
	"flag"
	"fmt"
	"hash/crc32"
	"maps"
	"math"
	"os"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/strandjobs/strand/journal"
)

// long asks for the long tiers.
var long = os.Getenv("STRAND_LONG") != ""

// oneIn thins out what is long for a go test of every day, and what one goroutine does alone,
// which has nothing to race with and takes several times as long under the detector: a test
// makes one in so many. With STRAND_PUSH=1 and without the detector it makes all: .ci/run does.
// It is odd.
var oneIn = func() int {
	if !raceEnabled && (long || os.Getenv("STRAND_PUSH") != "") {
		return 1
	}
	return 9
}()

// rapidFor sets how much rapid does, unless the command line says so. Outside of the long
// tier each test makes the same histories each time, and no two tests the same ones.
func rapidFor(t *testing.T, checks, steps int) {
	if checks = max(checks/oneIn, 1); long {
		checks *= 50
	}
	settings := map[string]int{"rapid.checks": checks, "rapid.steps": steps}
	if !long {
		settings["rapid.seed"] = int(crc32.ChecksumIEEE([]byte(t.Name())))
	}
	for name, n := range settings {
		f := flag.Lookup(name)
		if f.Value.String() != f.DefValue {
			continue
		}
		require.NoError(t, flag.Set(name, strconv.Itoa(n)))
		t.Cleanup(func() { _ = flag.Set(name, f.DefValue) })
	}
}

// TestRandomOperations drives cores and their model with the same operations,
// under every combination of policies, and compares after every one of them.
func TestRandomOperations(t *testing.T) {
	for _, policies := range combinations() {
		name := fmt.Sprint(policies.Merge, policies.Block, policies.BuryAll, policies.Halt, policies.Pull)
		if policies.Single {
			name += "Single"
		}
		t.Run(name, func(t *testing.T) {
			rapidFor(t, 21, 50) // 100,000 operations of all in .ci/run
			rapid.Check(t, func(t *rapid.T) { newPair(t, policies).drive(t) })
		})
	}
}

func combinations() (all []Config) {
	for m := MergeKeepAll; m <= MergeKeepLast; m++ {
		for _, block := range []bool{false, true} {
			for _, cfg := range []Config{{}, {BuryAll: true}, {Halt: true}} {
				for _, pull := range []bool{false, true} {
					cfg.Merge, cfg.Block, cfg.Pull, cfg.Single = m, block, pull, false
					all = append(all, cfg)
					if cfg.Single = true; block { // as under Single always
						all = append(all, cfg)
					}
				}
			}
		}
	}
	return all
}

// pair is cores and their model on their way.
type pair struct {
	*rig
	model *model
	ids   []string // that there are
	runs  []*pairRun
	acks  *journal.Memory // the disk when the last payload was accepted
	steps int
}

type pairRun struct {
	core  *Core
	run   *Run
	outs  []*modelOut // one for each item
	taken int64
}

// shardCounts are the counts to open with.
var shardCounts = []int{1, 1, 2, 3, 7, 64}

// quick does not walk the stack at each assertion, which would take half of the
// time: testify says where a failure was.
type quick struct{ *rapid.T }

func (quick) Helper() {}

func newPair(t *rapid.T, cfg Config) *pair {
	cfg.MaxRetries = rapid.IntRange(0, 3).Draw(t, "retries")
	cfg.Concurrency = rapid.IntRange(1, 3).Draw(t, "concurrency")
	if cfg.BatchSize = 1; !cfg.Single {
		cfg.BatchSize = rapid.IntRange(1, 3).Draw(t, "batch")
	}
	switch rapid.SampledFrom([]string{"", "", "pull", "push", "debounce", "debounce", "throttle"}).Draw(t, "due times") {
	case "throttle":
		cfg.Throttle = time.Duration(rapid.IntRange(1, 9).Draw(t, "throttle"))
	case "pull":
		cfg.DuePull = true
	case "push":
		cfg.DuePush = true
	case "debounce":
		cfg.Quiet = time.Duration(rapid.IntRange(1, 3).Draw(t, "quiet"))
		cfg.MaxWait = cfg.Quiet + time.Duration(rapid.IntRange(0, 6).Draw(t, "max wait"))
	}
	cfg.MaxPayloads = rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "max payloads")
	if cfg.Single && cfg.Throttle > 0 {
		cfg.MaxPayloads = 1
	}
	p := &pair{rig: newRig(quick{t}, cfg, rapid.SampledFrom(shardCounts).Draw(t, "shards")), model: newModel(cfg)}
	p.ids = []string{"a", "b", "c", "d", "e"}[:rapid.SampledFrom([]int{5, 1, 2}).Draw(t, "ids")] // few: more happens to each
	p.now = int64(time.Hour)                                                                     // so that it may be set back
	p.tick()
	p.accepted()
	return p
}

// anyID draws an id that there may be, or nobody's.
func (p *pair) anyID(t *rapid.T) string {
	return rapid.SampledFrom(append(slices.Clip(p.ids), "nobody")).Draw(t, "id")
}

func (p *pair) drive(t *rapid.T) {
	defer func() { p.close() }()
	t.Repeat(map[string]func(*rapid.T){
		"":        func(t *rapid.T) { p.compare() },
		"put":     p.arrive,
		"put one": p.arrive, // arrivals make the rest worth while
		"advance": func(t *rapid.T) {
			p.now += rapid.Int64Range(0, 8).Draw(t, "time")
			p.tick()
		},
		"take":    p.takeSome,
		"take to": p.takeSome,
		"start":   p.startOne,
		"pass":    p.passSome,
		"pass on": p.passSome,
		"finish":  p.finishOne,
		"park":    p.postponeOne,
		"unpark":  p.unpark,
		"end":     p.finishOne,
		"now":     p.runNow,
		"remove":  p.removeSome,
		"pause":   p.pauseOne,
		"resume":  p.pauseAll,
		"restore": p.restoreOne,
		"reclaim": p.reclaim,
		"crash":   p.crashNow,
		"power":   p.powerCut,
		"set":     p.setClock,
	})
}

// setClock sets the clock by as much as is written down. What was held and waits behind that may
// be due at another time after a crash.
func (p *pair) setClock(t *rapid.T) {
	if p.cfg.Block || p.cfg.Single {
		return
	}
	step := int64(clockNote)
	if rapid.Bool().Draw(t, "back") {
		step = -step
	}
	for _, c := range p.cores {
		c.stepClock(p.now, step)
		c.Record(p)
	}
	p.model.set(p.now, step)
	for _, r := range p.runs {
		r.taken += step
	}
	p.now += step
	p.tick()
}

func (p *pair) tick() {
	for _, c := range p.cores {
		c.Tick(p.now)
		c.Record(p)
	}
	maps.DeleteFunc(p.model.rested, func(_ string, until int64) bool { return until <= p.now })
}

func (p *pair) accepted() {
	p.flush()
	p.acks = p.mem.Crash()
}

func (p *pair) arrive(t *rapid.T) {
	id := rapid.SampledFrom(p.ids)
	data := rapid.SampledFrom([]string{"", "x", "y", "z"})
	score := rapid.SampledFrom([]float64{0, math.Copysign(0, -1), 1, 1, 2, -1, 0.5, 1e300, -5e-324})
	var entries []journal.Entry
	for range rapid.IntRange(1, 3).Draw(t, "n") {
		entries = append(entries, journal.Entry{
			ID: []byte(id.Draw(t, "id")), Payload: []byte(data.Draw(t, "data")), Score: score.Draw(t, "score"),
			Due: p.now + rapid.Int64Range(-4, 6).Draw(t, "due"),
		})
	}
	p.arrived(p.put(entries...)...)
}

func (p *pair) arrived(in ...*arrival) {
	for _, a := range in {
		e := &a.entry
		tp := &modelPayload{e.Position, string(e.ID), string(e.Payload), e.Score, e.Due, e.Restored}
		p.model.deliver(tp)
		require.Equal(p.t, p.model.ended[tp.pos], a.into != 0, "#%d: merged into #%d", tp.pos, a.into)
		if a.into != 0 {
			require.Equal(p.t, tp.data, p.model.all[a.into].data, "merged into another payload")
		}
	}
	p.accepted()
}

func (p *pair) takeSome(t *rapid.T) {
	i := rapid.IntRange(0, len(p.cores)-1).Draw(t, "core")
	if ready := p.model.ready(p.now, func(string) bool { return true }); len(ready) > 0 {
		i = int(p.route(ready[0])) // with many cores most have nothing to do
	}
	c := p.cores[i]
	ready := p.model.ready(p.now, func(id string) bool { return p.core(id) == c })
	free := p.running(c) < p.cfg.Concurrency && !c.swift() && !c.paused
	due, ok := c.ready(p.now)
	require.Equal(p.t, free && len(ready) > 0, ok, "ready")
	if len(ready) > 0 {
		require.Equal(p.t, p.model.jobs[ready[0]].due, due)
	}
	if p.cfg.Single {
		c.pace = max(c.pace, 8) // as for fast handlers: several payloads of an id
	}
	r := c.NewRun()
	require.Equal(p.t, ok, c.Take(p.now, r), "take")
	c.Record(p)
	if ok {
		p.taken(c, r, ready, c.pace)
	}
}

func (p *pair) running(c *Core) (n int) {
	for _, r := range p.runs {
		n += count(r.core == c)
	}
	return n
}

// taken holds a run against what the model would take. Among equal due times
// there is no order.
func (p *pair) taken(c *Core, r *Run, ready []string, pace int) {
	require.LessOrEqual(p.t, len(r.Items), max(maxRun, p.cfg.BatchSize))
	run := &pairRun{core: c, run: r, taken: p.now}
	for i := range r.Items {
		it := &r.Items[i]
		require.Contains(p.t, ready, it.ID)
		require.Equal(p.t, p.model.jobs[ready[i]].due, it.Due, "oldest first")
	}
	room := pace
	for i := range r.Items {
		it := &r.Items[i]
		j := p.model.jobs[it.ID]
		require.Nil(p.t, j.out, "two runs of one id")
		require.Equal(p.t, []any{j.due, j.retry, j.err}, []any{it.Due, it.Retry, it.LastError}, it.ID)
		if j.err != "" {
			require.Equal(p.t, j.failures, it.History.Failures(it.LastError), it.ID)
		} else {
			require.Empty(p.t, it.History, it.ID)
			j.failures = nil
		}
		out := p.model.take(it.ID, room)
		room -= len(out.payloads)
		require.Equal(p.t, positions(out.payloads), refs(it.Payloads), it.ID)
		run.outs = append(run.outs, out)
	}
	p.runs = append(p.runs, run)
}

func positions(ps []*modelPayload) (out []journal.Position) {
	for _, p := range ps {
		out = append(out, p.pos)
	}
	return out
}

func refs(ps []Payload) (out []journal.Position) {
	for _, p := range ps {
		out = append(out, p.Ref.Position())
	}
	return out
}

// pick draws one of the runs that are out, nil when there is none.
func (p *pair) pick(t *rapid.T) *pairRun {
	if len(p.runs) == 0 {
		return nil
	}
	return p.runs[rapid.IntRange(0, len(p.runs)-1).Draw(t, "run")]
}

// current reports whether an item still stands for its job.
func (p *pair) current(r *pairRun, i int) bool {
	j := p.model.jobs[r.run.Items[i].ID]
	return j != nil && j.out == r.outs[i]
}

func (p *pair) startOne(t *rapid.T) {
	if r := p.pick(t); r != nil {
		p.start(t, r)
	}
}

// start starts the next item of a run, after those before it have got their
// outcomes; false when there is none.
func (p *pair) start(t *rapid.T, r *pairRun) bool {
	p.drawOutcomes(t, r)
	var want []*Item
	for i, out := range r.outs {
		if !out.started && p.current(r, i) {
			want = append(want, &r.run.Items[i])
			out.started = true
			break
		}
		out.started = true // or taken back
	}
	require.Equal(p.t, want, r.run.Next(nil, 1), "started, or taken back")
	return want != nil
}

// drawOutcomes ends what has been started.
func (p *pair) drawOutcomes(t *rapid.T, r *pairRun) {
	for i, out := range r.outs {
		if it := &r.run.Items[i]; out.started && p.current(r, i) && it.Outcome.Verdict == VerdictUnstarted {
			p.drawOutcome(t, it)
		}
	}
}

func (p *pair) finishOne(t *rapid.T) {
	r := p.pick(t)
	if r == nil {
		return
	}
	for rapid.IntRange(0, 4).Draw(t, "go on") > 0 && p.start(t, r) {
	}
	p.drawOutcomes(t, r)
	ids := make([]string, len(r.outs))
	outcomes := make([]Outcome, len(ids))
	for i := range r.outs {
		if it := &r.run.Items[i]; p.current(r, i) {
			ids[i], outcomes[i] = it.ID, it.Outcome
			outcomes[i].Parts = slices.Clone(it.Outcome.Parts) // the core adds to them
		}
	}
	r.run.Elapsed = time.Duration(rapid.SampledFrom([]int64{0, 0, int64(2 * Quantum)}).Draw(t, "elapsed"))
	r.core.Finish(p.now, r.run)
	r.core.Record(p)
	p.runs = slices.DeleteFunc(p.runs, func(o *pairRun) bool { return o == r })
	for i, id := range ids {
		if id != "" {
			p.model.finish(id, p.now, outcomes[i])
		}
	}
}

// postponeOne puts a started item back, as one that a lock keeps from running.
func (p *pair) postponeOne(t *rapid.T) {
	r := p.pick(t)
	if r == nil {
		return
	}
	i := rapid.IntRange(0, len(r.outs)-1).Draw(t, "item")
	it := &r.run.Items[i]
	if !r.outs[i].started || !p.current(r, i) || it.Outcome.Done > 0 || it.Outcome.Verdict != VerdictUnstarted {
		return // its handler has been called
	}
	id, parked := it.ID, rapid.Bool().Draw(t, "parked")
	r.core.Tick(p.now)
	r.core.Postpone(it, parked)
	r.core.Record(p)
	if r.outs[i].removals != nil {
		p.model.finish(id, p.now, Outcome{})
		return
	}
	if parked {
		p.model.parked[id] = true
	}
	p.model.putBack(p.model.jobs[id])
}

func (p *pair) unpark(t *rapid.T) {
	id := rapid.SampledFrom(p.ids).Draw(t, "id")
	p.core(id).Let(id, HoldWait)
	p.core(id).Record(p)
	delete(p.model.parked, id)
}

// drawOutcome ends an item. Under Single its worker goes through some of the payloads
// first, or stops between two of them.
func (p *pair) drawOutcome(t *rapid.T, it *Item) {
	done := it.Outcome.Done
	for p.cfg.Single && rapid.IntRange(0, 3).Draw(t, "pass") > 0 {
		if !it.Pass() {
			it.Outcome.Verdict = VerdictDone
			return
		}
		done++
	}
	payloads := len(it.Payloads)
	if p.cfg.Single {
		payloads = 0 // there are no others
	}
	it.Outcome = drawOutcome(t, payloads)
	it.Outcome.Done = done
}

// passSome has the worker of a run go through some payloads of what it has in hand.
func (p *pair) passSome(t *rapid.T) {
	r := p.pick(t)
	if r == nil || !p.cfg.Single {
		return
	}
	for i, out := range slices.Backward(r.outs) {
		if !out.started || !p.current(r, i) {
			continue
		}
		if it := &r.run.Items[i]; it.Outcome.Verdict == VerdictUnstarted && rapid.Bool().Draw(t, "another") && !it.Pass() {
			it.Outcome.Verdict = VerdictDone
		}
		return
	}
}

func drawOutcome(t *rapid.T, payloads int) (o Outcome) {
	o.Verdict = rapid.SampledFrom([]Verdict{VerdictDone, VerdictDone, VerdictFailed, VerdictFailed, VerdictFailed, VerdictSnoozed, VerdictInterrupted, VerdictCanceled, VerdictDiscarded}).Draw(t, "verdict")
	if o.Verdict == VerdictFailed || o.Verdict == VerdictSnoozed {
		o.Delay = time.Duration(rapid.Int64Range(-1, 6).Draw(t, "delay"))
	}
	if o.Verdict == VerdictFailed || o.Verdict == VerdictCanceled {
		o.Error = rapid.SampledFrom([]string{"", "e", "f"}).Draw(t, "error")
	}
	for i := range payloads {
		if rapid.IntRange(0, 9).Draw(t, "part") == 0 {
			o.Parts = append(o.Parts, Part{i, rapid.SampledFrom([]Verdict{VerdictDone, VerdictDiscarded, VerdictCanceled, VerdictCanceled}).Draw(t, "of"), "part"})
		}
	}
	return o
}

func (p *pair) runNow(t *rapid.T) {
	id := p.anyID(t)
	j := p.model.jobs[id]
	waits := j != nil && j.out == nil
	keep := rapid.Bool().Draw(t, "keep")
	require.Equal(p.t, waits, p.core(id).RunNow(id, p.now, !keep))
	p.core(id).Record(p)
	if waits {
		p.model.now(j, p.now, keep)
	}
}

func (p *pair) restoreOne(t *rapid.T) {
	if dead := slices.Sorted(maps.Keys(p.model.morgue)); len(dead) > 0 {
		p.arrived(p.restore(rapid.SampledFrom(dead).Draw(t, "dead"), p.now))
	}
}

func (p *pair) reclaim(t *rapid.T) {
	if rapid.Bool().Draw(t, "quantum") {
		p.now += int64(Quantum)
	}
	var goOn []func() // what the model does, once the cores have let go of the items
	for _, r := range p.runs {
		if slices.Contains(r.core.young, r.run) && p.now >= r.taken+int64(Quantum) {
			goOn = append(goOn, p.takeApart(r)...)
		}
	}
	for _, c := range p.cores {
		next := c.reclaim(p.now)
		require.Greater(p.t, next, p.now)
		c.Record(p)
	}
	for _, f := range goOn {
		f()
	}
}

// takeApart says what becomes of all items of a run but the last one that was
// started, which its worker has in hand.
func (p *pair) takeApart(r *pairRun) (goOn []func()) {
	inHand := true
	for i, out := range slices.Backward(r.outs) {
		if !p.current(r, i) {
			continue
		}
		switch id, outcome := r.run.Items[i].ID, r.run.Items[i].Outcome; {
		case !out.started:
			goOn = append(goOn, func() { p.model.putBack(p.model.jobs[id]) })
		case inHand:
			inHand = false
			it := &r.run.Items[i]
			passed := int(it.passed.Load()) - out.settled
			goOn = append(goOn, func() { p.model.settle(p.model.jobs[id], passed) })
		default:
			goOn = append(goOn, func() { p.model.finish(id, p.now, outcome) })
		}
	}
	return goOn
}

// crashNow crashes when everything is on disk: nothing but the runs is undone, and
// by another crash nothing at all.
func (p *pair) crashNow(t *rapid.T) {
	p.flush()
	p.crash(rapid.SampledFrom(shardCounts).Draw(t, "shards"))
	p.runs = nil
	p.model.crash()
	if rapid.Bool().Draw(t, "twice") {
		before := p.rig.lanes()
		p.flush()
		p.crash(rapid.SampledFrom(shardCounts).Draw(t, "shards"))
		require.Equal(p.t, before, p.rig.lanes())
		p.model.counts = Counts{}
	}
}

// powerCut takes back everything since the last payload was accepted: whatever
// the runs decided is undone, and no payload is lost.
func (p *pair) powerCut(t *rapid.T) {
	p.close()
	p.mem = p.acks.Crash()
	p.open(rapid.SampledFrom(shardCounts).Draw(t, "shards"))
	p.runs = nil
	morgue := p.morgue()
	w := newModel(p.cfg)
	w.all = p.model.all
	for _, c := range p.cores {
		w.counts.Merged += c.counts.Merged // what was undone may be decided again
	}
	for pos := range p.model.all {
		_, buried := morgue[pos]
		switch {
		case buried:
			w.morgue[pos] = true
		case !p.known()[pos]:
			require.True(p.t, p.model.ended[pos] || w.mergedAgain(pos, p.rig), "#%d is lost", pos)
			w.ended[pos] = true
		}
	}
	w.adopt(p.rig)
	p.model = w
}

// mergedAgain reports whether a payload has an equal one beside it, so that it
// may have been merged at the start.
func (w *model) mergedAgain(pos journal.Position, g *rig) bool {
	p := w.all[pos]
	v, _ := g.core(p.id).view(p.id)
	return slices.ContainsFunc(v.waiting, func(q Payload) bool { return w.all[q.Ref.Position()].data == p.data })
}

// adopt takes over what the cores have.
func (w *model) adopt(g *rig) {
	for _, c := range g.cores {
		for id, r := range c.rested.byID {
			w.rested[id] = r.until
		}
		for id := range c.lanes.named() {
			v, _ := c.view(id)
			l := c.lanes.find([]byte(id))
			j := &modelJob{due: v.due, limit: c.limitOf(l), retry: v.retry, err: v.err, failures: v.failures, halted: v.halted, decided: !c.gathering(l)}
			if p := l.past(); p != nil {
				j.own, j.restEnd = p.own, p.restEnd
			}
			for _, p := range v.held {
				j.held = append(j.held, w.all[p.Ref.Position()])
			}
			for _, p := range v.waiting {
				j.waiting = append(j.waiting, w.all[p.Ref.Position()])
			}
			w.jobs[id] = j
		}
	}
}

// sumOf adds up the figures of two shards.
func sumOf(a, b Counts) Counts {
	sum, more := reflect.ValueOf(&a).Elem(), reflect.ValueOf(b)
	for i := range sum.NumField() {
		if f := sum.Field(i); f.CanInt() {
			f.SetInt(f.Int() + more.Field(i).Int())
		} else {
			f.SetUint(f.Uint() + more.Field(i).Uint())
		}
	}
	return a
}

// compare holds the cores against the model, their own laws and the journal.
func (p *pair) compare() {
	for _, c := range p.cores {
		if c.lanes.len()+len(c.runs) > 0 {
			c.check(p.t)
		}
	}
	var views []laneView
	totals, next := Counts{}, int64(math.MaxInt64)
	for _, c := range p.cores {
		for id := range c.lanes.named() {
			v, _ := c.view(id)
			views = append(views, v)
		}
		n := c.Counts()
		n.Jobs, n.Payloads, n.Retrying, n.Halted, n.Running, n.Parked, n.Paused = 0, 0, 0, 0, 0, 0, 0
		totals = sumOf(totals, n)
		next = min(next, c.NextDue())
	}
	slices.SortFunc(views, func(a, b laneView) int { return cmp.Compare(a.id, b.id) })
	require.Len(p.t, views, len(p.model.jobs))
	for _, v := range views {
		j := p.model.jobs[v.id]
		require.NotNil(p.t, j, v.id)
		due, limit, out := j.due, j.limit, []*modelPayload(nil)
		if j.out != nil {
			due, limit, out = j.out.due, j.out.limit, j.out.payloads
		} else if !j.halted && !p.model.held(v.id) {
			next = min(next, due)
			require.LessOrEqual(p.t, next, due)
		}
		if p.cfg.Quiet > 0 {
			require.Equal(p.t, limit, p.limitOf(v.id), v.id)
		}
		want := []any{due, j.retry, j.err, j.halted, positions(out), positions(j.held), positions(j.waiting)}
		got := []any{v.due, v.retry, v.err, v.halted, refs(v.out), refs(v.held), refs(v.waiting)}
		require.Equal(p.t, want, got, "%v", v)
	}
	require.LessOrEqual(p.t, totals.Replaced, totals.Merged)
	totals.Replaced = 0 // the model does not know what a receipt has said
	require.Equal(p.t, p.model.counts, totals)
	if p.steps++; p.steps%4 == 0 { // what is slow finds a loss later, but finds it
		p.checkJournal()
		p.everyPositionOnce()
	}
}

// everyPositionOnce: accepted payloads wait, run, have ended, or are buried.
func (p *pair) everyPositionOnce() {
	known, buried := p.known(), p.morgue()
	for pos := range p.model.all {
		_, dead := buried[pos]
		require.Equal(p.t, dead, p.model.morgue[pos], "#%d in the morgue", pos)
		require.Equal(p.t, 1, count(known[pos])+count(dead)+count(p.model.ended[pos]), "#%d", pos)
	}
	require.Len(p.t, buried, len(p.model.morgue))
}
