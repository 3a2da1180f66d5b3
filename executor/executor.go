package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"sync"
	"time"

	"github.com/strandjobs/strand/executor/events"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/act"
	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/executor/internal/attempt"
	"github.com/strandjobs/strand/executor/internal/backlog"
	"github.com/strandjobs/strand/executor/internal/byhand"
	"github.com/strandjobs/strand/executor/internal/dispatch"
	"github.com/strandjobs/strand/executor/internal/fleet"
	"github.com/strandjobs/strand/executor/internal/guard"
	"github.com/strandjobs/strand/executor/internal/keylock"
	"github.com/strandjobs/strand/executor/internal/life"
	"github.com/strandjobs/strand/executor/internal/limit"
	"github.com/strandjobs/strand/executor/internal/look"
	"github.com/strandjobs/strand/executor/internal/pause"
	"github.com/strandjobs/strand/executor/internal/quarantine"
	"github.com/strandjobs/strand/executor/internal/quota"
	"github.com/strandjobs/strand/executor/internal/roster"
	"github.com/strandjobs/strand/executor/internal/statekey"
	"github.com/strandjobs/strand/executor/internal/submit"
	"github.com/strandjobs/strand/executor/internal/tell"
	"github.com/strandjobs/strand/executor/internal/unique"
	"github.com/strandjobs/strand/executor/internal/work"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/lock"
	"github.com/strandjobs/strand/shard"
)

// Executor runs the jobs of its queues. Its methods may be called from any goroutine.
type Executor struct {
	cfg    Config
	log    *journal.Log
	common func() time.Time // the clock of all who go on with the log; nil: it is this process's
	seed   maphash.Seed     // of ids to shards; of this process only, so no producer can aim at one shard
	clock  func() time.Time // for what is accepted

	queues    *roster.Roster
	sequences sync.Map // names of slots
	events    tell.Feed
	life      life.Life

	backlog    *backlog.Backlog
	quarantine quarantine.Quarantine
	ledger     *admit.Ledger // of what jobs hold
	keys       *keylock.Keys
	leases     unique.Leases
	limits     *limit.Limits
	pauses     pause.Board
	once       submit.Book // idempotency keys and offsets of sources
	calls      *submit.Engine
	graph      admit.Graph // of jobs that wait for each other
	crew       work.Crew
	inspector  inspector
	view       fleet.Inspected // what people see: inspector, but for a cluster
	cluster    *cluster        // nil: it runs its jobs itself
	front      *Executor       // of the cluster whose partition it is; nil: it is none
}

// queue is a registered queue without its type parameter: what the engine works with.
type queue struct {
	roster.Queue
	x *Executor

	durability Durability
	layers     layers // what stands around its calls
}

// errNoQueue is what a Queue says that no registration made.
var errNoQueue = fmt.Errorf("%w: this queue was not made by Handle, HandleMerged or HandleBatch", ErrState)

// inspector is the inspector of an executor: who looks, and who acts.
type inspector struct {
	*look.Inspector
	*act.Operator
}

// cluster is that of an executor which several processes are.
type cluster struct {
	*fleet.Inspector
	fleet.Members[*Executor] // the executors of partitions in this process

	of       any
	enqueue  func(ctx context.Context, queue string, items []Item[[]byte], conditions []byte) ([]Receipt, error)
	followUp func(queue string, item Item[[]byte]) (journal.Set, error)
	failing  func() error
	all      quota.Processes
	limited  sync.Once // it has a limit for all of these

	room *dispatch.Room // for the workers of all of these
}

