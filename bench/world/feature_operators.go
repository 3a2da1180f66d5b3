package world

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
)

// A person acts: jobs are run now, cancelled and deleted, dead ones put back and deleted.
// Each call says how many it has affected, what it has not reached is as it was, and what
// was refused has not been done.
var operating = &feature{
	name: "operators",
	claims: `Inspector.Act Inspector.RetryNow Inspector.RunNow Inspector.Cancel Inspector.Delete Inspector.KillFailed Inspector.DeleteFailed
		Inspector.DeleteDead SelectIDs SelectQueue SelectJobs`,
	plan:  []string{"cancel", "discard", "fail"},
	steps: []step{{"act", 14, true, drawAction, playAction}},
}

func drawAction(d *draw) line {
	l := newLine("act", "q", d.anyQueue().str("name"), "what", d.one("runnow", "retrynow", "cancel", "delete", "killfailed", "deletefailed",
		"requeue", "requeue", "requeue", "requeue", "requeue", "deletedead", "deletedead"),
		"sel", d.one("ids", "ids", "queue", "payloads", "jobs", "filter", "filter"), "ids", d.id())
	if d.chance(3) {
		l.set("ids", "a,b")
	}
	if l.str("sel") == "filter" {
		d.filter(l)
	}
	if d.endless(l); d.chance(6) {
		l.set("ctx", d.one("1ms", "50ms", "900ms"))
	}
	d.amongCrowd(l, "jobs", "ids")
	return l
}

// selection is what a line means, and the payloads of which the world knows that it
// means them.
func (w *world) selection(l line) (inspect.Selection, func(*item) bool) {
	name, ids := l.str("q"), strings.Split(cmp.Or(l.str("ids"), "a"), ",")
	mine := func(i *item) bool { return i.queue == name && slices.Contains(ids, i.id) }
	switch l.str("sel") {
	case "queue":
		return inspect.SelectQueue(name), func(i *item) bool { return i.queue == name }
	case "jobs":
		return inspect.SelectJobs(name, inspect.JobFilter{IDPrefix: ids[0]}), func(i *item) bool { return i.queue == name && strings.HasPrefix(i.id, ids[0]) }
	case "filter":
		return w.filtered(l)
	case "payloads":
		w.mu.Lock()
		defer w.mu.Unlock()
		var positions []uint64
		for n, i := range w.ledger.items {
			if i.queue == name && i.id == ids[0] && i.pos != 0 && n%2 == 0 {
				positions = append(positions, i.pos)
			}
		}
		return inspect.SelectIDs(name, ids[0]).At(positions...), func(i *item) bool {
			folded := w.queueOf(name).conf.has("fold") // one position stands for several
			return i.queue == name && i.id == ids[0] && (folded || slices.Contains(positions, i.pos))
		}
	}
	return inspect.SelectIDs(name, ids...), mine
}

// action is something that a person does.
type action struct {
	name   string // as inspect.Act has it
	before place  // where what it means is
	after  place
}

// doing is an action that is under way: it may mean what is accepted meanwhile.
type doing struct {
	action
	means func(*item) bool
}

var actions = map[string]action{
	"runnow":       {"run", waits, waits},
	"retrynow":     {"retry", waits, waits},
	"cancel":       {"cancel", waits, dead},
	"delete":       {"delete", waits, nowhere},
	"killfailed":   {"kill-failed", waits, dead},
	"deletefailed": {"delete-failed", waits, nowhere},
	"requeue":      {"requeue", dead, waits},
	"deletedead":   {"delete-dead", dead, nowhere},
}

