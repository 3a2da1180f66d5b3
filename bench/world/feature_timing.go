package world

import (
	"cmp"
	"slices"
	"time"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
)

// What waits for an id gathers, rests between two runs, or is pulled and pushed.
var timing = &feature{
	name: "timing", claims: "Debounce.Quiet Debounce.MaxWait Gather.Throttle Gather.FreshDue FreshDueKeep FreshDuePull FreshDuePush",
	queue: func(d *draw, l line) {
		switch d.IntN(4) {
		case 0:
			l.set("debounce", "3s")
			if d.chance(2) {
				l.set("maxwait", d.one("3s", "5s", "8s"))
			}
		case 1:
			l.set("throttle", "8s")
		case 2:
			l.set("freshdue", d.one("keep", "pull", "push"))
		}
	},
	apply: func(_ *world, q *queue, cfg *executor.QueueConfig[payload]) {
		cfg.Gather.Debounce = executor.Debounce{Quiet: q.conf.dur("debounce"), MaxWait: q.conf.dur("maxwait")}
		cfg.Gather.Throttle = q.conf.dur("throttle")
		cfg.Gather.FreshDue = map[string]executor.FreshDue{"keep": executor.FreshDueKeep, "pull": executor.FreshDuePull, "push": executor.FreshDuePush}[q.conf.str("freshdue")]
	},
	began: func(w *world, r *run) {
		w.gathered(r)
		rest := r.queue.conf.dur("throttle")
		last, known := w.state["rest "+r.queue.name+"/"+r.id].(*item)
		if rest == 0 || !known || last.told != "done" && last.hintLife != w.term(last.id) || // a crash has taken that it has run
			last.hintLife < r.queue.conf.num("changed") || // or it was not to rest
			len(r.items) == 0 || r.items[0].calls > 0 || r.items[0].buried || w.hurried(r) || w.loose(last.over) {
			return
		}
		if r.began.Sub(last.over) < rest {
			w.fail("no rest: %s/%s begins %v after its last run", r.queue.name, r.id, r.began.Sub(last.over))
		}
	},
	calm: func(w *world, c *census) {
		for _, q := range w.queues {
			for id, job := range c.jobs[q.name] {
				if q.conf.has("maxwait") && !c.stale && job.State == inspect.JobScheduled {
					w.delayed(q, id, job.Due.Sub(w.now()))
				}
			}
		}
	},
	ended: func(w *world, r *run, err error) {
		if err == nil && r.queue.conf.has("throttle") && len(r.items) > 0 {
			r.items[0].over = time.Now()
			w.state["rest "+r.queue.name+"/"+r.id] = r.items[0]
		}
	},
}

// delayed: a job that nothing else delays is due when its first payload has waited for the longest time.
func (w *world) delayed(q *queue, id string, ahead time.Duration) {
	first, alone := time.Time{}, false
	for _, i := range w.ledger.items {
		if i.queue != q.name || i.id != id || i.state == refused || i.place != waits || i.seen != w.epoch {
			continue
		}
		if i.calls > 0 || i.buried || i.hurried || i.ran != 0 || !i.due.Equal(i.at) || w.loose(i.at) || !q.stays(i) {
			return // its due time is another one
		}
		if alone = alone || i.alone; first.IsZero() || i.at.Before(first) {
			first = i.at
		}
	}
	most := time.Until(first) + q.conf.dur("maxwait") + w.conf.dur("slack") + time.Second
	if alone && !q.gathers() && !q.conf.has("payloads") && !q.conf.has("when") && ahead > most {
		w.fail("too long: %s/%s is due in %v, and waits for %v at most", q.name, id, ahead, most)
	}
}

// hurried reports whether a person has had to do with a payload of an id.
func (w *world) hurried(r *run) bool {
	for _, i := range w.ledger.items {
		if i.queue == r.queue.name && i.id == r.id && i.hurried {
			return true
		}
	}
	return false
}

// gathered: a burst of changes has one run, when no payload has come for some time, or has
// been delayed for the longest time that is allowed: ten times as long, if nothing is said.
func (w *world) gathered(r *run) {
	quiet := r.queue.conf.dur("debounce")
	if quiet == 0 || len(r.items) == 0 || r.queue.gathers() || r.queue.conf.has("payloads") || w.hurried(r) {
		return
	}
	if !slices.ContainsFunc(r.items, func(i *item) bool { return i.alone }) {
		return // what a run has left over has a due time of its own
	}
	first, last := r.items[0].at, time.Time{}
	for _, i := range r.items {
		if i.calls > 0 || i.buried || i.ran != 0 || !i.due.Equal(i.at) || !r.queue.stays(i) || w.flaps(i, true) {
			return // its due time is another one
		}
		if i.at.Before(first) {
			first = i.at
		}
		if i.at.After(last) {
			last = i.at
		}
	}
	due := last.Add(quiet)
	if most := first.Add(cmp.Or(r.queue.conf.dur("maxwait"), 10*quiet)); most.Before(due) {
		due = most
	}
	if r.began.Before(due) && !w.loose(first) {
		w.fail("too early: %s/%s begins %v before it has been quiet for %v", r.queue.name, r.id, due.Sub(r.began), quiet)
	}
}
