package keylock

import (
	"slices"

	"github.com/strandjobs/strand/executor/internal/admit"
)

// model is what locks are as one would say it: a list of locks, and a
// list of those who wait, in the order in which they came. It looks at everything
// every time.
type model struct {
	holds   []modelHold
	waits   []*modelWait
	arrived uint64
	woken   []admit.Owner // in order, since the last look
}

type modelWait struct {
	request
	number uint64
	key    string // where it stands, "" if nowhere
	called bool
}

type modelHold struct {
	number uint64
	key    string
	by     admit.Owner
	onRun  bool
}

func (w *model) locked(key string, by admit.Owner) bool {
	return slices.ContainsFunc(w.holds, func(h modelHold) bool { return h.key == key && h.by != by })
}

func (w *model) find(by admit.Owner) *modelWait {
	for _, o := range w.waits {
		if o.By == by {
			return o
		}
	}
	return nil
}

// blocked is the law: a key blocks those who want it unlocked while another has
// locked it, is about to, or has to find it unlocked before they lock it; and while
// none has, it is for those first who came first.
func (w *model) blocked(key string, r request, number uint64) bool {
	free := !slices.ContainsFunc(w.holds, func(h modelHold) bool { return h.key == key })
	return w.locked(key, r.By) || slices.ContainsFunc(w.waits, func(o *modelWait) bool {
		switch {
		case o.By == r.By:
			return false
		case o.called:
			return o.locks(key) || slices.Contains(o.BlockedBy, key) && r.locks(key)
		}
		return free && o.key == key && o.number < number
	})
}

// firstBlocked is told what was kept for the job until now, if it was called.
func (w *model) firstBlocked(r request, number uint64, kept *request) string {
	i := slices.IndexFunc(r.BlockedBy, func(key string) bool {
		if kept != nil && slices.Contains(kept.BlockedBy, key) && (kept.locks(key) || !r.locks(key)) {
			return w.locked(key, r.By)
		}
		return w.blocked(key, r, number)
	})
	if i < 0 {
		return ""
	}
	return r.BlockedBy[i]
}

// lock is told the number, which is the business of locks.
func (w *model) lock(number uint64, key string, by admit.Owner, onRun bool) {
	w.holds = append(w.holds, modelHold{number, key, by, onRun})
}

func (w *model) setAll(b *locks, r request) {
	for _, s := range r.Lock {
		if !slices.ContainsFunc(w.holds, func(h modelHold) bool { return h.onRun && h.by == r.By && h.key == s.Key }) {
			number := uint64(0) // found by what it is
			for _, h := range b.Locked(s.Key) {
				if h.OnRun && h.Owner == r.By {
					number = h.Number
				}
			}
			w.lock(number, s.Key, r.By, true)
		}
	}
}

// follow is what comes of it that something has changed at some keys.
func (w *model) follow(keys ...string) {
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
					w.woken = append(w.woken, o.By)
				}
				break
			}
		}
	}
}

func (w *model) drop(number uint64) {
	i := slices.IndexFunc(w.holds, func(h modelHold) bool { return h.number == number })
	if i < 0 {
		return
	}
	key := w.holds[i].key
	w.holds = slices.Delete(w.holds, i, i+1)
	w.follow(key)
}

func (w *model) stepOut(o *modelWait) (left []string) {
	if o.called {
		left = slices.Clone(o.BlockedBy)
		for _, s := range o.Lock {
			left = append(left, s.Key)
		}
	} else if o.key != "" {
		left = []string{o.key}
	}
	o.called, o.key = false, ""
	return left
}

func (w *model) leave(by admit.Owner) {
	if o := w.find(by); o != nil {
		left := w.stepOut(o)
		w.waits = slices.DeleteFunc(w.waits, func(o *modelWait) bool { return o.By == by })
		w.follow(left...)
	}
}
