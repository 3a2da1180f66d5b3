package world

import (
	"slices"
	"strings"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
)

// Queues with the same lanes have one order for each id.
var sharing = &feature{
	name: "lanes", claims: "Conditions.SharedLanes",
	queue: func(d *draw, l line) {
		if l.str("shape") == "handle" {
			l.set("lane", "L")
		}
	},
	apply: func(_ *world, q *queue, cfg *executor.QueueConfig[payload]) {
		cfg.Conditions.SharedLanes = q.conf.str("lane")
	},
	began: func(w *world, r *run) {
		if !r.queue.conf.has("lane") {
			return
		}
		for _, other := range w.running {
			if other.queue.conf.has("lane") && other.id == r.id {
				w.fail("overlap: %s/%s and %s/%s share lanes", other.queue.name, other.id, r.queue.name, r.id)
			}
		}
		for _, i := range w.ledger.items {
			q := w.queueOf(i.queue)
			if q == nil || q == r.queue || !q.conf.has("lane") || i.id != r.id || i.place != waits || i.seen != w.epoch-1 || i.moved == w.epoch ||
				len(r.items) == 0 || r.items[0].calls > 0 || r.items[0].buried || i.state != acked || i.pos == 0 || i.given != 0 || w.standsFor(r, i) || w.superseded(i, tried) {
				continue
			}
			if i.pos < r.items[0].pos && !w.scored(i.id) && !slices.Contains(r.items, i) && !w.takesTurn(r) {
				if q.circles(r) {
					i.passed = r.items[0]
					continue
				}
				w.fail("overtaken: %v by %v, with which it shares lanes", i, r.items[0])
			}
		}
	},
	calm: func(w *world, c *census) {
		for _, i := range w.ledger.items {
			if i.passed != nil && !c.stale && w.queueOf(i.queue) != nil {
				w.gaveWay(c, i)
			}
		}
	},
}

// gaveWay: a payload was overtaken only if its job had closed a circle of lanes and
// keys, and has failed for that. What a person has hurried has no failures any more.
func (w *world) gaveWay(c *census, i *item) {
	by := i.passed
	i.passed = nil
	if i.place != waits || i.hurried {
		return
	}
	circle := func(f inspect.Failure) bool { return strings.Contains(f.Error, "lock: deadlock") }
	if !slices.ContainsFunc(c.jobs[i.queue][i.id].Failures, circle) {
		w.fail("overtaken: %v by %v, and it has closed no circle of lanes and keys", i, by)
	}
}

// closes notes that a payload may be dead because its job has closed a circle of lanes and keys, or of what jobs
// hold and handlers wait for.
func (w *world) closes(q *queue, i *item, why string) {
	if (q.rings() || w.mayClose(q)) && strings.Contains(why, "lock: deadlock") {
		i.doom = w.epoch
	}
}

// takesTurn reports whether an older payload of the id, which was dead, may have the score of a clock
// that was ahead: the turn is that one's, and what comes first in it another one.
func (w *world) takesTurn(r *run) bool {
	return slices.ContainsFunc(w.ledger.items, func(i *item) bool { return i.queue == r.queue.name && i.id == r.id && w.scoredAhead(i) })
}

// circles reports whether jobs of a queue may fail, and be buried, because they wait in a lane for
// one that waits for their keys, or hold keys while they wait for others.
func (q *queue) circles(r *run) bool {
	return q.holds() || q.rings() && r.queue.conf.has("lane")
}

// rings reports whether that is so for some run.
func (q *queue) rings() bool { return q.holds() || q.conf.has("lane") && q.conf.has("locks") }

// scored reports whether a payload of an id has a score of its own.
func (w *world) scored(id string) bool {
	return slices.ContainsFunc(w.ledger.items, func(i *item) bool { return i.id == id && i.score != plainScore })
}
