package lock

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// KeyLocks are keys that jobs lock until they have succeeded, whether they run or
// not, and that other jobs wait for. It is the engine without a shell, for an
// executor that writes down what is locked: plain data without a goroutine, a timer
// or a mutex. Its caller serialises all calls, gives the time with At, takes what
// has changed with Drain before it lets go, and calls Expire when the time of Next
// has come. The zero value is ready to use.
type KeyLocks struct {
	engine
	op op
}

// KeyLock is one lock of a key: it stays until any caller ends it, or its time is
// over. Any number of them may be on one key. Each knows for whom it was set, so
// that no job is in its own way, and a retry does not lock twice. Only the Position
// may be changed once a KeyLocks knows it.
type KeyLock struct {
	Number uint64 // identifies it for ever; later ones have larger ones
	Key    string
	Owner  Owner         // who has set it; zero: a person, by hand
	OnRun  bool          // set by a job that ran, rather than by an enqueue or a person
	Since  time.Duration // on the clock of At
	Until  time.Duration // the same; 0: for ever

	// Position of the payload that it belongs to, 0 if that is the job as a whole,
	// a person, or not known yet. It is looked at for locks with OnRun only.
	Position uint64

	alarm
	entry *entry // nil: it has ended
	link  node[*KeyLock]
	place int // in engine.ran
}

// Change is what has become of a key-lock: it was made or given another Owner or
// Position, or it has ended.
type Change struct {
	Lock  *KeyLock
	Ended bool
}

// At says what time it is, as a duration since a moment of the caller's choice; see
// Expire for what ends by that.
func (k *KeyLocks) At(now time.Duration) { k.op.time, k.op.timed = now, true }

// Next is when the next key-lock ends by itself; false: none does.
func (k *KeyLocks) Next() (at time.Duration, ok bool) {
	at = k.ends.next()
	return at, at != never
}

// Expire ends the key-locks whose time is over.
func (k *KeyLocks) Expire() { k.expire(&k.op) }

// Drain returns what has changed since the last one, in order, and a function that
// wakes those whose turn it is, nil if there are none: call it under no mutex.
func (k *KeyLocks) Drain() (changes []Change, wake func()) {
	changes, k.changes = k.changes, nil
	if w := k.op.wakes; w.first != nil {
		k.op.wakes, wake = wakes{}, w.run
	}
	return changes, wake
}

// Lock locks a key for an enqueue or a person, who do not wait, even if others have
// locked it; ttl 0: for ever.
func (k *KeyLocks) Lock(key string, by Owner, ttl time.Duration) *KeyLock {
	return k.lock(key, by, ttl, false, 0)
}

func (k *KeyLocks) lock(key string, by Owner, ttl time.Duration, onRun bool, position uint64) *KeyLock {
	k.token++
	now := k.op.now()
	l := &KeyLock{Number: k.token, Key: key, Owner: by, OnRun: onRun, Since: now, Position: position}
	if ttl > 0 {
		l.Until = after(now, ttl)
	}
	k.put(l)
	k.changed(l, false)
	return l
}

// put adds a key-lock.
func (g *engine) put(l *KeyLock) {
	e := g.entry(l.Key)
	g.use(e)
	l.entry, l.link.value, l.alarm.lock = e, l, l
	e.locks.push(&l.link)
	e.count(l.Owner, 1)
	if l.Until != 0 {
		g.ends.set(&l.alarm, l.Until)
	}
	g.putRan(l)
}

// count counts the key-locks of an owner.
func (e *entry) count(by Owner, n int) {
	if e.by == nil {
		e.by = make(map[Owner]int)
	}
	if e.by[by] += n; e.by[by] == 0 {
		delete(e.by, by)
	}
}

func (g *engine) putRan(l *KeyLock) {
	if !l.OnRun {
		return
	}
	if g.ran == nil {
		g.ran = make(map[Owner][]*KeyLock)
	}
	l.place = len(g.ran[l.Owner])
	g.ran[l.Owner] = append(g.ran[l.Owner], l)
}

// dropRan moves the last one to its place: a job may have many payloads, each with
// a lock.
func (g *engine) dropRan(l *KeyLock) {
	if !l.OnRun {
		return
	}
	ran := g.ran[l.Owner]
	last := len(ran) - 1
	ran[l.place] = ran[last]
	ran[l.place].place = l.place
	ran[last] = nil
	if g.ran[l.Owner] = ran[:last]; last == 0 {
		delete(g.ran, l.Owner)
	}
}

// drop ends a key-lock and calls who waited for that.
func (g *engine) drop(l *KeyLock, o *op) {
	e := l.entry
	l.entry = nil
	e.locks.remove(&l.link)
	e.count(l.Owner, -1)
	g.ends.drop(&l.alarm)
	g.dropRan(l)
	g.changed(l, true)
	if e.locks.n == 0 {
		e.watchers.take(&o.wakes)
	}
	g.callNext(e, o)
}

func (g *engine) changed(l *KeyLock, ended bool) { g.changes = append(g.changes, Change{l, ended}) }

// Drop ends key-locks. One that has ended already is left alone.
func (k *KeyLocks) Drop(locks ...*KeyLock) {
	for _, l := range locks {
		if l.entry != nil {
			k.engine.drop(l, &k.op)
		}
	}
}

