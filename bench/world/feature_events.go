package world

import (
	"context"
	"errors"
	"maps"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/events"
	"github.com/strandjobs/strand/executor/executortest"
)

// A reader hears of all that happens, in order for each id: what is done, failed or the
// like was started before, and nothing starts twice.
var listening = &feature{
	name: "events", apart: true, claims: "Executor.Events Advanced.EventBuffer",
	world: func(d *draw, l line) {
		l.set("events", "yes")
		if d.chance(2) {
			l.set("buffer", 200+d.IntN(200)) // what the world itself reads after each step is in it
		}
	},
	config: func(w *world, cfg *executor.Config) { cfg.Advanced.EventBuffer = w.conf.num("buffer") },
	after: func(w *world, x *executor.Executor) error {
		if !w.conf.has("events") {
			return nil
		}
		w.hear()
		w.mu.Lock()
		w.reads = w.test != nil || w.life == 1 // else some have been told before
		for _, a := range w.accounts {
			a.read = maps.Clone(a.payloads) // before it
		}
		life := w.life
		w.mu.Unlock()
		ctx, cancel := context.WithCancel(context.Background())
		feed := x.Events(ctx, events.Filter{})
		executortest.AtEnd(x, cancel)
		go func() {
			started := make(map[string]bool)
			for e, err := range feed {
				if missed := (*events.MissedError)(nil); errors.As(err, &missed) {
					clear(started)
					w.missed(life)
					return
				}
				if err != nil {
					return
				}
				w.heard(started, life, e)
			}
		}()
		return nil
	},
}

// missed: the reader of a life has not got all.
func (w *world) missed(life int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reads = w.reads && life != w.life
}

// heard follows the runs of each id.
func (w *world) heard(started map[string]bool, life int, e events.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if life == w.life && e.Kind != events.Progress {
		w.account(e.Queue).read[e.Kind] += e.Payloads
	}
	job := e.Queue + "/" + e.ID
	switch e.Kind {
	case events.Started:
		if started[job] {
			w.fail("events: %s starts, and has not ended", job)
		}
		started[job] = true
	case events.Done, events.Failed, events.Snoozed, events.Discarded, events.Cancelled,
		events.Interrupted, events.Deleted:
		started[job] = false
	}
}
