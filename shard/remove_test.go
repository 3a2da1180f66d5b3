package shard

import (
	"slices"

	"pgregory.net/rapid"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal"
)

// What a person does to jobs, in the random test and its model.

func (w *model) held(id string) bool { return w.parked[id] || w.paused[id] }

func (w *model) delete(p *modelPayload) {
	w.end(p)
	w.counts.Deleted++
}

func (w *model) endAs(p *modelPayload, r *Removal) {
	if r.Verdict == VerdictCanceled {
		w.bury([]*modelPayload{p})
	} else {
		w.delete(p)
	}
}

// takeOut ends those of a list that are meant, and returns the others.
func (w *model) takeOut(list []*modelPayload, r *Removal) (left []*modelPayload, n int) {
	for _, p := range list {
		if r.means(p.pos) {
			w.endAs(p, r)
		} else {
			left = append(left, p)
		}
	}
	return left, len(list) - len(left)
}

// remove does what Core.Remove does, to a job that may run; of what it has in hand the
// worker has done the first passed ones.
func (w *model) remove(now int64, id string, r *Removal, passed int) (ended, inHand int) {
	j := w.jobs[id]
	if j == nil {
		return 0, 0
	}
	if j.out != nil && !j.out.started {
		w.putBack(j)
	}
	if j.out != nil {
		if r.Failed {
			return 0, 0
		}
		j.waiting, ended = w.takeOut(j.waiting, r)
		for _, p := range j.out.payloads[passed:] {
			inHand += count(r.means(p.pos))
		}
		if inHand > 0 {
			j.out.removals = append(j.out.removals, r)
		}
		return ended, inHand
	}
	if r.Failed && j.retry < 0 && !j.halted {
		return 0, 0
	}
	held, others := len(j.held), 0
	if !r.Failed || held == 0 {
		j.waiting, others = w.takeOut(j.waiting, r)
	}
	j.held, ended = w.takeOut(j.held, r)
	if ended += others; ended == 0 {
		return 0, 0
	}
	delete(w.parked, id)
	until := w.restLeft(now, j)
	if len(j.held)+len(j.waiting) == 0 {
		delete(w.jobs, id)
		if until > now { // it rests all the same
			w.rested[id] = until
		}
	} else if held > 0 && len(j.held) == 0 {
		if w.open(j, j.waiting[0]); until > now {
			j.rest(until)
		}
		j.retry, j.err, j.halted, j.failures = -1, "", false, nil
	}
	return ended, 0
}

// removeOut is what a person has said of payloads that were in hand, as part of their
// outcome.
func (w *model) removeOut(j *modelJob, o *Outcome) {
	meant := func(p *modelPayload) *Removal {
		for _, r := range slices.Backward(j.out.removals) {
			if r.means(p.pos) {
				return r
			}
		}
		return nil
	}
	over := o.Verdict == VerdictDone || o.Verdict == VerdictDiscarded
	if !w.cfg.Single {
		for i, p := range j.out.payloads {
			if r := meant(p); r != nil && !over {
				o.AddPart(Part{Index: i, Verdict: r.Verdict})
			}
		}
		return
	}
	judged := o.Done - j.out.settled
	ps := slices.Clone(j.out.payloads)
	for i := len(ps) - 1; i > judged; i-- {
		if r := meant(ps[i]); r != nil {
			w.endAs(ps[i], r)
			ps = slices.Delete(ps, i, i+1)
		}
	}
	j.out.payloads = ps
	if judged < 0 {
		return // it was done, and has ended while its worker was told to begin no other
	}
	if r := meant(ps[judged]); r != nil && !over {
		o.Verdict = r.Verdict
	}
}

// removeSome has a person cancel or delete payloads: of a job as a whole, what failed
// of it, or single ones.
func (p *pair) removeSome(t *rapid.T) {
	id := p.anyID(t)
	if run := p.pick(t); run != nil && rapid.Bool().Draw(t, "of a run") {
		i := rapid.IntRange(0, len(run.outs)-1).Draw(t, "item")
		for p.start(t, run) && !run.outs[i].started {
		}
		if p.current(run, i) {
			id = run.run.Items[i].ID
		}
	}
	r := &Removal{Verdict: rapid.SampledFrom([]Verdict{VerdictCanceled, VerdictDeleted}).Draw(t, "verdict"), Reason: "by hand"}
	switch rapid.IntRange(0, 3).Draw(t, "which") {
	case 0:
		r.Failed = true
	case 1, 2:
		r.Of = []journal.Position{}
		if j := p.model.jobs[id]; j != nil {
			all := slices.Concat(j.held, j.waiting)
			if j.out != nil {
				all = slices.Concat(all, j.out.payloads)
			}
			for _, q := range all {
				if rapid.IntRange(0, 2).Draw(t, "this one") == 0 {
					r.Of = append(r.Of, q.pos)
				}
			}
			slices.Sort(r.Of)
		}
	}
	passed := p.passed(id)
	ended, inHand := p.core(id).Remove(p.now, id, r)
	wantEnded, wantInHand := p.model.remove(p.now, id, r, passed)
	require.Equal(p.t, []int{wantEnded, wantInHand}, []int{ended, inHand}, id)
	p.meanwhile(t, p.core(id))
}

// meanwhile has a worker give back a run before what a person does is recorded: one
// change has both.
func (p *pair) meanwhile(t *rapid.T, c *Core) {
	if rapid.Bool().Draw(t, "meanwhile") {
		p.finishOne(t)
	}
	c.Record(p)
}

// passed returns how many payloads of the item in hand of an id are done, and have not
// ended.
func (p *pair) passed(id string) int {
	for _, r := range p.runs {
		for i, out := range r.outs {
			if out.started && p.current(r, i) && r.run.Items[i].ID == id {
				return int(r.run.Items[i].passed.Load()) - out.settled
			}
		}
	}
	return 0
}

// pauseOne pauses an id, or lets it go on.
func (p *pair) pauseOne(t *rapid.T) {
	id := p.anyID(t)
	c := p.core(id)
	if p.model.paused[id] {
		require.True(p.t, c.Let(id, HoldPause))
		delete(p.model.paused, id)
		return
	}
	goOn := p.recall(id)
	require.True(p.t, c.Hold(id, HoldPause))
	require.False(p.t, c.Hold(id, HoldPause))
	p.model.paused[id] = true
	goOn()
	p.meanwhile(t, c)
}

// recall says what becomes of the item of an id that is paused.
func (p *pair) recall(id string) (goOn func()) {
	for _, r := range p.runs {
		for i, out := range r.outs {
			if !p.current(r, i) || r.run.Items[i].ID != id {
				continue
			}
			it := &r.run.Items[i]
			if !out.started {
				return func() { p.model.putBack(p.model.jobs[id]) }
			}
			if p.cfg.Single && len(it.Payloads) > 1 {
				passed := int(it.passed.Load()) - out.settled
				return func() { p.model.settle(p.model.jobs[id], passed) }
			}
		}
	}
	return func() {}
}

// pauseAll pauses a core, or lets it go on.
func (p *pair) pauseAll(t *rapid.T) {
	c := p.cores[rapid.IntRange(0, len(p.cores)-1).Draw(t, "core")]
	if c.paused {
		c.Pause(0, false)
		return
	}
	var goOn []func()
	for _, r := range p.runs {
		if r.core == c {
			goOn = append(goOn, p.takeApart(r)...)
		}
	}
	c.Pause(p.now, true)
	c.Record(p)
	require.True(p.t, c.Paused("anyone"))
	for _, f := range goOn {
		f()
	}
}
