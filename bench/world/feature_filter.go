package world

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
)

// filter draws what a person picks jobs by, or dead letters.
func (d *draw) filter(l line) {
	delete(l.args, "ids")
	for range 1 + d.IntN(2) {
		switch d.IntN(5) {
		case 0:
			l.set("failed", "yes")
		case 1:
			l.set("older", d.one("1s", "10s", "1m"))
		case 2:
			l.set("error", d.one("planned", "failure", "cancel", "formatted", "decode"))
		case 3:
			l.set("ids", d.id())
		case 4:
			l.set("state", d.one("fresh", "ready", "scheduled", "retrying", "parked", "halted"))
		}
	}
}

// states are those that a filter may ask for.
var states = map[string]inspect.JobState{
	"fresh": inspect.JobFresh, "ready": inspect.JobReady, "scheduled": inspect.JobScheduled,
	"retrying": inspect.JobRetrying, "parked": inspect.JobParked, "halted": inspect.JobHalted,
}

// filterOf is the filter of a line.
func filterOf(l line) (f inspect.JobFilter, of []inspect.JobState) {
	f = inspect.JobFilter{
		IDPrefix: l.str("ids"), ErrorContains: l.str("error"), OlderThan: l.dur("older"), Failed: l.has("failed"),
	}
	if state := states[l.str("state")]; state != "" {
		of = append(of, state)
	}
	return f, of
}

// refuses: dead letters have no states.
func refuses(l line) bool {
	return l.str("sel") == "filter" && states[l.str("state")] != "" && actions[l.str("what")].before == dead
}

// still reports whether what a filter picks is so until an action has come to it.
func (w *world) still(l line) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calm() && w.alone(l) && len(w.running) == 0
}

// filtered is what a person means by a filter: those payloads for which all of it is true, as far as
// one look at each id tells. The list of the same query has the same jobs. What may change meanwhile
// means all of the queue.
func (w *world) filtered(l line) (inspect.Selection, func(*item) bool) {
	q := w.queueOf(l.str("q"))
	f, of := filterOf(l)
	sel := inspect.SelectJobs(q.name, f, of...)
	if refuses(l) {
		return sel, func(*item) bool { return false }
	}
	c := &census{jobs: map[string]map[string]inspect.JobDetail{q.name: {}}}
	w.mu.Lock()
	ids := w.ledger.ids(q.name)
	w.mu.Unlock()
	if !w.still(l) || !w.look(c, q, ids) || c.stale {
		return sel, func(i *item) bool { return i.queue == q.name && strings.HasPrefix(i.id, f.IDPrefix) }
	}
	picked := make(map[spot]bool)
	var jobs, letters []string
	for id, job := range c.jobs[q.name] {
		alive := slices.Concat(job.InHand, job.Waiting)
		if len(alive) > 0 && w.picks(f, of, job) {
			jobs = append(jobs, id)
			for _, p := range alive {
				picked[spot{id, p.Position}] = actions[l.str("what")].before == waits
			}
		}
		for _, p := range job.Dead {
			if of == nil && w.picksOne(f, p.ID, p.Error, p.EnqueuedAt) {
				letters = append(letters, id)
				picked[spot{id, p.Position}] = actions[l.str("what")].before == dead
			}
		}
	}
	w.listed(q, f, of, jobs, letters)
	return sel, func(i *item) bool { // of what was folded one position stands for several
		return i.queue == q.name && (picked[spot{i.id, i.pos}] || q.conf.has("fold"))
	}
}

// picks reports whether a filter picks a job.
func (w *world) picks(f inspect.JobFilter, of []inspect.JobState, job inspect.JobDetail) bool {
	failed := job.Attempt > 1 || job.State == inspect.JobHalted || job.State == inspect.JobRetrying
	state := len(of) == 0 || slices.Contains(of, job.State) || slices.Contains(of, inspect.JobFresh) && !failed
	return state && (!f.Failed || failed) && w.picksOne(f, job.ID, job.LastError, job.EnqueuedAt)
}

// picksOne reports whether a filter picks a job, or a dead letter, by what both have.
func (w *world) picksOne(f inspect.JobFilter, id, why string, enqueued time.Time) bool {
	old := f.OlderThan == 0 || w.now().Sub(enqueued) > f.OlderThan
	return old && strings.HasPrefix(id, f.IDPrefix) && strings.Contains(why, f.ErrorContains)
}

// listed compares what a filter picks with lists of the same query, in some order.
func (w *world) listed(q *queue, f inspect.JobFilter, of []inspect.JobState, jobs, letters []string) {
	ctx, at := context.Background(), w.epoch
	query := inspect.JobQuery{Queue: q.name, Filter: f, States: of, Limit: 1000}
	query.Order = []inspect.Order{
		inspect.OrderNone, inspect.OrderID, inspect.OrderDue, inspect.OrderAttempt, inspect.OrderPayloads,
	}[at%5]
	page, err := w.x.Inspect().Jobs(ctx, query)
	var found, dead []string
	for _, j := range page.Jobs {
		found = append(found, j.ID)
	}
	query.States, query.Order = nil, []inspect.Order{inspect.OrderNone, inspect.OrderID, inspect.OrderDied}[at%3]
	morgue, failed := w.x.Inspect().Dead(ctx, query)
	for _, d := range morgue.Dead {
		dead = append(dead, d.ID)
	}
	for _, all := range [][]string{jobs, letters, found, dead} {
		slices.Sort(all)
	}
	if err != nil || page.Next != "" || !slices.Equal(found, jobs) {
		w.fail("filter: %+v %v lists %v of %s, and there are %v: %v", f, of, found, q.name, jobs, err)
	}
	if of == nil && (failed != nil || morgue.Next != "" || !slices.Equal(dead, letters)) {
		w.fail("filter: %+v lists %v as dead of %s, and there are %v: %v", f, dead, q.name, letters, failed)
	}
}
