package world

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/events"
)

// part is a payload as a handler gets it.
type part struct {
	pos   uint64
	score float64
	value payload
	meta  map[string]string
	at    time.Time // when it was enqueued
}

// run is one job of a call of a handler.
type run struct {
	queue   *queue
	id      string
	parts   []part
	attempt int
	crashes int
	parent  executor.Parent
	said    string // the last error, before it ran
	token   uint64 // of its lease

	life   int
	nth    int     // of the runs of this life, from 1
	tenure *tenure // nil: there is no cluster
	began  time.Time
	items  []*item
	acts   []string // of the parts, what the plan of each says
	staged []*item
	full   bool // the disk was, when it ended
	wild   bool // a panic has ended it, or Goexit
	cut    bool // its context has ended before it has
	slot   int
}

var (
	errPlanned  = errors.New("planned failure")
	errCanceled = errors.New("planned cancel")
	errStray    = errors.New("planned failure, of another payload")
)

// strayPosition is that of no payload.
const strayPosition = 1 << 60

// What a handler gets is its own: it leaves nothing of it, whoever calls it again.

// single is a handler of Handle.
func (w *world) single(q *queue) func(context.Context, executor.Job[payload]) error {
	life := w.life
	return func(ctx context.Context, job executor.Job[payload]) error {
		if !q.conf.has("meddled") || !q.twice() { // else a middleware sees it once more
			defer clear(job.Metadata)
		}
		r := &run{
			queue: q, id: job.ID, parts: []part{{job.Position, job.Score, job.Payload, maps.Clone(job.Metadata), job.EnqueuedAt}},
			attempt: job.Attempt, crashes: job.Crashes, parent: job, said: job.LastError, token: job.Lease().Token(), life: life,
		}
		return w.work(ctx, []*run{r})[0]
	}
}

func ofMerged[T any](q *queue, life int, job executor.Merged[T]) *run {
	r := &run{
		queue: q, id: job.ID, attempt: job.Attempt, crashes: job.Crashes, parent: job,
		said: job.LastError, token: job.Lease().Token(), life: life,
	}
	for _, p := range job.Payloads {
		r.parts = append(r.parts, part{p.Position, p.Score, any(p.Value).(payload), p.Metadata, p.EnqueuedAt})
	}
	return r
}

// merged is a handler of HandleMerged.
func (w *world) merged(q *queue) func(context.Context, executor.Merged[payload]) error {
	life := w.life
	return func(ctx context.Context, job executor.Merged[payload]) error {
		defer clear(job.Payloads)
		return w.work(ctx, []*run{ofMerged(q, life, job)})[0]
	}
}

// batch is a handler of HandleBatch.
func (w *world) batch(q *queue) func(context.Context, []executor.Merged[payload]) error {
	life := w.life
	return func(ctx context.Context, jobs []executor.Merged[payload]) error {
		defer clear(jobs)
		var runs []*run
		for _, job := range jobs {
			defer clear(job.Payloads)
			runs = append(runs, ofMerged(q, life, job))
		}
		if most := max(q.conf.num("batch"), 1); len(jobs) > most {
			w.fail("a batch: %d jobs of %s come together, of %d", len(jobs), q.name, most)
		}
		told := make(executor.BatchErrors)
		for i, err := range w.work(ctx, runs) {
			told[runs[i].id] = err
		}
		return told
	}
}

// work does what the plans of the payloads say, and returns an error for each job.
func (w *world) work(ctx context.Context, runs []*run) (errs []error) {
	if !w.enter(ctx, runs) {
		return make([]error, len(runs)) // of a process that is dead
	}
	ended := false
	defer func() {
		switch p := recover(); {
		case p != nil:
			w.leave(ctx, runs, made(ctx, runs, nil))
			panic(p)
		case !ended: // Goexit
			w.leave(ctx, runs, nil)
		}
	}()
	for _, r := range runs {
		errs = append(errs, w.perform(ctx, r))
	}
	ended = true
	w.leave(ctx, runs, made(ctx, runs, errs))
	return errs
}

// counts reports whether what a run does is of account.
func (w *world) counts(r *run) bool {
	return w.lives(r.life) && (r.tenure == nil || r.tenure.ctx.Err() == nil)
}

// enter notes that a handler has begun; false: it is of no account.
func (w *world) enter(ctx context.Context, runs []*run) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range runs {
		r.tenure, _ = ctx.Value(tenureKey{}).(*tenure)
	}
	if !w.counts(runs[0]) {
		return false
	}
	if n := runs[0].node(); n != nil {
		n.working++
	}
	for _, r := range runs {
		w.runs++
		r.began, r.nth = time.Now(), w.runs
		for _, p := range r.parts {
			items, strange := w.ledger.find(r.queue.name, r.id, p.pos, p.value)
			if strange != "" {
				w.fail("%s, in a handler", strange)
			}
			r.acts = append(r.acts, actOf(p.value, items))
			r.items = append(r.items, items...)
		}
		for _, f := range w.features {
			if f.began != nil {
				f.began(w, r)
			}
		}
		for _, i := range r.items {
			if i.calls++; i.calls == 1 {
				i.begun, i.ran = r.began, w.life
			}
			i.moved = w.epoch
		}
		w.running = append(w.running, r)
	}
	return true
}

// actOf is what the plan of a payload says for this call: fail/ok is a failure, and then
// success. A poison does no harm once a person has to do with it, who has mended the cause.
func actOf(v payload, items []*item) string {
	calls := 0
	for _, i := range items[:min(1, len(items))] {
		calls = i.calls
	}
	acts := strings.Split(v.Plan, "/")
	if strings.HasSuffix(v.Plan, poison) && !slices.ContainsFunc(items, func(i *item) bool { return i.hurried || i.back != nil }) {
		return v.Plan
	}
	if v.Plan == "" || calls >= len(acts) {
		return "ok"
	}
	return acts[calls]
}

