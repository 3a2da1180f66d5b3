package world

import (
	"errors"
	"runtime"
	"slices"
	"time"

	"github.com/strandjobs/strand/executor"
)

var errApart = errors.New("planned: they do not go together")

// large is a payload that is too large, where the function makes such.
const large = 5000

// A function makes one payload of all that wait, and each of them is in it, once, also if it fails, panics, ends
// its goroutine, takes time, or makes too large a one of some.
var folding = &feature{
	name: "fold", claims: "Gather.Fold Gather.MaxPayloads",
	plan: []string{"fail", "cancel", "2s:fail", "snooze~2s"},
	config: func(w *world, cfg *executor.Config) {
		if slices.ContainsFunc(w.all, func(q *queue) bool { return q.conf.str("fold") == "large" }) {
			cfg.Advanced.MaxPayloadBytes = large
		}
	},
	queue: func(d *draw, l line) {
		if l.str("shape") != "handle" && !d.has("merge") && (!l.has("locks") || l.str("locks") == "blocked") && !d.chance(3) {
			l.set("fold", d.one("all", "all", "few", "panics", "exits", "slow", "large"))
			if d.cluster && l.str("fold") == "slow" { // its workers never rest, and what they fold is no run
				l.set("fold", "all")
			}
		}
		if l.str("shape") != "handle" && !l.has("fold") && d.chance(2) {
			l.set("payloads", 1+d.IntN(3))
		}
	},
	apply: func(_ *world, q *queue, cfg *executor.QueueConfig[payload]) {
		cfg.Gather.MaxPayloads = q.conf.num("payloads")
		if q.conf.has("fold") {
			cfg.Gather.Fold = q.fold
		}
	},
	began: func(w *world, r *run) {
		seen := make(map[*item]bool)
		for _, i := range r.items {
			if seen[i] {
				w.fail("folded twice: %v", i)
			}
			seen[i] = true
		}
		if r.queue.conf.has("fold") && len(r.items) > 0 {
			w.standsFirst(r)
		}
	},
}

// fold adds a payload to one that waits.
func (q *queue) fold(waiting, next payload) (payload, error) {
	apart := (waiting.N+next.N)%4 == 0
	switch kind := q.conf.str("fold"); {
	case kind == "few" && len(waiting.Sum)+len(next.Sum)+2 > 3:
		return payload{}, errApart
	case kind == "panics" && apart:
		panic("planned panic of a fold")
	case kind == "exits" && apart:
		runtime.Goexit()
	case kind == "slow" && apart:
		time.Sleep(time.Second)
	case kind == "large" && apart:
		waiting.Fill = fill(2 * large)
	}
	waiting.Sum = append(slices.Clip(waiting.Sum), next.numbers()...)
	return waiting, nil
}

// standsFirst: what was folded has the position and the score of its first payload, which all that wait go
// with in the order of acceptance.
func (w *world) standsFirst(r *run) {
	first := r.items[0]
	if p := r.parts[0]; first.pos != 0 && p.pos != first.pos || first.scored() && p.score != first.score {
		w.fail("folded: position %d, with score %v, is of %v", p.pos, p.score, first)
	}
	for n, i := range r.items[1:] {
		if last := r.items[n]; i.pos != 0 && i.pos < last.pos && i.calls == 0 && last.calls == 0 && !i.buried && !last.buried {
			w.fail("folded out of order: %v comes behind %v", i, last)
		}
	}
}
