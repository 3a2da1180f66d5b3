package world

import (
	"slices"
	"strings"

	"github.com/strandjobs/strand/executor/inspect"
)

// inLine: jobs that exclude each other by keys go in the order in which workers came to them. Who stood in the
// line of a key at the last census, and needs no other key than a run, goes before it, if that stood behind, or in no line;
// unless it has closed a circle of keys since.
func (w *world) inLine(r *run) {
	lines, _ := w.state["lines"].([]inspect.KeyLockStatus)
	if r.queue.conf.str("locks") != "mutex" || w.known != w.epoch-1 || !w.undisturbed() || w.holdsKeys(r, lines) {
		return
	}
	own := r.queue.name + "/" + r.id
	stood := slices.ContainsFunc(lines, func(k inspect.KeyLockStatus) bool { return slices.Contains(lineOf(k), own) })
	for _, k := range lines {
		before, behind := lineOf(k), false
		if at := slices.Index(before, own); at >= 0 {
			before, behind = before[:at], true
		}
		for _, name := range before {
			if i := w.excluded(name, r.awaits()); i != nil && (behind || !stood) {
				i.passed = r.items[0]
			}
		}
	}
}

// lineOf are the jobs whose turn it is, and those behind them.
func lineOf(k inspect.KeyLockStatus) []string { return slices.Concat(k.Called, k.Waiting) }

// undisturbed reports whether no person does anything to jobs in this step, and nothing is paused.
func (w *world) undisturbed() bool {
	return slices.Contains([]string{"enqueue", "idle", "advance", "lock", "unlock"}, w.at.verb) && !w.at.with && len(w.pauses()) == 0
}

// holdsKeys reports whether the id of a run may have locked keys before, which keep others from running.
func (w *world) holdsKeys(r *run, lines []inspect.KeyLockStatus) bool {
	for _, k := range lines {
		if slices.ContainsFunc(k.Locks, func(l inspect.LockHeld) bool { return l.By == r.queue.name+"/"+r.id }) {
			return true
		}
	}
	return len(r.items) == 0 || slices.ContainsFunc(w.ledger.items, func(i *item) bool { return r.isOf(i) && i.calls > 0 && i.moved == w.epoch })
}

// excluded is a payload of a job that stands in a line with keys of which it needs no others than those, and that
// nothing else keeps from running; nil: there is none, or something has become of it since the last census.
func (w *world) excluded(name string, keys map[string]bool) (first *item) {
	for _, i := range w.ledger.items {
		if i.queue+"/"+i.id != name || i.state == refused || i.told != "" || i.place == dead && i.moved < w.epoch {
			continue
		}
		q := w.queueOf(i.queue)
		if q == nil || q.conf.str("locks") != "mutex" || q.waitsElsewhere(w) || i.state != acked || i.place != waits || i.seen != w.epoch-1 || i.moved == w.epoch ||
			slices.ContainsFunc(q.lockKeys(i.value).awaited, func(key string) bool { return !keys[key] }) {
			return nil
		}
		first = i
	}
	return first
}

// waitsElsewhere reports whether jobs of a queue may leave the line of a key for something else.
func (q *queue) waitsElsewhere(w *world) bool {
	return q.conf.has("when") || q.conf.has("lane") || q.conf.has("limited") || q.conf.has("slots") || q.conf.has("unique") || w.excludes(q) ||
		strings.Contains(q.conf.str("codec"), "flap") || q.gathers()
}
