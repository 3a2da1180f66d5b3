package executor

import (
	"cmp"
	"context"
	"errors"
	"hash/maphash"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/fleet"
	"github.com/strandjobs/strand/journal"
)

// asked is the executor of a partition, for those who ask it from elsewhere.
type asked struct {
	*Executor
	inspector
}

func (a asked) Stats(ctx context.Context) (inspect.Stats, error) { return a.inspector.Stats(ctx) }

// Home tells processes apart.
func (a asked) Home() uint64 { return maphash.String(cmp.Or(a.front, a.Executor).seed, "") }

func (a asked) Lanes(queue string) string {
	if q, err := a.Executor.lookup(queue); err == nil {
		return q.sharedLanes
	}
	return ""
}

func (a asked) Queue(name string) (fleet.Queue, error) {
	t, err := a.Executor.Lookup(name)
	return askedQueue{t}, err
}

// askedQueue is a queue of such an executor.
type askedQueue struct{ *Queue[[]byte] }

func (t askedQueue) Letters(from uint64, yield func(inspect.DeadPayload, error) bool) {
	t.q.letters(journal.Position(from), yield)
}

// Wait waits for a payload, whose handler may have returned a result.
func (t askedQueue) Wait(ctx context.Context, id string, q *fleet.Question, a *fleet.Answer) error {
	end, err := t.q.wait(ctx, Receipt{ID: id, Position: q.Position, MergedInto: q.MergedInto, Durable: true})
	return cmp.Or(err, a.Say(end.Said, end.Value, ErrNoResult))
}

// Enqueue is Do. What a caller waits for no longer is in the answer, for the next one to be asked.
func (t askedQueue) Enqueue(ctx context.Context, id string, q *fleet.Question, a *fleet.Answer) error {
	options, err := Carried(q.Conditions)
	if err != nil {
		return err
	}
	entries := borrowEntries(1)
	defer giveBackEntries(entries)
	it := Item[[]byte]{ID: id, Score: q.Score, Metadata: q.Metadata}
	if q.Delay > 0 {
		it.Due = time.Unix(0, t.q.stamp()).Add(q.Delay)
	}
	if err := t.write(&(*entries)[0], it, q.Payload, t.q.stamp()); err != nil {
		return err
	}
	end, err := t.q.do(ctx, *entries, options)
	pending, ok := errors.AsType[*PendingError](err)
	switch {
	case ok:
		a.Position, a.MergedInto = pending.Receipt.Position, pending.Receipt.MergedInto
	case (errors.Is(err, ErrClosed) && t.q.x.stopping.Load() || errors.Is(err, ErrFailed) && t.q.x.failure() != nil) &&
		!errors.Is(err, ErrUnknown) && !errors.As(err, new(*BuriedError)):
		a.Moved = true
	default:
		return cmp.Or(err, a.Say(end.Said, end.Value, ErrNoResult))
	}
	return nil
}
