package world

import (
	"context"
	"time"
)

// Several nodes are one executor: partitions move from one to another, in order or because a
// process has died, nodes come and go, and answers are lost. All promises hold meanwhile. What
// runs at a time is for each node by itself.
var clustering = &feature{
	name: "cluster", always: true,
	world: func(d *draw, l line) {
		l.set("cluster", 1+d.IntN(3))
		l.set("lease", d.one("0s", "0s", "5ms", "300ms", "3s"))
		if d.chance(2) {
			l.set("deaf", 2+d.IntN(3)) // of so many agreements of a node on limits one has no answer
		}
	},
	plan: []string{"ask~q1.a", "ask~q2.b", "ask~q1.c"},
	acts: map[string]func(*world, context.Context, *run, int, string) error{"ask": askWithin}, // in scripts
	steps: []step{
		{"move", 8, true, func(d *draw) line { return newLine("move", "p", d.IntN(partitions), "d", d.one("1ms", "2s", "30s")) }, playMove},
		{"fence", 2, true, func(d *draw) line { return newLine("fence", "p", d.IntN(partitions)) }, playFence},
		{"die", 2, true, func(*draw) line { return newLine("die") }, func(w *world, _ line) { w.kill() }},
		{"leave", 2, true, func(d *draw) line { return newLine("leave", "d", d.one("1ms", "2s", "30s")) }, playLeave},
		{"join", 3, false, func(*draw) line { return newLine("join") }, playJoin},
		{"pause", 2, true, func(d *draw) line { return drawAll(d, "pause") }, playPause}, // what people do is counted until
		{"resume", 4, true, func(d *draw) line { return drawAll(d, "resume") }, playPause},
	},
	began: func(w *world, r *run) {
		if n, most := r.node(), max(w.conf.num("workers"), 1); n != nil && n.working > most && !w.conf.has("spare") {
			w.fail("too many: %d handlers at work on a node with %d workers", n.working, most)
		}
	},
}

func drawAll(d *draw, verb string) line {
	return newLine(verb, "of", "all", "q", d.anyQueue().str("name"))
}

func playMove(w *world, l line) {
	if w.town == nil {
		return
	}
	p := w.town.owner(l.num("p") % partitions)
	if p == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), max(l.dur("d"), time.Millisecond))
	defer cancel()
	w.town.handOver(ctx, p)
}

func playFence(w *world, l line) {
	if w.town == nil {
		return
	}
	if p := w.town.owner(l.num("p") % partitions); p != nil {
		w.town.fence(p)
	}
}

func playLeave(w *world, l line) {
	if w.town == nil {
		return
	}
	n := w.town.present.Load()
	w.town.mu.Lock()
	last := len(w.town.living()) < 2
	w.town.mu.Unlock()
	if !last {
		n.end(max(l.dur("d"), time.Millisecond))
	}
}

func playJoin(w *world, _ line) {
	if w.town == nil || w.town.Killed() || len(w.town.nodes) > 5 {
		return
	}
	n := w.town.newNode()
	if err := w.enrol(n.x); err != nil {
		w.fail("node: %v", err)
		return
	}
	w.town.join(n)
	w.town.face(w.town.present.Load())
}

// among draws the node that a step calls, and what becomes of the call.
func (d *draw) among(l line) {
	if d.chance(2) {
		l.set("node", d.IntN(3))
	}
	if l.has("many") && !l.has("computed") && l.str("id") != crowd && d.chance(3) {
		l.set("apart", "yes")
	}
	if d.chance(10) {
		l.set("lose", d.one("before", "after"))
	}
}
