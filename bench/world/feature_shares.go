package world

import (
	"maps"
	"strings"

	"github.com/strandjobs/strand/executor"
)

// Queues share the workers, in ways that can be changed while they run.
var shares = &feature{
	name: "shares", claims: `QueueConfig.MaxConcurrent Share.Priority Share.Weight Share.Concurrency Queue.Tune Queue.Tuning
		Config.Scheduler Fair OldestFirst RoundRobin RegistrationOrder QueueConfig.BatchSize HandleBatch HandleMerged`,
	plan:  []string{"1s:ok", "2s:ok", "2s:ok"},
	world: func(d *draw, l line) { l.set("scheduler", d.one("fair", "fair", "oldest", "round", "strict")) },
	config: func(w *world, cfg *executor.Config) {
		switch w.conf.str("scheduler") {
		case "fair":
			cfg.Scheduler = executor.Fair()
		case "oldest":
			cfg.Scheduler = executor.OldestFirst()
		case "round":
			cfg.Scheduler = executor.RoundRobin()
		case "strict":
			cfg.Scheduler = executor.RegistrationOrder()
		}
	},
	queue: func(d *draw, l line) {
		l.set("most", d.IntN(3))
		l.set("weight", d.IntN(4))
		l.set("priority", d.IntN(3)-1)
		l.set("batch", 1+d.IntN(3))
		l.set("concurrency", d.IntN(3))
	},
	apply: func(w *world, q *queue, cfg *executor.QueueConfig[payload]) {
		cfg.MaxConcurrent, cfg.Share.Priority, cfg.Share.Concurrency = q.conf.num("most"), q.conf.num("priority"), q.conf.num("concurrency")
		cfg.Share.Weight = q.conf.num("weight")
		if q.conf.str("shape") == "batch" {
			cfg.BatchSize = max(q.conf.num("batch"), 1)
		}
	},
	begin: func(w *world, _ *executor.Executor) {
		w.mu.Lock()
		defer w.mu.Unlock()
		maps.DeleteFunc(w.state, func(key string, _ any) bool { // it was for that life
			return strings.HasPrefix(key, "tuned ")
		})
	},
	steps: []step{{"tune", 3, true, func(d *draw) line {
		l := newLine("tune", "q", d.anyQueue().str("name"), "most", d.IntN(3), "weight", 1+d.IntN(4), "priority", d.IntN(3)-1)
		if d.chance(2) {
			l.set("name", "yes")
		}
		return l
	}, func(w *world, l line) {
		q := w.queueOf(l.str("q"))
		if q == nil {
			return
		}
		tuning := executor.QueueTuning{Weight: max(l.num("weight"), 1), MaxConcurrent: l.num("most"), Priority: l.num("priority")}
		w.mu.Lock()
		w.state["tuned "+q.name] = w.epoch
		w.mu.Unlock()
		named, err := w.x.Lookup(q.name)
		if err == nil && l.has("name") {
			err = named.Tune(tuning)
		} else if err == nil {
			err = q.queue.Tune(tuning)
		}
		if err != nil || w.alone(l) && (named.Tuning() != tuning || q.queue.Tuning() != tuning) {
			w.fail("tune: %v is %+v and %+v: %v", l, q.queue.Tuning(), named.Tuning(), err)
		}
	}}},
	calm: func(w *world, _ *census) {
		for _, q := range w.queues {
			want := executor.QueueTuning{Weight: max(q.conf.num("weight"), 1), MaxConcurrent: q.conf.num("most"), Priority: q.conf.num("priority")}
			if is := q.queue.Tuning(); w.state["tuned "+q.name] == nil && is != want {
				w.fail("tune: %s is %+v, and was registered with %+v", q.name, is, want)
			}
		}
	},
	began: func(w *world, r *run) {
		most, running := r.queue.conf.num("most"), 1
		if most == 0 || w.conf.has("spare") || w.state["tuned "+r.queue.name] != nil || r.queue.conf.str("shape") == "batch" {
			return
		}
		for _, other := range w.running {
			if other.queue == r.queue && other.tenure == r.tenure {
				running++
			}
		}
		if running > most {
			w.fail("too many: %d of %s run, of %d", running, r.queue.name, most)
		}
	},
}
