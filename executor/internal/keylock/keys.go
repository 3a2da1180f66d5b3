package keylock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/executor/internal/brief"
	"github.com/strandjobs/strand/executor/internal/each"
	"github.com/strandjobs/strand/executor/internal/guard"
	"github.com/strandjobs/strand/executor/internal/statekey"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/lock"
)

// Keys are the keys that the jobs of an executor lock, and the journal's copy of them.
// What belongs to a job changes in the commit that settles the job.
type Keys struct {
	ledger   *admit.Ledger
	log      *journal.Log
	clock    func() time.Time // of all who go on with the journal
	volatile bool
	base     time.Time       // when its own clock was 0
	found    map[string]bool // queues whose jobs had locked keys when it was opened

	// locks are guarded by the ledger, as alarm is: methods that come from them are
	// called under it.
	locks
	alarm admit.Alarm // of the next lock that ends by itself

	// binding guards which locks came with which payload, and the positions of
	// those that were set by an enqueue. The journal asks under its own lock, so
	// nothing is called under it.
	binding sync.Mutex
	with    map[journal.Position][]*Lock
}

// gone is the position of a lock that has ended.
const gone = math.MaxUint64

// Open returns the keys that a journal has. What has expired since they were written, by the
// clock of all who go on with it, stays so. A volatile journal is told nothing.
func Open(ledger *admit.Ledger, log *journal.Log, clock func() time.Time, volatile bool) (*Keys, error) {
	k := &Keys{
		ledger: ledger, log: log, clock: clock, volatile: volatile, base: time.Now(), found: make(map[string]bool),
		with: make(map[journal.Position][]*Lock), locks: newLocks(),
	}
	ledger.Book = k
	return k, k.restore()
}

// times are the time of day in the journal, and that of its own clock, which nobody sets.
func (k *Keys) times() (now time.Time, age time.Duration) {
	return k.clock().Round(0), time.Since(k.base)
}

func (k *Keys) restore() error {
	var held []*Lock
	var expired journal.Change
	now, age := k.times()
	zero := now.UnixNano() - int64(age)
	for s, err := range k.log.Keys(statekey.LockPrefix, "") {
		if err != nil {
			return err
		}
		w, err := statekey.ParseKeyLock(s)
		if err != nil {
			return statekey.Refused(s.Key, err)
		}
		if w.Until != 0 && w.Until <= now.UnixNano() {
			expired.Sets = append(expired.Sets, journal.Set{Key: s.Key})
			continue
		}
		h := &Lock{Number: w.Number, Position: journal.Position(w.Position), OnRun: w.OnRun, Owner: w.Owner, Key: w.Key}
		h.Since = min(time.Duration(w.Since-zero), age)
		if w.Until != 0 {
			// It lasts no longer than it was to, whatever has been done to the clock since.
			ttl := max(time.Unix(0, w.Until).Sub(time.Unix(0, w.Since)), 1)
			h.Until = min(time.Duration(w.Until-zero), age+min(ttl, never-age))
		}
		held = append(held, h)
		k.found[h.Owner.Queue] = true
	}
	k.ledger.Do(&expired, func() {
		k.restoreAll(held)
		for _, h := range held {
			k.rebind(h, h.Position)
		}
	})
	return nil
}

// Open implements [admit.Book].
func (k *Keys) Open() { k.now = time.Since(k.base) }

// Close implements [admit.Book].
func (k *Keys) Close(c *journal.Change) (wake func()) {
	changes, wakes := k.drain()
	k.write(c, changes)
	at, ok := k.next()
	k.alarm.Set(k.base, at, ok && !k.ledger.Closed(), func() {
		k.ledger.Do(nil, func() {
			if k.alarm.Rang(); !k.ledger.Closed() {
				k.expire()
			}
		})
	})
	if len(wakes) == 0 {
		return nil
	}
	return func() {
		for _, wake := range wakes {
			wake()
		}
	}
}

