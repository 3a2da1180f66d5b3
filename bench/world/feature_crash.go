package world

import (
	"slices"

	"github.com/strandjobs/strand/executor"
)

// The process dies: between two steps, after any commit, inside of a handler. And it is
// stopped in order, and handlers that are at work have time to end, or hardly any. The next one may have
// other numbers of shards and workers, and calls before it starts. What was acknowledged is in it.
var crashing = &feature{
	name: "crash", lives: true, claims: "Executor.Stop Fatal Config.StopTimeout", plan: []string{"kill", "kill", "fatal"},
	acts: map[string]func(*world, ctx, *run, int, string) error{"fatal": func(w *world, _ ctx, _ *run, _ int, _ string) error {
		if w.full.Load() || w.town != nil && w.town.safe.Load() { // a stop has to write down what has ended
			return errPlanned
		}
		return executor.Fatal(errPlanned)
	}},
	steps: []step{
		{"crash", 2, false, drawLife("crash"), func(w *world, l line) { w.newLife(w.crash, l) }},
		{"restart", 2, false, drawLife("restart"), func(w *world, l line) { w.newLife(w.x.Restart, l) }},
		{"killafter", 2, false, func(d *draw) line { return newLine("killafter", "commits", 1+d.IntN(6)) }, func(w *world, l line) {
			w.arm(l.num("commits"), w.kill)
		}},
		{"kill", 1, true, func(*draw) line { return newLine("kill") }, func(w *world, _ line) { w.kill() }},
	},
	after: playEarly,
}

// playEarly plays some of the next steps before the workers of a life start: what calls and people want
// is done then, too.
func playEarly(w *world, _ *executor.Executor) error {
	for range w.at.num("early") {
		if w.town != nil || w.people != nil || w.next >= len(w.steps) || !slices.Contains(earlySteps, w.steps[w.next].verb) {
			return nil
		}
		l := w.steps[w.next]
		l.with = true // it is not alone
		w.mu.Lock()
		w.next++
		w.mu.Unlock()
		w.playLine(l)
	}
	return nil
}

// earlySteps may come before a start.
var earlySteps = []string{"enqueue", "act", "pause", "resume"}

// Each life has a number, and what may not have been on disk may be gone.
var living = &feature{
	name: "lives", always: true,
	begin: func(w *world, _ *executor.Executor) {
		w.hear()
		w.mu.Lock()
		defer w.mu.Unlock()
		w.life++
		w.running, w.accounts = nil, make(map[string]*account)
		if w.life > 1 {
			w.ledger.forget()
		}
	},
}

func drawLife(verb string) func(*draw) line {
	return func(d *draw) line {
		l := newLine(verb)
		if d.chance(2) {
			l.set("workers", 1+d.IntN(4))
		}
		if d.chance(2) {
			l.set("shards", 1+d.IntN(4))
		}
		if d.chance(3) && !d.cluster {
			l.set("early", 1+d.IntN(3))
		}
		if d.chance(3) && !d.cluster && !d.has("watch") { // a handler that is deaf does not hear of it
			l.set("stop", "1s")
		}
		return l
	}
}
