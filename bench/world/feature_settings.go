package world

import (
	"cmp"
	"slices"
	"strings"

	"github.com/strandjobs/strand/executor"
)

// A process begins with other settings than the one before. What waits, is dead, is retried or has a
// number goes on, and what the settings promise is true of the new ones.
var redeploying = &feature{
	name: "settings", apart: true, lives: true,
	steps: []step{{"settings", 6, false, drawSettings, playSettings}},
}

// settingsOfQueue are those of a queue that change, together with the others of their group.
var settingsOfQueue = [][]string{
	{"retries"}, {"payloads"}, {"batch"}, {"most", "weight", "priority", "concurrency"}, {"keep", "keepfor"},
	{"timeout", "heartbeat"}, {"debounce", "maxwait", "throttle", "freshdue"}, {"backlog", "bytes"},
	{"exhausted", "failure", "fresh", "parts"}, {"limited"}, {"unique"}, {"slots"}, {"codec"}, {"inner"}, {"latest"},
}

// settingsOfAll are those of the executor, its limits and its numbers.
var settingsOfAll = [][]string{
	{"atonce", "rate", "burst"}, {"overall"}, {"unique"}, {"lease"}, {"keepslots"}, {"keepburied"}, {"slotttl"},
	{"memory"}, {"backlog", "bytes"}, {"overflow"}, {"scheduler"}, {"spare"}, {"nodes"}, {"slack"},
}

// ofAll is before their names.
const ofAll = "all."

// drawSettings draws them as those of a world are drawn, and takes some.
func drawSettings(d *draw) line {
	q := d.anyQueue()
	own, all := newLine("queue", "shape", q.str("shape"), "retries", d.IntN(3)), newLine("world")
	l := newLine("settings", "q", q.str("name"))
	for _, f := range d.swarm {
		if f.queue != nil {
			f.queue(d, own)
		}
		if f.world != nil {
			f.world(d, all)
		}
	}
	if own.has("latest") { // with scores or without: so the calls are
		own.put("latest", cmp.Or(d.one("none", q.str("latest")), "none"))
	}
	if d.chance(3) {
		l.set("crash", "yes")
	}
	if d.chance(4) {
		l.set("early", 1+d.IntN(3))
	}
	d.some(settingsOfQueue, q, own, l, "")
	d.some(settingsOfAll, newLine("world"), all, l, ofAll)
	return l
}

// some takes some groups of settings, also what is in none of them any more.
func (d *draw) some(groups [][]string, was, now, l line, of string) {
	for _, group := range groups {
		if !d.chance(2) || !slices.ContainsFunc(group, func(name string) bool { return was.has(name) || now.has(name) }) {
			continue
		}
		for _, name := range group {
			l.set(of+name, cmp.Or(now.str(name), "none"))
		}
	}
}

// playSettings begins the next life, after a stop or a crash.
func playSettings(w *world, l line) {
	w.mu.Lock()
	q := w.queueOf(l.str("q"))
	if slices.ContainsFunc(w.all, func(q *queue) bool { return q.back != nil }) {
		q = nil // it is in two places
	}
	w.mu.Unlock()
	if q == nil {
		return
	}
	if !l.has("crash") {
		w.rename = func() { w.change(q, l) } // what runs until the stop has the old ones
		w.newLife(w.x.Restart, l)
		return
	}
	w.mu.Lock()
	w.change(q, l) // the process that does it may be another one
	w.mu.Unlock()
	w.newLife(w.crash, l)
}

// nextConfig is that of the life which a step begins.
func (w *world) nextConfig(l line) executor.Config {
	set := func(conf line) { // calls of this life may come to their end meanwhile
		w.mu.Lock()
		defer w.mu.Unlock()
		w.conf = conf
	}
	was := w.conf
	defer set(was)
	set(was.clone())
	w.changeAll(l)
	return w.config()
}

// change has a queue, and the executor, other settings in the next life.
func (w *world) change(q *queue, l line) {
	q.conf.set("mostretries", max(q.conf.num("retries"), q.conf.num("mostretries")))
	q.conf.set("changed", w.life+1)
	was := q.conf.has("latest")
	if was {
		q.conf.set("waslatest", "yes")
	}
	for name, value := range l.args {
		switch {
		case !slices.ContainsFunc(settingsOfQueue, func(group []string) bool { return slices.Contains(group, name) }):
		case name == "payloads" && (q.conf.has("fold") || q.conf.str("shape") == "handle"): // they do not go together
		default:
			q.conf.put(name, value)
		}
	}
	if !was && q.conf.has("latest") {
		q.conf.set("latestsince", w.life+1)
	}
	w.changeAll(l)
}

// changeAll has the executor other settings in the next life.
func (w *world) changeAll(l line) {
	for name, value := range l.args {
		if name, found := strings.CutPrefix(name, ofAll); found {
			w.conf.put(name, value)
		}
	}
}

// put sets an argument, or takes it out.
func (l line) put(name, value string) {
	if value == "none" {
		delete(l.args, name)
		return
	}
	l.set(name, value)
}

// stays reports whether a queue has the settings that it had when a payload was accepted.
func (q *queue) stays(i *item) bool { return max(i.life, -i.life) >= q.conf.num("changed") }
