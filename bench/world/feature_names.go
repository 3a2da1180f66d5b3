package world

import (
	"slices"

	"github.com/strandjobs/strand/executor"
)

// A queue gets another name, or is missing in a life: what it has is kept, and runs when
// it is there again.
var naming = &feature{
	name: "names", lives: true, claims: "QueueConfig.RenamedFrom",
	steps: []step{
		{"rename", 2, false, func(d *draw) line { return newLine("rename", "q", d.anyQueue().str("name")) }, playRename},
		{"missing", 2, false, func(d *draw) line { return newLine("missing", "q", d.anyQueue().str("name")) }, playMissing},
	},
	apply: func(_ *world, q *queue, cfg *executor.QueueConfig[payload]) { cfg.RenamedFrom = q.former },
	lift: func(w *world) {
		w.mu.Lock()
		some := slices.ContainsFunc(w.all, func(q *queue) bool { return q.absent })
		for _, q := range w.all {
			q.absent = false
		}
		w.mu.Unlock()
		if some {
			w.newLife(w.x.Restart, newLine("restart"))
		}
	},
	calm: func(w *world, c *census) {
		for _, q := range w.all {
			if !q.absent || q.conf.has("fold") { // of several one dead letter may be left
				continue
			}
			alive, gone := 0, 0
			for _, i := range w.ledger.items {
				if i.queue == q.name && i.state == acked && i.told == "" {
					if i.place == waits {
						alive++
					} else if i.place == dead {
						gone++
					}
				}
			}
			for _, s := range c.stats.Queues {
				if s.Name == q.name && q.counted && (s.Unclaimed != alive || s.Dead != gone) {
					w.fail("unclaimed: %s has %d payloads and %d dead ones, and had %d and %d", q.name, s.Unclaimed, s.Dead, alive, gone)
				}
			}
		}
	},
}

// playRename begins a life in which a queue has another name.
func playRename(w *world, l line) {
	w.mu.Lock()
	q := w.queueOf(l.str("q"))
	if q == nil || len(q.former) > 3 {
		w.mu.Unlock()
		return
	}
	was := q.name
	w.mu.Unlock()
	w.rename = func() {
		q.name, q.former = was+"x", append(slices.Clone(q.former), was)
		for _, i := range w.ledger.items {
			if i.queue == was {
				i.queue = q.name
			}
		}
		w.forgetKeys(was) // they stay with the old name
		w.renamePauses(was, q.name)
	}
	w.newLife(w.x.Restart, l)
}

// playMissing begins a life without a queue.
func playMissing(w *world, l line) {
	w.mu.Lock()
	q := w.queueOf(l.str("q"))
	if q == nil || len(w.queues) < 2 {
		w.mu.Unlock()
		return
	}
	counted := w.known == w.epoch-1 && w.alone(l) && len(w.running) == 0
	w.mu.Unlock()
	w.rename = func() {
		for _, other := range w.all {
			other.absent = false
		}
		q.absent, q.counted = true, counted
	}
	w.newLife(w.x.Restart, newLine("missing"))
}
