package keylock

import (
	"cmp"
	"container/list"
	"maps"
	"slices"
	"time"

	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/executor/internal/each"
	"github.com/strandjobs/strand/executor/internal/sorted"
	"github.com/strandjobs/strand/journal"
)

// request is what a job wants before it runs.
type request struct {
	By        admit.Owner
	BlockedBy []string      // none of them may be locked by another owner
	Lock      []setting     // what it locks then, in the same instant
	TTL       time.Duration // of what it locks; 0: for ever
}

// setting is a key that a job locks when it runs, for one of its payloads.
type setting struct {
	Key      string
	Position journal.Position
}

// locks reports whether a request locks a key.
func (r *request) locks(key string) bool {
	return slices.ContainsFunc(r.Lock, func(s setting) bool { return s.Key == key })
}

// covers reports whether a key was kept as r needs it: who is called after that
// comes after r, too.
func (kept *request) covers(r *request, key string) bool {
	return kept != nil && slices.Contains(kept.BlockedBy, key) && (kept.locks(key) || !r.locks(key))
}

// waiter is a job that others have kept from running. It holds nothing.
//
// It stands in one line at a time, see the package comment. So to unlock a key looks at no
// more jobs than it calls:
//
//	            blocked                 nothing blocks it          its worker comes to it
//	(no waiter) ─────────► in line ──────────────────────► called ───────────────────────► (no waiter): it runs
//	                         ▲  ▲                             │
//	                         │  └──── blocked once more ──────┤
//	                         └─────── blocked ── aside ◄──────┘ waits for a lease or a slot
//
// Called, it is on its way to a worker, and its keys are kept for it: no other
// locks what it must find unlocked, or passes by what it is to lock, if that one
// stands in line for the key or comes to it now. What is locked without waiting, by
// an enqueue or by hand, is not kept from it: then it is blocked once more. Its own
// keys it locks when it enters, in the instant in which nothing blocks it. To wait
// for one that was called closes no cycle: it enters or goes back into line,
// whatever the others do.
//
// Its number stays the same in all of this: who came first stands first. What
// becomes of a job that does not wait any more, Leave forgets.
//
// Invariant: the first in the line of a key is blocked there.
type waiter struct {
	request
	sorted.Place // in its line, by its number
	wake         func()
	at           *entry // where it stands; nil: in no line
}

// lines are the keys, and who waits for them.
type lines struct {
	entries map[string]*entry // every key that is locked, waited for, kept or watched
	arrived int64             // of the newest waiter
	waiting map[admit.Owner]*waiter
	called  map[*waiter]bool // those of them whose turn has come. Invariant: they stand in no line
	wakes   []func()         // since the last drain
}

// entry is one key.
type entry struct {
	key      string
	locks    list.List            // of *Lock, oldest first
	by       map[admit.Owner]int  // how many of them are whose
	line     sorted.List[*waiter] // by number: first come, first served
	toLock   int                  // how many jobs whose turn has come are to lock it
	toPass   int                  // and how many are to find it unlocked
	watchers list.List            // of func(): of the end of its last lock
}

// entry returns that of a key, perhaps a new one: it must be given something before it
// is retired.
func (k *lines) entry(key string) *entry {
	e := k.entries[key]
	if e == nil {
		e = &entry{key: key, by: make(map[admit.Owner]int)}
		k.entries[key] = e
	}
	return e
}

// retire forgets a key of which nothing is left.
func (k *lines) retire(e *entry) {
	if e.locks.Len()+len(e.line)+e.watchers.Len()+e.toLock+e.toPass == 0 && k.entries[e.key] == e {
		delete(k.entries, e.key)
	}
}

// Leave says that a job does not wait here: it waits for something else, and keeps its
// number, or is forgotten, because it runs or has failed.
func (k *lines) Leave(by admit.Owner, forget bool) {
	if w := k.waiting[by]; w != nil {
		left := k.stepOut(w)
		if forget {
			delete(k.waiting, by)
		}
		k.callNextAt(left)
	}
}

// WaitsFor says whether a job waits: called, or in line, with the keys that block it.
func (k *lines) WaitsFor(by admit.Owner) (keys []string, called bool) {
	w := k.waiting[by]
	if w == nil || w.at == nil {
		return nil, k.called[w]
	}
	for _, key := range w.BlockedBy {
		if e := k.entries[key]; e != nil && (e == w.at || e.blocks(by)) {
			keys = append(keys, key)
		}
	}
	return keys, false
}

// blocks reports whether another owner has locked the key.
func (e *entry) blocks(by admit.Owner) bool {
	return len(e.by) > 1 || (len(e.by) == 1 && e.by[by] == 0)
}

