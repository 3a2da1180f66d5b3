package executor

import (
	"maps"
	"slices"
)

// barrierTwin is the barrier as one would say it: a list of holds, and a list of
// those who wait, in the order in which they came. It looks at everything every
// time.
type barrierTwin struct {
	holds   []twinHold
	waits   []*twinWait
	arrived uint64
	woken   []holder // in order, since the last look
}

type twinWait struct {
	request
	number uint64
	key    string // where it stands, "" if nowhere
	called bool
}

type twinHold struct {
	number uint64
	key    string
	by     holder
	onRun  bool
}

func (w *barrierTwin) locked(key string, by holder) bool {
	return slices.ContainsFunc(w.holds, func(h twinHold) bool { return h.key == key && h.by != by })
}

func (w *barrierTwin) find(by holder) *twinWait {
	for _, o := range w.waits {
		if o.by == by {
			return o
		}
	}
	return nil
}

// blocked is the law: a key blocks those who want it unlocked while somebody else
// has locked it, is about to, or has to find it unlocked before they lock it; and
// while nobody has, it is for those first who came first.
func (w *barrierTwin) blocked(key string, r request, number uint64) bool {
	free := !slices.ContainsFunc(w.holds, func(h twinHold) bool { return h.key == key })
	return w.locked(key, r.by) || slices.ContainsFunc(w.waits, func(o *twinWait) bool {
		switch {
		case o.by == r.by:
			return false
		case o.called:
			return o.locks(key) || slices.Contains(o.blockedBy, key) && r.locks(key)
		}
		return free && o.key == key && o.number < number
	})
}

// firstBlocked is told what was kept for the job until now, if it was called.
func (w *barrierTwin) firstBlocked(r request, number uint64, kept *request) string {
	i := slices.IndexFunc(r.blockedBy, func(key string) bool {
		if kept != nil && slices.Contains(kept.blockedBy, key) && (kept.locks(key) || !r.locks(key)) {
			return w.locked(key, r.by)
		}
		return w.blocked(key, r, number)
	})
	if i < 0 {
		return ""
	}
	return r.blockedBy[i]
}

// lock is told the number, which is the barrier's business.
func (w *barrierTwin) lock(number uint64, key string, by holder, onRun bool) {
	w.holds = append(w.holds, twinHold{number, key, by, onRun})
}

func (w *barrierTwin) setAll(b *barrier, r request) {
	for _, s := range r.set {
		if !slices.ContainsFunc(w.holds, func(h twinHold) bool { return h.onRun && h.by == r.by && h.key == s.key }) {
			number := uint64(0) // found by what it is
			for _, h := range b.ran[r.by] {
				if h.key == s.key {
					number = h.number
				}
			}
			w.lock(number, s.key, r.by, true)
		}
	}
}

// follow is what comes of it that something has changed at some keys.
func (w *barrierTwin) follow(keys ...string) {
	for _, key := range keys {
		for again := true; again; {
			again = false
			for _, o := range w.waits {
				if o.key != key || w.blocked(key, o.request, o.number) {
					continue
				}
				again = true
				if o.key = w.firstBlocked(o.request, o.number, nil); o.key == "" {
					o.called = true
					w.woken = append(w.woken, o.by)
				}
				break
			}
		}
	}
}

func (w *barrierTwin) drop(number uint64) {
	i := slices.IndexFunc(w.holds, func(h twinHold) bool { return h.number == number })
	if i < 0 {
		return
	}
	key := w.holds[i].key
	w.holds = slices.Delete(w.holds, i, i+1)
	w.follow(key)
}

func (w *barrierTwin) stepOut(o *twinWait) (left []string) {
	if o.called {
		left = slices.Clone(o.blockedBy)
		for _, s := range o.set {
			left = append(left, s.key)
		}
	} else if o.key != "" {
		left = []string{o.key}
	}
	o.called, o.key = false, ""
	return left
}

func (w *barrierTwin) leave(by holder) {
	if o := w.find(by); o != nil {
		left := w.stepOut(o)
		w.waits = slices.DeleteFunc(w.waits, func(o *twinWait) bool { return o.by == by })
		w.follow(left...)
	}
}

// waitsFor lists whom a request waits for: all who have locked one of its keys.
func (w *barrierTwin) waitsFor(r request) (all []holder) {
	for _, h := range w.holds {
		if h.by != r.by && slices.Contains(r.blockedBy, h.key) {
			all = append(all, h.by)
		}
	}
	return all
}

// circle reports whether a request would wait for itself, by following
// everybody until nothing new turns up.
func (w *barrierTwin) circle(r request) bool {
	reached := make(map[holder]bool)
	for _, by := range w.waitsFor(r) {
		reached[by] = true
	}
	for n := -1; n != len(reached); {
		n = len(reached)
		for _, by := range slices.Collect(maps.Keys(reached)) {
			if q := w.find(by); q != nil && q.key != "" && by != r.by {
				for _, next := range w.waitsFor(q.request) {
					reached[next] = true
				}
			}
		}
	}
	return reached[r.by]
}
