package world

import "slices"

// Two runs of an id never overlap, and payloads reach the handler in score order, equal
// scores in the order in which they were accepted: what a call could not tell is ahead of later
// calls, or never. A follow-up is in no call.
var ordering = &feature{
	name: "order", always: true,
	began: func(w *world, r *run) {
		for _, other := range w.running {
			if other.queue == r.queue && other.id == r.id {
				w.fail("overlap: %s/%s runs twice, since %v and %v", r.queue.name, r.id, other.began.UTC(), r.began.UTC())
			}
		}
		if len(r.items) > 0 && !r.queue.conf.has("latest") {
			w.inOrder(r)
		}
	},
	calm: func(w *world, _ *census) {
		for _, i := range w.ledger.items {
			for _, later := range w.ledger.items {
				if i.said > 0 && later.said > 0 && i.said < later.born && i.queue == later.queue && i.id == later.id && i.pos > later.pos && later.pos > 0 && i.value.N > 0 && later.value.N > 0 {
					w.fail("late: %v, whose call had returned before that of %v began", i, later)
				}
			}
		}
	},
}

// inOrder requires that nothing that waited at the last census, and has not been touched
// since, comes before what runs for the first time now. Which of two equal payloads that is
// may be a guess.
func (w *world) inOrder(r *run) {
	last := r.items[len(r.items)-1]
	for _, i := range r.items {
		if i.calls > 0 || w.flaps(i, true) {
			return // a retry goes before what came meanwhile
		}
	}
	for _, i := range w.ledger.items {
		if i.queue == r.queue.name && i.id == r.id && i.place == waits && i.seen == w.epoch-1 && i.moved < w.epoch && i.state == acked &&
			!w.standsFor(r, i) && (i.score == last.score || !r.queue.conf.has("fold")) && i.pos != 0 && last.pos != 0 && !i.guess && !last.guess && i.before(last) {
			if r.queue.circles(r) || w.mayClose(r.queue) {
				if r.attempt == 1 { // else it has closed one itself, without a call, and goes first
					i.passed = last
				}
				continue
			}
			if i.hint != "" && i.hintLife == w.term(i.id) || i.given != 0 || w.scoredAhead(i) {
				continue // its handler has ended it in a batch that went on, or a hook that goes on is told of its end
			}
			if i.hurried && (i.doom > 0 || i.hint == "deleted") {
				continue // a person has, and its turn has come
			}
			w.fail("overtaken: %v by %v", i, last)
		}
	}
	for n := 1; n < len(r.items); n++ {
		i, last := r.items[n], r.items[n-1]
		if len(r.parts) == len(r.items) && i.before(last) && !i.guess && !last.guess && !w.scoredAhead(i) {
			w.fail("out of order in a run: %v comes behind %v", i, last)
		}
	}
}

// scoredAhead reports whether a payload was dead, and may have the score of a clock that was
// ahead: what was accepted after that was set back may come first then.
func (w *world) scoredAhead(i *item) bool { return i.buried && w.setBack() }

// standsFor reports whether a payload is in a run, or was merged into another one: into one that
// came meanwhile, or as its id ran, which are merged when the run ends: that runs, or waits.
func (w *world) standsFor(r *run, i *item) bool {
	return slices.Contains(r.items, i) || r.queue.conf.has("merge") && slices.ContainsFunc(w.ledger.items, func(other *item) bool {
		return other != i && other.queue == i.queue && other.id == i.id && same(other.value, i.value) &&
			(other.born >= w.epoch-1 || other.moved == w.epoch || other.place == waits && other.seen == w.epoch-1 || slices.Contains(r.items, other))
	})
}
