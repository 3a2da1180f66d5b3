package executor

import (
	"context"
	"fmt"
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

// Requeued says what became of the dead letters that a call was to put back.
type Requeued struct {
	// Back is how many are back in their place.
	Back int

	// Superseded is how many are not, because a newer state of their id has come: of a
	// queue with [MergeSupersede]. Such a dead letter leaves the morgue as the newer state
	// is accepted. So these are the few of which that was still on its way; for all of
	// them see SupersededDead in [QueueStats].
	Superseded int

	// Late is how many of Back run after a later payload of their id, which has been done
	// since they died, or runs. An old event is applied after newer ones then, and an old
	// state replaces a newer one. 0 with MergeSupersede, where that can't be.
	Late int

	// Unsure is how many of Back died before the queue was registered in this process:
	// whether later ones have been done since is not known. 0 with MergeSupersede.
	Unsure int
}

// String says it in a sentence for a person: "3 payloads are back; 2 of them run after
// later payloads of their ids".
func (r Requeued) String() string {
	said := fmt.Sprintf("%d payloads are back", r.Back)
	if r.Back == 1 {
		said = "1 payload is back"
	}
	if r.Late > 0 {
		said += fmt.Sprintf("; %d of them after later payloads of their ids have run", r.Late)
	}
	if r.Unsure > 0 {
		said += fmt.Sprintf("; of %d it is not known whether later ones have, as they died in an earlier process", r.Unsure)
	}
	if r.Superseded > 0 {
		said += fmt.Sprintf("; %d are not, because newer ones have superseded them", r.Superseded)
	}
	return said
}

// plus adds what another call has done.
func (r Requeued) plus(o Requeued) Requeued {
	return Requeued{r.Back + o.Back, r.Superseded + o.Superseded, r.Late + o.Late, r.Unsure + o.Unsure}
}

// Requeue puts the dead payloads of some ids back in their place: with their old
// score and position, due now, with all retries given back. They begin again
// without Failures and LastError. A job of the same id that waits takes them in,
// and is due now, too.
//
// What stood behind them may have been done since: it does not run again, so an old
// payload comes after it. That is right for payloads that don't depend on each other.
// Where they do, look at Late and Unsure of the answer; for state use [HandleLatest],
// which puts no older state over a newer one.
//
// They go back in the order in which they were accepted, up to a thousand or 4 MiB
// of them in a commit, so that many take little memory and others go on meanwhile;
// those that are back may run before the last ones are. It returns what became of
// them, also with an error: ErrFull, ErrClosed, ErrFailed, ErrContext, or the cause
// of ctx when that ends first. After that, and after ErrUnknown, those of one more
// commit may be.
//
// Calls that put back, or delete, dead payloads of one queue at the same time take
// turns, commit by commit, as does MorgueRetention: a payload goes with one of them,
// which counts it, and a call for a few waits for a commit of each other one, not for
// its end. What another call has taken is passed over.
func (t *Queue[T]) Requeue(ctx context.Context, ids ...string) (Requeued, error) {
	return t.requeue(ctx, SelectIDs(t.Name(), ids...))
}

// RequeueAll puts all dead payloads of the queue back, but none that is accepted
// after the call; see Requeue.
func (t *Queue[T]) RequeueAll(ctx context.Context) (Requeued, error) {
	return t.requeue(ctx, SelectQueue(t.Name()))
}

func (t *Queue[T]) requeue(ctx context.Context, which Selection) (r Requeued, err error) {
	if ctx, err = t.usable(ctx); err != nil {
		return r, err
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
