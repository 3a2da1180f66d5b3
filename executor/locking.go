package executor

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"time"

	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/executor/internal/keylock"
	"github.com/strandjobs/strand/executor/internal/setting"
	"github.com/strandjobs/strand/executor/internal/unique"
	"github.com/strandjobs/strand/lock"
)

// Locks make jobs wait until other jobs have succeeded: for example the cancellation of
// an order until everything that ships it is done. A key stays locked until the success
// of a job unlocks it: through retries, restarts, and after the job was dead-lettered.
// Beside that a person, the TTL or UnlockOnBurial ends a lock.
//
// So Locks are no mutex. For one job at a time of a key, which holds it only while it
// runs, use [Unique] with a Key; for one at a time of a queue, MaxConcurrent: 1. Jobs
// of one id never overlap anyway.
//
// The functions compute keys from id and payload alone. They are called when the payload is enqueued, and again
// before each run; Enqueue returns ErrInvalidKey when one panics or returns an invalid key. They get the
// payload as the handler does, decoded from the accepted bytes, so that a field which the codec drops or
// changes can't lock one key and unlock another. For a job with several payloads the keys of all of them count.
// A nil function, or one that returns nothing, locks nothing. A key has 1 to 512 bytes and means the same in
// all queues of the executor. A function should return a few keys: with thousands, twice as many cost more than
// twice the time. Fields that have no effect without a function are ErrConfig without it.
//
// The executor keeps the keys, see [Executor.KeyLocks]. A change is in the same commit as the
// change of the job that caused it, and so survives a crash. A job is never blocked by
// its own locks, nor by what an earlier job of its id has left locked.
type Locks[T any] struct {
	// OnEnqueue returns keys that are locked from the moment the payload is accepted. A
	// payload that is merged into an equal one locks nothing.
	OnEnqueue func(id string, payload T) []string

	// BlockedBy returns the keys that the job waits for. It is blocked while another
	// job, or a person, has locked one of them. It does not lock them itself.
	BlockedBy func(id string, payload T) []string

	// OnRun returns keys that are locked when the job begins to run, in the same step
	// in which its BlockedBy keys are found free; a job that waits for a worker has not
	// locked them yet. They stay locked when the job fails, during back-off, and when
	// it is dead-lettered; a retry does not lock them again. Only jobs that have them
	// in BlockedBy wait for them, also those of this queue.
	OnRun func(id string, payload T) []string

	// Unlock returns keys that are unlocked, whichever job has locked them, when the
	// job has succeeded or its handler discarded it, and only then. A key that no queue
	// unlocks stays locked until a person or the TTL ends it.
	Unlock func(id string, payload T) []string

	// Counted makes locks of a key count: one that was locked three times takes three unlocks. Each
	// payload of a job locks and unlocks for itself. Of a key that OnEnqueue or OnRun returns for it as
	// well, a payload unlocks its own lock: none, when a person, its dead-lettering or the TTL has ended
	// that. So the executor calls OnEnqueue once more before a run. Let no key come from both: one of the
	// two locks would stay. Of any other key a payload unlocks the oldest lock, those of its own job
	// first. Default false: one unlock is enough. The queue that unlocks decides, not the one
	// that locked: give all queues of a key the same.
	Counted bool

	// TTL is how long a lock lasts if nothing unlocks it before. Default, and below
	// zero: without end.
	TTL time.Duration

	// UnlockOnBurial ends the locks of a payload that is dead-lettered. A key that
	// another payload of the job has locked, too, stays locked. Default false: the
	// locks stay until a job or a person unlocks them. A payload that is put back into
	// its queue does not lock its OnEnqueue keys again.
	UnlockOnBurial bool

	// WhenBlocked says what becomes of a blocked job. The default lets it wait: it keeps
	// its place, takes no worker, and runs when the keys are unlocked.
	// Jobs that exclude each other go in the order in which workers came to them;
	// others begin in any order. If jobs would wait for each other in a cycle, the one
	// that closes it fails with a [lock.DeadlockError], which names them all.
	//
	// One of the others may be set: Fail, which spends a retry; After, a pause; or Skip,
	// which ends the payloads as discarded and unlocks nothing. A Service that is a
	// [lock.LockedHandler] decides instead, for each job that its keys block, and gets
	// the job.
	WhenBlocked lock.Decision

	// Service keeps the keys instead of the executor, for example in another process.
	// The journal does not have its locks: the executor calls its Lock before it
	// accepts the payload, undoes that when the payload is refused, for which it gives the
	// service ten seconds, and calls its Unlock before it writes down the success, or the
	// discard. An error of the service fails the call or the run, except for the
	// [lock.ErrNotLocked] of an Unlock.
	//
	// Each payload of a job locks and unlocks for itself, as if Counted were set. The
	// service does not know which job has locked a key: each run locks OnRun again, a
	// merged payload has locked its keys, too, and a job may be blocked by itself. A
	// service that is no [lock.Watcher] can't wake a blocked job, so the executor asks
	// it every second. UnlockOnBurial, Counted and TTL must not be set beside it, which
	// is up to these: that is ErrConfig. Default nil.
	Service lock.Service
}

