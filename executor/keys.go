package executor

import (
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

// Watch calls wake once, on a goroutine of its own, when key is unlocked, and
// returns true; it returns false when it is not locked now. A nil wake is not
// called. cancel may be too late.
func (k Keys) Watch(key string, wake func()) (cancel func(), locked bool) {
	if wake == nil {
		wake = func() {}
	}
	k.l.mu.Lock()
	defer k.l.mu.Unlock()
	b := &k.l.barrier
	b.watchers++
	b.now = time.Now().UnixNano()
	r := request{by: holder{id: fmt.Sprint(b.watchers)}, blockedBy: []string{key}}
	if b.blocking(r) == "" {
		return func() {}, false
	}
	_ = b.wait(r, key, func() { // nobody waits for a watcher: there is no circle
		// Whoever unlocks may be an actor, which user code could end.
		go k.l.x.guardHook("Watch", wake)
	})
	return func() {
		k.l.mu.Lock()
		defer k.l.mu.Unlock()
		b.leave(r.by)
	}, true
}

// KeyStatus is a locked key.
type KeyStatus struct {
	Key     string
	Locks   []LockHeld // oldest first
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
	for key := range k.l.barrier.keys {
		all = append(all, k.l.barrier.status(key))
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
	for e := k.queue.Front(); e != nil; e = e.Next() {
		if by := e.Value.(*wait).by; by.queue != "" {
			s.Waiting = append(s.Waiting, by.String())
		}
	}
	return s
}

// String is one line: who has the key, for how much longer, and who waits.
func (s KeyStatus) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%q locked", s.Key)
	sep := " by "
	for _, h := range s.Locks {
		b.WriteString(sep + h.By)
		if !h.Until.IsZero() {
			fmt.Fprintf(&b, " (%v left)", max(time.Until(h.Until), 0).Round(time.Millisecond))
		}
		sep = ", "
	}
	if len(s.Waiting) > 0 {
		b.WriteString("; waiting: " + strings.Join(s.Waiting, ", "))
	}
	return b.String()
}
