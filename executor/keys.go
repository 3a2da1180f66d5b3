package executor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/lock"
)

// Keys are the locked keys of an executor as people see them, and those that
// lock by hand: what [Locks] of all queues set, wait for and clear. It is a
// [lock.Service] and a [lock.Watcher]. All methods may be called from any
// goroutine; changes are on disk with the next commit.
//
// Once Stop was called, Lock, Unlock and Locked return ErrClosed, except with the
// context of a handler that still runs; and they return ErrFailed when the journal
// has failed. Then nothing was changed.
type Keys struct{ l *locks }

var (
	_ lock.Service = Keys{}
	_ lock.Watcher = Keys{}
)

// Keys returns the keys of the executor.
func (x *Executor) Keys() Keys { return Keys{&x.locks} }

// Lock locks key by hand until Unlock; doing it twice is like doing it twice in
// jobs. It returns [lock.ErrEmptyKey], ErrInvalidKey,
// ErrFailed.
func (k Keys) Lock(ctx context.Context, key string) error {
	if err := checkKey(key); err != nil {
		return err
	}
	if err := k.l.x.admits(ctx); err != nil {
		return err
	}
	return k.l.attempt(new(journal.Change), func(b *barrier) { b.lock(key, holder{}, false, 0) })
}

// Unlock unlocks key, whoever has locked it and how often: those who wait go on.
// It returns [lock.ErrNotLocked] when it is not locked, [lock.ErrEmptyKey],
// ErrContext, ErrClosed or ErrFailed.
func (k Keys) Unlock(ctx context.Context, key string) error {
	if key == "" {
		return lock.ErrEmptyKey
	}
	if err := k.l.x.admits(ctx); err != nil {
		return err
	}
	was := false
	err := k.l.attempt(new(journal.Change), func(b *barrier) { was = b.unlock(key, false, holder{}) })
	if err == nil && !was {
		err = fmt.Errorf("%w: %q", lock.ErrNotLocked, key)
	}
	return err
}

// Locked reports whether key is locked. It returns [lock.ErrEmptyKey], ErrContext, ErrClosed
// or ErrFailed.
func (k Keys) Locked(ctx context.Context, key string) (bool, error) {
	if key == "" {
		return false, lock.ErrEmptyKey
	}
	if err := cmp.Or(k.l.x.admits(ctx), k.l.x.failure()); err != nil {
		return false, err
	}
	k.l.mu.Lock()
	defer k.l.mu.Unlock()
	g := k.l.barrier.keys[key]
	return g != nil && g.holds.Len() > 0, nil
}

// Watch calls wake once, on a goroutine of its own, when key is unlocked, and
// returns true; it returns false when it is not locked now, and after
// Stop. A nil wake is not called. cancel may be too late.
func (k Keys) Watch(key string, wake func()) (cancel func(), locked bool) {
	if wake == nil {
		wake = func() {}
	}
	k.l.mu.Lock()
	defer k.l.mu.Unlock()
	if k.l.closed {
		return func() {}, false
	}
	watched := k.l.barrier.keys[key]
	if watched == nil || watched.holds.Len() == 0 {
		return func() {}, false
	}
	at := watched.watchers.PushBack(func() {
		// Whoever unlocks may be an actor, which user code could end.
		go k.l.x.guardHook("Watch", wake)
	})
	return func() {
		k.l.mu.Lock()
		defer k.l.mu.Unlock()
		watched.watchers.Remove(at)
		k.l.barrier.callNext(key) // it may be nothing else any more
	}, true
}

// MaxListed bounds the lists in what is said about a job or a key; how many more
// there are stands beside each of them.
const MaxListed = 100

// KeyStatus is a locked key. Jobs are named as queue/id; either is quoted when it
// does not print.
type KeyStatus struct {
	Key         string
	Locks       []LockHeld // oldest first, MaxListed at most; none while it is kept for those in Called
	MoreLocks   int        // that are not in Locks
	Called      []string   // jobs whose turn it is, MaxListed at most: they wait for a worker, and none in Waiting overtakes them
	MoreCalled  int        // that are not in Called
	Waiting     []string   // jobs that wait for it, first come first, MaxListed at most
	MoreWaiting int        // that are not in Waiting
}

// LockHeld is one lock of a key.
type LockHeld struct {
	By           string    // the job, as queue/id, or "a person"
	Since, Until time.Time // Until is zero when it does not end by itself
}

// List returns all locked keys in their order. After Stop it is what was locked
// then.
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
	s := KeyStatus{Key: key, MoreLocks: max(k.holds.Len()-MaxListed, 0)}
	for e := k.holds.Front(); e != nil && len(s.Locks) < MaxListed; e = e.Next() {
		h := e.Value.(*hold).held()
		s.Locks = append(s.Locks, LockHeld{h.Owner, h.Since, h.Until})
	}
	if k.toLock+k.toPass > 0 {
		s.Called = b.called(key)
		s.MoreCalled = max(len(s.Called)-MaxListed, 0)
		s.Called = s.Called[:len(s.Called)-s.MoreCalled]
	}
	s.MoreWaiting = max(k.line.Len()-MaxListed, 0)
	for e := k.line.Front(); e != nil && len(s.Waiting) < MaxListed; e = e.Next() {
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

// String is one line: who has the key, for how much longer, and who waits. It
// shows the first ten of each, and says how many more there are.
func (s KeyStatus) String() string {
	locks := some(s.Locks, s.MoreLocks, func(h LockHeld) string {
		by := brief(h.By)
		if !h.Until.IsZero() {
			by += fmt.Sprintf(" (%v left)", max(time.Until(h.Until), 0).Round(time.Millisecond))
		}
		return by
	})
	line := strconv.Quote(clip(s.Key)) + " unlocked"
	if locks != "" {
		line = strconv.Quote(clip(s.Key)) + " locked by " + locks
	}
	if called := some(s.Called, s.MoreCalled, brief); called != "" {
		line += "; called: " + called
	}
	if waiting := some(s.Waiting, s.MoreWaiting, brief); waiting != "" {
		line += "; waiting: " + waiting
	}
	return line
}
