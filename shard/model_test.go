package shard

import (
	"cmp"
	"slices"

	"github.com/strandjobs/strand/journal"
)

// model does what a Core should do, slowly: it sorts and merges everything at
// every step, and writes nothing down.
type model struct {
	cfg    Config
	jobs   map[string]*modelJob
	all    map[journal.Position]*modelPayload
	morgue map[journal.Position]bool
	ended  map[journal.Position]bool
	parked map[string]bool
	paused map[string]bool
	rested map[string]int64
	counts Counts // totals only
}

type modelPayload struct {
	pos      journal.Position
	id, data string
	score    float64
	due      int64
	restored bool
}

type modelJob struct {
	waiting, held []*modelPayload
	due           int64 // while it is out: of what waits, if that is a job of its own
	limit         int64 // how far fresh payloads can put it off, under Quiet
	retry         int
	err           string
	failures      []journal.Failure // that are kept, if err says what the last one was
	halted        bool
	decided       bool  // its due time was, by a retry or a snooze
	own, restEnd  int64 // while its id rests: when it is due by itself, and when that is over
	ran           int64 // when a run of it that failed or was put off was last, in this process
	out           *modelOut
}

// modelOut is the part of a job that a worker has.
type modelOut struct {
	payloads      []*modelPayload
	due, limit    int64 // as if it had not begun
	held, partial bool
	decided       bool
	started       bool
	settled       int // payloads that were done while it ran, and are no more here
	removals      []*Removal
}

func newModel(cfg Config) *model {
	return &model{
		cfg: cfg, jobs: make(map[string]*modelJob), all: make(map[journal.Position]*modelPayload),
		morgue: make(map[journal.Position]bool), ended: make(map[journal.Position]bool),
		parked: make(map[string]bool), paused: make(map[string]bool),
		rested: make(map[string]int64),
	}
}

// better reports whether p stays when q has the same bytes.
func (w *model) better(p, q *modelPayload) bool {
	switch w.cfg.Merge {
	case MergeKeepFirst:
		return p.pos < q.pos
	case MergeKeepLast:
		return p.pos > q.pos
	}
	return inOrder(p, q) < 0
}

func inOrder(p, q *modelPayload) int {
	return cmp.Or(cmp.Compare(p.score, q.score), cmp.Compare(p.pos, q.pos))
}

// merge adds payloads to those that wait.
func (w *model) merge(j *modelJob, more ...*modelPayload) {
	all := slices.Concat(j.waiting, more)
	j.waiting = nil
	for _, p := range all {
		beaten := func(q *modelPayload) bool { return q != p && q.data == p.data && w.better(q, p) }
		if w.cfg.Merge != MergeKeepAll && slices.ContainsFunc(all, beaten) {
			w.end(p)
			w.counts.Merged++
		} else {
			j.waiting = append(j.waiting, p)
		}
	}
	slices.SortFunc(j.waiting, inOrder)
}

func (w *model) end(p *modelPayload) {
	if w.ended[p.pos] {
		panic("the model ends a payload twice")
	}
	w.ended[p.pos] = true
}

func (w *model) bury(ps []*modelPayload) {
	for _, p := range ps {
		w.morgue[p.pos] = true
		w.counts.Buried++
	}
}

func (w *model) deliver(p *modelPayload) {
	w.all[p.pos] = p
	delete(w.morgue, p.pos)
	j := w.jobs[p.id]
	if j == nil {
		j = &modelJob{retry: -1}
		w.open(j, p)
		if until, rests := w.rested[p.id]; rests && !p.restored {
			j.rest(until)
		}
		delete(w.rested, p.id)
		w.jobs[p.id] = j
	}
	if j.out != nil && !j.out.started {
		w.putBack(j)
	}
	first := len(j.waiting) == 0
	w.merge(j, p)
	switch {
	case j.out != nil:
		if !p.restored {
			w.freshOut(j, p)
		}
		if first || p.restored {
			w.open(j, p)
		} else {
			w.move(j, p)
		}
	case p.restored:
		w.now(j, p.due, false)
	default:
		w.fresh(j, p)
	}
}

// open makes a payload the first of a job.
func (w *model) open(j *modelJob, p *modelPayload) {
	j.decided, j.restEnd = false, 0
	if j.due, j.limit = p.due, p.due; !p.restored {
		j.due += int64(w.cfg.Quiet)
		j.limit += int64(w.cfg.MaxWait)
	}
}

// rest has a job be due when a rest is over, too.
func (j *modelJob) rest(until int64) {
	j.own, j.restEnd = j.due, until
	j.due = max(j.due, until)
}

