package world

import "github.com/strandjobs/strand/executor"

// Of an id the newest state runs, and no older one after it; the others are superseded,
// waiting or dead.
var superseding = &feature{
	name: "latest", claims: "HandleLatest MergeSupersede",
	plan: []string{"fail", "2s:ok", "2s:fail", "cancel"},
	queue: func(d *draw, l line) {
		if !d.has("merge") && (l.str("shape") == "handle" || !d.has("fold") && d.chance(2)) {
			l.set("latest", d.one("yes", "scored", "mixed"))
		}
	},
	apply: func(_ *world, q *queue, cfg *executor.QueueConfig[payload]) {
		if q.conf.has("latest") {
			cfg.Merge, cfg.Gather.Block, cfg.Gather.Pull, cfg.Gather.FreshDue, cfg.Gather.MaxPayloads = executor.MergeSupersede, false, false, "", 0
		}
	},
	began: func(w *world, r *run) {
		for _, i := range r.items {
			if r.queue.conf.has("latest") && i.bygone {
				w.fail("older after newer: %v begins after its id was deleted", i)
			}
			for _, other := range w.ledger.items {
				if r.queue.conf.has("latest") && other.id == i.id && other.queue == i.queue && i.pos != 0 && other.pos != 0 &&
					i.older(other) && !other.forgot && w.isDone(other) && !r.queue.unknownTo(other) {
					w.fail("older after newer: %v begins after %v", i, other)
				}
			}
		}
	},
	calm: func(w *world, c *census) {
		for _, q := range w.queues {
			if !q.conf.has("latest") || c.stale {
				continue
			}
			for id, job := range c.jobs[q.name] {
				if len(job.Waiting) > 1 || len(job.Dead) > 1 {
					w.fail("superseded not: %s/%s has %d payloads that wait, and %d dead ones", q.name, id, len(job.Waiting), len(job.Dead))
				}
			}
			w.newestIsDead(q)
		}
	},
}

// newestIsDead: what is dead was superseded as soon as a newer one was accepted.
func (w *world) newestIsDead(q *queue) {
	for _, i := range w.ledger.items {
		if i.queue == q.name && i.place == dead && i.told == "" && w.superseded(i, acked) {
			w.fail("superseded not: %v is dead beside a newer one", i)
		}
	}
}

// superseded reports whether a newer payload may have come for an id.
func (w *world) superseded(i *item, least known) bool {
	q := w.queueOf(i.queue)
	if q == nil || !q.conf.has("latest") && !q.conf.has("waslatest") {
		return false
	}
	for _, other := range w.ledger.items {
		if !q.conf.has("latest") && (q.stays(i) || q.stays(other)) {
			continue // it was one of states by then
		}
		if other == i || other.queue != i.queue || other.id != i.id || other.state == refused || other.state < least {
			continue
		}
		if other.bygone && !i.forgot {
			continue
		}
		mixed := i.scored() != other.scored()
		if least == acked && (mixed || other.forgot || q.unknownTo(other) || other.told != "" && other.told != "done") {
			continue // it may have been older than a third one, and what a person deletes leaves no trace
		}
		if i.older(other) || least == tried && other.pos == 0 && (mixed || i.score == other.score) {
			return true
		}
	}
	return false
}

// isDone reports whether what a payload was done with is known to count: of an owner that is none any longer it may not.
func (w *world) isDone(i *item) bool {
	return i.told == "done" || i.hint == "done" && (w.town == nil || i.hintLife == w.term(i.id))
}

// unknownTo reports whether a queue may know nothing of the end of a payload: it was done while the queue
// was not one of states.
func (q *queue) unknownTo(i *item) bool { return i.hintLife < q.conf.num("latestsince") }

// older reports whether other is a newer state than i, when both have a position.
func (i *item) older(other *item) bool {
	if i.scored() && other.scored() && i.score != other.score {
		return i.score < other.score
	}
	return i.pos < other.pos
}

// scored reports whether a payload came with a score of its own.
func (i *item) scored() bool { return i.score != plainScore }

// gathers reports whether payloads of a queue may end in the place of others.
func (q *queue) gathers() bool {
	return q.conf.has("merge") || q.conf.has("fold") || q.conf.has("latest")
}
