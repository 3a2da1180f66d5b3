package executor

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/lock"
	"github.com/strandjobs/strand/shard"
)

// Locks make jobs wait until others have completed. The keys are computed from
// id and payload; of a job with several payloads those of all count. Nil
// functions, and those that return nothing, lock nothing. A key has from 1 to
// 512 bytes and means the same in all queues of the executor.
//
// The keys are the executor's own, see [Keys]: changes are in the commit of the
// job that they belong to, and come back after a crash. A job is never blocked
// by itself, nor by what an earlier job of its id has left locked: ids are in
// order anyway.
type Locks[T any] struct {
	// OnEnqueue are locked from the moment the payload is accepted. A payload
	// that is merged into an equal one locks nothing.
	OnEnqueue func(id string, payload T) []string

	// BlockedBy keep the job from running while one of them is locked by
	// another job or a person.
	BlockedBy func(id string, payload T) []string

	// OnRun are locked when the job runs, in the instant in which nothing blocks
	// it: not yet when it is unblocked and waits for a worker. They stay locked
	// when it fails; a retry does not lock them again.
	OnRun func(id string, payload T) []string

	// Unlock are unlocked when the job has succeeded or its handler discarded it,
	// and only then, whoever has locked them.
	Unlock func(id string, payload T) []string

	// Counted: a key that was locked three times takes three unlocks; each
	// payload of a job locks and unlocks for itself. Of a key that it locks itself
	// it unlocks that lock and no other, and nothing when a person, its burial or
	// the TTL has ended it; so OnEnqueue is called once more before a run. Of any
	// other key it unlocks the oldest lock, those of its own job first. Default
	// false: one unlock is enough.
	Counted bool

	// TTL after which a lock ends by itself. Default 0: it does not.
	TTL time.Duration

	// UnlockOnBurial ends the locks of a payload that goes to the morgue; a key
	// that another payload of the job has locked, too, stays locked. Default false:
	// all stay, until somebody unlocks them. A payload that is put back into its
	// queue does not lock its OnEnqueue keys again.
	UnlockOnBurial bool

	// WhenBlocked says what becomes of a job that is blocked. Default
	// [lock.Park]: it keeps its place, takes no worker, and runs when the keys
	// are unlocked, first come, first served. The others are [lock.Fail], the
	// normal retry; [lock.RequeueAfter]; and [lock.Skip], which ends the payloads
	// as discarded, without an unlock. To park for ever in a circle of jobs that
	// wait for each other is refused: it counts as a failure with
	// [lock.ErrDeadlock], which names them.
	WhenBlocked lock.Decision

	// Service keeps the keys instead of the executor, for example in another
	// process. What it locks is not in the journal: its Lock is called before
	// the payload is accepted and undone when it is refused, its Unlock before
	// the success is written down. An error of it fails the call or the run. Each
	// payload of a job locks and unlocks for itself, as if keys were counted. The
	// service does not know who has locked: each run locks OnRun again, a payload that
	// is merged has locked, too, and a job may be blocked by itself. A service that is
	// no [lock.Watcher] can't wake a parked job: it is asked again every second.
	// UnlockOnBurial, Counted and TTL are its own business.
	Service lock.Service
}

// Uniqueness says whether equal payloads may run at the same time.
type Uniqueness uint8

const (
	// UniqueDefault is UniqueNever for an executor, and the executor's own for a
	// queue that has nothing else set in its Unique.
	UniqueDefault Uniqueness = iota
	// UniqueNever: jobs of different ids run side by side, whatever they carry.
	UniqueNever
	// UniqueWhileRunning: a job waits while another one with the same key runs.
	UniqueWhileRunning
)

// Unique lets one job at a time run for each key. A job that has to wait is
// parked: it keeps its place, takes no worker, and goes on in the order in which
// the jobs came. The lock is a lease in memory: it ends with the run, whatever
// its outcome, and with the process.
type Unique[T any] struct {
	// While says when. Default: UniqueWhileRunning if Key, TTL or Heartbeat is set,
	// else as Config.Unique.
	While Uniqueness

	// Key of a payload. Queues whose functions return the same key exclude each
	// other. Default nil: the queue and the encoded payload.
	Key func(id string, payload T) string

	// TTL is how long the lease lasts after the start of the run or the last
	// heartbeat. Default 35 s.
	TTL time.Duration

	// Heartbeat is how often the lease is extended while the job runs. It must
	// be shorter than TTL. Default 6/7 of it: 30 s. When the lease is lost all the
	// same, because the process stood still, the handler's context ends with
	// [lock.ErrLockLost] as its cause, and an error it returns then spends no retry.
	Heartbeat time.Duration
}