// Err returns nil while the executor can do its work, and what keeps it from it:
// ErrFailed with the cause, ErrClosed once Stop was called, ErrFull while the disk
// is full, ErrSlowDisk while it does not answer, ErrStuck while the handlers of all
// workers are stuck, ErrStalled when the backlog has been full for a minute and
// nothing has ended.
func (x *Executor) Err() error {
	if err := x.life.Failure(); err != nil {
		return err
	}
	if x.life.Stopping.Load() {
		return ErrClosed
	}
	if x.cluster != nil {
		return x.cluster.failing()
	}
	if err := x.log.Err(); err != nil {
		return border(err)
	}
	if age := x.log.Stats().CommitAge; age > 5*time.Second {
		return fmt.Errorf("%w: a commit has been under way for %v", ErrSlowDisk, age.Round(time.Millisecond))
	}
	workers, _ := x.crew.Dispatcher.Load()
	if n := x.crew.Watchdog.Stuck(); n > 0 && n >= workers {
		return fmt.Errorf("%w: each of %d workers waits for one", ErrStuck, workers)
	}
	if s := x.backlog.Stalled(); s != nil {
		return stalled(*s)
	}
	return nil
}

// owns reports whether ctx is that of a handler of x, or of a partition of x.
func (x *Executor) owns(ctx context.Context) (own bool) {
	_ = guard.Call(func() error {
		of, _ := ctx.Value(attempt.ExecutorKey{}).(*Executor)
		own = of != nil && (of == x || of.front == x)
		return nil
	})
	return own
}

// admits returns why a call is refused before anything of it is looked at.
func (x *Executor) admits(ctx context.Context) error {
	if ctx == nil {
		return guard.ErrNilContext
	}
	if x.life.Stopping.Load() && x.common == nil && !x.owns(ctx) {
		return ErrClosed
	}
	return nil
}

// mayChange returns why a call that changes something is refused.
func (x *Executor) mayChange(ctx context.Context) (context.Context, error) {
	if x == nil {
		return nil, fmt.Errorf("%w: no executor; Open makes one", ErrState)
	}
	ctx, err := guard.Context(ctx)
	if err != nil {
		return ctx, err
	}
	return ctx, cmp.Or(x.admits(ctx), x.life.Failure(), border(context.Cause(ctx)))
}

// border turns the errors of the rooms below into those of this package.
func border(err error) error {
	if err == nil {
		return nil
	}
	for _, pair := range [...][2]error{
		{journal.ErrUnknown, ErrUnknown}, {journal.ErrFailed, ErrFailed}, // which may be of a full disk
		{journal.ErrFull, ErrFull}, {journal.ErrClosed, ErrClosed},
		{journal.ErrTooLarge, ErrTooLarge}, {journal.ErrContext, ErrContext}, {shard.ErrStopped, ErrClosed},
	} {
		switch {
		case !guard.Is(err, pair[0]):
		case pair[1] == ErrUnknown && guard.Is(err, journal.ErrContext):
			return fmt.Errorf("%w: %w: %w", ErrUnknown, ErrContext, err)
		case pair[1] == ErrFull:
			return &FullError{Disk: true, RetryAfter: retryFullDisk, cause: err} // the journal had no room
		default:
			return fmt.Errorf("%w: %w", pair[1], err)
		}
	}
	return guard.Asked(err)
}

// attempt lets f change what is in the books by hand: once Stop has written the last
// change, it changes nothing and returns ErrClosed.
func (x *Executor) attempt(c *journal.Change, f func()) error {
	if err := x.log.Err(); err != nil && !errors.Is(err, journal.ErrFull) {
		return border(err)
	}
	if !x.ledger.Try(c, f) {
		return ErrClosed
	}
	return nil
}

// Copy writes a copy of the journal into the new directory dir, while the executor runs: everything that was
// accepted before the call is in it, under [DurabilityAsync], too, unless the disk is full and has no room for
// it. The copy is a journal of its own, to be opened elsewhere or looked at: it does not know what the executor
// does after the call, and in the place of its journal it would give the positions since then again, to other
// payloads, and run again what had ended. It returns ErrContext, ErrClosed, ErrFailed, the cause of ctx when
// that ends first, or what the system says about the directory, and then there is no copy. In memory it returns
// ErrState.
func (x *Executor) Copy(ctx context.Context, dir string) error {
	if x.crew.Volatile {
		return fmt.Errorf("%w: an executor in memory, or of a cluster, has no journal to copy", ErrState)
	}
	ctx, err := guard.Context(ctx)
	if err = cmp.Or(err, x.life.Failure()); err != nil {
		return err
	}
	return border(x.log.Copy(ctx, dir))
}

