package executor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/strandjobs/strand/lock"
	"github.com/strandjobs/strand/shard"
)

// Locks make jobs wait until others have completed: a cancellation until all that
// ships the order has succeeded, say. A key stays locked until the success of a job
// unlocks it: while that is retried, after a restart, and after its burial, until a
// person unlocks it, the TTL is over, or UnlockOnBurial does.
//
// So they are no mutex. One job at a time for each key, which is held only while it
// runs, is [Unique] with a Key; one at a time for a queue is MaxConcurrent: 1; and
// for an id it is so anyway.
//
// The keys are computed from id and payload alone, by functions that are called
// when the payload is enqueued, which fails with ErrInvalidKey when one panics or
// returns a key that is none, and again before each run. Each time they get the
// payload as its handler does: decoded from the bytes that were accepted, not the
// value that Enqueue was given, so that what the codec leaves out or changes can't
// lock one key and unlock another. Of a job with several payloads those of all
// count. Nil functions, and those that return nothing, lock nothing. A key has from
// 1 to 512 bytes and means the same in all queues of the executor. A function
// returns a few: of thousands, twice as many cost more than twice the time. Fields
// that do nothing without a function are ErrConfig without it.
//
// The keys are the executor's own, see [KeyLocks]: changes are in the commit of the
// job that they belong to, and come back after a crash. A job is never blocked by
// itself, nor by what an earlier job of its id has left locked: ids are in order
// anyway.
type Locks[T any] struct {
	// OnEnqueue are locked from the moment the payload is accepted. A payload that
	// is merged into an equal one locks nothing.
	OnEnqueue func(id string, payload T) []string

	// BlockedBy keep the job from running while one of them is locked by another
	// job or a person.
	BlockedBy func(id string, payload T) []string

	// OnRun are locked when the job runs, in the instant in which nothing blocks
	// it: not yet when it is unblocked and waits for a worker. They stay locked
	// when it fails, in back-off and after its burial; a retry does not lock them
	// again. Only those jobs wait for them that have them in BlockedBy, of this
	// queue, too.
	OnRun func(id string, payload T) []string

	// Unlock are unlocked when the job has succeeded or its handler discarded it,
	// and only then, whichever job has locked them. What no queue unlocks stays
	// locked, unless a person does or the TTL is over.
	Unlock func(id string, payload T) []string

	// Counted: a key that was locked three times takes three unlocks; each payload
	// of a job locks and unlocks for itself. Of a key that it locks itself it
	// unlocks that lock and no other, and nothing when a person, its burial or the
	// TTL has ended it; so OnEnqueue is called once more before a run. Of any other
	// key it unlocks the oldest lock, those of its own job first. Default false:
	// one unlock is enough.
	Counted bool

	// TTL after which a lock ends by itself. Default, and below zero: it does not.
	TTL time.Duration

	// UnlockOnBurial ends the locks of a payload that goes to the morgue; a key
	// that another payload of the job has locked, too, stays locked. Default false:
	// all stay, until a job or a person unlocks them. A payload that is put back
	// into its queue does not lock its OnEnqueue keys again.
	UnlockOnBurial bool

	// WhenBlocked says what becomes of a job that is blocked. Default [lock.Park]:
	// it keeps its place, takes no worker, and runs when the keys are unlocked.
	// Those that exclude each other go in the order in which workers came to them;
	// others begin in any order. A Service that is a [lock.LockedHandler] decides
	// in its place, for each job that its keys block, and gets the job. The other settings are
	// [lock.Fail], the normal retry; [lock.RequeueAfter], with a pause above zero;
	// and [lock.Skip], which ends the payloads as discarded, without an unlock. To
	// park for ever in a cycle of jobs that wait for each other is refused: it
	// counts as a failure with [lock.ErrDeadlock], which names them.
	WhenBlocked lock.Decision

	// Service keeps the keys instead of the executor, for example in another
	// process. What it locks is not in the journal: its Lock is called before the
	// payload is accepted and undone when it is refused, its Unlock before the
	// success is written down. An error of it fails the call or the run. Each
	// payload of a job locks and unlocks for itself, as if keys were counted. The
	// service does not know which job has locked a key: each run locks OnRun again,
	// a payload that is merged has locked, too, and a job may be blocked by itself.
	// A service that is no [lock.Watcher] can't wake a parked job: it is asked
	// again every second. UnlockOnBurial, Counted and TTL are its own business.
	Service lock.Service
}