// leave notes what came of a call; errs is nil after a panic or Goexit.
func (w *world) leave(ctx context.Context, runs []*run, errs []error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := runs[0].node(); n != nil {
		n.working--
	}
	if !w.counts(runs[0]) {
		for _, r := range runs {
			for _, f := range w.features {
				if f.died != nil {
					f.died(w, r)
				}
			}
		}
		return
	}
	for n, r := range runs {
		r.full = w.full.Load() || errors.Is(w.x.Err(), executor.ErrFull) // it finds room out a second late
		r.wild, r.cut = errs == nil, ctx.Err() != nil
		err := errPlanned
		if errs != nil {
			err = errs[n]
		}
		for at := range r.parts {
			w.outcome(r, at, err)
		}
		r.share()
		for _, f := range w.features {
			if f.ended != nil {
				f.ended(w, r, err)
			}
		}
	}
	w.running = without(w.running, runs)
}

// outcome notes what an error means for a payload of a run.
func (w *world) outcome(r *run, at int, err error) {
	if some, ok := errors.AsType[executor.PayloadErrors](err); ok {
		if len(r.queue.lockKeys(r.parts[at].value).unlocked) > 0 {
			err = errPlanned // it can't tell what a part unlocks
		} else if _, stray := some[strayPosition]; stray && some[r.parts[at].pos] == nil {
			err = errPlanned // it must have been meant for one of those that it says nothing of
		} else {
			err = some[r.parts[at].pos]
		}
	}
	items := r.itemsOf(at)
	for _, i := range items {
		if i.moved = w.epoch; i.hint == "done" || i.hint == "discarded" { // by an earlier call of the run, or on a full disk
			i.hint = ""
		}
		switch executor.OutcomeOf(err) {
		case events.Done:
			i.hint, i.hintLife, i.last = "done", w.term(i.id), r
		case events.Discarded:
			i.hint, i.hintLife = "discarded", w.term(i.id)
		case events.Snoozed:
			if i.doom > 0 { // a person may have buried it while it ran
				i.doom = w.epoch
			}
		default:
			i.doom = w.epoch
		}
	}
}

// node is where a run is; nil: there is no cluster.
func (r *run) node() *node {
	if r.tenure == nil {
		return nil
	}
	return r.tenure.node
}

// on is the queue as the node of a run has it.
func (q *queue) on(r *run) handle {
	if n := r.node(); n != nil {
		return n.queues[q]
	}
	return handle{q.queue, q.do}
}

// refused reports whether the follow-ups of a run may have found no room: then it is none.
func (r *run) refused() bool { return r != nil && r.full && len(r.staged) > 0 }

// share: what fails together with others may be buried with them.
func (r *run) share() {
	for _, failed := range r.items {
		for _, i := range r.items {
			i.doom = max(i.doom, failed.doom)
		}
	}
}

// itemsOf are the items of a part.
func (r *run) itemsOf(at int) []*item {
	first := 0
	for _, p := range r.parts[:at] {
		first += len(p.value.numbers())
	}
	last := first + len(r.parts[at].value.numbers())
	return r.items[min(first, len(r.items)):min(last, len(r.items))]
}

func without(all, gone []*run) (rest []*run) {
	for _, r := range all {
		keep := true
		for _, g := range gone {
			keep = keep && r != g
		}
		if keep {
			rest = append(rest, r)
		}
	}
	return rest
}

// perform does what the plan of a job says: of one payload, or the first of several that
// does not say ok. With parts each has an error of its own.
func (w *world) perform(ctx context.Context, r *run) error {
	if r.queue.conf.has("parts") && len(r.parts) > 1 {
		errs := make(executor.PayloadErrors)
		for at, act := range r.acts {
			err := w.do(ctx, r, at, act)
			if err == errStray {
				errs[strayPosition] = err
			} else if err != nil {
				errs[r.parts[at].pos] = err
			}
		}
		if len(errs) == 0 {
			return nil
		}
		return errs
	}
	for at, act := range r.acts {
		if at > 0 && ctx.Err() != nil { // who is deaf is so for one payload
			return fmt.Errorf("cut short: %w", context.Cause(ctx))
		}
		if err := w.do(ctx, r, at, act); err != nil {
			return err
		}
	}
	return nil
}

// do carries out an act, which may begin with a pause: 3s:fail.
func (w *world) do(ctx context.Context, r *run, at int, act string) error {
	if pause, rest, found := strings.Cut(act, ":"); found {
		act = rest
		d, _ := time.ParseDuration(pause)
		select {
		case <-time.After(d):
		case <-ctx.Done():
			return fmt.Errorf("cut short: %w", context.Cause(ctx))
		}
	}
	name, arg, _ := strings.Cut(act, "~")
	d, _ := time.ParseDuration(arg)
	switch name {
	case "ok":
		return nil
	case "fail":
		return errPlanned
	case "stray":
		return errStray
	case "panic":
		panic("planned panic")
	case "goexit":
		runtime.Goexit()
	case "cancel":
		return executor.Cancel(errCanceled)
	case "discard":
		return executor.Discard()
	case "snooze":
		return executor.Snooze(d)
	case "after":
		return executor.RetryAfter(d, errPlanned)
	case "kill":
		if n := r.node(); n != nil {
			w.town.die(n)
		} else {
			w.kill()
		}
		return errPlanned
	}
	for _, f := range w.features {
		if do := f.acts[name]; do != nil {
			return do(w, ctx, r, at, arg)
		}
	}
	return nil
}
