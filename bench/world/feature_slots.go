package world

import (
	"time"

	"github.com/strandjobs/strand/executor"
)

// Each job that runs has a number of its own, and the number of one that has succeeded
// never comes again.
var numbering = &feature{
	name: "slots", claims: `QueueConfig.Slots NewSlots Slots.Of`,
	plan: []string{"2s:ok", "2s:fail"},
	queue: func(d *draw, l line) {
		if !d.chance(3) {
			l.set("slots", "yes")
		}
	},
	begin: func(w *world, x *executor.Executor) {
		slots, err := executor.NewSlots(x, "numbers", executor.SlotsConfig[int]{Next: func(n int) int { return n + 1 }, TTL: time.Hour})
		if err != nil {
			w.fail("NewSlots: %v", err)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.state["slots"], w.state["held"] = slots, map[int]*run{}
	},
	apply: func(w *world, q *queue, cfg *executor.QueueConfig[payload]) {
		if q.conf.has("slots") {
			cfg.Slots = []executor.SlotSource{w.state["slots"].(*executor.Slots[int])}
		}
	},
	began: func(w *world, r *run) {
		if !r.queue.conf.has("slots") {
			return
		}
		n, ok := w.state["slots"].(*executor.Slots[int]).Of(r.parent.(executor.JobWithSlots))
		if !ok {
			w.fail("slots: %s/%s has none", r.queue.name, r.id)
			return
		}
		for _, other := range w.running {
			if other.slot == n && other.queue.conf.has("slots") {
				w.fail("slots: %d is that of %s/%s and of %s/%s", n, other.queue.name, other.id, r.queue.name, r.id)
			}
		}
		for _, i := range w.ledger.items {
			if i.slot == n && i.told == "done" {
				w.fail("slots: %d is that of %s/%s, and was that of %v", n, r.queue.name, r.id, i)
			}
		}
		r.slot = n
		for _, i := range r.items {
			i.slot = n
		}
	},
	ended: func(_ *world, r *run, err error) {
		for _, i := range r.items {
			if err != nil {
				i.slot = 0 // it was given back
			}
		}
	},
}