// restLeft returns when the rest after its last run is over.
func (w *model) restLeft(now int64, j *modelJob) int64 {
	ran := j.ran
	if ran == 0 && j.err != "" {
		ran = j.failures[len(j.failures)-1].At
	}
	return max(j.restEnd, min(ran, now)+int64(w.cfg.Throttle))
}

// set sets the clock, which said before.
func (w *model) set(before, step int64) {
	shift := func(at *int64) {
		if *at < farFuture-max(step, 0) {
			*at += step
		}
	}
	came := func(at *int64) {
		if *at <= before {
			shift(at)
		}
	}
	for id := range w.rested {
		w.rested[id] += step
	}
	for _, j := range w.jobs {
		if j.ran != 0 {
			shift(&j.ran)
		}
		if j.out != nil {
			shift(&j.out.due)
			shift(&j.out.limit)
		}
		switch quiet, wait := int64(w.cfg.Quiet), int64(w.cfg.MaxWait); {
		case j.restEnd != 0:
			came(&j.own)
			j.restEnd += step
			j.due = max(j.own, j.restEnd)
		case quiet > 0 && !j.decided && (j.out != nil || j.retry < 0):
			atLimit := j.due == j.limit
			for at, pause := range map[*int64]int64{&j.due: quiet, &j.limit: wait} {
				if *at-pause <= before {
					shift(at)
				} else {
					*at = max(*at, before+step+pause) // what the clock has skipped comes now
				}
			}
			if j.due = min(j.due, j.limit); atLimit {
				j.due = j.limit
			}
		case j.retry >= 0 && j.out == nil:
			shift(&j.due)
			j.limit = j.due
		default:
			came(&j.due)
			j.limit = j.due
		}
	}
}

// fresh lets a payload change when a job is due that waits.
func (w *model) fresh(j *modelJob, p *modelPayload) {
	switch {
	case j.halted:
	case j.retry >= 0 && w.cfg.Pull:
		if p.due < j.due {
			j.due, j.limit = p.due, p.due
		}
	case j.retry < 0 && len(j.held) == 0:
		w.move(j, p)
	}
}

// freshOut is fresh for a job that runs, in case it comes to nothing.
func (w *model) freshOut(j *modelJob, p *modelPayload) {
	undone := modelJob{due: j.out.due, limit: j.out.limit, retry: j.retry}
	if j.out.held {
		undone.held = j.out.payloads
	}
	w.fresh(&undone, p)
	j.out.due, j.out.limit = undone.due, undone.limit
}

func (w *model) move(j *modelJob, p *modelPayload) {
	switch {
	case w.cfg.Quiet > 0:
		j.due = min(max(j.due, p.due+int64(w.cfg.Quiet)), j.limit)
	case w.cfg.DuePull:
		j.due = min(j.due, p.due)
	case w.cfg.DuePush:
		j.due = max(j.due, p.due)
	}
}

func (w *model) now(j *modelJob, now int64, keep bool) {
	if j.due, j.limit, j.halted, j.restEnd = now, now, false, 0; !keep {
		j.retry = -1
	}
}

// putBack undoes that a job was handed out.
func (w *model) putBack(j *modelJob) {
	out := j.out
	j.out, j.due, j.limit, j.decided, j.restEnd = nil, out.due, out.limit, out.decided, 0
	if out.held {
		j.held = out.payloads
	} else {
		w.merge(j, out.payloads...)
	}
}

// ready lists the ids that may be taken, oldest due first.
func (w *model) ready(now int64, of func(id string) bool) (ids []string) {
	for id, j := range w.jobs {
		if j.out == nil && !j.halted && !w.held(id) && j.due <= now && of(id) {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b string) int { return cmp.Compare(w.jobs[a].due, w.jobs[b].due) })
	return ids
}

// take hands out the payloads of a job, under Single at most so many.
func (w *model) take(id string, most int) *modelOut {
	j := w.jobs[id]
	out := &modelOut{due: j.due, limit: j.limit, decided: j.decided, held: len(j.held) > 0}
	j.decided, j.restEnd = false, 0
	if out.held {
		out.payloads, j.held = j.held, nil
	} else {
		n := len(j.waiting)
		if w.cfg.MaxPayloads > 0 {
			n = min(n, w.cfg.MaxPayloads)
		}
		if w.cfg.Single {
			n = min(n, most)
		}
		out.payloads, j.waiting = j.waiting[:n:n], j.waiting[n:]
		out.partial = len(j.waiting) > 0
	}
	j.out = out
	return out
}

