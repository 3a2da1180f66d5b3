package lock

import (
	"slices"
	"sync"
	"time"
)

// maxIdle bounds how many keys without holder and waiter a table remembers, so that a key in regular use costs neither
// an allocation nor a map insert and delete each time (measured: 60 of 170 ns).
const maxIdle = 256

// Options of one request for keys. The zero value asks for an anonymous lease that does not expire.
type Options struct {
	// Owner names who asks, for people and for the detection of deadlocks, which takes an owner for one sequential
	// party. Any length; "" = anonymous: no detection.
	Owner string
	// TTL is how long the lease lasts after the grant or the last Extend. 0 = until unlocked; negative is refused
	// with [ErrDuration]. A TTL too large for the clock (centuries) counts as 0.
	TTL time.Duration
}

// Table is a set of job locks: keys, each held by at most one lease, with a FIFO queue of waiters. The zero value is
// ready to use. All methods may be called by any number of goroutines; a Table must not be copied after first use.
type Table struct {
	// mu guards everything below, every entry, record and place of the table. It is held for map and list operations
	// only, never while user code runs (wake functions, hooks: they are collected in an op and called after Unlock).
	// Order: Slots.mu before Table.mu; nothing is locked after Table.mu.
	mu      sync.Mutex
	clock   clock
	token   uint64            // the last one given; grows by one per grant
	entries map[string]*entry // every key with a holder, a waiter or a watcher, and up to maxIdle others
	idle    entryList         // the others, least recently used first
	leases  agenda[*record]   // held leases with an end
	waiting map[string][]*Place
}

// New returns an empty table. It is the same as new(Table).
func New() *Table { return new(Table) }

// op is one critical section of a table: the clock, read at most once, and the user code to be called after it.
type op struct {
	time  time.Duration
	timed bool
	wakes wakes
}

// wakes are functions to be called, in order, when no mutex is held any more.
type wakes struct {
	first func()
	rest  []func()
}

func (w *wakes) add(f func()) {
	if w.first == nil {
		w.first = f
		return
	}
	w.rest = append(w.rest, f)
}

// run calls all of them. It is apart from call so that it can be inlined: 10 of 100 ns.
func (w *wakes) run() {
	if w.first != nil {
		w.call()
	}
}

// call goes on with the later ones even when an earlier one panics: their owners are granted already.
func (w *wakes) call() {
	for _, f := range slices.Backward(w.rest) {
		defer f()
	}
	w.first()
}

// enter locks the table and ends what is overdue, so that no operation sees a lease after its end, however late the
// timer is.
func (t *Table) enter(o *op) {
	t.mu.Lock()
	t.expireLocked(o)
}

func (t *Table) expireLocked(o *op) {
	for len(t.leases.heap) > 0 {
		r, ok := t.leases.due(t.now(o))
		if !ok {
			return
		}
		t.endLocked(r, expired, o)
	}
}

// leave unlocks the table. The caller calls o.wakes.run when it holds no other mutex either.
func (t *Table) leave(o *op) {
	if t.leases.late() {
		if t.leases.fire == nil {
			t.leases.fire = t.expire
		}
		t.leases.arm(t.now(o))
	}
	t.mu.Unlock()
}

func (t *Table) now(o *op) time.Duration {
	if !o.timed {
		o.time, o.timed = t.clock.now(), true
	}
	return o.time
}

// expire is what the timer calls.
func (t *Table) expire() {
	var o op
	t.mu.Lock()
	t.leases.on = false
	t.leases.fired++
	t.expireLocked(&o)
	t.leave(&o)
	o.wakes.run()
}

// RaiseToken makes every later token larger than above, for a table that follows another one (a restart). A token
// that is already larger stays.
func (t *Table) RaiseToken(above uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.token = max(t.token, above)
}

// TryAcquire takes all keys or none, without waiting. Keys may come in any order and repeat. It returns
// [*LockedError] when one of them is held, even by the same owner, or promised to a waiter; [ErrEmptyKey] or
// [ErrDuration] for bad input.
func (t *Table) TryAcquire(opt Options, keys ...string) (Lease, error) {
	var o op
	keys, err := checked(opt, keys)
	if err != nil {
		return Lease{}, err
	}
	t.enter(&o)
	l, ok := t.tryLocked(opt, keys, &o)
	if !ok {
		err = t.lockedErrorLocked(keys, &o)
	}
	t.leave(&o)
	o.wakes.run()
	return l, err
}

