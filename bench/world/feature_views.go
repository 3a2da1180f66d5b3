package world

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
)

// All that shows the same thing shows it alike, and how long the oldest payload has waited is
// what the ledger says.
var viewing = &feature{
	name: "views", always: true,
	claims: `Inspector.Job Inspector.Dead Inspector.Running Inspector.Explain Queue.Pending Queue.Morgue Queue.Name`,
	calm: func(w *world, c *census) {
		for _, q := range c.stats.Queues {
			if q.Registered && !c.stale {
				w.age(c, q)
			}
		}
	},
}

// compare looks at one queue, and at one of its ids, in all ways that there are.
func (w *world) compare(c *census) {
	if c.stale || len(w.queues) == 0 {
		return
	}
	ctx := context.Background()
	q, id := w.queues[w.epoch%len(w.queues)], []string{"a", "b", "c"}[w.epoch/len(w.queues)%3]
	at := slices.IndexFunc(c.stats.Queues, func(s inspect.QueueStats) bool { return s.Name == q.name })
	own, err := q.queue.Stats(ctx)
	if q.queue.Name() != q.name || err != nil || at < 0 || !reflect.DeepEqual(own, c.stats.Queues[at]) {
		w.fail("views: Queue.Stats of %s is %+v, and Stats %+v: %v", q.queue.Name(), own, c.stats.Queues, err)
		return
	}
	w.compareDead(c, q)
	w.walk(c, q)
	w.compareJob(c, q, id)
	w.compareRunning()
}

// compareDead lists what is dead in a queue.
func (w *world) compareDead(c *census, q *queue) {
	var seen, listed, told []uint64
	for _, job := range c.jobs[q.name] {
		for _, p := range job.Dead {
			seen = append(seen, p.Position)
		}
	}
	slices.Sort(seen)
	page, err := w.x.Inspect().Dead(context.Background(), inspect.JobQuery{Queue: q.name, Limit: 1000})
	for _, d := range page.Dead {
		listed = append(listed, d.Position)
	}
	for d, failed := range q.queue.Morgue() {
		if failed != nil {
			w.fail("views: Queue.Morgue: %v", failed)
		}
		told = append(told, d.Position)
	}
	if w.town != nil { // one partition comes after the other
		slices.Sort(listed)
		slices.Sort(told)
	}
	if err != nil || page.Next == "" && !page.Truncated && !slices.Equal(seen, listed) || !slices.Equal(seen, told) {
		w.fail("views: dead in %s are %v by id, %v in Inspector.Dead, and %v in Queue.Morgue: %v", q.name, seen, listed, told, err)
	}
}

// walk turns the pages of a list: each job, and each dead letter, is on one of them, once.
func (w *world) walk(c *census, q *queue) {
	var jobs, letters []string
	for id, job := range c.jobs[q.name] {
		if len(job.InHand)+len(job.Waiting) > 0 {
			jobs = append(jobs, id)
		}
		for _, p := range job.Dead {
			letters = append(letters, fmt.Sprint(id, " ", p.Position))
		}
	}
	query := inspect.JobQuery{Queue: q.name, Order: inspect.OrderNone, Limit: 1 + len(jobs)/4}
	if w.epoch%3 > 0 {
		query.Order, query.Descending = inspect.OrderID, w.epoch%3 > 1
	}
	w.turnPages(query, w.x.Inspect().Jobs, jobs)
	query.Limit = 1 + len(letters)/4
	w.turnPages(query, w.x.Inspect().Dead, letters)
}

func (w *world) turnPages(query inspect.JobQuery, list func(context.Context, inspect.JobQuery) (inspect.JobPage, error), want []string) {
	var found []string
	for more := true; more && len(found) <= len(want); more = query.Cursor != "" {
		page, err := list(context.Background(), query)
		if err != nil {
			w.fail("pages: %+v: %v", query, err)
			return
		}
		for _, j := range page.Jobs {
			found = append(found, j.ID)
		}
		for _, d := range page.Dead {
			found = append(found, fmt.Sprint(d.ID, " ", d.Position))
		}
		query.Cursor = page.Next
	}
	slices.Sort(want)
	slices.Sort(found)
	if !slices.Equal(found, want) {
		w.fail("pages: %+v has %q, and there are %q", query, found, want)
	}
}

