package world

import (
	"fmt"
	"slices"
	"strings"

	"github.com/strandjobs/strand/executor"
)

// One job of a key runs at a time, over all queues that say so; in a cluster, in each partition.
var excluding = &feature{
	name: "unique", claims: `Unique.While Unique.Key Unique.TTL Unique.Heartbeat Inspector.Leases UniqueNever UniqueWhileRunning`,
	plan: []string{"2s:ok", "2s:fail", "40s:ok"},
	world: func(d *draw, l line) {
		if d.chance(3) {
			l.set("unique", "all")
		}
		if d.chance(2) {
			l.set("lease", "3s") // a run that is longer keeps its key all the same
		}
	},
	config: func(w *world, cfg *executor.Config) {
		cfg.Unique.TTL, cfg.Unique.Heartbeat = w.conf.dur("lease"), w.conf.dur("lease")/2
		if w.conf.has("unique") {
			cfg.Unique.Key = func(id string, p any) string { return keyOf(id, p.(payload)) }
		}
	},
	queue: func(d *draw, l line) {
		if !d.chance(3) {
			l.set("unique", d.one("key", "payload", "never"))
		}
	},
	enqueue: withKey,
	apply: func(_ *world, q *queue, cfg *executor.QueueConfig[payload]) {
		switch q.conf.str("unique") {
		case "key":
			cfg.Conditions.Unique = executor.Unique[payload]{Key: keyOf}
		case "payload":
			cfg.Conditions.Unique = executor.Unique[payload]{While: executor.UniqueWhileRunning}
		case "never":
			cfg.Conditions.Unique = executor.Unique[payload]{While: executor.UniqueNever}
		}
	},
	peek: func(w *world) { w.peekLeases() },
	began: func(w *world, r *run) {
		if !w.excludes(r.queue) {
			return
		}
		w.fences(r)
		for _, other := range w.running {
			if !w.excludes(other.queue) || other.queue == r.queue && other.id == r.id || w.partition(other.id) != w.partition(r.id) {
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

// partition is the number of the partition that an id, and its keys, are in.
func (w *world) partition(id string) int {
	if w.town == nil {
		return 0
	}
	return partitionOf(id)
}

// fences: the token of a lease grows with every run of a key, over restarts, too. The halves of a batch
// have that of the whole, and so has a second call.
func (w *world) fences(r *run) {
	for key := range r.keys() {
		of := fmt.Sprint("token ", w.partition(r.id), key)
		last, _ := w.state[of].(int)
		if now := int(r.token); now < last || now == last && r.queue.conf.str("shape") != "batch" && !r.queue.twice() {
			w.fail("token: %s/%s runs with %d for key %s, behind %d", r.queue.name, r.id, now, key, last)
		}
		w.state[of] = int(r.token)
	}
}

// excludes reports whether one job of a key of the queue runs at a time: what it leaves out of its
// own setting is as that of all.
func (w *world) excludes(q *queue) bool {
	own := q.conf.str("unique")
	return own == "key" || w.conf.has("unique") && own != "never"
}

// peekLeases: who has a key runs, or is of a batch of which a part runs.
func (w *world) peekLeases() {
	page, _, err := w.x.Inspect().Leases("", 0)
	if err != nil {
		w.fail("Leases: %v", err)
	}
	for _, lease := range page {
		if lease.By == "" {
			continue
		}
		queue, id, _ := strings.Cut(lease.By, "/")
		q := w.queueOf(queue)
		runs := slices.ContainsFunc(w.running, func(r *run) bool { return r.queue == q && (r.id == id || q.conf.str("shape") == "batch") })
		if q != nil && w.excludes(q) && !runs && w.listening[q] == 0 {
			w.fail("unique: %s has %s, and does not run", lease.By, lease.Key)
		}
	}
}