const (
	defaultLeaseTTL = 35 * time.Second
	// askAgain is after how long a service that wakes nobody is asked again.
	askAgain = time.Second
	// maxKeyBytes is the length of the longest key.
	maxKeyBytes = 512
)

// locking is what a queue locks, without its type parameter.
type locking struct {
	onEnqueue func(id string, payload []byte) ([]string, error) // nil: nothing
	wants     func(it *shard.Item) (wants, error)               // nil: jobs run at once

	unlocks                 bool // when a job is done
	counted, unlockOnBurial bool
	ttl                     time.Duration
	blocked                 lock.Decision
	service                 lock.Service // nil: the barrier

	leaseTTL, heartbeat time.Duration // of unique jobs
	slots               []SlotSource
}

// wants are the keys of a job.
type wants struct {
	blockedBy, unique []string
	set               []setting
	unlock            []unlocking
}

// unlocking is a key that the success of a job unlocks, if it counts for one of
// its payloads. own: that payload locks it itself, and unlocks no lock but that.
type unlocking struct {
	setting
	own bool
}

func (w *wants) keysToSet() []string {
	keys := make([]string, len(w.set))
	for i, s := range w.set {
		keys[i] = s.key
	}
	return keys
}

func (t *Queue[T]) locking(x *Executor, name string) (locking, error) {
	c, u := &t.cfg.Locks, &t.cfg.Unique
	l := locking{
		counted: c.Counted, unlockOnBurial: c.UnlockOnBurial, ttl: c.TTL, blocked: c.WhenBlocked,
		unlocks: c.Unlock != nil, service: c.Service, leaseTTL: cmp.Or(u.TTL, defaultLeaseTTL), slots: t.cfg.Slots,
	}
	l.heartbeat = cmp.Or(u.Heartbeat, l.leaseTTL/7*6)
	asked := UniqueDefault
	if u.Key != nil || u.TTL != 0 || u.Heartbeat != 0 {
		asked = UniqueWhileRunning
	}
	unique := cmp.Or(u.While, asked, x.cfg.Unique) == UniqueWhileRunning
	if c.OnEnqueue != nil {
		l.onEnqueue = t.keysOnEnqueue
	}
	if unique || len(l.slots) > 0 || c.BlockedBy != nil || c.OnRun != nil || c.Unlock != nil {
		l.wants = func(it *shard.Item) (wants, error) { return t.wants(it, unique) }
	}
	return l, l.check(x, name, u.While)
}

func (l *locking) check(x *Executor, name string, while Uniqueness) error {
	switch {
	case l.ttl < 0:
		return fmt.Errorf("%w: Locks.TTL is %v, it must not be negative", ErrConfig, l.ttl)
	case l.leaseTTL < 0:
		return fmt.Errorf("%w: Unique.TTL is %v, it must be positive", ErrConfig, l.leaseTTL)
	case l.heartbeat <= 0 || l.heartbeat >= l.leaseTTL:
		return fmt.Errorf("%w: Unique.Heartbeat is %v, it must be above zero and below the TTL of %v", ErrConfig, l.heartbeat, l.leaseTTL)
	case l.blocked.After < 0:
		return fmt.Errorf("%w: Locks.WhenBlocked waits for %v, it must not be negative", ErrConfig, l.blocked.After)
	case l.service != nil && (l.counted || l.unlockOnBurial || l.ttl > 0):
		return fmt.Errorf("%w: Locks of queue %q have a Service, which can't have Counted, UnlockOnBurial or TTL", ErrConfig, name)
	}
	for _, s := range l.slots {
		if s == nil || s.executor() != x {
			return fmt.Errorf("%w: Slots of queue %q must come from NewSlots with the same executor", ErrConfig, name)
		}
	}
	return errorsOf(
		inRange("Locks.WhenBlocked", int(l.blocked.Action), int(lock.ActionPark), int(lock.ActionSkip)),
		inRange("Unique.While", int(while), int(UniqueDefault), int(UniqueWhileRunning)),
	)
}

// keysOnEnqueue computes what a payload locks when it is accepted.
func (t *Queue[T]) keysOnEnqueue(id string, payload []byte) (keys []string, err error) {
	value, err := t.decodeOne(payload)
	if err != nil {
		return nil, err
	}
	return keysOf(t.cfg.Locks.OnEnqueue, id, value)
}

