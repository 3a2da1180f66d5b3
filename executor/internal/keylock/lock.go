package keylock

import (
	"cmp"
	"container/list"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/executor/internal/sorted"
	"github.com/strandjobs/strand/journal"
)

// Lock is one lock of a key: it stays until any caller ends it, or its time is over.
// Each knows for whom it was set, so that no job is in its own way, and a retry does
// not lock twice.
type Lock struct {
	Number uint64 // identifies it for ever; later ones have larger ones
	Key    string
	Owner  admit.Owner   // who has set it; zero: a person, by hand
	OnRun  bool          // set by a job that ran, rather than by an enqueue or a person
	Since  time.Duration // on the clock of Keys
	Until  time.Duration // the same; 0: for ever

	// Position of the payload that it belongs to, 0 if that is a person, or a job whose
	// payload is over, or not known yet. Keys.binding guards that of a lock without OnRun.
	Position journal.Position

	entry        *entry // nil: it has ended
	link         *list.Element
	sorted.Place // in locks.ends
}

// never is the end of what lasts for centuries.
const never = time.Duration(math.MaxInt64)

// locks are the keys, what is locked, and who waits. It is plain data: its owner
// serialises all calls and sets the time before each.
type locks struct {
	lines
	now     time.Duration
	number  uint64              // of the newest lock
	ends    sorted.List[*Lock]  // of those that end by themselves
	held    map[admit.Owner]int // how many locks are whose
	changes []*Lock             // since the last drain: made, given another Owner or Position, or ended
}

func newLocks() locks {
	of := lines{entries: make(map[string]*entry), waiting: make(map[admit.Owner]*waiter), called: make(map[*waiter]bool)}
	return locks{lines: of, held: make(map[admit.Owner]int)}
}

// next is when the next lock ends by itself; false: none does.
func (k *locks) next() (at time.Duration, ok bool) {
	if len(k.ends) == 0 {
		return 0, false
	}
	return k.ends[0].Until, true
}

// expire ends the locks whose time is over. A lock is there before its end, not at it.
func (k *locks) expire() {
	for len(k.ends) > 0 && k.ends[0].Until <= k.now {
		k.Drop(k.ends[0])
	}
}

// drain returns what has changed since the last one, in order, and what wakes those whose
// turn it is, which is to be called under no mutex.
func (k *locks) drain() (changes []*Lock, wakes []func()) {
	changes, wakes, k.changes, k.wakes = k.changes, k.wakes, nil, nil
	return changes, wakes
}

// Lock locks a key for an enqueue or a person, who do not wait, even if others have
// locked it; ttl 0: for ever.
func (k *locks) Lock(key string, by admit.Owner, ttl time.Duration) *Lock {
	l := k.add(&Lock{Key: key, Owner: by}, ttl)
	k.callNext(l.entry) // by, which stands in line: those before it can't pass any more
	return l
}

// Enter has a job that a worker has in hand lock what it asks for, or returns a key
// that blocks it. Then it stands in line if wake is not nil, which is called when its
// turn has come.
func (k *locks) Enter(r request, wake func()) (fresh []*Lock, blocked string) {
	w := k.waiting[r.By]
	number := int64(math.MaxInt64)
	var kept *request
	var left []string
	if w != nil {
		if k.called[w] {
			kept = &w.request
		}
		number, left = w.Turn, k.stepOut(w)
	}
	switch blocked = k.blocking(&r, number, kept); {
	case blocked == "":
		fresh = k.set(r)
	case wake != nil:
		if w == nil {
			k.arrived++
			w = &waiter{Place: sorted.Place{Turn: k.arrived}}
			k.waiting[r.By] = w
		}
		w.request, w.wake = r, wake
		w.standAt(k.entry(blocked))
	}
	k.callNextAt(left)
	return fresh, blocked
}

// set locks what a request asks for. What its job has locked before, in a run that
// failed, it has still.
func (k *locks) set(r request) (fresh []*Lock) {
	for _, s := range r.Lock {
		if !k.has(r.By, s.Key, s.Position) {
			fresh = append(fresh, k.add(&Lock{Key: s.Key, Owner: r.By, OnRun: true, Position: s.Position}, r.TTL))
		}
	}
	return fresh
}

// add gives a lock its number and its end, and has it written down.
func (k *locks) add(l *Lock, ttl time.Duration) *Lock {
	k.number++
	l.Number, l.Since = k.number, k.now
	if ttl > 0 {
		l.Until = k.now + min(ttl, never-max(k.now, 0))
	}
	k.put(l)
	k.changes = append(k.changes, l)
	return l
}

// put adds a lock that has its number.
func (k *locks) put(l *Lock) {
	e := k.entry(l.Key)
	l.entry, l.link = e, e.locks.PushBack(l)
	k.count(e, l.Owner, 1)
	if l.Until != 0 && l.Until != never { // it ends by itself
		l.Turn = int64(l.Until)
		k.ends.Put(l)
	}
}

