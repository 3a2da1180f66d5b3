package executor

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/guard"
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
	switch {
	case k.x == nil:
		return errNoKeyLocks
	case k.x.cluster != nil:
		return fmt.Errorf("%w: the partitions of a cluster have keys, each its own", ErrState)
	}
	return cmp.Or(keylock.CheckKey(key), k.x.admits(ctx))
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
			forget, locked = k.x.keys.Watch(key, func() { go guard.Hook(k.x.cfg.Logger, "Watch", wake) })
		}
	})
	return func() { k.x.ledger.Do(nil, forget) }, locked
}

// List returns all locked keys in their order. After Stop it is what was locked
// then.
func (k KeyLocks) List() []inspect.KeyLockStatus {
	if k.x == nil {
		return nil
	}
	var all []inspect.KeyLockStatus
	k.x.ledger.View(func() {
		for _, key := range slices.Sorted(slices.Values(k.x.keys.Keys())) {
			all = append(all, k.x.keys.Status(key))
		}
	})
	return all
}