// act has a person do something.
func (w *world) act(ctx context.Context, name string, which inspect.Selection) (did inspect.Requeued, err error) {
	if w.people != nil {
		did, err = w.people.Act(ctx, w.x.Executor, name, which, "planned")
	} else {
		did, err = w.x.Inspect().Act(ctx, name, which, "planned")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if room, _ := w.state["room"].(time.Time); errors.Is(err, executor.ErrFull) && !w.full.Load() && time.Since(room) > time.Minute {
		w.fail("refused: %s of %+v, for which there is room: %v", name, which, err)
	}
	return did, err
}

func playAction(w *world, l line) {
	q, a := w.queueOf(l.str("q")), actions[l.str("what")]
	if q == nil || a.name == "" {
		return
	}
	sel, means := w.selection(l)
	w.mu.Lock()
	before := w.meant(means, a)
	busy := slices.ContainsFunc(before, w.inHand) // it may end by itself meanwhile
	going, there := &doing{a, means}, w.leaving(l, means)
	w.doing = append(w.doing, going)
	if a.before == dead {
		q.taken = w.epoch
	}
	w.forget(l, means)
	w.mu.Unlock()
	ctx, cancel := w.context(l)
	defer cancel()
	whole := w.known == w.epoch-1 && !busy && (l.str("sel") != "filter" || w.still(l))
	n, err := w.act(ctx, a.name, sel)
	w.mu.Lock()
	w.mayBe(q, means, n)
	if refuses(l) && (n != inspect.Requeued{} || !errors.Is(err, inspect.ErrInvalidQuery) && w.calm()) {
		w.fail("told wrongly: %v names states, which dead letters have none of: %+v, %v", l, n, err)
	}
	w.doing = slices.DeleteFunc(w.doing, func(d *doing) bool { return d == going })
	w.forget(l, means)
	for _, i := range there {
		i.bygone = i.bygone || err == nil && q.conf.has("latest")
	}
	w.mu.Unlock()
	if !whole || !w.alone(l) || !w.calm() {
		return
	}
	if l.str("what") == "requeue" && err == nil {
		w.mu.Lock()
		w.requeued(q, before, n)
		w.mu.Unlock()
	}
	w.acted(l, a, before, n.Back, err)
}

// forget notes that an id was deleted: then older versions may come after those that were done.
func (w *world) forget(l line, means func(*item) bool) {
	for _, i := range w.ledger.items {
		i.forgot = i.forgot || deletesIDs(l) && means(i)
	}
}

// leaving are payloads of ids that are about to be deleted: all that comes later is newer.
func (w *world) leaving(l line, means func(*item) bool) (all []*item) {
	for _, i := range w.ledger.items {
		if deletesIDs(l) && i.state == acked && means(i) {
			all = append(all, i)
		}
	}
	return all
}

func deletesIDs(l line) bool { return l.str("what") == "delete" && l.str("sel") == "ids" }

// meant notes what an action may do to the payloads that it means, which are returned if
// they are where it looks for them.
func (w *world) meant(means func(*item) bool, a action) (all []*item) {
	for _, i := range w.ledger.items {
		if i.state == refused || i.told != "" || !means(i) {
			continue
		}
		w.touch(i, a)
		if i.place == a.before && i.seen == w.epoch-1 {
			all = append(all, i)
		}
	}
	return all
}

// touch notes that an action may mean a payload.
func (w *world) touch(i *item, a action) {
	i.moved, i.hurried = w.epoch, true
	switch {
	case a.after == dead:
		i.doom = w.epoch
	case a.after == nowhere:
		i.hint, i.hintLife = "deleted", 0
	case a.before == dead:
		i.revive, i.revived = true, i.revived+1
	}
}

// acted compares what an action has said with what it has done, when nothing else went on.
func (w *world) acted(l line, a action, before []*item, n int, err error) {
	switch {
	case errors.Is(err, inspect.ErrInvalidQuery):
		if n != 0 {
			w.fail("told wrongly: %s was refused and affected %d: %v", l.str("what"), n, err)
		}
		return
	case a.before == waits && a.after == waits || w.conserved(l):
		return
	}
	w.settle()
	w.mu.Lock()
	defer w.mu.Unlock()
	moved, inHand := 0, 0
	for _, i := range before {
		if w.inHand(i) || w.behind(i) {
			inHand++
		} else if i.place != a.before {
			moved++
		}
	}
	exact := err == nil && inHand == 0
	if exact && n != moved || err != nil && inHand == 0 && n > moved {
		w.fail("told wrongly: %s said %s (%v), and %d payloads went", l.str("what"), strconv.Itoa(n), err, moved)
	}
	some := l.str("what") == "killfailed" || l.str("what") == "deletefailed"
	if exact && !some && moved != len(before) {
		w.fail("told wrongly: %s has left %d of %d payloads", l.str("what"), len(before)-moved, len(before))
	}
}

// conserved reports whether other things may happen to what an action means: payloads that
// come back may merge, or be folded.
func (w *world) conserved(l line) bool {
	q := w.queueOf(l.str("q"))
	return q.gathers() || q.conf.has("keep")
}
