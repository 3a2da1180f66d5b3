package executor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/executor/internal/keylock"
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
type KeyLocks struct{ x *Executor }

// errNoKeyLocks is what a KeyLocks says that belongs to no executor.
var errNoKeyLocks = fmt.Errorf("%w: these are the keys of no executor; Executor.KeyLocks returns them", ErrState)

var (
	_ lock.Service = KeyLocks{}
	_ lock.Watcher = KeyLocks{}
)

// KeyLocks returns the keys of the executor.
func (x *Executor) KeyLocks() KeyLocks { return KeyLocks{x} }

func (k KeyLocks) usable(ctx context.Context, key string) error {
	if k.x == nil {
		return errNoKeyLocks
	}
	return cmp.Or(checkKey(key), k.x.admits(ctx))
}

// Lock locks key by hand until Unlock; doing it twice is like doing it twice in
// jobs. It returns [lock.ErrEmptyKey], ErrInvalidKey, ErrContext, ErrClosed or
// ErrFailed.
func (k KeyLocks) Lock(ctx context.Context, key string) error {
	if err := k.usable(ctx, key); err != nil {
		return err
	}
	return k.x.attempt(new(journal.Change), func() { k.x.keys.Lock(key, holder{}, 0) })
}

// Unlock unlocks key, whichever job has locked it and however often: the jobs that
// wait for it go on. It returns [lock.ErrNotLocked] when it is not locked, and the errors
// of Lock.
func (k KeyLocks) Unlock(ctx context.Context, key string) error {
	if err := k.usable(ctx, key); err != nil {
		return err
	}
	was := false
	err := k.x.attempt(new(journal.Change), func() { was = k.x.keys.Unlock(key, false, holder{}) })
	if err == nil && !was {
		err = fmt.Errorf("%w: %q", lock.ErrNotLocked, key)
	}
	return err
}

// Locked reports whether key is locked. It returns the errors of Lock.
func (k KeyLocks) Locked(ctx context.Context, key string) (locked bool, err error) {
	if err := k.usable(ctx, key); err != nil {
		return false, err
	}
	if err := k.x.failure(); err != nil {
		return false, err
	}
	k.x.ledger.View(func() { locked = len(k.x.keys.Locked(key)) > 0 })
	return locked, nil
}

// Watch calls wake once, on a goroutine of its own, when key is unlocked, and
// returns true; it returns false when it is not locked now, and after Stop. A nil
// wake is not called. cancel may be too late.
func (k KeyLocks) Watch(key string, wake func()) (cancel func(), locked bool) {
	if k.x == nil {
		return func() {}, false
	}
	if wake == nil {
		wake = func() {}
	}
	forget := func() {}
	k.x.ledger.View(func() {
		if !k.x.ledger.Closed() {
			// The caller may be an actor, which user code could end.
			forget, locked = k.x.keys.Watch(key, func() { go k.x.guardHook("Watch", wake) })
		}
	})
	return func() { k.x.ledger.Do(nil, forget) }, locked
}

// keysOf returns the keys of a payload, each once, from a function of the program that is
// set under name; nil without one. Errors match ErrInvalidKey, and say the name.
func keysOf[T any](name string, f func(string, T) []string) keylock.KeysOf {
	if f == nil {
		return nil
	}
	return func(id string, payload any) (keys []string, err error) {
		var all []string
		value, _ := payload.(T) // of an interface type it may be nil
		if err := guarded(func() error { all = f(id, value); return nil }); err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrInvalidKey, name, err)
		}
		for _, key := range all {
			if key == "" {
				return nil, fmt.Errorf("%w: %s: %w: return 1 to %d bytes", ErrInvalidKey, name, lock.ErrEmptyKey, maxKeyBytes)
			}
			if err := checkKey(key); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			keys = admit.With(keys, key)
		}
		return keys, nil
	}
}

// keyOf is keysOf for a function that returns one.
func keyOf[T any](name string, f func(string, T) string) func(id string, payload any) (string, error) {
	if f == nil {
		return nil
	}
	keys := keysOf(name, func(id string, value T) []string { return []string{f(id, value)} })
	return func(id string, payload any) (string, error) {
		all, err := keys(id, payload)
		if err != nil {
			return "", err
		}
		return all[0], nil
	}
}

// maxKeyBytes is the length of the longest key.
const maxKeyBytes = 512

func checkKey(key string) error {
	if key == "" {
		return fmt.Errorf("%w: nil means no key", lock.ErrEmptyKey)
	}
	if len(key) > maxKeyBytes {
		return fmt.Errorf("%w: %q has %d bytes, it must have from 1 to %d", ErrInvalidKey, clip(key), len(key), maxKeyBytes)
	}
	return nil
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
	Called      []string   `wire:",owner"` // jobs whose turn it is, MaxListed at most: they wait for a worker, and none in Waiting overtakes them
	MoreCalled  int        // that are not in Called
	Waiting     []string   `wire:",owner"` // jobs that wait for it, first come first, MaxListed at most
	MoreWaiting int        // that are not in Waiting
}

// LockHeld is one lock of a key.
type LockHeld struct {
	By           string    `wire:",owner"` // the job, as queue/id, or "a person"
	Since, Until time.Time // Until is zero when it does not end by itself
}

// List returns all locked keys in their order. After Stop it is what was locked
// then.
func (k KeyLocks) List() []KeyLockStatus {
	if k.x == nil {
		return nil
	}
	var all []KeyLockStatus
	k.x.ledger.View(func() {
		for _, key := range slices.Sorted(slices.Values(k.x.keys.Keys())) {
			all = append(all, k.x.keyStatus(key))
		}
	})
	return all
}

// keyStatus shows a key to people. The ledger is held.
func (x *Executor) keyStatus(key string) KeyLockStatus {
	locked := x.keys.Locked(key)
	called, waiting := x.keys.Line(key)
	s := KeyLockStatus{Key: key, MoreLocks: max(len(locked)-MaxListed, 0)}
	for _, h := range locked[:len(locked)-s.MoreLocks] {
		held := x.keys.Held(h)
		s.Locks = append(s.Locks, LockHeld{held.Owner, held.Since, held.Until})
	}
	s.Called, s.MoreCalled = names(called)
	s.Waiting, s.MoreWaiting = names(waiting)
	return s
}

// shownKeys are the keys of a queue as people see them.
type shownKeys struct{ x *Executor }

func (k shownKeys) explain(by holder, e *Explanation) (waits bool) {
	k.x.ledger.View(func() {
		keys, called := k.x.keys.WaitsFor(by)
		switch waits = called || len(keys) > 0; {
		case called:
			e.State = JobReady // its shard is about to hear of it
		case waits:
			e.State, e.More = JobBlocked, max(len(keys)-MaxListed, 0)
			for _, key := range keys[:len(keys)-e.More] {
				e.Keys = append(e.Keys, k.x.keyStatus(key))
			}
		}
	})
	return waits
}

func (k shownKeys) holds(by holder, h *Holdings) {
	k.x.ledger.View(func() { h.Keys = k.x.keys.HeldBy(by, MaxListed) })
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
