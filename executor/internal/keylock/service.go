package keylock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/executor/internal/each"
	"github.com/strandjobs/strand/executor/internal/guard"
	"github.com/strandjobs/strand/lock"
)

// undoWithin is how long a service has for keys that were locked for nothing.
const undoWithin = 10 * time.Second

// enterService is Enter with the queue's own service.
func (c *Condition) enterService(ctx context.Context, cl *admit.Claim, h *hold) error {
	c.unwatch(cl.By)
	locked, err := c.lockedServed(ctx, h.blockedBy)
	if err != nil {
		return err
	}
	if len(locked) == 0 {
		h.served = each.Of(h.set, func(s setting) string { return s.Key })
		return c.lockServed(ctx, h.served)
	}
	decision := c.Blocked
	if handler, ok := c.Service.(lock.LockedHandler); ok {
		job, err := cl.Job(true)
		if err == nil {
			err = guard.Call(func() error { decision = handler.HandleLockedBy(ctx, job, locked); return nil })
		}
		if err != nil {
			return err
		}
	}
	if !Waits(decision) {
		return c.Refuse(decision, &lock.LockedError{Key: locked[0]})
	}
	watcher, ok := c.Service.(lock.Watcher)
	if !ok {
		return c.Refuse(decision, nil)
	}
	var blocked bool
	var cancel func()
	if err := guard.Call(func() error { cancel, blocked = watcher.Watch(locked[0], cl.Wake); return nil }); err != nil {
		return err
	}
	if cancel != nil {
		c.watches.Store(cl.By, cancel)
	}
	if !blocked {
		cl.Wake() // it was unlocked just now
	}
	return admit.ErrWaits
}

// lockedServed returns those of some keys that the queue's service has locked.
func (c *Condition) lockedServed(ctx context.Context, keys []string) (locked []string, err error) {
	for _, key := range keys {
		if err = guard.Call(func() error {
			is, err := c.Service.Locked(ctx, key)
			if is {
				locked = append(locked, key)
			}
			return err
		}); err != nil {
			return nil, err
		}
	}
	return locked, nil
}

// lockServed locks keys with the queue's service. Those that it has locked before one
// failed, or has ended the goroutine, it unlocks.
func (c *Condition) lockServed(ctx context.Context, keys []string) error {
	locked := 0
	defer func() {
		if locked < len(keys) {
			c.withdrawServed(keys[:locked])
		}
	}()
	for ; locked < len(keys); locked++ {
		if err := guard.Call(func() error { return c.Service.Lock(ctx, keys[locked]) }); err != nil {
			return fmt.Errorf("lock service: lock %q: %w", keys[locked], err)
		}
	}
	return nil
}

// unlockServed unlocks keys with the queue's service, and returns the first error. What is not
// locked, because an earlier try has unlocked it or the executor kept it, is as it should be. A call that
// ends the goroutine keeps no other key locked.
func (c *Condition) unlockServed(ctx context.Context, keys []string) (first error) {
	at := 0
	defer func() {
		if at < len(keys) {
			defer c.withdrawServed(keys[at+1:])
			c.Logger.Error("Unlock of a lock service has ended its goroutine", slog.String("key", keys[at]))
		}
	}()
	for ; at < len(keys); at++ {
		if err := guard.Call(func() error {
			err := c.Service.Unlock(ctx, keys[at])
			if errors.Is(err, lock.ErrNotLocked) {
				return nil
			}
			return err
		}); err != nil && first == nil {
			first = fmt.Errorf("lock service: unlock %q: %w", keys[at], err)
		}
	}
	return first
}

// withdrawServed unlocks keys with the queue's service that were locked for nothing: also when the caller's
// time is over, or a stop has ended that of the handlers.
func (c *Condition) withdrawServed(keys []string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Handlers), undoWithin)
	defer cancel()
	if err := c.unlockServed(ctx, keys); err != nil {
		c.Logger.Error("keys stay locked", slog.Any("error", err))
	}
}

// unwatch has the service forget the waker of a job. The caller may be an actor, which code of
// the service could end.
func (c *Condition) unwatch(by admit.Owner) {
	if cancel, watches := c.watches.LoadAndDelete(by); watches {
		go guard.Hook(c.Logger, "cancel of Watch", cancel.(func()))
	}
}

// Retire implements [admit.Retired]: the service forgets all wakers.
func (c *Condition) Retire() {
	c.watches.Range(func(by, _ any) bool { c.unwatch(by.(admit.Owner)); return true })
}