// Uniqueness says whether jobs with the same key may run at the same time.
type Uniqueness string

const (
	// UniqueNever: jobs of different ids run side by side, whatever they carry.
	UniqueNever Uniqueness = "Never"
	// UniqueWhileRunning: a job waits while another one with the same key runs.
	UniqueWhileRunning Uniqueness = "WhileRunning"
)

// Unique lets one job at a time run for each key: it is the plain mutex. A job that has
// to wait is blocked: it keeps its place and takes no worker. Jobs get the key in the
// order in which workers came to them. The lock is a lease in memory, which ends with
// the run, whatever its outcome, and with the process. A job in back-off does not hold
// it, so others run meanwhile. [Job.Lease] has its fencing token.
type Unique[T any] struct {
	// While says when jobs of a key exclude each other. Default: UniqueWhileRunning if
	// Key, TTL or Heartbeat is set, otherwise Config.Unique.While. With UniqueNever the
	// queue's other fields have no effect.
	While Uniqueness

	// Key returns the key of a payload. Queues whose functions return the same key
	// exclude each other. It is called as the functions of [Locks] are. Default nil:
	// the key is the queue and the encoded payload, so that only equal payloads of a
	// queue wait for each other.
	Key func(id string, payload T) string

	// TTL is how long the lease lasts after the start of the run, or after the last
	// extension. Default 35 s.
	TTL time.Duration

	// Heartbeat is how often the executor extends the lease while the job runs. It must
	// be shorter than TTL. Default 6/7 of TTL, which is 30 s; a queue with a TTL of its
	// own has 6/7 of that, whatever Config.Unique says. If the lease is lost all the
	// same, because the process stood still, the handler's context ends with the cause
	// [lock.ErrLockLost], and an error that the handler then returns spends no retry.
	Heartbeat time.Duration
}

// addLocks adds the keys that jobs wait for, lock and unlock.
func addLocks[T any](q *queue, c *Locks[T], a *admit.List) error {
	x := q.x
	if err := c.check(q.Name); err != nil {
		return err
	}
	k := &keylock.Condition{
		Keys: x.keys, Queue: q.Name,
		OnEnqueue: keylock.Compute("OnEnqueue", c.OnEnqueue), BlockedBy: keylock.Compute("BlockedBy", c.BlockedBy),
		OnRun: keylock.Compute("OnRun", c.OnRun), Unlock: keylock.Compute("Unlock", c.Unlock),
		Counted: c.Counted, UnlockOnBurial: c.UnlockOnBurial, Supersedes: q.Supersedes, TTL: max(c.TTL, 0), Blocked: c.WhenBlocked,
		Service: c.Service, Logger: x.cfg.Logger, Handlers: x.crew.Handlers, Refuse: refusal,
	}
	switch asked := c.BlockedBy != nil || c.OnRun != nil || c.Unlock != nil; {
	case asked:
		a.Ask(k)
	case c.OnEnqueue != nil:
		a.Keep(k)
	default:
		if x.keys.Found(q.Names()...) { // it had Locks: what payloads have locked ends with them
			a.Keep(k)
		}
		return nil
	}
	q.Locks = k
	return nil
}

