// Package dead takes dead letters out of the morgue of a queue: it puts them back in their
// place, deletes them, and deletes those that are kept no longer.
//
// # What is promised
//
//   - Of several calls at the same time one takes a dead letter, and counts it. They take
//     turns commit by commit, and not call by call: a call for one payload does not wait for
//     one for a million. A call looks for its payloads before its turn.
//   - When a call's context ends before the outcome is known, its turn lasts until it is: what
//     the lanes, the shards and the locks know is then what the journal has.
//   - Where a newer payload supersedes (Config.Supersedes), its shard is asked first, and no
//     payload of the id runs until the outcome is known.
//   - What deleted payloads had locked is unlocked in the commit that deletes them.
//   - A payload older than Config.Age is deleted a 64th of that later at most. After an error
//     the next try is in a minute. A clock that is set forward in the life of a process makes
//     nothing older.
//   - Beyond Config.Count those are deleted that were accepted first. None of them is deleted
//     while fewer than Count are in the morgue that were accepted later.
//
// Not promised: that a call which ends with an error has done nothing. It returns what it has
// done, and one more commit may follow. Nor the last sentence for a letter that a newer payload
// supersedes in that instant.
//
// # Concurrency
//
// Methods of Letters may be called from any goroutine once Open has returned; Load and Open
// are called once, in this order. Buried does not wait. Goroutines: one for a queue that
// keeps dead letters for a time or in a number, from Open to Close, which waits on a timer;
// and one for each call whose context ended, until the outcome is known.
package dead

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/executor/internal/keylock"
	"github.com/strandjobs/strand/executor/internal/lane"
	"github.com/strandjobs/strand/executor/internal/quarantine"
	"github.com/strandjobs/strand/executor/internal/shards"
	"github.com/strandjobs/strand/executor/internal/tally"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// What goes back in one commit has so many payloads and bytes at most, or is one payload.
// With a MiB each of them would wait for the disk, which takes most of the time.
const (
	atOnce      = 1000
	bytesAtOnce = 4 << 20
)

// Config says whose dead letters they are, and who else has to know of them.
type Config struct {
	Log        *journal.Log
	Logger     *slog.Logger
	Name       string
	Number     uint32 // of the queue, in the journal
	Shards     *shards.Set
	Now        func() int64    // in Unix nanoseconds
	Supersedes bool            // a newer payload of an id takes the place of its dead letter
	Lanes      *lane.Condition // nil: its ids are its own
	Ledger     *admit.Ledger   // of what jobs hold
	Keys       *keylock.Keys
	Age        time.Duration // how long they are kept; 0 and below: without end
	Count      int           // how many are kept; 0 and below: any number
}

// Letters are the dead letters of a queue.
type Letters struct {
	Deleted, Expired atomic.Uint64 // by a person, and by age or number

	c Config

	turn  chan struct{} // has room for the call whose turn it is; those that wait come in order
	turns atomic.Uint64 // that are over

	clock        clock         // of what deletes by age
	news         chan struct{} // something has died
	closed, over chan struct{}
	lines        tally.Lines
}

// New returns those of a queue.
func New(c Config) *Letters {
	return &Letters{c: c, turn: make(chan struct{}, 1), news: make(chan struct{}, 1), closed: make(chan struct{}), over: make(chan struct{})}
}

// Load tells the cores of a superseding queue which dead letters there are.
func (l *Letters) Load(cores []*shard.Core) error {
	if !l.c.Supersedes || l.c.Log.Buried(l.c.Number) == 0 {
		return nil
	}
	for b, err := range l.c.Log.Morgue(l.c.Number, 0) {
		if err != nil {
			return err
		}
		cores[l.c.Shards.Index(b.Entry.ID)].LoadDead(&b.Entry, quarantine.Guilty(&b))
	}
	return nil
}

// Which dead letters are meant: of the positions from First to Last those that Means says.
type Which struct {
	First, Last journal.Position
	Means       func(*journal.Buried) bool
}

// Restore puts dead letters back in their place, due now.
func (l *Letters) Restore(ctx context.Context, which Which) (sum inspect.Requeued, err error) {
	_, err = l.each(ctx, which, func(some letters) (int, error) {
		one, err := l.restore(ctx, some)
		sum = sum.Plus(one)
		return one.Back, err
	})
	return sum, err
}

