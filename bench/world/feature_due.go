package world

import (
	"time"

	"github.com/strandjobs/strand/executor"
)

// Payloads are put off, and have a place in their id: nothing runs before it is due.
var putOff = &feature{
	name: "due", claims: "In At Score Advanced.TimerSlack",
	plan: []string{"snooze~1s", "snooze~20s", "after~5s", "after~0s"},
	world: func(d *draw, l line) {
		if d.chance(4) {
			l.set("slack", "20ms")
		}
	},
	config: func(w *world, cfg *executor.Config) { cfg.Advanced.TimerSlack = w.conf.dur("slack") },
	enqueue: func(d *draw, l line) {
		if d.chance(3) {
			l.set(d.one("in", "in", "at"), d.one("1s", "5s", "2m"))
		}
		if d.chance(4) {
			l.set("score", d.one("1", "2", "4000000000"))
		}
	},
	option: func(w *world, l line) (options []executor.Option) {
		if l.has("in") && w.ahead.Load() == 0 {
			options = append(options, executor.In(l.dur("in")))
		} else if l.has("in") { // it reads the clock of the machine
			options = append(options, executor.At(w.now().Add(l.dur("in"))))
		}
		if l.has("at") {
			options = append(options, executor.At(w.now().Add(l.dur("at"))))
		}
		if l.has("score") {
			options = append(options, executor.Score(float64(l.num("score"))))
		}
		return options
	},
	began: func(w *world, r *run) {
		if len(r.items) != 1 || r.items[0].calls > 0 || !r.items[0].alone {
			return
		}
		if i := r.items[0]; i.moved == max(i.epoch, i.born) && time.Now().Before(i.due) && !w.hasOthers(i) {
			w.fail("too early: %v is due at %v, and begins at %v", i, i.due.UTC(), r.began.UTC())
		}
	},
}

// hasOthers reports whether other payloads of the id were accepted, or put back, since.
func (w *world) hasOthers(i *item) bool {
	for _, other := range w.ledger.items {
		if other != i && other.queue == i.queue && other.id == i.id && other.state != refused &&
			(other.born >= i.born || other.hurried && other.moved >= i.born) {
			return true
		}
	}
	return false
}
