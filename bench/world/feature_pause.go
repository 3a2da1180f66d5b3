package world

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
)

// The executor, a queue, some ids or those that begin in some way are paused, over restarts and crashes, too: nothing of
// them runs until they are resumed.
var pausing = &feature{
	name: "pause",
	claims: `SelectExecutor Inspector.Pause Inspector.Resume
		Inspector.Paused Inspector.PausedIDs Inspector.PausedPrefixes SelectPrefix`,
	steps: []step{{"pause", 8, true, drawPause, playPause}, {"resume", 8, true, drawPause2, playPause}},
	began: func(w *world, r *run) {
		scopes := []string{"all", "q " + r.queue.name, "id " + r.queue.name + "/" + r.id}
		for n := range r.id {
			scopes = append(scopes, "prefix "+r.queue.name+"/"+r.id[:n+1])
		}
		for _, scope := range scopes {
			if p := w.pauses()[scope]; p != nil && p.sure && p.paused && !p.some && (p.epoch < w.epoch || p.life == w.life && time.Now().After(p.at) && r.queue.conf.str("shape") != "batch") && !r.queue.twice() { // which may be a half, or the second call of a run
				w.fail("paused and run: %s/%s although %s is paused since step %d", r.queue.name, r.id, scope, p.epoch)
			}
		}
	},
	calm: checkPauses,
	lift: func(w *world) {
		ctx := context.Background()
		w.mu.Lock()
		for _, p := range w.pauses() {
			p.sure = false
		}
		w.mu.Unlock()
		_, _ = w.x.Inspect().Resume(ctx, inspect.SelectExecutor())
		for _, q := range w.queues {
			_, _ = w.x.Inspect().Resume(ctx, inspect.SelectQueue(q.name))
			for _, id := range []string{"a", "b", "c"} {
				_, _ = w.x.Inspect().Resume(ctx, inspect.SelectIDs(q.name, id))
				_, _ = w.x.Inspect().Resume(ctx, inspect.SelectPrefix(q.name, id))
			}
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		clear(w.pauses())
	},
}

// pause is what is known of a scope.
type pause struct {
	paused bool
	sure   bool // and not one of two, as after a call that could not say
	some   bool // partitions are paused, and others may not be
	late   bool // what a call could not say of may happen yet
	epoch  int
	life   int
	at     time.Time // when that was told
}

func (w *world) pauses() map[string]*pause {
	all, _ := w.state["pauses"].(map[string]*pause)
	if all == nil {
		all = make(map[string]*pause)
		w.state["pauses"] = all
	}
	return all
}

func drawPause(d *draw) line {
	l := newLine("pause", "of", d.one("all", "queue", "queue", "ids", "ids", "prefix", "prefix"), "q", d.anyQueue().str("name"), "id", d.id())
	if d.endless(l); d.chance(8) {
		l.set("ctx", d.one("1ms", "50ms"))
	}
	return l
}

func drawPause2(d *draw) line {
	l := drawPause(d)
	l.verb = "resume"
	return l
}

func playPause(w *world, l line) {
	q := w.queueOf(l.str("q"))
	if q == nil {
		return
	}
	ctx, cancel := w.context(l)
	defer cancel()
	on := l.verb == "pause"
	scope := map[string]string{"all": "all", "queue": "q " + q.name, "ids": "id " + q.name + "/" + l.str("id"),
		"prefix": "prefix " + q.name + "/" + l.str("id")}[cmp.Or(l.str("of"), "ids")]
	w.mu.Lock()
	p := w.pauses()[scope]
	if p == nil {
		p = &pause{sure: true}
		w.pauses()[scope] = p
	}
	was := *p
	p.sure = was.sure && was.paused == on // the call may be carried out at any moment now
	w.mu.Unlock()
	did, err := w.act(ctx, l.verb, pauseOf(q, l))
	w.mu.Lock()
	defer w.mu.Unlock()
	together := l.with || w.at.String() != l.String()
	p.some, p.late = w.town != nil && (err != nil || together || was.late), was.late || err != nil
	if !w.alone(l) {
		return
	}
	if err == nil && was.sure && !was.some && l.str("of") != "all" && l.str("of") != "queue" && (did.Back == 1) != (was.paused != on) {
		w.fail("told wrongly: %v said %d", l, did.Back)
	}
	switch {
	case err == nil:
		p.paused, p.sure, p.epoch, p.life, p.at = on, true, w.epoch, w.life, time.Now()
	case !isUnknown(err) && did.Back == 0:
		p.paused, p.sure, p.some = was.paused, was.sure, was.some
	}
}

// pauseOf is what a line means.
func pauseOf(q *queue, l line) inspect.Selection {
	switch l.str("of") {
	case "all":
		return inspect.SelectExecutor()
	case "queue":
		return inspect.SelectQueue(q.name)
	case "prefix":
		return inspect.SelectPrefix(q.name, l.str("id"))
	}
	return inspect.SelectIDs(q.name, l.str("id"))
}

// renamePauses has pauses go along with a queue: what is paused under one of two names is
// paused then.
func (w *world) renamePauses(was, name string) {
	all := w.pauses()
	for scope, p := range all {
		kind, of, _ := strings.Cut(scope, " ")
		to := "q " + name
		if after, found := strings.CutPrefix(of, was+"/"); found && kind != "q" {
			to = kind + " " + name + "/" + after
		} else if scope != "q "+was {
			continue
		}
		delete(all, scope)
		if own := all[to]; own != nil && own.paused && own.sure {
			continue
		} else if own != nil && !(p.paused && p.sure) {
			p.sure = p.sure && own.sure
		}
		all[to] = p
	}
}

// checkPauses compares what is paused with what was asked for.
func checkPauses(w *world, _ *census) {
	if w.town != nil && len(w.pauses()) == 0 {
		return
	}
	all, queues := w.x.Inspect().Paused()
	is := map[string]bool{"all": all}
	for _, name := range queues {
		is["q "+name] = true
	}
	for _, q := range w.all {
		for id, err := range w.x.Inspect().PausedIDs(q.name) {
			if err != nil {
				w.fail("PausedIDs: %v", err)
			}
			is["id "+q.name+"/"+id] = true
		}
		for prefix, err := range w.x.Inspect().PausedPrefixes(q.name) {
			if err != nil {
				w.fail("PausedPrefixes: %v", err)
			}
			is["prefix "+q.name+"/"+prefix] = true
		}
	}
	for scope, p := range w.pauses() {
		if p.sure && p.paused != is[scope] {
			w.fail("pause: %s is %v, and was told to be %v in step %d", scope, is[scope], p.paused, p.epoch)
		}
		p.paused, p.sure, p.late = is[scope], true, false
	}
	for scope := range is {
		if is[scope] && w.pauses()[scope] == nil && !strings.Contains(scope, "/") {
			w.fail("pause: %s is paused, and was not told to be", scope)
		}
	}
}

// isUnknown: what a call was about may be either way.
func isUnknown(err error) bool {
	return errors.Is(err, executor.ErrUnknown) || errors.Is(err, executor.ErrFailed)
}