// Break ends the lease on key, whoever holds it, as if it had expired, with the reason [ErrBroken]: the means of a
// person to clear a lock that is not going to be released. All keys of the lease become free. It returns what was held, or
// [ErrNotLocked].
func (t *Table) Break(key string) (Held, error) {
	var o op
	t.enter(&o)
	var held Held
	err := ErrNotLocked
	if e := t.entries[key]; e != nil && e.holder != nil {
		held, err = t.heldLocked(e.holder, &o), nil
		t.endLocked(e.holder, broken, &o)
	}
	t.leave(&o)
	o.wakes.run()
	return held, err
}

// Find returns the lease that holds key under token, so that one who kept only the two (a journal, another process)
// can extend or unlock it, or a store can check a fence. It returns [*LostError] when the key has another holder or
// none.
func (t *Table) Find(key string, token uint64) (Lease, error) {
	var o op
	t.enter(&o)
	var l Lease
	var err error = &LostError{Key: key, Token: token}
	if e := t.entries[key]; e != nil && e.holder != nil && e.holder.token == token {
		l, err = Lease{e.holder, token}, nil
	}
	t.leave(&o)
	o.wakes.run()
	return l, err
}

// checked refuses bad input and returns the keys sorted and without repetition; one key is returned as it came.
func checked(opt Options, keys []string) ([]string, error) {
	if opt.TTL < 0 {
		return nil, ErrDuration
	}
	if len(keys) == 0 || slices.Contains(keys, "") {
		return nil, ErrEmptyKey
	}
	if len(keys) == 1 {
		return keys, nil
	}
	return sorted(keys), nil
}

func sorted(keys []string) []string {
	keys = slices.Clone(keys)
	slices.Sort(keys)
	return slices.Compact(keys)
}

// tryLocked grants the keys if all are free. keys come from checked.
func (t *Table) tryLocked(opt Options, keys []string, o *op) (Lease, bool) {
	if len(keys) == 1 {
		e := t.entries[keys[0]]
		if e == nil {
			e = t.addLocked(keys[0])
		} else if !e.free() {
			return Lease{}, false
		}
		return t.grantLocked(&e.own, opt, o), true
	}
	for _, key := range keys {
		if e := t.entries[key]; e != nil && !e.free() {
			return Lease{}, false
		}
	}
	return t.grantLocked(t.recordLocked(keys), opt, o), true
}

// grantLocked makes r the holder of its entries, which are free, and starts its lease.
func (t *Table) grantLocked(r *record, opt Options, o *op) Lease {
	t.token++
	now := t.now(o)
	r.token, r.owner, r.ttl, r.since, r.end = t.token, opt.Owner, opt.TTL, now, holding
	if opt.TTL > 0 {
		t.leases.set(r, after(now, opt.TTL))
	}
	for _, e := range r.entries {
		t.usedLocked(e)
		e.setHolder(r)
	}
	return Lease{r, r.token}
}

// endLocked ends the lease of r and offers its keys to those who are next.
func (t *Table) endLocked(r *record, end ending, o *op) {
	r.end = end
	if r.index > 0 {
		t.leases.drop(r)
	}
	if r.watch != nil {
		r.watch.closeLocked(r.lostError(r.token), o)
		r.watch = nil
	}
	for _, e := range r.entries {
		e.setHolder(nil)
		t.offerLocked(e, o)
	}
}

// offerLocked tells the head of the queue of e, which has just become free or got a new head, that this key is ready
// for it; with no waiter the key goes idle.
func (t *Table) offerLocked(e *entry, o *op) {
	if e.head == nil {
		t.retireLocked(e)
		return
	}
	p := e.head.place
	if p.missing--; p.missing == 0 {
		t.fulfilLocked(p, o)
	}
}

// lockedErrorLocked names the first of the keys that is not free.
func (t *Table) lockedErrorLocked(keys []string, o *op) error {
	for _, key := range keys {
		if e := t.entries[key]; e != nil && !e.free() {
			err := &LockedError{Key: key}
			if e.holder != nil {
				err.Holder = t.heldLocked(e.holder, o)
			}
			return err
		}
	}
	panic("lock: bug: keys are free")
}
