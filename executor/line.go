package executor

import (
	"container/list"
	"math"
	"slices"

	"github.com/strandjobs/strand/lock"
)

// wait is a job that was blocked and has not run since. It holds nothing.
//
//	            blocked                 nothing blocks it          its worker comes to it
//	(no wait) ───────────► in line ──────────────────────► called ───────────────────────► (no wait): it runs
//	                         ▲  ▲                             │
//	                         │  └──── blocked once more ──────┤
//	                         └─────── blocked ── aside ◄──────┘ waits for a lease or a slot
//
// In line it stands at one key that blocks it; when that is unlocked it moves on
// to the next one that does. So whoever unlocks a key looks at no more of them
// than it calls.
//
// Called, it is on its way to a worker, and its keys are kept for it: nobody locks
// what it must find unlocked, or passes by what it is to lock, if he stands in line
// for that key or comes to it now. What is locked without waiting, by an enqueue or
// by hand, is not kept from it: then it is blocked once more. Its own keys it locks
// when it enters, from the worker, in the instant in which nothing blocks it. To
// wait for one who was called closes no circle: he enters or goes back into line,
// whatever the others do.
//
// Its number stays the same in all of this: whoever came first stands first.
// What becomes of a job that does not wait any more, leave forgets.
//
// Invariant: the first in the line of a key is blocked there, by a hold of
// somebody else or by one who was called.
type wait struct {
	request
	number uint64
	since  int64
	key    string        // in whose line it stands
	at     *list.Element // nil: in none
	called bool          // Invariant: then it stands in no line
	wake   func()
}

// blocking returns the first key that blocks a request, "" when it may pass.
// Whoever asks came as number says, and is not counted among those who were called:
// kept is what was kept for him until now.
func (b *barrier) blocking(r *request, number uint64, kept *request) string {
	for _, key := range r.blockedBy {
		k := b.keys[key]
		if k != nil && (k.blocks(r.by) || (!kept.covers(r, key) && k.isKept(key, r, number))) {
			return key
		}
	}
	return ""
}

// covers reports whether a key was kept as r needs it: who is called after that
// comes after r, too.
func (kept *request) covers(r *request, key string) bool {
	return kept != nil && slices.Contains(kept.blockedBy, key) && (kept.locks(key) || !r.locks(key))
}

// blocks reports whether somebody else has locked the key.
func (k *barrierKey) blocks(by holder) bool {
	return len(k.by) > 1 || (len(k.by) == 1 && k.by[by] == 0)
}

// isKept reports whether the key is kept for those who were called, or who stand
// behind them and came before the one who asks.
func (k *barrierKey) isKept(key string, r *request, number uint64) bool {
	if k.toLock > 0 || (k.toPass > 0 && r.locks(key)) {
		return true
	}
	first := k.line.Front()
	return len(k.by) == 0 && first != nil && first.Value.(*wait).number < number
}

// enter has a job that a worker has in hand lock what it asks for, or returns a
// key that blocks it. Then it stands in line if waker is not nil, which returns
// what wakes it; but when that would close a circle it gets a
// [lock.DeadlockError].
func (b *barrier) enter(r request, waker func() func()) (fresh []*hold, blocked string, err error) {
	w := b.waits[r.by]
	number := uint64(math.MaxUint64)
	var kept *request
	var left []string
	if w != nil {
		if w.called {
			kept = &w.request
		}
		number, left = w.number, b.stepOut(w)
	}
	switch blocked = b.blocking(&r, number, kept); {
	case blocked == "":
		fresh = b.set(r)
	case waker == nil:
	default:
		if circle := b.circle(&r); circle != nil {
			err = &lock.DeadlockError{Circle: b.named(circle)}
			break
		}
		if w == nil {
			w = b.comes(r.by)
		}
		w.request, w.wake = r, waker()
		b.stand(w, blocked)
	}
	b.callNext(left...)
	return fresh, blocked, err
}

// comes gives a job its number.
func (b *barrier) comes(by holder) *wait {
	w := b.waits[by]
	if w == nil {
		b.arrived++
		w = &wait{request: request{by: by}, number: b.arrived, since: b.now}
		b.waits[by] = w
	}
	return w
}

// stand puts a job in line at a key, behind those who came before it.
func (b *barrier) stand(w *wait, key string) {
	line := &b.key(key).line
	w.key = key
	for e := line.Back(); e != nil; e = e.Prev() {
		if e.Value.(*wait).number < w.number {
			w.at = line.InsertAfter(w, e)
			return
		}
	}
	w.at = line.PushFront(w)
}

// stepOut takes a job out of its line, or its call back, and returns the keys
// at which others may be next.
func (b *barrier) stepOut(w *wait) (left []string) {
	switch {
	case w.called:
		w.called = false
		b.keep(&w.request, -1)
		left = slices.Clone(w.blockedBy)
		for _, s := range w.set {
			left = append(left, s.key)
		}
	case w.at != nil:
		b.keys[w.key].line.Remove(w.at)
		w.at = nil
		left = []string{w.key}
	}
	return left
}

// leave forgets that a job waits, because it runs or has failed.
func (b *barrier) leave(by holder) {
	if w := b.waits[by]; w != nil {
		delete(b.waits, by)
		b.callNext(b.stepOut(w)...)
	}
}

// keep counts a job in or out of those for whom keys are kept.
func (b *barrier) keep(r *request, n int) {
	for _, s := range r.set {
		b.key(s.key).toLock += n
	}
	for _, key := range r.blockedBy {
		b.key(key).toPass += n
	}
}

// callNext calls those who may pass, of those that stand first at some keys.
func (b *barrier) callNext(keys ...string) {
	for _, key := range keys {
		k := b.keys[key]
		for k != nil {
			w := b.next(key, k)
			if w == nil || k.isKept(key, &w.request, w.number) {
				break
			}
			b.stepOut(w)
			if elsewhere := b.blocking(&w.request, w.number, nil); elsewhere != "" {
				b.stand(w, elsewhere)
				continue
			}
			w.called = true
			b.keep(&w.request, 1)
			b.wakes = append(b.wakes, w.wake)
		}
		if k != nil && k.holds.Len()+k.line.Len()+k.watchers.Len()+k.toLock+k.toPass == 0 {
			delete(b.keys, key)
		}
	}
}

// next returns who of the line of a key may be the next to pass it, as far as its
// holds go: the first one, or the one who has locked it himself.
func (b *barrier) next(key string, k *barrierKey) *wait {
	switch len(k.by) {
	case 0:
		if first := k.line.Front(); first != nil {
			return first.Value.(*wait)
		}
	case 1:
		for by := range k.by {
			if w := b.waits[by]; w != nil && w.at != nil && w.key == key {
				return w
			}
		}
	}
	return nil
}

// recheck has a job in line try again when what it has locked meanwhile closes a
// circle: then it will hear of it.
func (b *barrier) recheck(by holder) {
	if w := b.waits[by]; w != nil && w.at != nil && b.circle(&w.request) != nil {
		b.callNext(b.stepOut(w)...)
		b.wakes = append(b.wakes, w.wake)
	}
}