// Uniqueness says whether equal payloads may run at the same time.
type Uniqueness uint8

const (
	// UniqueDefault is UniqueWhileRunning where Key, TTL or Heartbeat is set beside it.
	// Where none is, it is UniqueNever for an executor, and the executor's own for a
	// queue.
	UniqueDefault Uniqueness = iota
	// UniqueNever: jobs of different ids run side by side, whatever they carry.
	UniqueNever
	// UniqueWhileRunning: a job waits while another one with the same key runs.
	UniqueWhileRunning
)

// Unique lets one job at a time run for each key: the plain mutex. A job that has
// to wait is parked: it keeps its place, takes no worker, and goes on in the order
// in which workers came to the jobs. The lock is a lease in memory: it ends with
// the run, whatever its outcome, and with the process. A job in back-off has none,
// and others run meanwhile.
type Unique[T any] struct {
	// While says when. Default: UniqueWhileRunning if Key, TTL or Heartbeat is set,
	// else as Config.Unique. UniqueNever switches the other fields of a queue off.
	While Uniqueness

	// Key of a payload. Queues whose functions return the same key exclude each
	// other. It is called as those of [Locks] are. Default nil: the queue and the
	// encoded payload, so that only equal payloads of a queue wait for each other.
	Key func(id string, payload T) string

	// TTL is how long the lease lasts after the start of the run or the last
	// heartbeat. Default 35 s.
	TTL time.Duration

	// Heartbeat is how often the lease is extended while the job runs. It must be
	// shorter than TTL. Default 6/7 of it: 30 s; a queue with a TTL of its own has 6/7
	// of that, whatever Config.Unique says. When the lease is lost all the
	// same, because the process stood still, the handler's context ends with
	// [lock.ErrLockLost] as its cause, and an error it returns then spends no
	// retry.
	Heartbeat time.Duration
}

const (
	defaultLeaseTTL = 35 * time.Second
	// askAgain is after how long a job asks again a service that can't wake it.
	askAgain = time.Second
	// maxKeyBytes is the length of the longest key.
	maxKeyBytes = 512
)

// locking is what a queue locks, without its type parameter.
type locking struct {
	wants func(it *shard.Item) (wants, error) // nil: jobs run at once
	// onEnqueue computes all keys of a payload, so that a bad one is refused, and
	// returns those that are locked when it is enqueued, if it locks any. Nil:
	// there is nothing to be computed.
	onEnqueue func(id string, payload []byte) ([]string, error)
	locks     bool

	unlocks                 bool // when a job is done
	counted, unlockOnBurial bool
	ttl                     time.Duration
	blocked                 lock.Decision
	service                 lock.Service // nil: the keys of the executor

	leaseTTL, heartbeat time.Duration // of unique jobs
	slots               []SlotSource
	limited             bool // it has limits
	described           bool // a service or a slot looks at the payloads, too
}

func (t *Queue[T]) locking(x *Executor, name string) (locking, error) {
	c := &t.cfg.Locks
	u, err := t.cfg.Unique.settled(x.cfg.Unique)
	l := locking{
		counted: c.Counted, unlockOnBurial: c.UnlockOnBurial, ttl: max(c.TTL, 0), blocked: c.WhenBlocked,
		unlocks: c.Unlock != nil, service: c.Service, leaseTTL: u.TTL, heartbeat: u.Heartbeat, slots: t.cfg.Slots,
	}
	t.cfg.Unique = u
	unique := u.While == UniqueWhileRunning
	_, l.described = c.Service.(lock.LockedHandler)
	for _, s := range l.slots {
		l.described = l.described || s != nil && s.looksAtJobs()
	}
	l.locks = c.OnEnqueue != nil
	later := c.BlockedBy != nil || c.OnRun != nil || c.Unlock != nil
	l.limited = len(t.cfg.Limits) > 0
	if l.locks || later || unique && u.Key != nil || t.limitsByPayload() {
		l.onEnqueue = func(id string, payload []byte) ([]string, error) { return t.keysOnEnqueue(id, payload, unique) }
	}
	if unique || len(l.slots) > 0 || later || l.limited {
		l.wants = func(it *shard.Item) (wants, error) { return t.wants(it, unique) }
	}
	return l, errorsOf(err, l.check(x, name), c.check(), t.checkLimits(x, name))
}

