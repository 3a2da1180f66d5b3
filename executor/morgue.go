package executor

import (
	"context"
	"iter"
	"time"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// Dead is a payload in the morgue: a dead letter. One that was buried by a version
// from before metadata has no Failures although Error is set, and EnqueuedAt of one
// that such a version accepted with [At] or [In] is its due time; see [Job], too.
type Dead[T any] struct {
	ID       string
	Payload  T
	Raw      []byte // the payload as it is in the journal
	Decode   error  // why Payload is not set; nil when it is
	Score    float64
	Position uint64
	Attempt  int       // in which it died, as in [Job]: 1, 2, 3, …
	Error    string    // the last failure, or why it was cancelled
	At       time.Time // when it died

	EnqueuedAt time.Time         // when Enqueue was called, by the clock of then, to the microsecond
	Metadata   map[string]string // see [Metadata]; nil: none
	Failures   []Failure         // the last five, oldest first; the last one is Error
}

// Morgue lists the dead letters of the queue, in the order in which they were
// accepted. The loop may take its time, and may requeue what it was given. A read
// error is yielded once and ends the list.
func (t *Queue[T]) Morgue() iter.Seq2[Dead[T], error] {
	return func(yield func(Dead[T], error) bool) {
		if t == nil || t.q == nil {
			yield(Dead[T]{}, errNoQueue)
			return
		}
		for b, err := range t.q.x.log.Morgue(t.q.number) {
			if err != nil {
				yield(Dead[T]{}, border(err))
				return
			}
			if !yield(t.dead(b), nil) {
				return
			}
		}
	}
}

func (t *Queue[T]) dead(b journal.Buried) Dead[T] {
	d := Dead[T]{
		ID: string(b.Entry.ID), Raw: b.Entry.Payload, Score: b.Entry.Score, Position: uint64(b.Entry.Position),
		Attempt: b.Retry + firstAttempt, Error: b.Reason, At: time.Unix(0, b.At),
		EnqueuedAt: time.Unix(0, b.Entry.AcceptedAt()), Metadata: metadataOf(&b.Entry), Failures: failuresOf(b.History, b.Reason),
	}
	d.Payload, d.Decode = t.decodeOne(d.Raw)
	return d
}

// What goes back in one commit has so many payloads and bytes at most, or is one
// payload. With a MiB each of them would wait for the disk, which takes most of the time.
const (
	requeueAtOnce = 1000
	requeueBytes  = 4 << 20
)

// Requeue puts the dead payloads of some ids back in their place: with their old
// score and position, due now, with all retries given back. They begin again
// without Failures and LastError. A job of the same id that waits takes them in,
// and is due now, too.
//
// They go back in the order in which they were accepted, up to a thousand or 4 MiB
// of them in a commit, so that many take little memory and others go on meanwhile;
// those that are back may run before the last ones are. It returns how many are
// back, also with an error: ErrFull, ErrClosed, ErrFailed, ErrContext, or the cause
// of ctx when that ends first. After that, and after ErrUnknown, those of one more
// commit may be.
//
// Calls that put back, or delete, dead payloads of one queue at the same time take
// turns, commit by commit, as does MorgueRetention: a payload goes with one of them,
// which counts it, and a call for a few waits for a commit of each other one, not for
// its end. What another call has taken is passed over.
func (t *Queue[T]) Requeue(ctx context.Context, ids ...string) (int, error) {
	return t.requeue(ctx, SelectIDs(t.Name(), ids...))
}

// RequeueAll puts all dead payloads of the queue back, but none that is accepted
// after the call; see Requeue.
func (t *Queue[T]) RequeueAll(ctx context.Context) (int, error) {
	return t.requeue(ctx, SelectQueue(t.Name()))
}

func (t *Queue[T]) requeue(ctx context.Context, which Selection) (n int, err error) {
	if ctx, err = t.usable(ctx); err != nil {
		return 0, err
	}
	return t.q.requeue(ctx, which)
}

// Pending reports whether an id has anything to do: it waits, runs, is to be
// retried, or is halted. It returns ErrClosed after Stop, and the cause of ctx when
// that ends first.
func (t *Queue[T]) Pending(ctx context.Context, id string) (pending bool, err error) {
	ctx, err = t.usable(ctx)
	if err != nil {
		return false, err
	}
	var has bool // a call may come after its caller has gone
	routes := *t.q.x.routes.Load()
	err = routes[t.q.route([]byte(id))].Do(ctx, func(c *shard.Core) { has = c.Has(id) })
	if err != nil {
		return false, border(err)
	}
	return has, nil
}

// RunNow makes the waiting jobs of some ids due now, with all retries given back,
// and lets halted ones go on. It returns how many of them waited; a job that runs
// at the moment is left alone. It returns ErrClosed after Stop, and the cause of
// ctx when that ends first; then the id it was at may be either way.
func (t *Queue[T]) RunNow(ctx context.Context, ids ...string) (n int, err error) {
	if ctx, err = t.usable(ctx); err != nil {
		return 0, err
	}
	routes := *t.q.x.routes.Load()
	for _, id := range ids {
		var waited bool // a call may come after its caller has gone
		err := routes[t.q.route([]byte(id))].Do(ctx, func(c *shard.Core) {
			waited = c.RunNow(id, time.Now().UnixNano())
		})
		if err != nil {
			return n, border(err)
		}
		if waited {
			n++
		}
	}
	return n, nil
}
