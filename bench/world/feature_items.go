package world

import (
	"strings"

	"github.com/strandjobs/strand/executor"
)

// Each payload of a call has a place, a due time and metadata of its own, whatever the call says of all.
var itemizing = &feature{
	name: "items",
	plan: []string{"snooze~1s", "1s:fail"},
	enqueue: func(d *draw, l line) {
		if !l.has("many") && d.chance(2) {
			l.set("many", 1)
		}
		for _, own := range ownLists {
			if l.has("many") && !d.chance(3) {
				l.set(own.list, strings.Join([]string{d.one(own.of...), d.one(own.of...), d.one(own.of...)}, "+"))
			}
		}
	},
}

// ownLists are what a call has lists of, for an argument; - is nothing.
var ownLists = []struct {
	list, name string
	of         []string
}{
	{"scores", "score", []string{"1", "2", "3", "4000000000", "-"}}, {"ins", "in", []string{"0s", "1s", "5s", "2m", "-"}}, {"metas", "meta", []string{"m1", "m3", "-"}},
}

// own is what a call says of its nth payload alone; "": nothing.
func (l line) own(list string, n int) string {
	if !l.has("many") {
		return ""
	}
	all := strings.Split(l.str(list), "+")
	return strings.TrimPrefix(all[n%len(all)], "-")
}

// of is a call as it is about its nth payload.
func (l line) of(n int) line {
	one := l.clone()
	for _, each := range ownLists {
		if own := l.own(each.list, n); own != "" {
			one.set(each.name, own)
		}
	}
	if l.own("ins", n) != "" {
		delete(one.args, "at")
	}
	return one
}

// itemOf is the nth payload of a call, with what that says of it alone.
func (w *world) itemOf(q *queue, l line, n int, v payload) executor.Item[payload] {
	it := executor.Item[payload]{ID: q.idOf(l, n), Payload: v}
	if l.own("scores", n) != "" {
		it.Score = new(q.scoreOf(l.of(n)))
	}
	if own := l.own("ins", n); own != "" {
		it.Due = w.now().Add(l.of(n).dur("in"))
	}
	if own := l.own("metas", n); own != "" {
		it.Metadata = map[string]string{"m": own}
	}
	return it
}
