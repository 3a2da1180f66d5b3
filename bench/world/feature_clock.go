package world

import (
	"errors"
	"slices"
	"time"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
)

// The wall clock is set, forward and back, while the executor runs and between two lives. What
// was due stays due, a pause before a retry stays as long as it was, and what a caller has
// asked for is a moment on that clock; order and all else that is promised does not know of it.
var setting = &feature{
	name: "clock", faults: true,
	steps: []step{
		{"set", 6, false, func(d *draw) line {
			l := newLine("set", "by", d.one("1s", "-1s", "40s", "-40s", "2m", "-2m", "3h", "-3h", "72h", "-72h"))
			if d.chance(4) && !d.gone {
				l.set("life", "yes")
			}
			return l
		}, playSet},
	},
	begin: func(w *world, _ *executor.Executor) {
		w.mu.Lock()
		defer w.mu.Unlock()
		for n, s := range w.clocks() {
			if s.life == w.life-1 && time.Since(s.at) < 5*time.Minute { // the process may have died some steps ago
				w.clocks()[n].between = true // it may have noticed nothing
			}
		}
	},
	calm: func(w *world, c *census) {
		sets := w.clocks()
		if len(sets) == 0 || c.stale || time.Since(sets[len(sets)-1].at) < time.Minute {
			return // it takes a minute to notice
		}
		for _, q := range w.queues {
			for id, job := range c.jobs[q.name] {
				w.onTime(q, id, job)
			}
		}
	},
}

// clockSet is a time that the clock was set.
type clockSet struct {
	at      time.Time // in the bubble
	by      time.Duration
	life    int
	between bool // two lives, or shortly before one has ended
}

func (w *world) clocks() []clockSet {
	all, _ := w.state["clocks"].([]clockSet)
	return all
}

// now is the time of day in a world.
func (w *world) now() time.Time { return time.Now().Round(0).Add(time.Duration(w.ahead.Load())) }

// setSince reports whether the clock was set since a moment.
func (w *world) setSince(at time.Time) bool {
	return slices.ContainsFunc(w.clocks(), func(s clockSet) bool { return !s.at.Before(at) })
}

// loose reports whether a time that was known at a moment may be another one since: the clock
// was set between two lives, or by less than is written down before a life ended.
func (w *world) loose(since time.Time) bool {
	for _, s := range w.clocks() {
		if !s.at.Before(since) && (s.between || s.by.Abs() < time.Minute && s.life != w.life) {
			return true
		}
	}
	return false
}

func playSet(w *world, l line) {
	set := func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.setClock(l.dur("by"), l.has("life") || w.x.Killed() || errors.Is(w.x.Err(), executor.ErrFailed))
	}
	if !l.has("life") {
		set()
		return
	}
	w.newLife(func() {
		w.reset = set
		w.x.Restart()
	}, l)
}

// catchUp puts a clock right that was set back: what was accepted before that is due then, and
// not some days later.
func (w *world) catchUp() {
	w.mu.Lock()
	defer w.mu.Unlock()
	var ahead, most time.Duration
	for _, s := range w.clocks() {
		ahead += s.by
		most = max(most, ahead)
	}
	if most > ahead {
		w.setClock(most-ahead, true)
	}
}

// setClock sets the clock. What is not due by then has its moment on it; what would have been due within
// the minute that it takes to notice may have either, and so may what is of a queue that is not registered.
func (w *world) setClock(by time.Duration, between bool) {
	w.ahead.Add(int64(by))
	w.state["ahead"] = int(w.ahead.Load())
	w.state["clocks"] = append(w.clocks(), clockSet{time.Now(), by, w.life, between})
	for _, i := range w.ledger.items {
		switch {
		case !between && !slices.ContainsFunc(w.queues, func(q *queue) bool { return q.name == i.queue && !q.absent }): // whose clock nobody looks at
			i.vague = true
		case !between && by < 0 && i.due.After(time.Now()) && time.Until(i.due) <= time.Minute:
			i.vague = true
		case i.due.After(time.Now()) || between && i.due.After(i.at):
			i.due = i.due.Add(-by)
		}
	}
}

// setBack reports whether the clock was set back in an earlier life.
func (w *world) setBack() bool {
	return slices.ContainsFunc(w.clocks(), func(s clockSet) bool { return s.by < 0 && s.life != w.life })
}

// onTime looks at a job when the clock was set more than a minute ago.
func (w *world) onTime(q *queue, id string, job inspect.JobDetail) {
	if slices.ContainsFunc([]string{"debounce", "throttle", "freshdue", "merge", "fold", "latest", "when"}, q.conf.has) {
		return
	}
	var all []*item
	for _, i := range w.ledger.items {
		if i.queue == q.name && i.id == id && i.state != refused && i.place == waits && i.seen == w.epoch {
			all = append(all, i)
		}
	}
	if len(all) != 1 || all[0].hurried || all[0].buried || all[0].vague || !q.stays(all[0]) || w.loose(all[0].at) {
		return
	}
	i, ahead := all[0], job.Due.Sub(w.now())
	switch {
	case job.State == inspect.JobScheduled && i.calls == 0 && i.alone && ahead-time.Until(i.due) > time.Second+w.conf.dur("slack"):
		w.fail("due too late: %v is due in %v, and %s/%s is in %v", i, time.Until(i.due), q.name, id, ahead)
	case job.State == inspect.JobRetrying && i.again.life == w.term(i.id) && i.again.unsure &&
		ahead-time.Until(i.again.at) > time.Second+w.conf.dur("slack"):
		w.fail("a longer pause: %v runs again in %v, and %s/%s in %v", i, time.Until(i.again.at), q.name, id, ahead)
	}
}