// Delete deletes dead letters for good, with what they had left locked.
func (l *Letters) Delete(ctx context.Context, which Which) (int, error) {
	return l.each(ctx, which, func(some letters) (int, error) { return l.delete(ctx, some, &l.Deleted) })
}

// each calls do for those that are meant of what is dead by now, some at a time, and adds
// up what it returns.
func (l *Letters) each(ctx context.Context, which Which, do func(letters) (int, error)) (n int, err error) {
	if err = context.Cause(ctx); err != nil {
		return 0, err
	}
	// What is counted as dead may be on its way to the morgue.
	if err = l.c.Log.Settled(ctx); err != nil {
		return 0, cmp.Or(context.Cause(ctx), err)
	}
	last := min(which.Last, l.c.Log.Stats().Next-1)
	some := l.walk()
	for b, err := range l.c.Log.Morgue(l.c.Number, which.First) {
		if err = cmp.Or(err, context.Cause(ctx)); err != nil {
			return n, err
		}
		if b.Entry.Position > last {
			break // or jobs that die at once would keep it here
		}
		if !which.Means(&b) {
			continue
		}
		// A payload that is larger than the rest of the commit is in the next one.
		more := len(b.Entry.ID) + len(b.Entry.Payload)
		if len(some.positions) == atOnce || some.bytes+more > bytesAtOnce {
			did, err := do(some)
			if n += did; err != nil {
				return n, err
			}
			some = some.none()
		}
		some.add(&b)
	}
	did, err := do(some)
	return n + did, err
}

// areBack says in lanes that shards have heard of payloads: until then what their queue
// has beside them must not run in their turn. Those that stay away lose their places; if
// another call has brought one back meanwhile, it gets its place when a worker comes to it.
func (l *Letters) areBack(out, in letters) {
	if l.c.Lanes != nil {
		l.c.Lanes.Back(out.positions...)
		l.c.Lanes.Remove(in.positions...)
	}
}

// restore puts payloads back that are still dead, all in one commit.
func (l *Letters) restore(ctx context.Context, some letters) (inspect.Requeued, error) {
	var late, unsure int
	back, err := l.takeOut(ctx, some, func(some letters) (err error) {
		if late, unsure, err = l.late(ctx, some); err != nil {
			return err
		}
		if l.c.Lanes != nil { // before their shards hear of them
			l.c.Lanes.ComeBack(some.ids, some.positions, l.c.Number)
		}
		err = l.c.Log.Restore(ctx, l.c.Number, some.positions, l.c.Now(), l.c.Shards.Route)
		switch {
		case err == nil:
			l.areBack(some, letters{})
		case !errors.Is(err, journal.ErrUnknown):
			l.areBack(letters{}, some)
		}
		return err
	}, l.areBack)
	b := inspect.Requeued{Back: len(back.positions), Superseded: back.superseded}
	if b.Back > 0 {
		b.Late, b.Unsure = late, unsure
	}
	return b, err
}

// delete deletes payloads as restore puts them back, and has them counted in the instant
// in which they are dead no more; on a disk that is short of room each in a commit of its
// own, because one of many may need more than results have.
func (l *Letters) delete(ctx context.Context, some letters, deleted *atomic.Uint64) (n int, err error) {
	if len(some.positions) > 1 && l.c.Log.Short() {
		for i := 0; i < len(some.positions) && err == nil; i++ {
			var did int
			did, err = l.delete(ctx, letters{positions: some.positions[i : i+1], ids: some.ids[i : i+1], since: some.since}, deleted)
			n += did
		}
		return n, err
	}
	gone, err := l.takeOut(ctx, some, func(some letters) error {
		if err := l.c.Log.Err(); err != nil && !errors.Is(err, journal.ErrFull) {
			return err
		}
		if !l.c.Ledger.Try(&journal.Change{Queue: l.c.Number, Exhumed: some.positions}, func() { l.c.Keys.DropAll(some.positions) }) {
			return journal.ErrClosed
		}
		deleted.Add(uint64(len(some.positions)))
		return l.c.Log.Settled(ctx)
	}, func(out, _ letters) { l.forget(out) })
	l.forget(gone)
	return len(gone.positions), err
}