// Compact makes the journal's file as small as what is in it, while the executor runs: what is in use is
// written once more, and Enqueue waits meanwhile, until ctx ends at the latest. It waits for a running Copy. It
// is hardly ever needed: Open does it to a file of more than 64 MiB of which less than half is in use, and an
// executor that was idle for ten seconds when less than a quarter, and no more than 16 MiB, is in use. It
// returns ErrFull when there is no room, ErrContext, or the cause of ctx, and then nothing has changed;
// ErrUnknown when ctx ended while it was at work; ErrClosed, or ErrFailed. In memory it has no effect.
func (x *Executor) Compact(ctx context.Context) error {
	ctx, err := guard.Context(ctx)
	if err != nil {
		return err
	}
	return border(x.log.Compact(ctx))
}

// SourceOffset returns the last offset that was accepted under name, and whether
// there is one. What is under way does not count yet. It returns ErrInvalidKey,
// ErrClosed after Stop, or an error of the journal.
func (x *Executor) SourceOffset(name string) (offset int64, found bool, err error) {
	if err := submit.CheckName(name); err != nil {
		return 0, false, err
	}
	if x.cluster != nil {
		offset, found, err = x.cluster.Offset(name)
	} else {
		offset, found, err = x.once.Offset(name)
	}
	return offset, found, border(err)
}

// SetSourceOffset writes an offset, whatever was there: to begin somewhere, or to go back and take
// in again what follows. It returns ErrInvalidKey, ErrContext, ErrFull, ErrClosed, ErrFailed or the
// cause of ctx, and then nothing has changed; after ErrUnknown it may be either way.
func (x *Executor) SetSourceOffset(ctx context.Context, name string, offset int64) error {
	return x.putOffset(ctx, "set-offset", name, offset, statekey.Offset(offset))
}

// DeleteSourceOffset forgets an offset: the next one is accepted, whatever it is.
// Its errors are those of SetSourceOffset.
func (x *Executor) DeleteSourceOffset(ctx context.Context, name string) error {
	return x.putOffset(ctx, "delete-offset", name, 0, nil)
}

func (x *Executor) putOffset(ctx context.Context, do, name string, offset int64, value []byte) error {
	ctx, err := guard.Context(ctx)
	if err = cmp.Or(submit.CheckName(name), err); err != nil {
		return err
	}
	if x.cluster != nil {
		return x.cluster.PutOffset(ctx, do, name, offset)
	}
	return border(x.once.Put(ctx, name, value, nil))
}

// Inspect returns the inspector, which lists jobs and dead letters, and cancels, requeues,
// pauses and so on; see package [inspect]. It may be called at any time, also before Start and after Stop.
func (x *Executor) Inspect() inspect.Inspector { return x.view }

// Stats returns the figures of all queues, by name. It asks the shards one after the
// other: a follow-up may be missing although its job has ended. It returns ErrClosed
// after Stop, ErrFailed if the journal can't be read, ErrContext, or the cause of ctx.
func (x *Executor) Stats(ctx context.Context) (inspect.Stats, error) { return x.view.Stats(ctx) }

