// Package byhand is the keys of an executor for those who lock and unlock them by hand: what
// Executor.KeyLocks returns, where its contract stands.
//
// What changes is on disk with the next commit, and agrees with the jobs that the journal has:
// it is done in the ledger, and not at all once a stop has ended. No user code is called under a
// lock. Census: a watcher whose key was unlocked has a goroutine, until it has returned.
package byhand

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"

	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/executor/internal/guard"
	"github.com/strandjobs/strand/executor/internal/keylock"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/lock"
)

// Keys are a lock.Watcher. Any goroutine may call the methods.
type Keys struct {
	Keys   *keylock.Keys // nil: there are none
	Ledger *admit.Ledger
	Logger *slog.Logger

	Usable  func(context.Context) error                         // why a call is refused
	Failure func() error                                        // why nothing can be told any more
	Attempt func(c *journal.Change, f func()) error             // has f change the keys, unless that is over
	Unlocks func(context.Context, string) (was bool, err error) // unlocks a key of a cluster; nil: there is none
}

func (k *Keys) usable(ctx context.Context, key string) error {
	return cmp.Or(keylock.CheckKey(key), k.Usable(ctx))
}

// Lock locks a key until Unlock.
func (k *Keys) Lock(ctx context.Context, key string) error {
	if err := k.usable(ctx, key); err != nil {
		return err
	}
	return k.Attempt(new(journal.Change), func() { k.Keys.Lock(key, admit.Owner{}, 0) })
}

// Unlock unlocks a key, whichever job has locked it.
func (k *Keys) Unlock(ctx context.Context, key string) (err error) {
	was := false
	if k.Unlocks != nil {
		was, err = k.Unlocks(ctx, key)
	} else if err = k.usable(ctx, key); err == nil {
		err = k.Attempt(new(journal.Change), func() { was = k.Keys.Unlock(key, false, admit.Owner{}) })
	}
	if err == nil && !was {
		err = fmt.Errorf("%w: %q", lock.ErrNotLocked, key)
	}
	return err
}

// Locked reports whether a key is locked.
func (k *Keys) Locked(ctx context.Context, key string) (locked bool, err error) {
	if err := k.usable(ctx, key); err != nil {
		return false, err
	}
	if err := k.Failure(); err != nil {
		return false, err
	}
	k.Ledger.View(func() { locked = len(k.Keys.Locked(key)) > 0 })
	return locked, nil
}

// Watch calls wake once, when a key is unlocked that is locked now.
func (k *Keys) Watch(key string, wake func()) (cancel func(), locked bool) {
	if k.Keys == nil {
		return func() {}, false
	}
	if wake == nil {
		wake = func() {}
	}
	forget := func() {}
	k.Ledger.View(func() {
		if !k.Ledger.Closed() {
			// The caller may be an actor, which user code could end.
			forget, locked = k.Keys.Watch(key, func() { go guard.Hook(k.Logger, "Watch", wake) })
		}
	})
	return func() { k.Ledger.Do(nil, forget) }, locked
}
