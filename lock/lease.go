package lock

import (
	"context"
	"slices"
	"time"
)

// record is what a table knows about a lease. It is guarded by the table's mutex,
// except entries, which never change. A record of a single key is used again by the
// next lease on that key; the token tells them apart.
type record struct {
	entries []*entry // in the order of their keys
	token   uint64   // of the present or last lease
	owner   string
	ttl     time.Duration
	since   time.Duration
	at      time.Duration // when it ends by itself; never: it does not
	rings   time.Duration // when the agenda looks at it: at its end, or earlier if it extends itself
	extends bool          // it does, each third of its ttl
	index   int           // in the agenda, from 1; 0 = it is not there
	end     error         // why it has ended; nil: it has not
	lost    chan struct{} // closed at its end; nil until asked for
	hooks   []*endHook    // called at its end
}

// lostError is the answer to a lease with the given token, which is not held.
func (r *record) lostError(token uint64) error {
	err := &lostError{Key: r.entries[0].key, Token: token}
	if r.token == token {
		err.Reason = r.end
	}
	return err
}

// endHook is called with the reason when a lease ends.
type endHook struct{ f func(error) }

// over is the Lost channel of every lease that has ended.
var over = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Lease is the right to its keys, from the grant until Unlock, the end of its TTL,
// or Break. It is a small value that can be copied and compared; all copies are the
// same lease, and all methods may be called by any number of goroutines. The zero
// value is a lease that has ended.
type Lease struct {
	table  *Table
	record *record
	token  uint64
}

// Token is the fencing token: larger than that of every lease granted before by the
// same table, and not 0. It stays the same when the lease is extended, and is known
// after the end too.
func (l Lease) Token() uint64 { return l.token }

// Keys returns the keys of the lease, sorted, also after its end; nil for the zero value. The slice is the caller's.
func (l Lease) Keys() []string {
	if l.record == nil {
		return nil
	}
	keys := make([]string, len(l.record.entries))
	for i, e := range l.record.entries {
		keys[i] = e.key
	}
	return keys
}

// do has f look at the lease or change it if it is held, says [ErrLockLost] otherwise,
// and wakes who is to be woken.
func (l Lease) do(o *op, f func()) (err error) {
	if l.record == nil {
		return &lostError{Token: l.token}
	}
	if l.table.enter(o); l.heldLocked() {
		f()
	} else {
		err = l.record.lostError(l.token)
	}
	l.table.done(o)
	return err
}

func (l Lease) heldLocked() bool { return l.record.token == l.token && l.record.end == nil }

// Held reports whether the lease still has its keys at this moment.
func (l Lease) Held() bool {
	var o op
	return l.do(&o, func() {}) == nil
}

// Unlock ends the lease and hands each key to the first waiter. It returns
// [ErrLockLost], without effect, when the lease has ended already. Wake functions of
// those granted are called before it returns.
func (l Lease) Unlock() error {
	var o op
	return l.do(&o, func() { l.table.end(l.record, ErrUnlocked, &o) })
}

// Extend makes the lease end ttl from now, which may be later or earlier than before; the token stays. With a ttl too
// large for the clock (centuries) it lasts until unlocked. Extend returns, without effect, [ErrConfig] when ttl is
// not positive and [ErrLockLost] when the lease has ended.
func (l Lease) Extend(ttl time.Duration) error {
	if ttl <= 0 {
		return errDuration
	}
	var o op
	return l.do(&o, func() { l.table.extend(l.record, ttl, &o) })
}

// Record returns what a person or a journal wants to know about the lease, and
// false when it has ended.
func (l Lease) Record() (Held, bool) {
	var o op
	var h Held
	err := l.do(&o, func() { h = l.table.heldLocked(l.record, &o) })
	return h, err == nil
}

// Lost returns a channel that is closed when the lease ends, whatever the reason:
// TTL, Break or its own Unlock. For a lease that has ended it is closed.
func (l Lease) Lost() <-chan struct{} {
	var o op
	lost := over
	_ = l.do(&o, func() {
		if l.record.lost == nil {
			l.record.lost = make(chan struct{})
		}
		lost = l.record.lost
	})
	return lost
}

// Context returns a child of parent that is canceled when the lease ends, with the
// [ErrLockLost] as its cause. It is canceled already if the lease has ended, or, with
// [ErrContext], if parent is unusable. The returned function cancels the child and
// forgets about it; call it when done, as with context.WithCancel.
func (l Lease) Context(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := child(parent)
	forget := l.OnEnd(cancel)
	return ctx, func() {
		forget()
		cancel(nil)
	}
}

// OnEnd calls f once, with the [ErrLockLost], when the lease ends, or now if it has
// ended; under no mutex, and not if f is nil. f runs on the goroutine that ended the
// lease and must not block, unless [Table.Hook] says otherwise. After forget it is not
// called any more, unless it is on its way.
func (l Lease) OnEnd(f func(reason error)) (forget func()) {
	if f == nil {
		return func() {}
	}
	var o op
	h := &endHook{f}
	if t := l.table; t != nil && t.Hook != nil {
		h.f = func(reason error) { t.Hook(func() { f(reason) }) }
	}
	if err := l.do(&o, func() { l.record.hooks = append(l.record.hooks, h) }); err != nil {
		f(err)
		return func() {}
	}
	return func() {
		var o op
		_ = l.do(&o, func() {
			l.record.hooks = slices.DeleteFunc(l.record.hooks, func(x *endHook) bool { return x == h })
		})
	}
}