// write remembers which payloads locks belong to that have changed, as far as that is known,
// and adds what the journal has to know of them.
func (k *Keys) write(c *journal.Change, changes []*Lock) {
	k.binding.Lock()
	defer k.binding.Unlock()
	for _, h := range changes {
		p := h.Position
		awaited := !h.OnRun && p == 0 && h.Owner != (admit.Owner{}) // it is written when its payload has a position
		switch {
		case h.entry == nil:
			k.unbind(h)
			h.Position, awaited = gone, false
		case p != 0 && !slices.Contains(k.with[p], h):
			k.with[p] = append(k.with[p], h)
		}
		if !k.volatile && !awaited {
			c.Sets = append(c.Sets, k.setOf(h))
		}
	}
}

// unbind forgets which payload a lock belongs to. binding is held.
func (k *Keys) unbind(h *Lock) {
	p := h.Position
	if rest := slices.DeleteFunc(k.with[p], func(o *Lock) bool { return o == h }); len(rest) > 0 {
		k.with[p] = rest
	} else {
		delete(k.with, p)
	}
}

// rebind makes a lock another payload's, which may itself be replaced at once.
func (k *Keys) rebind(h *Lock, into journal.Position) {
	k.binding.Lock()
	defer k.binding.Unlock()
	k.unbind(h)
	if h.Position = into; into != 0 {
		k.with[into] = append(k.with[into], h)
	}
}

// comingWith returns the locks that belong to a payload.
func (k *Keys) comingWith(p journal.Position) []*Lock {
	k.binding.Lock()
	defer k.binding.Unlock()
	return slices.Clone(k.with[p])
}

// leaveToJobs gives what runs have locked for payloads that are over to their jobs, one lock
// of a key: where one unlock is enough, many payloads leave no more behind than one does.
func (k *Keys) leaveToJobs(over []journal.Ref) {
	for _, ref := range over {
		left := slices.DeleteFunc(k.comingWith(ref.Position()), func(h *Lock) bool { return !h.OnRun })
		k.Replace(left, 0, func(h *Lock) { k.rebind(h, 0) })
	}
}

// Rename gives the locks of a queue's jobs to the queue's new name.
func (k *Keys) Rename(former, name string) { k.ledger.Do(nil, func() { k.rename(former, name) }) }

// Found reports whether jobs of one of some queues had locked keys when the journal was opened.
func (k *Keys) Found(queues ...string) bool {
	return slices.ContainsFunc(queues, func(queue string) bool { return k.found[queue] })
}

// DropAll ends the locks of payloads that are gone. The caller holds the ledger.
func (k *Keys) DropAll(positions []journal.Position) {
	for _, p := range positions {
		k.Drop(k.comingWith(p)...)
	}
}

// Held shows a lock to people. Its number takes the place of a token.
func (k *Keys) Held(h *Lock) lock.Held {
	now, age := k.times()
	held := lock.Held{Keys: []string{h.Key}, Owner: cmp.Or(h.Owner.String(), "a person"), Token: h.Number, Since: now.Add(h.Since - age)}
	if h.Until != 0 {
		held.Until = now.Add(h.Until - age)
		held.TTL = held.Until.Sub(held.Since)
	}
	return held
}

// Status shows a key to people: it looks at no more than that. The ledger is held.
func (k *Keys) Status(key string) inspect.KeyLockStatus {
	s := inspect.KeyLockStatus{Key: key}
	for h := range k.each(key) {
		if len(s.Locks) == brief.Most {
			s.MoreLocks = h.entry.locks.Len() - brief.Most
			break
		}
		held := k.Held(h)
		s.Locks = append(s.Locks, inspect.LockHeld{By: held.Owner, Since: held.Since, Until: held.Until})
	}
	s.Called, s.Waiting, s.MoreCalled, s.MoreWaiting = k.Line(key, brief.Most)
	return s
}

// lockedError names the holder of a key that blocks a job. The ledger is held.
func (k *Keys) lockedError(key string, by admit.Owner) error {
	err := &lock.LockedError{Key: key}
	for h := range k.each(key) {
		if h.Owner != by {
			err.Holder = k.Held(h)
			break
		}
	}
	return err
}

// setOf is what the journal has of a lock. binding is held.
func (k *Keys) setOf(h *Lock) journal.Set {
	if h.Position == gone {
		return journal.Set{Key: statekey.LockKey(h.Number)}
	}
	now, age := k.times()
	zero := now.UnixNano() - int64(age)
	until := int64(h.Until)
	if until != 0 {
		until = zero + min(until, math.MaxInt64-zero)
	}
	w := statekey.KeyLock{
		Number: h.Number, Position: uint64(h.Position), OnRun: h.OnRun, Since: zero + int64(h.Since), Until: until, Owner: h.Owner, Key: h.Key,
	}
	return w.Set()
}

