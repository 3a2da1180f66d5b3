package world

import "fmt"

// Hundreds of ids begin in one way. What a person does to all of them visits each shard more than
// once, and may be cut short between two visits.
var crowding = &feature{
	name: "crowd", dear: true,
	steps: []step{{"crowd", 1, false, drawCrowd, func(w *world, l line) { l.verb = "enqueue"; playEnqueue(w, l) }}},
}

// crowd is what their ids begin with.
const crowd = "crowd/"

func drawCrowd(d *draw) line {
	n := 250 + d.IntN(100)
	l := newLine("crowd", "q", d.anyQueue().str("name"), "id", crowd, "n", d.n+1, "many", n, "plan", d.one("ok", "fail", "fail", "cancel", "fail/cancel"))
	d.n += n
	return l
}

// amongCrowd has a person mean the crowd, with a call that is cut short perhaps.
func (d *draw) amongCrowd(l line, prefix, ids string) {
	if !d.has("crowd") || d.chance(3) {
		return
	}
	l.set(ids, crowd)
	for _, name := range []string{"of", "sel"} {
		if l.has(name) {
			l.set(name, prefix)
		}
	}
	if d.chance(2) {
		l.set("spins", 1<<d.IntN(12))
	}
}

// nth is the id of a payload of a call.
func (l line) nth(n int) string {
	if l.str("id") == crowd {
		return fmt.Sprint(crowd, n)
	}
	if l.has("apart") && l.has("id") { // one after the other
		return string(rune('a' + (int(l.str("id")[0]-'a')+n)%3))
	}
	return l.str("id")
}
