package world

import (
	"context"
	"slices"
	"strings"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/events"
	"github.com/strandjobs/strand/executor/inspect"
)

// A queue gets another name, or is missing in a life: what it has is kept, and runs when
// it is there again, in a later life or since a moment of this one.
var naming = &feature{
	name: "names", apart: true, lives: true, claims: "QueueConfig.RenamedFrom",
	steps: []step{
		{"rename", 3, false, drawRename, playRename},
		{"missing", 2, false, func(d *draw) line { return newLine("missing", "q", d.anyQueue().str("name")) }, playMissing},
		{"appear", 6, false, func(*draw) line { return newLine("appear") }, func(w *world, _ line) { w.appear() }},
	},
	apply: func(_ *world, q *queue, cfg *executor.QueueConfig[payload]) { cfg.RenamedFrom = q.former },
	lift: func(w *world) {
		w.mu.Lock()
		some := slices.ContainsFunc(w.all, func(q *queue) bool { return q.absent })
		w.rename = func() {
			w.forward()
			for _, q := range w.all {
				q.absent = false
			}
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

func drawRename(d *draw) line {
	l := newLine("rename", "q", d.anyQueue().str("name"))
	if to := d.one("new", "new", "back", "without"); to != "new" {
		l.set("to", to)
	}
	return l
}

// playRename begins a life in which a queue has another name: a new one, or one that it had
// before. A program may go back to that without knowing the new one. Then what that has
// waits until the program goes forward.
func playRename(w *world, l line) {
	w.mu.Lock()
	q := w.queueOf(l.str("q"))
	if q == nil {
		w.mu.Unlock()
		return
	}
	isBack := slices.ContainsFunc(w.all, func(ahead *queue) bool { return ahead.back == q })
	to, counted := l.str("to"), w.known == w.epoch-1 && w.alone(l) && len(w.running) == 0
	if len(q.former) == 0 && to != "" || len(q.former) > 3 && to == "" ||
		to == "without" && (q.conf.str("latest") != "scored" || // what was done without a score leaves no trace
			q.name == q.conf.str("name")) { // by which steps find the other one
		w.mu.Unlock()
		return
	}
	w.mu.Unlock()
	w.rename = func() {
		if w.forward(); isBack {
			return
		}
		was, name := q.name, q.name+"x"
		if to != "" {
			name = q.former[len(q.former)-1]
		}
		if to == "without" {
			q.back = &queue{name: name, conf: q.conf.clone(), former: slices.Clone(q.former[:len(q.former)-1])}
			q.absent, q.counted = true, counted
			w.all = append(w.all, q.back)
			return
		}
		q.name, q.former = name, append(slices.DeleteFunc(slices.Clone(q.former), func(n string) bool { return n == name }), was)
		w.moveTo(name, was)
	}
	w.newLife(w.x.Restart, l)
}

// forward has the queues whose programs had gone back take over what those did.
func (w *world) forward() {
	for _, q := range slices.Clone(w.all) {
		if old := q.back; old != nil {
			q.back, q.absent = nil, false
			w.all = slices.DeleteFunc(w.all, func(q *queue) bool { return q == old })
			w.moveTo(q.name, old.name)
		}
	}
}

// moveTo gives what a queue has to its other name. Idempotency keys stay.
func (w *world) moveTo(name, was string) {
	for _, i := range w.ledger.items {
		if i.queue == was {
			i.queue = name
		}
	}
	w.renamePauses(was, name)
	for key, value := range w.state {
		id, found := strings.CutPrefix(key, "rest "+was+"/")
		if !found {
			continue
		}
		delete(w.state, key)
		if own, known := w.state["rest "+name+"/"+id].(*item); !known || own.over.Before(value.(*item).over) {
			w.state["rest "+name+"/"+id] = value
		}
	}
}

// appear registers a queue that is missing, while the others run.
func (w *world) appear() {
	w.mu.Lock()
	at := slices.IndexFunc(w.all, func(q *queue) bool { return q.absent && q.back == nil && !q.conf.has("lane") })
	w.mu.Unlock()
	if at < 0 || w.x.Killed() {
		return
	}
	q := w.all[at]
	had, known := w.figuresOf(q)
	if err := w.register(w.x.Executor, q); err != nil {
		if w.calm() {
			w.fail("late: %v can't be registered: %v", q.conf, err)
		}
		return
	}
	now, found := w.figuresOf(q)
	w.hear()
	w.mu.Lock()
	defer w.mu.Unlock()
	q.absent, q.late = false, w.epoch
	w.queues = append(w.queues, q)
	if w.base != nil {
		w.base[q.name] = figures{sum(now), w.account(q.name).payloads[events.Accepted]}
	}
	if known && found && !q.conf.has("fold") && sum(now) != had.Unclaimed+had.Dead {
		w.fail("late: %s had %d payloads and %d dead ones, and now has %+v", q.name, had.Unclaimed, had.Dead, now)
	}
	w.spoilAll()
}

// figuresOf are those of a queue, as far as they are known.
func (w *world) figuresOf(q *queue) (of inspect.QueueStats, known bool) {
	stats, err := w.x.Stats(context.Background())
	for _, s := range stats.Queues {
		if s.Name == q.name {
			return s, err == nil && w.calm()
		}
	}
	return inspect.QueueStats{}, false
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
		w.forward()
		for _, other := range w.all {
			other.absent = false
		}
		q.absent, q.counted = true, counted
	}
	w.newLife(w.x.Restart, newLine("missing"))
}