// Coming are the keys of payloads that are on their way to the journal: they count from
// before the payloads are accepted, because these may run before the call is back. Nil:
// there are none.
type Coming struct {
	keys   *Keys
	holds  [][]*Lock  // by payload
	of     *Condition // of served
	served []string   // what the queue's own service has locked
}

// Coming returns that of a call without a payload yet.
func (k *Keys) Coming() *Coming { return &Coming{keys: k} }

// Lock locks the keys of the next payload of a call. The ledger is held.
func (p *Coming) Lock(c *Condition, id string, keys []string) {
	p.holds = append(p.holds, each.Of(keys, func(key string) *Lock {
		return p.keys.Lock(key, admit.Owner{Queue: c.Queue, ID: id}, c.TTL)
	}))
}

// Sets binds the locks to the positions of their payloads. Those that have been
// unlocked by now are not written: the log has their end first.
func (p *Coming) Sets(first journal.Position) (sets []journal.Set) {
	if p == nil {
		return nil
	}
	k := p.keys
	k.binding.Lock()
	defer k.binding.Unlock()
	for i, holds := range p.holds {
		position := first + journal.Position(i)
		for _, h := range holds {
			if h.Position == gone {
				continue
			}
			h.Position = position
			k.with[position] = append(k.with[position], h)
			if !k.volatile {
				sets = append(sets, k.setOf(h))
			}
		}
	}
	return sets
}

// Serve locks keys with the service of a queue.
func (p *Coming) Serve(ctx context.Context, c *Condition, keys []string) error {
	p.of, p.served = c, keys
	return c.lockServed(ctx, keys)
}

// Withdraw unlocks what came with a call that was refused.
func (p *Coming) Withdraw() {
	if p == nil {
		return
	}
	if p.served != nil {
		p.of.withdrawServed(p.served)
	} else {
		p.keys.ledger.Do(nil, func() { p.keys.Drop(slices.Concat(p.holds...)...) })
	}
}

// ErrInvalidKey is returned for what is no key, and for a function that panics.
var ErrInvalidKey = errors.New("executor: invalid key")

// maxKeyBytes is the length of the longest key.
const maxKeyBytes = 512

// CheckKey refuses a key that is empty or longer than maxKeyBytes.
func CheckKey(key string) error {
	if key == "" {
		return fmt.Errorf("%w: nil means no key", lock.ErrEmptyKey)
	}
	if len(key) > maxKeyBytes {
		return fmt.Errorf("%w: %q has %d bytes, it must have from 1 to %d", ErrInvalidKey, brief.Clip(key), len(key), maxKeyBytes)
	}
	return nil
}

// Compute returns the keys of a payload, each once, from a function of the program that is
// set under name; nil without one. Errors match ErrInvalidKey, and say the name.
func Compute[T any](name string, f func(string, T) []string) KeysOf {
	if f == nil {
		return nil
	}
	return func(id string, payload any) (keys []string, err error) {
		var all []string
		value, _ := payload.(T) // of an interface type it may be nil
		if err := guard.Call(func() error { all = f(id, value); return nil }); err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrInvalidKey, name, err)
		}
		for _, key := range all {
			if key == "" {
				return nil, fmt.Errorf("%w: %s: %w: return 1 to %d bytes", ErrInvalidKey, name, lock.ErrEmptyKey, maxKeyBytes)
			}
			if err := CheckKey(key); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			keys = admit.With(keys, key)
		}
		return keys, nil
	}
}

// ComputeOne is Compute for a function that returns one key.
func ComputeOne[T any](name string, f func(string, T) string) func(id string, payload any) (string, error) {
	if f == nil {
		return nil
	}
	keys := Compute(name, func(id string, value T) []string { return []string{f(id, value)} })
	return func(id string, payload any) (string, error) {
		all, err := keys(id, payload)
		if err != nil {
			return "", err
		}
		return all[0], nil
	}
}
