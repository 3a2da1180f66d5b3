package executor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/lock"
)

// Keys are the locked keys of an executor as people see them, and those that
// lock by hand: what [Locks] of all queues set, wait for and clear. It is a
// [lock.Service] and a [lock.Watcher]. All methods may be called from any
// goroutine; changes are on disk with the next commit.
type Keys struct{ l *locks }

var (
	_ lock.Service = Keys{}
	_ lock.Watcher = Keys{}
)

// Keys returns the keys of the executor.
func (x *Executor) Keys() Keys { return Keys{&x.locks} }

// Lock locks key by hand until Unlock; doing it twice is like doing it twice in
// jobs. It returns [lock.ErrEmptyKey] or ErrInvalidKey.
func (k Keys) Lock(_ context.Context, key string) error {
	if err := checkKey(key); err != nil {
		return err
	}
	k.l.change(new(journal.Change), func(b *barrier) { b.lock(key, holder{}, false, 0) })
	return nil
}

// Unlock unlocks key, whoever has locked it and how often: those who wait go on.
// It returns [lock.ErrNotLocked] when it is not locked, and [lock.ErrEmptyKey].
func (k Keys) Unlock(_ context.Context, key string) error {
	if key == "" {
		return lock.ErrEmptyKey
	}
	err := fmt.Errorf("%w: %q", lock.ErrNotLocked, key)
	k.l.change(new(journal.Change), func(b *barrier) {
		if b.unlock(key, false, holder{}) {
			err = nil
		}
	})
	return err
}

// Locked reports whether key is locked. The error is nil or [lock.ErrEmptyKey].
func (k Keys) Locked(_ context.Context, key string) (bool, error) {
	if key == "" {
		return false, lock.ErrEmptyKey
	}
	k.l.mu.Lock()
	defer k.l.mu.Unlock()
	g := k.l.barrier.keys[key]
	return g != nil && g.holds.Len() > 0, nil
}

// Watch calls wake once, when key is unlocked, and returns true; it returns false
// when it is not locked now. wake must not block. cancel may be too late.
func (k Keys) Watch(key string, wake func()) (cancel func(), locked bool) {
	k.l.mu.Lock()
	defer k.l.mu.Unlock()
	watched := k.l.barrier.keys[key]
	if watched == nil || watched.holds.Len() == 0 {
		return func() {}, false
	}
	at := watched.watchers.PushBack(wake)
	return func() {
		k.l.mu.Lock()
		defer k.l.mu.Unlock()
		watched.watchers.Remove(at)
		k.l.barrier.callNext(key) // it may be nothing else any more
	}, true
}

// KeyStatus is a locked key.
type KeyStatus struct {
	Key     string
	Locks   []LockHeld // oldest first; none while it is kept for those in Called
	Called  []string   // jobs, as queue/id, whose turn it is: they wait for a worker, and nobody in Waiting overtakes them
	Waiting []string   // jobs that wait for it, as queue/id, first come first
}

// LockHeld is one lock of a key.
type LockHeld struct {
	By           string    // the job, as queue/id, or "a person"
	Since, Until time.Time // Until is zero when it does not end by itself
}

// List returns all locked keys in their order.
func (k Keys) List() []KeyStatus {
	k.l.mu.Lock()
	defer k.l.mu.Unlock()
	all := make([]KeyStatus, 0, len(k.l.barrier.keys))
	for key, b := range k.l.barrier.keys {
		if b.holds.Len() > 0 {
			all = append(all, k.l.barrier.status(key))
		}
	}
	slices.SortFunc(all, func(a, b KeyStatus) int { return strings.Compare(a.Key, b.Key) })
	return all
}

func (b *barrier) status(key string) KeyStatus {
	k := b.keys[key]
	s := KeyStatus{Key: key}
	for e := k.holds.Front(); e != nil; e = e.Next() {
		h := e.Value.(*hold).held()
		s.Locks = append(s.Locks, LockHeld{h.Owner, h.Since, h.Until})
	}
	if k.toLock+k.toPass > 0 {
		s.Called = b.called(key)
	}
	for e := k.line.Front(); e != nil; e = e.Next() {
		s.Waiting = append(s.Waiting, e.Value.(*wait).by.String())
	}
	return s
}

// called names those for whom a key is kept, first come first.
func (b *barrier) called(key string) (names []string) {
	var all []*wait
	for _, w := range b.waits {
		if w.called && (slices.Contains(w.blockedBy, key) || w.locks(key)) {
			all = append(all, w)
		}
	}
	slices.SortFunc(all, func(a, b *wait) int { return cmp.Compare(a.number, b.number) })
	for _, w := range all {
		names = append(names, w.by.String())
	}
	return names
}

// String is one line: who has the key, for how much longer, and who waits.
func (s KeyStatus) String() string {
	var b strings.Builder
	state := "locked"
	if len(s.Locks) == 0 {
		state = "unlocked"
	}
	fmt.Fprintf(&b, "%q %s", s.Key, state)
	sep := " by "
	for _, h := range s.Locks {
		b.WriteString(sep + h.By)
		if !h.Until.IsZero() {
			fmt.Fprintf(&b, " (%v left)", max(time.Until(h.Until), 0).Round(time.Millisecond))
		}
		sep = ", "
	}
	if len(s.Called) > 0 {
		b.WriteString("; called: " + strings.Join(s.Called, ", "))
	}
	if len(s.Waiting) > 0 {
		b.WriteString("; waiting: " + strings.Join(s.Waiting, ", "))
	}
	return b.String()
}
