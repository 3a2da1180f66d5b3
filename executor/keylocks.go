package executor

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/lock"
)

// KeyLocks are the locked keys of an executor, to be listed, locked and unlocked by
// hand: those that [Locks] of all queues lock, wait for and unlock. It is a
// [lock.Service] and a [lock.Watcher]. All methods may be called from any
// goroutine; changes are on disk with the next commit. Those of the zero KeyLocks
// return ErrState, or find no key.
//
// Once Stop was called, Lock, Unlock and Locked return ErrClosed, except with the
// context of a handler that still runs; and they return ErrFailed when the journal
// has failed. Then nothing was changed.
type KeyLocks struct{ l *locks }

// errNoKeyLocks is what a KeyLocks says that belongs to no executor.
var errNoKeyLocks = fmt.Errorf("%w: these are the keys of no executor; Executor.KeyLocks returns them", ErrState)

var (
	_ lock.Service = KeyLocks{}
	_ lock.Watcher = KeyLocks{}
)

// KeyLocks returns the keys of the executor.
func (x *Executor) KeyLocks() KeyLocks { return KeyLocks{&x.locks} }

// Lock locks key by hand until Unlock; doing it twice is like doing it twice in
// jobs. It returns [lock.ErrEmptyKey], ErrInvalidKey, ErrContext, ErrClosed or
// ErrFailed.
func (k KeyLocks) Lock(ctx context.Context, key string) error {
	if k.l == nil {
		return errNoKeyLocks
	}
	if err := checkKey(key); err != nil {
		return err
	}
	if err := k.l.x.admits(ctx); err != nil {
		return err
	}
	return k.l.attempt(new(journal.Change), func(all *lock.KeyLocks) { all.Lock(key, holder{}, 0) })
}

// Unlock unlocks key, whichever job has locked it and however often: the jobs that
// wait for it go on. It returns [lock.ErrNotLocked] when it is not locked,
// [lock.ErrEmptyKey], ErrContext, ErrClosed or ErrFailed.
func (k KeyLocks) Unlock(ctx context.Context, key string) error {
	if k.l == nil {
		return errNoKeyLocks
	}
	if key == "" {
		return lock.ErrEmptyKey
	}
	if err := k.l.x.admits(ctx); err != nil {
		return err
	}
	was := false
	err := k.l.attempt(new(journal.Change), func(all *lock.KeyLocks) { was = all.Unlock(key, false, holder{}) })
	if err == nil && !was {
		err = fmt.Errorf("%w: %q", lock.ErrNotLocked, key)
	}
	return err
}

// Locked reports whether key is locked. It returns [lock.ErrEmptyKey], ErrContext,
// ErrClosed or ErrFailed.
func (k KeyLocks) Locked(ctx context.Context, key string) (bool, error) {
	if k.l == nil {
		return false, errNoKeyLocks
	}
	if key == "" {
		return false, lock.ErrEmptyKey
	}
	if err := cmp.Or(k.l.x.admits(ctx), k.l.x.failure()); err != nil {
		return false, err
	}
	k.l.mu.Lock()
	defer k.l.mu.Unlock()
	return len(k.l.keys.Locked(key)) > 0, nil
}

// Watch calls wake once, on a goroutine of its own, when key is unlocked, and
// returns true; it returns false when it is not locked now, and after Stop. A nil
// wake is not called. cancel may be too late.
func (k KeyLocks) Watch(key string, wake func()) (cancel func(), locked bool) {
	if k.l == nil {
		return func() {}, false
	}
	if wake == nil {
		wake = func() {}
	}
	k.l.mu.Lock()
	defer k.l.mu.Unlock()
	if k.l.closed {
		return func() {}, false
	}
	forget, locked := k.l.keys.Watch(key, func() {
		// The caller may be an actor, which user code could end.
		go k.l.x.guardHook("Watch", wake)
	})
	return func() {
		k.l.mu.Lock()
		defer k.l.mu.Unlock()
		forget()
	}, locked
}

// MaxListed bounds the lists in what is said about a job or a key; a More field
// counts the rest.
const MaxListed = 100

// KeyLockStatus is a locked key. Jobs are named as queue/id; either is quoted when
// it does not print.
type KeyLockStatus struct {
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
func (k KeyLocks) List() []KeyLockStatus {
	if k.l == nil {
		return nil
	}
	k.l.mu.Lock()
	defer k.l.mu.Unlock()
	keys := k.l.keys.Keys()
	all := make([]KeyLockStatus, len(keys))
	for i, key := range keys {
		all[i] = k.l.status(key)
	}
	return all
}

// status shows a key to people. mu is held.
func (l *locks) status(key string) KeyLockStatus {
	locked := l.keys.Locked(key)
	called, waiting := l.keys.Line(key)
	s := KeyLockStatus{Key: key, MoreLocks: max(len(locked)-MaxListed, 0)}
	for _, h := range locked[:len(locked)-s.MoreLocks] {
		held := l.held(h)
		s.Locks = append(s.Locks, LockHeld{held.Owner, held.Since, held.Until})
	}
	s.Called, s.MoreCalled = names(called)
	s.Waiting, s.MoreWaiting = names(waiting)
	return s
}

// names are those of the first MaxListed, and how many more there are.
func names(all []holder) (names []string, more int) {
	more = max(len(all)-MaxListed, 0)
	for _, by := range all[:len(all)-more] {
		names = append(names, by.String())
	}
	return names, more
}

// String is one line: which jobs have the key, for how much longer, and which wait.
// It shows the first ten of each, and says how many more there are.
func (s KeyLockStatus) String() string {
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