// isKept reports whether the key is kept for those who were called, or who stand in
// line and came before the one who asks.
func (e *entry) isKept(locks bool, number int64) bool {
	if e.toLock > 0 || (e.toPass > 0 && locks) {
		return true
	}
	return len(e.line) > 0 && e.locks.Len() == 0 && e.line[0].Turn < number
}

// blocking returns the first key that blocks a request, "" when it may pass. The
// one that asks came as number says, and is not counted among those that were
// called: kept is what was kept for it until now.
func (k *lines) blocking(r *request, number int64, kept *request) string {
	for _, key := range r.BlockedBy {
		e := k.entries[key]
		if e != nil && (e.blocks(r.By) || (!kept.covers(r, key) && e.isKept(r.locks(key), number))) {
			return key
		}
	}
	return ""
}

// Blocks reports whether another owner has locked one of the keys.
func (k *lines) Blocks(keys []string, by admit.Owner) bool {
	return slices.ContainsFunc(keys, func(key string) bool { e := k.entries[key]; return e != nil && e.blocks(by) })
}

// callNext calls those who may pass, of those that stand first at a key. In the end the
// key is forgotten if nothing is left of it.
func (k *lines) callNext(e *entry) {
	for w := k.first(e); w != nil && k.advance(w); w = k.first(e) {
	}
	k.retire(e)
}

// first returns who of the line of a key may be the next to pass it, as far as what
// is locked goes: the first one, or the job that has locked it itself.
func (k *lines) first(e *entry) *waiter {
	switch {
	case len(e.line) == 0:
	case e.locks.Len() == 0:
		return e.line[0]
	case len(e.by) == 1:
		for by := range e.by {
			if w := k.waiting[by]; w != nil && w.at == e {
				return w
			}
		}
	}
	return nil
}

// advance has a waiter that may pass its key go on, to another key or to be called;
// false: it stays.
func (k *lines) advance(w *waiter) bool {
	if w.at.isKept(w.locks(w.at.key), w.Turn) {
		return false
	}
	w.leaveLine()
	if elsewhere := k.blocking(&w.request, w.Turn, nil); elsewhere != "" {
		w.standAt(k.entry(elsewhere))
		return true
	}
	k.called[w] = true
	k.keep(&w.request, 1)
	k.wakes = append(k.wakes, w.wake)
	return true
}

// standAt puts a waiter in line behind those who came before it.
func (w *waiter) standAt(e *entry) {
	w.at = e
	e.line.Put(w)
}

// leaveLine takes a waiter out of its line: others may be next there.
func (w *waiter) leaveLine() {
	w.at.line.Remove(w)
	w.at = nil
}

// keep counts a job in or out of those for whom keys are kept.
func (k *lines) keep(r *request, n int) {
	for _, s := range r.Lock {
		k.entry(s.Key).toLock += n
	}
	for _, key := range r.BlockedBy {
		k.entry(key).toPass += n
	}
}

// stepOut takes a job out of its line, or its call back, and returns the keys at
// which others may be next.
func (k *lines) stepOut(w *waiter) (left []string) {
	switch {
	case k.called[w]:
		delete(k.called, w)
		k.keep(&w.request, -1)
		left = slices.Concat(w.BlockedBy, each.Of(w.Lock, func(s setting) string { return s.Key }))
	case w.at != nil:
		left = []string{w.at.key}
		w.leaveLine()
	}
	return left
}

// callNextAt is callNext for keys that may be forgotten by now.
func (k *lines) callNextAt(keys []string) {
	for _, key := range keys {
		if e := k.entries[key]; e != nil {
			k.callNext(e)
		}
	}
}

// Line names who waits for a key, up to n of each, first come first: the jobs that were called,
// for whom it is kept, and those that stand in its line; and says how many others there are.
func (k *lines) Line(key string, n int) (called, waiting []string, moreCalled, moreWaiting int) {
	e := k.entries[key]
	if e == nil {
		return nil, nil, 0, 0
	}
	var kept []*waiter
	if e.toLock+e.toPass > 0 {
		others := func(w *waiter) bool { return !slices.Contains(w.BlockedBy, key) && !w.locks(key) }
		kept = slices.DeleteFunc(slices.Collect(maps.Keys(k.called)), others)
	}
	slices.SortFunc(kept, func(a, b *waiter) int { return cmp.Compare(a.Turn, b.Turn) })
	moreCalled = max(len(kept)-n, 0)
	name := func(w *waiter) string { return w.By.String() }
	called, waiting = each.Of(kept[:len(kept)-moreCalled], name), each.Of(e.line.First(n), name)
	return called, waiting, moreCalled, len(e.line) - len(waiting)
}