func (w *model) finish(id string, now int64, o Outcome) {
	j := w.jobs[id]
	w.removeOut(j, &o)
	for _, s := range slices.Backward(o.Parts) {
		switch p := j.out.payloads[s.Index]; s.Verdict {
		case VerdictDone:
			w.end(p)
			w.counts.Done++
		case VerdictDiscarded:
			w.end(p)
			w.counts.Discarded++
		case VerdictDeleted:
			w.delete(p)
		default:
			w.bury([]*modelPayload{p})
		}
		j.out.payloads = slices.Delete(slices.Clone(j.out.payloads), s.Index, s.Index+1)
	}
	ps, behind := j.out.payloads, []*modelPayload(nil)
	if w.cfg.Single {
		done := o.Done - j.out.settled
		if o.Verdict == VerdictDone {
			done++
		}
		w.settle(j, done)
		if ps = j.out.payloads; o.Verdict != VerdictDone {
			ps, behind = ps[:1:1], ps[1:]
		} else {
			ps, behind = nil, ps
		}
	}
	if len(j.out.payloads) == 0 {
		o.Verdict = VerdictDone
	}
	due := now + int64(max(0, o.Delay))
	switch o.Verdict {
	case VerdictDone, VerdictDiscarded:
		for _, p := range ps {
			w.end(p)
		}
		if o.Verdict == VerdictDone {
			w.counts.Done += uint64(len(ps))
		} else {
			w.counts.Discarded += uint64(len(ps))
		}
		w.over(id, now, behind)
	case VerdictCanceled:
		w.bury(ps)
		w.over(id, now, behind)
	case VerdictDeleted:
		for _, p := range ps {
			w.delete(p)
		}
		w.over(id, now, behind)
	case VerdictSnoozed:
		w.counts.Snoozed++
		w.again(j, ps, behind, j.out.held, j.retry, due, j.err)
		j.ran = now
	case VerdictFailed:
		w.counts.Failed++
		w.failed(id, now, due, o.Error, ps, behind)
		j.ran = now
	default:
		if o.Verdict == VerdictInterrupted {
			w.counts.Interrupted++
		}
		if w.putBack(j); o.Done > 0 {
			j.due, j.limit = now, now
		}
	}
}

// settle ends the first n payloads of a run, under Single. What comes behind them has
// not failed yet.
func (w *model) settle(j *modelJob, n int) {
	if n == 0 {
		return
	}
	for _, p := range j.out.payloads[:n] {
		w.end(p)
	}
	w.counts.Done += uint64(n)
	j.out.settled += n
	j.out.payloads = j.out.payloads[n:]
	j.retry, j.err, j.failures = -1, "", nil
}

// failuresKept is how many a journal.History has.
const failuresKept = 5

func (w *model) failed(id string, now, due int64, err string, ps, behind []*modelPayload) {
	j := w.jobs[id]
	hold, count := w.cfg.Block, j.retry+1
	j.failures = append(slices.Clip(j.failures), journal.Failure{Attempt: count + 1, At: now, Text: err})
	j.failures = j.failures[max(0, len(j.failures)-failuresKept):]
	switch {
	case count < w.cfg.MaxRetries:
		w.again(j, ps, behind, hold, count, due, err)
	case w.cfg.Halt:
		w.again(j, ps, behind, hold, count, now, err)
		j.halted = true
	case !w.cfg.BuryAll && len(ps) > 1:
		w.bury(ps[:1])
		w.again(j, ps[1:], behind, hold, -1, now, err)
	default:
		w.bury(ps)
		w.over(id, now, behind)
	}
}

func (w *model) again(j *modelJob, ps, behind []*modelPayload, hold bool, retry int, due int64, err string) {
	j.decided, j.restEnd = true, 0
	if j.out, j.retry, j.due, j.limit, j.err = nil, retry, due, due, err; hold {
		j.held = ps
		w.merge(j, behind...)
	} else {
		w.merge(j, slices.Concat(ps, behind)...)
	}
}

// over ends the run of payloads that are no more, and with it that of those behind
// them.
func (w *model) over(id string, now int64, behind []*modelPayload) {
	j := w.jobs[id]
	j.out.partial = j.out.partial || len(behind) > 0
	w.merge(j, behind...)
	if w.cfg.Throttle > 0 {
		defer func() { j.rest(now + int64(w.cfg.Throttle)) }()
	}
	switch {
	case len(j.waiting) == 0:
		delete(w.jobs, id)
		if w.cfg.Throttle > 0 {
			w.rested[id] = now + int64(w.cfg.Throttle)
		}
	case j.out.held:
		w.open(j, j.waiting[0])
	case j.out.partial:
		j.due, j.limit = now, now
	}
	j.out, j.retry, j.err, j.failures = nil, -1, "", nil
}

// crash undoes what is out.
func (w *model) crash() {
	clear(w.parked)
	clear(w.paused)
	merged := w.counts.Merged
	for _, j := range w.jobs {
		if j.ran = 0; j.out != nil {
			w.putBack(j)
		}
	}
	w.counts = Counts{Merged: w.counts.Merged - merged}
}