// Unlock ends the locks of a key: one of them if they are counted, preferably one
// of by, or else the oldest; or all. It reports whether the key was locked.
func (k *KeyLocks) Unlock(key string, counted bool, by Owner) bool {
	e := k.entries[key]
	if e == nil || e.locks.n == 0 {
		return false
	}
	if counted {
		k.Drop(e.pick(by))
		return true
	}
	// Those who wait may lock it again at once; that is theirs.
	k.Drop(slices.Collect(e.locks.all())...)
	return true
}

func (e *entry) pick(by Owner) *KeyLock {
	at := e.locks.first
	if e.by[by] > 0 {
		for at.value.Owner != by {
			at = at.next
		}
	}
	return at.value
}

// Replace gives the locks of a payload to the one that replaces it, which has locks
// of its own from when it was enqueued: what a run has locked goes over to it,
// because it runs in its place, and the others end. moved is called for each that
// goes over, to change its Position.
func (k *KeyLocks) Replace(locks []*KeyLock, into uint64, moved func(*KeyLock)) {
	for _, l := range locks {
		if !l.OnRun || k.has(l.Owner, l.Key, into) {
			k.Drop(l)
			continue
		}
		moved(l)
		k.changed(l, false)
	}
}

// has reports whether a job has locked a key in an earlier run, for the payload or
// as a whole.
func (g *engine) has(by Owner, key string, position uint64) bool {
	return slices.ContainsFunc(g.ran[by], func(l *KeyLock) bool {
		return l.Key == key && (l.Position == position || l.Position == 0)
	})
}

// OfJob returns the key-locks that a job has set for none of its payloads.
func (k *KeyLocks) OfJob(by Owner) (whole []*KeyLock) {
	for _, l := range k.ran[by] {
		if l.Position == 0 {
			whole = append(whole, l)
		}
	}
	return whole
}

// HeldBy returns the keys that a job has locked, in their order, up to n of them. It
// goes through all that are locked: about 1 ms for 10,000.
func (k *KeyLocks) HeldBy(by Owner, n int) (keys []string) {
	for _, e := range k.entries {
		for l := range e.locks.all() {
			if l.Owner == by {
				keys = append(keys, e.key)
				break
			}
		}
	}
	slices.Sort(keys)
	return keys[:min(len(keys), n)]
}

// Rename gives the key-locks of a queue's jobs to the queue's new name. It is for a
// start, while none of them waits.
func (k *KeyLocks) Rename(former, name string) {
	for _, e := range k.entries {
		for l := range e.locks.all() {
			if l.Owner.Queue == former {
				k.reassign(l, Owner{name, l.Owner.ID})
			}
		}
	}
}

func (k *KeyLocks) reassign(l *KeyLock, by Owner) {
	l.entry.count(l.Owner, -1)
	l.entry.count(by, 1)
	k.dropRan(l)
	l.Owner = by
	k.putRan(l)
	k.changed(l, false)
}

// Restore brings key-locks back that were written down, with their numbers. Later
// ones have larger numbers.
func (k *KeyLocks) Restore(locks []*KeyLock) {
	for _, l := range slices.SortedFunc(slices.Values(locks), func(a, b *KeyLock) int { return cmp.Compare(a.Number, b.Number) }) {
		k.put(l)
		k.token = max(k.token, l.Number)
	}
}

// Watch has wake called once when the last lock of a key ends; false: it is not
// locked now. cancel is a call like all others.
func (k *KeyLocks) Watch(key string, wake func()) (cancel func(), locked bool) {
	e := k.entries[key]
	if e == nil || e.locks.n == 0 {
		return func() {}, false
	}
	at := e.watchers.add(wake)
	return func() {
		e.watchers.remove(at)
		k.callNextAt([]string{key}, &k.op) // it may be nothing else any more
	}, true
}

// Locked returns the locks of a key, oldest first.
func (k *KeyLocks) Locked(key string) []*KeyLock {
	if e := k.entries[key]; e != nil {
		return slices.Collect(e.locks.all())
	}
	return nil
}

// Keys returns the locked keys in their order.
func (k *KeyLocks) Keys() []string {
	var keys []string
	for key, e := range k.entries {
		if e.locks.n > 0 {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// KeysFrom returns the locked keys in their order, from the one behind after on, up to
// n of them, and how many more there are.
func (k *KeyLocks) KeysFrom(after string, n int) (keys []string, more int) {
	first := firstKeys{after: after, most: n}
	for key, e := range k.entries {
		if e.locks.n > 0 {
			first.offer(key)
		}
	}
	return first.keys, first.more
}

// Line returns who waits for a key: the jobs that were called, for whom it is kept,
// and those that stand in its line, both first come first.
func (k *KeyLocks) Line(key string) (called, waiting []Owner) {
	e := k.entries[key]
	if e == nil {
		return nil, nil
	}
	if e.toLock+e.toPass > 0 {
		all := slices.DeleteFunc(slices.Collect(maps.Values(k.waiting)), func(w *waiter) bool {
			return !w.called || !slices.Contains(w.job.BlockedBy, key) && !w.job.locks(key)
		})
		slices.SortFunc(all, func(a, b *waiter) int { return cmp.Compare(a.number, b.number) })
		for _, w := range all {
			called = append(called, w.owner)
		}
	}
	for w := range e.line.all() {
		waiting = append(waiting, w.owner)
	}
	return called, waiting
}