// wants computes the keys of a job that is about to run. Payloads that do not
// decode have none.
func (t *Queue[T]) wants(it *shard.Item, unique bool) (w wants, err error) {
	var e journal.Entry
	for _, p := range it.Payloads {
		if err := p.Ref.Read(&e); err != nil {
			return w, &unreadError{err}
		}
		value, err := t.decodeOne(e.Payload)
		if err != nil {
			continue
		}
		if err = t.wantsOne(&w, it.ID, &e, value); err != nil {
			return w, err
		}
		if unique {
			key, err := t.uniqueKey(it.ID, &e, value)
			if err != nil {
				return w, err
			}
			w.unique = append(w.unique, key)
		}
	}
	slices.Sort(w.unique)
	w.unique = slices.Compact(w.unique)
	return w, nil
}

// wantsOne adds the keys of a payload. Those that count, count for each payload,
// as they did when it was enqueued: whether those of a service do, it decides.
// What goes with a payload to the morgue must be its own.
func (t *Queue[T]) wantsOne(w *wants, id string, e *journal.Entry, value T) error {
	c := &t.cfg.Locks
	count := c.Counted || c.Service != nil
	blockedBy, err := keysOf(c.BlockedBy, id, value)
	set, err2 := keysOf(c.OnRun, id, value)
	unlock, err3 := keysOf(c.Unlock, id, value)
	if err := errorsOf(err, err2, err3); err != nil {
		return err
	}
	for _, key := range blockedBy {
		w.blockedBy = with(w.blockedBy, key)
	}
	for _, key := range set {
		if count || c.UnlockOnBurial {
			w.set = append(w.set, setting{key, e.Position})
		} else {
			w.set = with(w.set, setting{key: key})
		}
	}
	if !count {
		for _, key := range unlock {
			w.unlock = with(w.unlock, unlocking{setting: setting{key: key}})
		}
		return nil
	}
	own := set
	if len(unlock) > 0 && c.Counted {
		enqueued, err := keysOf(c.OnEnqueue, id, value)
		if err != nil {
			return err
		}
		own = append(own, enqueued...)
	}
	for _, key := range unlock {
		w.unlock = append(w.unlock, unlocking{setting{key, e.Position}, slices.Contains(own, key)})
	}
	return nil
}

func (t *Queue[T]) uniqueKey(id string, e *journal.Entry, value T) (string, error) {
	f := t.cfg.Unique.Key
	if f == nil {
		// Two payloads with one hash would exclude each other, no more.
		return fmt.Sprintf("%s#%016x", t.q.name, maphash.Bytes(t.q.x.seed, e.Payload)), nil
	}
	keys, err := keysOf(func(id string, value T) []string { return []string{f(id, value)} }, id, value)
	if err != nil {
		return "", err
	}
	return keys[0], nil
}

// with adds v to a list unless it is there.
func with[E comparable](list []E, v E) []E {
	if slices.Contains(list, v) {
		return list
	}
	return append(list, v)
}

// keysOf calls f and returns the keys of a payload, each once.
func keysOf[T any](f func(string, T) []string, id string, value T) (keys []string, err error) {
	if f == nil {
		return nil, nil
	}
	var all []string
	if err := guarded(func() error { all = f(id, value); return nil }); err != nil {
		return nil, err
	}
	for _, key := range all {
		if err := checkKey(key); err != nil {
			return nil, err
		}
		keys = with(keys, key)
	}
	return keys, nil
}

func checkKey(key string) error {
	if key == "" {
		return fmt.Errorf("%w: nil means no key", lock.ErrEmptyKey)
	}
	if len(key) > maxKeyBytes {
		return fmt.Errorf("%w: a lock's key has %d bytes, it must have from 1 to %d", ErrInvalidKey, len(key), maxKeyBytes)
	}
	return nil
}

// lockAll locks keys with the queue's service. Those that it has locked before
// one failed, it unlocks.
func (l *locking) lockAll(ctx context.Context, keys []string) error {
	for i, key := range keys {
		if err := guarded(func() error { return l.service.Lock(ctx, key) }); err != nil {
			l.unlockAll(ctx, keys[:i])
			return fmt.Errorf("lock service: lock %q: %w", key, err)
		}
	}
	return nil
}

// unlockAll unlocks keys with the queue's service, and returns the first error.
func (l *locking) unlockAll(ctx context.Context, keys []string) (first error) {
	for _, key := range keys {
		if err := guarded(func() error { return l.service.Unlock(ctx, key) }); err != nil && first == nil {
			first = fmt.Errorf("lock service: unlock %q: %w", key, err)
		}
	}
	return first
}
