package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/await"
	"github.com/strandjobs/strand/executor/internal/fleet"
	"github.com/strandjobs/strand/executor/internal/guard"
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
	end, err := t.q.wait(ctx, Receipt{ID: id, Position: q.Position, MergedInto: q.MergedInto})
	return cmp.Or(err, say(a, end))
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
	if pending, ok := errors.AsType[*PendingError](err); ok {
		a.Position, a.MergedInto = pending.Receipt.Position, pending.Receipt.MergedInto
		return nil
	}
	return cmp.Or(err, say(a, end))
}

// say writes the result of a payload into an answer, if its handler has returned one.
func say(a *fleet.Answer, end await.End) (err error) {
	if end.Said {
		if err = guard.Call(func() error { return a.Say(end.Value) }); err != nil {
			err = fmt.Errorf("%w: it is done, and can't be written as JSON: %w", ErrNoResult, err)
		}
	}
	return err
}
