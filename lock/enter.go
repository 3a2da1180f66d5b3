package lock

import (
	"math"
	"slices"
	"time"
)

// Request is what a job wants before it runs.
type Request struct {
	Owner     Owner
	BlockedBy []string      // none of them may be locked by another owner
	Lock      []Setting     // what it locks then, in the same instant
	TTL       time.Duration // of what it locks; 0: for ever
}

// Setting is a key that a job locks when it runs, for one of its payloads if the
// Position is not 0.
type Setting struct {
	Key      string
	Position uint64
}

func (r *Request) locks(key string) bool {
	return slices.ContainsFunc(r.Lock, func(s Setting) bool { return s.Key == key })
}

// covers reports whether a key was kept as r needs it: who is called after that
// comes after r, too.
func (kept *Request) covers(r *Request, key string) bool {
	return kept != nil && slices.Contains(kept.BlockedBy, key) && (kept.locks(key) || !r.locks(key))
}

// Enter has a job that a worker has in hand lock what it asks for, or returns a key
// that blocks it. Then it stands in line if waker is not nil, which returns what
// wakes it when its turn has come.
func (k *KeyLocks) Enter(r Request, waker func() func()) (fresh []*KeyLock, blocked string) {
	w := k.job(r.Owner)
	number := uint64(math.MaxUint64)
	var kept *Request
	var left []string
	if w != nil {
		if w.called {
			kept = w.job
		}
		number, left = w.number, k.stepOut(w)
	}
	switch blocked = k.blocking(&r, number, kept); {
	case blocked == "":
		fresh = k.set(r)
	case waker != nil:
		k.wait(w, r, blocked, waker)
	}
	k.callNextAt(left, &k.op)
	return fresh, blocked
}

// set locks what a request asks for. What its job has locked before, in a run that
// failed, it has still.
func (k *KeyLocks) set(r Request) (fresh []*KeyLock) {
	var earlier map[Setting]bool // nil in a first run
	if ran := k.ran[r.Owner]; len(ran) > 0 {
		earlier = make(map[Setting]bool, len(ran))
		for _, l := range ran {
			earlier[Setting{l.Key, l.Position}] = true
		}
	}
	for _, s := range r.Lock {
		if !earlier[s] && !earlier[Setting{Key: s.Key}] {
			fresh = append(fresh, k.lock(s.Key, r.Owner, r.TTL, true, s.Position))
		}
	}
	return fresh
}

// wait puts a job in line at a key. w is its waiter, nil if it has none yet.
func (k *KeyLocks) wait(w *waiter, r Request, key string, waker func() func()) {
	if w == nil {
		w = &waiter{owner: r.Owner}
		k.comes(w, &k.op)
	}
	w.job = new(r)
	k.stand(w, key)
	w.wake = waker()
}

// Leave says that a job does not wait here: it waits for something else, and keeps its
// number, or is forgotten, because it runs or has failed.
func (k *KeyLocks) Leave(by Owner, forget bool) {
	if w := k.job(by); w != nil {
		left := k.stepOut(w)
		if forget {
			k.forget(w)
		}
		k.callNextAt(left, &k.op)
	}
}

// Called returns the jobs of a queue that were called and have not entered.
func (k *KeyLocks) Called(queue string) (jobs []Owner) {
	for by := range k.waiting {
		if w := k.job(by); w != nil && w.called && by.Queue == queue {
			jobs = append(jobs, by)
		}
	}
	return jobs
}

// Waits says whether a job waits: called, or in line, with the keys that block it.
func (k *KeyLocks) Waits(by Owner) (keys []string, called bool) {
	w := k.job(by)
	if w == nil || !w.standing() {
		return nil, w != nil && w.called
	}
	for _, key := range w.job.BlockedBy {
		if e := k.entries[key]; e != nil && (e == w.spots[0].entry || e.blocks(by)) {
			keys = append(keys, key)
		}
	}
	return keys, false
}
