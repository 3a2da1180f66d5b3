package world

import "github.com/strandjobs/strand/executor"

// Calls do not wait for the disk: a crash loses the newest.
var asynchronous = &feature{
	name: "async", claims: "Config.Durability Defaults.Durability DurabilitySync DurabilityAsync",
	queue: func(d *draw, l line) {
		if d.chance(2) {
			l.set("async", "yes")
		}
	},
	apply: func(_ *world, q *queue, cfg *executor.QueueConfig[payload]) {
		if q.conf.has("async") {
			cfg.Defaults.Durability = executor.DurabilityAsync
		}
	},
}