// compareJob shows one job.
func (w *world) compareJob(c *census, q *queue, id string) {
	ctx := context.Background()
	was, known := c.jobs[q.name][id]
	job, err := w.x.Inspect().Job(ctx, q.name, id)
	if known != (err == nil) || err != nil && !errors.Is(err, inspect.ErrUnknownJob) {
		w.fail("views: Inspector.Job of %s/%s: %v, and JobsByID shows it: %v", q.name, id, err, known)
		return
	}
	pending, err := q.queue.Pending(ctx, id)
	if alive := known && was.State != inspect.JobDead; err != nil || pending != alive {
		w.fail("views: Pending of %s/%s is %v: %v; its state is %q", q.name, id, pending, err, was.State)
	}
	explain := w.x.Inspect().Explain
	if w.people != nil {
		explain = func(ctx context.Context, queue, id string) (inspect.Explanation, error) {
			return w.people.Explain(ctx, w.x.Executor, queue, id)
		}
	}
	e, err := explain(ctx, q.name, id)
	switch {
	case err != nil:
		w.fail("views: Explain: %v", err)
	case !known && e.State != inspect.JobUnknown,
		known && (!alike(e.State, was.State) || job.State != was.State || !slices.Equal(positions(job), positions(was)) ||
			e.Attempt != was.Attempt && was.State != inspect.JobDead):
		w.fail("views: %s/%s is %q at attempt %d by Explain, %q %v by Job, and %q %v at attempt %d by JobsByID", q.name, id, e.State, e.Attempt,
			job.State, positions(job), was.State, positions(was), was.Attempt)
	}
}

// alike compares a state with a coarser one, of a list. A pause is beside the state in a list.
func alike(fine, coarse inspect.JobState) bool {
	switch fine {
	case inspect.JobBlocked, inspect.JobWaiting, inspect.JobLimited, inspect.JobSuspected:
		return coarse == inspect.JobParked
	case inspect.JobPaused:
		return coarse != inspect.JobRunning && coarse != inspect.JobDead
	}
	return fine == coarse
}

// positions are those of what an id has, alive and dead.
func positions(job inspect.JobDetail) (all []uint64) {
	for _, p := range slices.Concat(job.InHand, job.Waiting) {
		all = append(all, p.Position)
	}
	for _, p := range job.Dead {
		all = append(all, p.Position)
	}
	return all
}

// compareRunning: what runs is what the handlers have.
func (w *world) compareRunning() {
	list, err := w.x.Inspect().Running(context.Background(), inspect.RunningQuery{})
	shown := make(map[string]bool)
	for _, worker := range list.Running {
		for _, job := range worker.Jobs {
			shown[worker.Queue+"/"+job.ID] = true
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.running {
		if job := r.queue.name + "/" + r.id; err != nil || !shown[job] && list.More == 0 {
			w.fail("views: %s runs, and Inspector.Running shows %v: %v", job, shown, err)
		}
	}
}

// age compares how long the oldest payload has waited with what the ledger knows: when it was
// accepted, or put back, between two moments.
func (w *world) age(c *census, s inspect.QueueStats) {
	q := w.queueOf(s.Name)
	if q == nil || q.gathers() || len(w.clocks()) > 0 {
		return
	}
	least, most, some := time.Duration(0), time.Duration(0), false
	for _, i := range w.ledger.items {
		if i.queue != s.Name || i.place != waits || i.seen != w.epoch {
			continue
		}
		if i.answered.IsZero() {
			i.answered = time.Now()
		}
		since := span{i.at, i.answered}
		if i.back != nil {
			since = *i.back
		}
		some = true
		least, most = max(least, time.Since(since.to)), max(most, time.Since(since.from))
	}
	if some && (s.Age < least-time.Second || s.Age > most+time.Second) || !some && s.Age != 0 && s.Payloads == 0 {
		w.fail("age: the oldest payload of %s has waited %v, and it was accepted between %v and %v ago", s.Name, s.Age, most, least)
	}
}
