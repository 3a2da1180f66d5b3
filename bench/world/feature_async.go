package world

import "github.com/strandjobs/strand/executor"

// Calls do not wait for the disk: a crash loses the newest.
var asynchronous = &feature{
	name: "async", claims: "Config.Durability Defaults.Durability DurabilitySync DurabilityAsync",
	world: func(d *draw, l line) { l.set("durability", d.one("sync", "async")) },
	config: func(w *world, cfg *executor.Config) {
		if w.conf.str("durability") == "async" {
			cfg.Durability = executor.DurabilityAsync
		}
	},
	queue: func(d *draw, l line) {
		if d.chance(2) {
			l.set("async", "yes")
		}
	},
	apply: func(w *world, q *queue, cfg *executor.QueueConfig[payload]) {
		all := w.conf.str("durability") == "async"
		switch own := q.conf.has("async"); {
		case own && !all:
			cfg.Defaults.Durability = executor.DurabilityAsync
		case !own && all:
			cfg.Defaults.Durability = executor.DurabilitySync
		}
	},
}
