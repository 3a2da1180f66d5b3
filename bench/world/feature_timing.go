package world

import (
	"time"

	"github.com/strandjobs/strand/executor"
)

// What waits for an id gathers, rests between two runs, or is pulled and pushed.
var timing = &feature{
	name: "timing", claims: "QueueConfig.Debounce QueueConfig.Throttle QueueConfig.FreshDue FreshDueKeep FreshDuePull FreshDuePush",
	queue: func(d *draw, l line) {
		switch d.IntN(4) {
		case 0:
			l.set("debounce", "3s")
		case 1:
			l.set("throttle", "8s")
		case 2:
			l.set("freshdue", d.one("pull", "push"))
		}
	},
	apply: func(_ *world, q *queue, cfg *executor.QueueConfig[payload]) {
		cfg.Debounce.Quiet, cfg.Throttle = q.conf.dur("debounce"), q.conf.dur("throttle")
		cfg.FreshDue = map[string]executor.FreshDue{"pull": executor.FreshDuePull, "push": executor.FreshDuePush}[q.conf.str("freshdue")]
	},
	began: func(w *world, r *run) {
		rest := r.queue.conf.dur("throttle")
		last, known := w.state["rest "+r.queue.name+"/"+r.id].(time.Time)
		if rest == 0 || !known || len(r.items) == 0 || r.items[0].calls > 0 || r.items[0].buried || w.hurried(r) {
			return
		}
		if r.began.Sub(last) < rest {
			w.fail("no rest: %s/%s begins %v after its last run", r.queue.name, r.id, r.began.Sub(last))
		}
	},
	ended: func(w *world, r *run, err error) {
		if err == nil && r.queue.conf.has("throttle") {
			w.state["rest "+r.queue.name+"/"+r.id] = time.Now()
		}
	},
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