// check returns an error for a setting that does nothing, or can't be meant.
func (c *Locks[T]) check() error {
	locks := c.OnEnqueue != nil || c.OnRun != nil
	keys := locks || c.BlockedBy != nil || c.Unlock != nil
	d := c.WhenBlocked
	for _, field := range [...]struct {
		name    string
		set, ok bool
		without string
	}{
		{"Service", c.Service != nil, keys, "OnEnqueue, OnRun, BlockedBy or Unlock, which return the keys"},
		{"Counted", c.Counted, keys, "OnEnqueue, OnRun, BlockedBy or Unlock, which return the keys"},
		{"TTL", c.TTL != 0, locks, "OnEnqueue or OnRun, which return the keys that it ends"},
		{"UnlockOnBurial", c.UnlockOnBurial, locks, "OnEnqueue or OnRun, which return the keys that it unlocks"},
		{"WhenBlocked", d.Action != lock.ActionPark || d.After != 0 || d.Err != nil, c.BlockedBy != nil,
			"BlockedBy, which returns the keys that block the job"},
		{"WhenBlocked.After", d.After != 0, d.Action == lock.ActionRequeue, "the Action of lock.RequeueAfter"},
		{"WhenBlocked.Err", d.Err != nil, d.Action == lock.ActionFail, "the Action of lock.Fail"},
	} {
		if field.set && !field.ok {
			return fmt.Errorf("%w: Locks.%s does nothing without %s; for one job at a time for each key, Unique with a Key is enough",
				ErrConfig, field.name, field.without)
		}
	}
	if d.Action == lock.ActionRequeue && d.After == 0 {
		return fmt.Errorf("%w: Locks.WhenBlocked would ask again all the time: give lock.RequeueAfter a pause; lock.Park needs none", ErrConfig)
	}
	return nil
}

// settled returns what a Unique comes to beside that of the executor.
func (u Unique[T]) settled(all Unique[any]) (Unique[T], error) {
	asked := UniqueDefault
	if u.Key != nil || u.TTL != 0 || u.Heartbeat != 0 {
		asked = UniqueWhileRunning
	}
	u.While = cmp.Or(u.While, asked, all.While)
	if u.Key == nil && all.Key != nil {
		u.Key = func(id string, payload T) string { return all.Key(id, payload) }
	}
	if u.TTL == 0 {
		u.TTL, u.Heartbeat = all.TTL, cmp.Or(u.Heartbeat, all.Heartbeat)
	}
	u.Heartbeat = cmp.Or(u.Heartbeat, u.TTL/7*6)
	switch {
	case u.TTL < 0:
		return u, fmt.Errorf("%w: Unique.TTL is %v, it must be positive", ErrConfig, u.TTL)
	case u.Heartbeat <= 0 || u.Heartbeat >= u.TTL:
		return u, fmt.Errorf("%w: Unique.Heartbeat is %v, it must be above zero and below the TTL of %v", ErrConfig, u.Heartbeat, u.TTL)
	}
	return u, inRange("Unique.While", int(u.While), int(UniqueDefault), int(UniqueWhileRunning))
}

func (l *locking) check(x *Executor, name string) error {
	switch {
	case l.blocked.After < 0:
		return fmt.Errorf("%w: Locks.WhenBlocked waits for %v, it must not be negative", ErrConfig, l.blocked.After)
	case l.service != nil && (l.counted || l.unlockOnBurial || l.ttl > 0):
		return fmt.Errorf("%w: Locks of queue %q have a Service, which can't have Counted, UnlockOnBurial or TTL", ErrConfig, name)
	}
	for i, s := range l.slots {
		if s == nil || s.executor() != x {
			return fmt.Errorf("%w: Slots of queue %q must come from NewSlots with the same executor", ErrConfig, name)
		}
		if slices.Contains(l.slots[:i], s) {
			return fmt.Errorf("%w: Slots of queue %q has one sequence twice; a job gets one value of each", ErrConfig, name)
		}
	}
	return inRange("Locks.WhenBlocked", int(l.blocked.Action), int(lock.ActionPark), int(lock.ActionSkip))
}

// lockAll locks keys with the queue's service. Those that it has locked before one
// failed, it unlocks.
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
