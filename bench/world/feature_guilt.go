package world

import (
	"slices"
	"strings"

	"github.com/strandjobs/strand/executor"
)

// poison is the plan of a payload that ends the process each time that it runs.
const poison = "poison"

// A job that ends the process is given up after some deaths, so that a world comes to its end,
// and no other job is. The others have no limit: they die too often.
var blaming = &feature{
	name: "guilt", recorded: true, claims: "Crash.Limit",
	world: func(d *draw, l line) { l.set("crashes", 1+d.IntN(3)) },
	config: func(w *world, cfg *executor.Config) {
		if w.conf.has("crashes") {
			cfg.Crash.Limit = w.conf.num("crashes")
		}
	},
	enqueue: func(d *draw, l line) {
		if d.chance(12) {
			l.set("plan", d.one(poison, "3s:"+poison))
		}
	},
	acts: map[string]func(*world, ctx, *run, int, string) error{poison: func(w *world, _ ctx, _ *run, _ int, _ string) error {
		w.kill()
		return errPlanned
	}},
	died: func(w *world, r *run) {
		together := r.queue.conf.str("shape") == "merged" || r.queue.conf.str("shape") == "batch" // what waits is given up with it
		for _, i := range w.ledger.items {
			if w.conf.has("crashes") && (slices.Contains(r.items, i) || together && i.queue == r.queue.name && i.id == r.id) {
				i.doom = w.epoch
			}
		}
	},
	began: func(w *world, r *run) {
		for _, i := range r.items {
			if r.crashes > w.deathsOf(i) {
				w.fail("blamed for too much: %v for %d deaths of %d", i, r.crashes, w.deathsOf(i))
			}
		}
	},
	calm: func(w *world, c *census) {
		for _, q := range w.queues {
			for id, job := range c.jobs[q.name] {
				for _, p := range job.Dead {
					if i := w.ledger.byPos[spot{id, p.Position}]; i != nil && strings.HasPrefix(p.Error, "crashed the process") && w.deathsOf(i) < w.conf.num("crashes") {
						w.fail("blamed for too little: %v of %s/%s, when the process has died %d times", i, q.name, id, w.deathsOf(i))
					}
				}
			}
		}
	},
}

// deathsOf is how often the process has died since a payload was accepted, or an older one of
// its id whose guilt it may have.
func (w *world) deathsOf(i *item) (most int) {
	for _, other := range w.ledger.items {
		if other.queue == i.queue && other.id == i.id {
			most = max(most, other.deaths)
		}
	}
	return most
}

// inheritsGuilt reports whether a state may be given up without a run, because an older one of its
// id was.
func (w *world) inheritsGuilt(i *item) bool {
	return w.conf.has("crashes") && w.queueOf(i.queue).conf.has("latest") && slices.ContainsFunc(w.ledger.items, func(other *item) bool {
		return other.queue == i.queue && other.id == i.id && other.doom > 0
	})
}
