package world

import (
	"errors"

	"github.com/strandjobs/strand/executor"
)

var errApart = errors.New("planned: they do not go together")

// A function makes one payload of all that wait, and each of them is in it, once.
var folding = &feature{
	name: "fold", claims: "Gather.Fold Gather.MaxPayloads",
	queue: func(d *draw, l line) {
		if l.str("shape") != "handle" && !d.has("merge") && !d.has("locks") && !d.chance(3) {
			l.set("fold", d.one("all", "few"))
		}
		if l.str("shape") != "handle" && !l.has("fold") && d.chance(2) {
			l.set("payloads", 1+d.IntN(3))
		}
	},
	apply: func(_ *world, q *queue, cfg *executor.QueueConfig[payload]) {
		cfg.Gather.MaxPayloads = q.conf.num("payloads")
		if !q.conf.has("fold") {
			return
		}
		most := 1000
		if q.conf.str("fold") == "few" {
			most = 3
		}
		cfg.Gather.Fold = func(waiting, next payload) (payload, error) {
			if len(waiting.Sum)+len(next.Sum)+2 > most {
				return payload{}, errApart
			}
			waiting.Sum = append(waiting.Sum, next.numbers()...)
			return waiting, nil
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
	},
}
