package world

import "github.com/strandjobs/strand/executor"

// One job of a key runs at a time, over all queues that say so.
var excluding = &feature{
	name: "unique", claims: `QueueConfig.Unique UniqueDefault UniqueNever UniqueWhileRunning`,
	plan: []string{"2s:ok", "2s:fail", "40s:ok"},
	queue: func(d *draw, l line) {
		if !d.chance(3) {
			l.set("unique", d.one("key", "payload"))
		}
	},
	enqueue: withKey,
	apply: func(_ *world, q *queue, cfg *executor.QueueConfig[payload]) {
		switch q.conf.str("unique") {
		case "key":
			cfg.Unique = executor.Unique[payload]{Key: keyOf}
		case "payload":
			cfg.Unique = executor.Unique[payload]{While: executor.UniqueWhileRunning}
		}
	},
	began: func(w *world, r *run) {
		if r.queue.conf.str("unique") != "key" {
			return
		}
		for _, other := range w.running {
			if other.queue.conf.str("unique") != "key" || other.queue == r.queue && other.id == r.id {
				continue
			}
			for key := range r.keys() {
				if other.keys()[key] {
					w.fail("unique: %s/%s and %s/%s run with key %s", other.queue.name, other.id, r.queue.name, r.id, key)
				}
			}
		}
	},
}