// Events yields what happens to jobs, from a buffer in memory, as it happens. It yields
// what happens after the call, also if the loop begins later. A slow loop holds up
// neither jobs nor other readers, of which there may be any number. The loop ends when
// ctx does, and after [Executor.Stop] with the last event.
//
// The buffer keeps Config.Advanced.EventBuffer events. A reader that falls further
// behind gets a [*events.MissedError] once, and then the oldest event that is left. While no
// loop reads, the feed is switched off after so many events, to save the cost: a loop
// that begins after that has missed all of those, and others that were not counted. Any
// other error is yielded once and ends the loop: ErrConfig for an unknown kind, an
// invalid token, or an EventBuffer below zero; ErrUnknownQueue; and ErrContext.
//
// Package [events] says what is promised, and what not. A log that lasts is made otherwise:
// see "Events" in the guide (README.md). Without a reader, events cost an atomic load for
// each call of a handler; with one, about 0.2 µs each.
func (x *Executor) Events(ctx context.Context, f events.Filter) iter.Seq2[events.Event, error] {
	r, err := x.reader(ctx, f)
	return func(yield func(events.Event, error) bool) {
		if err != nil {
			yield(events.Event{}, err)
			return
		}
		again := *r // each loop begins where the call was
		again.Each(yield)
	}
}

func (x *Executor) reader(ctx context.Context, f events.Filter) (*tell.Reader, error) {
	ctx, err := guard.Context(ctx)
	switch {
	case err != nil:
		return nil, err
	case x == nil:
		return nil, fmt.Errorf("%w: there are no events without an executor; Open makes one", ErrConfig)
	case x.cluster != nil:
		return nil, fmt.Errorf("%w: events are of the executors of partitions", ErrConfig)
	}
	var queues []*tell.Source
	for _, name := range f.Queues {
		q, err := x.queues.Lookup(name)
		if err != nil {
			return nil, err
		}
		queues = append(queues, &q.Events)
	}
	r, err := x.events.Read(ctx, f, queues)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return r, nil
}

// KeyLocks returns the keys that [Locks] of all queues lock, wait for and unlock, to be
// locked and unlocked by hand; [inspect.Inspector.LockedKeys] lists them, until a Stop has
// ended. Any goroutine may call the methods; changes are on disk with the next commit.
//
//   - Lock locks a key until Unlock; doing it twice is like doing it twice in jobs. It
//     returns [lock.ErrEmptyKey], ErrInvalidKey, ErrContext, ErrClosed or ErrFailed.
//   - Unlock unlocks a key, whichever job has locked it and however often: the jobs that
//     wait for it go on. It returns [lock.ErrNotLocked] when it is not locked, and the
//     errors of Lock.
//   - Locked reports whether a key is locked. It returns the errors of Lock.
//   - Watch calls wake once, on a goroutine of its own, when the key is unlocked, and
//     returns true; it returns false when it is not locked now, and after Stop. A nil
//     wake is not called. cancel may be too late.
//
// Once Stop was called, Lock, Unlock and Locked return ErrClosed, except with the context of a handler that
// still runs; and they return ErrFailed when the journal has failed. Then nothing was changed. With a nil
// Executor, or one of a cluster, they return ErrState, but for Unlock, which has all partitions of a cluster
// unlock the key: after an error some of them may have done so.
func (x *Executor) KeyLocks() lock.Watcher {
	refused := func(why string) func(context.Context) error {
		return func(context.Context) error { return fmt.Errorf("%w: %s", ErrState, why) }
	}
	if x == nil {
		return &byhand.Keys{Usable: refused("these are the keys of no executor; Open makes one")}
	}
	k := &byhand.Keys{Keys: x.keys, Ledger: x.ledger, Logger: x.cfg.Logger, Usable: x.admits, Failure: x.life.Failure, Attempt: x.attempt}
	if x.cluster != nil {
		k.Usable, k.Unlocks = refused("the partitions of a cluster have keys, each its own"), func(ctx context.Context, key string) (bool, error) {
			ctx, err := x.mayChange(ctx)
			if err = cmp.Or(keylock.CheckKey(key), err); err != nil {
				return false, err
			}
			return x.cluster.Unlock(ctx, key)
		}
	}
	return k
}
