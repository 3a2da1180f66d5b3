package world

import (
	"context"
	"slices"

	"github.com/strandjobs/strand/executor/inspect"
)

// figures are those of a queue at the beginning of a life.
type figures struct{ sum int }

// sum is how many payloads a queue has had: wherever one goes, the sum stays.
func sum(q inspect.QueueStats) int {
	return q.Payloads + q.Dead + int(q.Done+q.Discarded+q.Merged+q.Deleted+q.Expired+q.SupersededDead)
}

// baseline notes the figures of a life that begins.
func (w *world) baseline() {
	stats, err := w.x.Stats(context.Background())
	if err != nil {
		if !w.x.Killed() {
			w.fail("Stats: %v", err)
		}
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.base = make(map[string]figures)
	for _, q := range stats.Queues {
		w.base[q.Name] = figures{sum(q)}
	}
	for _, i := range w.ledger.items {
		if i.life == w.life {
			i.life = -w.life // a schedule was quicker, and may have been counted
		}
	}
}

// conserving: what was accepted is what ended and what is left, in all figures alike.
var conserving = &feature{
	name: "figures", always: true,
	calm: func(w *world, c *census) {
		for _, q := range c.stats.Queues {
			if !q.Registered || c.stale {
				continue
			}
			w.conserve(c, q)
		}
	},
}

func (w *world) conserve(c *census, q inspect.QueueStats) {
	least, most := w.base[q.Name].sum, w.base[q.Name].sum
	for _, i := range w.ledger.items {
		switch {
		case i.queue != q.Name || i.life != w.life && i.life != -w.life:
		case i.state == acked && i.life > 0:
			least++
			most++
		case i.state != refused:
			most++
		}
	}
	if got := sum(q); got < least || got > most {
		w.fail("figures: %s has had %d payloads, and %d to %d were accepted: %+v", q.Name, got, least, most, q)
	}
	alive, gone := 0, 0
	for _, job := range c.jobs[q.Name] {
		alive += len(job.InHand) + len(job.Waiting)
		gone += len(job.Dead)
	}
	if alive != q.Payloads || gone != q.Dead {
		w.fail("figures: %s has %d payloads and %d dead ones, and Inspect shows %d and %d", q.Name, q.Payloads, q.Dead, alive, gone)
	}
}

// noneIsReady is about a moment at which nothing is left to do now: a job that is due, and
// that nothing keeps, would have run.
func (w *world) noneIsReady() {
	if !w.calm() {
		return
	}
	all, paused := w.x.Inspect().Paused()
	for _, q := range w.queues {
		if all || slices.Contains(paused, q.name) {
			continue
		}
		page, err := w.x.Inspect().Jobs(context.Background(), inspect.JobQuery{Queue: q.name, States: []inspect.JobState{inspect.JobReady}})
		if err == nil && len(page.Jobs) > 0 {
			w.fail("asleep: %s/%s is ready, and nothing runs it", q.name, page.Jobs[0].ID)
		}
		w.noneSleeps(q)
	}
}

// noneSleeps: what stands aside waits for something. All jobs are asked for: a list of those that stand
// aside leaves out shards whose figures have none.
func (w *world) noneSleeps(q *queue) {
	page, err := w.x.Inspect().Jobs(context.Background(), inspect.JobQuery{Queue: q.name, Limit: inspect.MaxListLimit})
	if err != nil {
		return
	}
	for _, job := range page.Jobs {
		if job.State != inspect.JobParked {
			continue
		}
		if e, err := w.x.Inspect().Explain(context.Background(), q.name, job.ID); err == nil && e.State == inspect.JobReady {
			w.fail("asleep: %s/%s stands aside, and waits for nothing", q.name, job.ID)
			return
		}
	}
}