// count counts the locks of an owner.
func (k *locks) count(e *entry, by admit.Owner, n int) {
	for _, counts := range [...]map[admit.Owner]int{e.by, k.held} {
		if counts[by] += n; counts[by] == 0 {
			delete(counts, by)
		}
	}
}

// Drop ends locks, and calls who waited for that. One that has ended already is left alone.
func (k *locks) Drop(all ...*Lock) {
	for _, l := range all {
		e := l.entry
		if e == nil {
			continue
		}
		l.entry = nil
		e.locks.Remove(l.link)
		k.count(e, l.Owner, -1)
		k.ends.Remove(l)
		k.changes = append(k.changes, l)
		if e.locks.Len() == 0 {
			for at := e.watchers.Front(); at != nil; at = e.watchers.Front() {
				k.wakes = append(k.wakes, e.watchers.Remove(at).(func()))
			}
		}
		k.callNext(e)
	}
}

// Unlock ends the locks of a key: one of them if they are counted, preferably one
// of by, or else the oldest; or all. It reports whether the key was locked.
func (k *locks) Unlock(key string, counted bool, by admit.Owner) bool {
	e := k.entries[key]
	if e == nil || e.locks.Len() == 0 {
		return false
	}
	if !counted {
		k.Drop(k.Locked(key)...) // those who wait may lock it again at once; that is theirs
		return true
	}
	at := e.locks.Front()
	if e.by[by] > 0 {
		for at.Value.(*Lock).Owner != by {
			at = at.Next()
		}
	}
	k.Drop(at.Value.(*Lock))
	return true
}

// Replace gives the locks of a payload to the one that replaces it, which has locks
// of its own from when it was enqueued: what a run has locked goes over to it,
// because it runs in its place, and the others end. moved is called for each that
// goes over, to change its Position.
func (k *locks) Replace(all []*Lock, into journal.Position, moved func(*Lock)) {
	for _, l := range all {
		if l.entry == nil || !l.OnRun || k.has(l.Owner, l.Key, into) {
			k.Drop(l)
			continue
		}
		moved(l)
		k.changes = append(k.changes, l)
	}
}

// has reports whether a job has locked a key in an earlier run, for the payload or
// for one that is over. Of the locks of others it passes those that are younger.
func (k *locks) has(by admit.Owner, key string, position journal.Position) bool {
	e := k.entries[key]
	if e == nil {
		return false
	}
	for at, own := e.locks.Back(), e.by[by]; own > 0; at = at.Prev() {
		if l := at.Value.(*Lock); l.Owner == by {
			if own--; l.OnRun && (l.Position == position || l.Position == 0) {
				return true
			}
		}
	}
	return false
}

// HeldBy returns the keys that a job has locked, in their order, up to n of them. It goes
// through the keys until it has seen all of its locks: about 1 ms for 10,000.
func (k *locks) HeldBy(by admit.Owner, n int) (keys []string) {
	rest := k.held[by]
	for _, e := range k.entries {
		if rest == 0 {
			break
		}
		if own := e.by[by]; own > 0 {
			keys, rest = append(keys, e.key), rest-own
		}
	}
	slices.Sort(keys)
	return keys[:min(len(keys), n)]
}

// rename gives the locks of a queue's jobs to the queue's new name. It is for a start,
// while none of them waits.
func (k *locks) rename(former, name string) {
	for _, e := range k.entries {
		for at := e.locks.Front(); at != nil; at = at.Next() {
			if l := at.Value.(*Lock); l.Owner.Queue == former {
				k.count(e, l.Owner, -1)
				l.Owner.Queue = name
				k.count(e, l.Owner, 1)
				k.changes = append(k.changes, l)
			}
		}
	}
}

// restoreAll brings locks back that were written down, with their numbers. Later ones
// have larger numbers.
func (k *locks) restoreAll(all []*Lock) {
	for _, l := range slices.SortedFunc(slices.Values(all), func(a, b *Lock) int { return cmp.Compare(a.Number, b.Number) }) {
		k.put(l)
		k.number = max(k.number, l.Number)
	}
}

// Watch has wake called once when the last lock of a key ends; false: it is not
// locked now. cancel is a call like all others.
func (k *locks) Watch(key string, wake func()) (cancel func(), locked bool) {
	e := k.entries[key]
	if e == nil || e.locks.Len() == 0 {
		return func() {}, false
	}
	at := e.watchers.PushBack(wake)
	return func() {
		e.watchers.Remove(at)
		k.retire(e) // it may be nothing else any more
	}, true
}

// each goes through the locks of a key, oldest first.
func (k *locks) each(key string) iter.Seq[*Lock] {
	return func(yield func(*Lock) bool) {
		if e := k.entries[key]; e != nil {
			for at := e.locks.Front(); at != nil && yield(at.Value.(*Lock)); at = at.Next() {
			}
		}
	}
}

// Locked returns the locks of a key, oldest first.
func (k *locks) Locked(key string) []*Lock { return slices.Collect(k.each(key)) }

// Keys returns the locked keys, in no order.
func (k *locks) Keys() (keys []string) {
	for key, e := range k.entries {
		if e.locks.Len() > 0 {
			keys = append(keys, key)
		}
	}
	return keys
}