// refusal is what a job that is blocked gets instead of parking.
func refusal(d lock.Decision, why error) error {
	switch {
	case d.Skip:
		return Discard()
	case d.Fail == lock.ErrLocked:
		return why // which says more
	case d.Fail != nil:
		return d.Fail
	case d.After > 0:
		return Snooze(d.After)
	}
	return Snooze(time.Second) // its service can't wake it, and is asked again
}

// addUnique adds the lease of jobs that are unique while they run.
func addUnique[T any](q *queue, u Unique[T], a *admit.List) error {
	x := q.x
	u, err := u.settled(x.cfg.Unique)
	if err != nil || u.While != UniqueWhileRunning {
		return err
	}
	c := &unique.Condition{
		Leases: &x.leases, TTL: u.TTL, Heartbeat: u.Heartbeat, Handlers: x.crew.Handlers,
		Key: func(_ string, p admit.Payload) (string, error) { // two payloads with one hash would exclude each other, no more
			return fmt.Sprintf("%s#%016x", q.Name, maphash.Bytes(x.seed, p.Raw)), nil
		},
	}
	if u.Key != nil {
		key := keylock.ComputeOne("Unique.Key", u.Key)
		c.Key = func(id string, p admit.Payload) (string, error) { return key(id, p.Value) }
		c.Checked = key
		a.Check(c)
	}
	a.Ask(c)
	return nil
}

// check returns an error for a setting that does nothing, or can't be meant.
func (c *Locks[T]) check(queue string) error {
	locks := c.OnEnqueue != nil || c.OnRun != nil
	keys := locks || c.BlockedBy != nil || c.Unlock != nil
	d := c.WhenBlocked
	switch {
	case d.After < 0:
		return fmt.Errorf("%w: Locks.WhenBlocked waits for %v, it must not be negative", ErrConfig, d.After)
	case c.Service != nil && (c.Counted || c.UnlockOnBurial || c.TTL > 0):
		return fmt.Errorf("%w: Locks of queue %q have a Service, which can't have Counted, UnlockOnBurial or TTL", ErrConfig, queue)
	case d.Skip && (d.Fail != nil || d.After > 0) || d.Fail != nil && d.After > 0:
		return fmt.Errorf("%w: Locks.WhenBlocked has several of Skip, Fail and After: choose one of them", ErrConfig)
	}
	for _, field := range [...]struct {
		name    string
		set, ok bool
		without string
	}{
		{"Service", c.Service != nil, keys, "OnEnqueue, OnRun, BlockedBy or Unlock, which return the keys"},
		{"Counted", c.Counted, keys, "OnEnqueue, OnRun, BlockedBy or Unlock, which return the keys"},
		{"TTL", c.TTL != 0, locks, "OnEnqueue or OnRun, which return the keys that it ends"},
		{"UnlockOnBurial", c.UnlockOnBurial, locks, "OnEnqueue or OnRun, which return the keys that it unlocks"},
		{"WhenBlocked", !keylock.Waits(d), c.BlockedBy != nil, "BlockedBy, which returns the keys that block the job"},
	} {
		if field.set && !field.ok {
			return fmt.Errorf("%w: Locks.%s does nothing without %s; for one job at a time for each key, Unique with a Key is enough",
				ErrConfig, field.name, field.without)
		}
	}
	return nil
}

// settled returns what a Unique comes to beside that of the executor.
func (u Unique[T]) settled(all Unique[any]) (Unique[T], error) {
	var asked Uniqueness
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
	return u, setting.Among("Unique.While", u.While, UniqueNever, UniqueWhileRunning)
}
