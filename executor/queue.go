package executor

import (
	"context"
	"fmt"
	"iter"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/admin"
	"github.com/strandjobs/strand/executor/internal/dispatch"
	"github.com/strandjobs/strand/executor/internal/fleet"
	"github.com/strandjobs/strand/executor/internal/guard"
	"github.com/strandjobs/strand/executor/internal/submit"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// Queue is a registered queue. Its methods may be called from any goroutine.
type Queue[T any] struct {
	q    *queue
	cfg  QueueConfig[T]
	jobs jobs[T] // what its handler gets
}

// Name returns the name of the queue, empty if no registration has made it.
func (t *Queue[T]) Name() string {
	if t == nil || t.q == nil {
		return ""
	}
	return t.q.Name
}

// Executor returns the executor that the queue was registered with, nil if there is none.
func (t *Queue[T]) Executor() *Executor {
	if t == nil || t.q == nil {
		return nil
	}
	return t.q.x
}

// Tuning returns what holds for the queue now. That of a queue which no registration
// has made is zero.
func (t *Queue[T]) Tuning() QueueTuning {
	if t == nil || t.q == nil {
		return QueueTuning{}
	}
	return QueueTuning(t.q.Share.Share())
}

// Tune sets how the queue shares the workers with others, from the next grant of a
// worker on; what runs goes on. All fields count: to change one of them, begin with
// those that hold:
//
//	tuning := queue.Tuning()
//	tuning.Weight = 5
//	err := queue.Tune(tuning)
//
// It is for this process: after a restart the [QueueConfig] holds again. It returns
// ErrConfig, or ErrState for a queue that no registration has made; then it is as it
// was. After Stop it has no effect.
func (t *Queue[T]) Tune(tuning QueueTuning) error {
	if t == nil || t.q == nil {
		return errNoQueue
	}
	if err := tuning.check(""); err != nil {
		return err
	}
	t.q.Share.Tune(dispatch.Share(tuning))
	if t.q.x.cluster != nil {
		t.q.x.cluster.Do(func(part *Executor) {
			if own := part.queues.Named(t.q.Name); own != nil {
				own.Share.Tune(dispatch.Share(tuning))
			}
		})
	}
	return nil
}

// Enqueue accepts a payload for an id, which is any string of 1 to 512 bytes. When it
// returns nil under DurabilitySync, the payload is on disk.
//
// If the id has a job that waits, the payload joins it. The job keeps its due time and
// retry count, unless FreshDue, Debounce or Pull of Gather says otherwise. Of equal
// payloads one stays if QueueConfig.Merge says so.
//
// It returns ErrInvalidID, ErrInvalidItem, ErrInvalidKey, ErrTooLarge, ErrEncode, ErrNotOwned, a [StaleError],
// ErrMiddleware, ErrContext, a [WaitingError], a [FullError], ErrClosed, ErrFailed, ErrConfig if Splitter.Owner answers
// a wrong number, ErrState on a queue that no registration has made, what a [Middleware] or Locks.Service returned, or
// the cause of ctx when that ended before anything was accepted. After all of these nothing was accepted. After
// ErrUnknown the payload may have been accepted or not; see [IdempotencyKey].
func (t *Queue[T]) Enqueue(ctx context.Context, id string, payload T, options ...Option) (Receipt, error) {
	if t == nil || t.q == nil {
		return Receipt{}, errNoQueue
	}
	if t.q.x.cluster != nil {
		all, err := t.EnqueueMany(ctx, []Item[T]{{ID: id, Payload: payload}}, options...)
		return append(all, Receipt{})[0], err
	}
	entries := submit.Borrow(1)
	defer submit.GiveBack(entries)
	if err := t.fill(&(*entries)[0], Item[T]{ID: id, Payload: payload}, t.q.Crew.Now(), options); err != nil {
		return Receipt{}, err
	}
	o, err := t.q.accept(ctx, *entries, options, nil)
	if err != nil {
		return Receipt{}, err
	}
	return receipt(t.q, &o, 0), nil
}

// usable refuses a call to a queue that there is not, or with no context.
func (t *Queue[T]) usable(ctx context.Context) (context.Context, error) {
	if t == nil || t.q == nil {
		return nil, errNoQueue
	}
	return guard.Context(ctx)
}

// EnqueueMany accepts all items or none: they are in one commit. Items of one id without
// scores run in the order of the slice. The error names the first item that was wrong; see
// Enqueue. [FromSource] and [IdempotencyKey] are for the call as a whole. Due, Score and
// Metadata of an item win over [At], [In], [Score] and [Metadata] of the call. A call without
// items has no effect and checks none of its options: [Executor.SetSourceOffset] moves an offset
// without payloads.
func (t *Queue[T]) EnqueueMany(ctx context.Context, items []Item[T], options ...Option) ([]Receipt, error) {
	if len(items) == 0 {
		return nil, nil
	}
	if t == nil || t.q == nil {
		return nil, errNoQueue
	}
	if t.q.x.cluster != nil {
		ctx, err := guard.Context(ctx)
		if err != nil {
			return nil, err
		}
		carried, conditions, err := t.carry(items, options...)
		if err != nil {
			return nil, err
		}
		return t.q.x.cluster.enqueue(ctx, t.q.Name, carried, conditions)
	}
	buffer := submit.Borrow(len(items))
	defer submit.GiveBack(buffer)
	entries := *buffer
	now := t.q.Crew.Now()
	for i := range items {
		if err := t.fill(&entries[i], items[i], now, options); err != nil {
			return nil, fmt.Errorf("item %d: %w", i, err)
		}
	}
	o, err := t.q.accept(ctx, entries, options, nil)
	if err != nil {
		return nil, err
	}
	return receipts(t.q, &o), nil
}

// carry is Carry of package cluster.
func (t *Queue[T]) carry(items []Item[T], options ...Option) (filled []Item[[]byte], rest []byte, err error) {
	for i := range items {
		it, err := t.complete(items[i], options)
		if err == nil {
			err = t.q.Fill(new(journal.Entry), &it, 0)
		}
		if err != nil && len(items) > 1 {
			err = fmt.Errorf("item %d: %w", i, err)
		}
		if err != nil {
			return nil, nil, err
		}
		filled = append(filled, Item[[]byte](it))
	}
	rest, err = submit.Carry(options)
	return filled, rest, err
}

func (t *Queue[T]) encodeAny(payload any) ([]byte, error) { return encodeBy(t.cfg.Codec, payload.(T)) }

func (t *Queue[T]) carryAny(items any, options []Option) ([]Item[[]byte], []byte, error) {
	if t == nil {
		return nil, nil, errNoQueue
	}
	return t.carry(items.([]Item[T]), options...)
}

// complete encodes an item, and fills in what it leaves open. What it says goes before the options,
// and those before what is computed.
func (t *Queue[T]) complete(of Item[T], options []Option) (it submit.Item, err error) {
	it = submit.Item{ID: of.ID, Score: of.Score, Due: of.Due, Metadata: of.Metadata}
	it.Ask(options)
	if it.Payload, err = encodeBy(t.cfg.Codec, of.Payload); err != nil {
		return it, fmt.Errorf("%w: id %q: %w", ErrEncode, it.ID, err)
	}
	d := &t.cfg.Defaults
	if d.ID == nil && d.Score == nil && d.Due == nil {
		return it, nil
	}
	err = guard.Call(func() error {
		if it.ID == "" && d.ID != nil {
			it.ID = d.ID(of.Payload)
		}
		if it.Score == nil && d.Score != nil {
			it.Score = new(d.Score(of.Payload))
		}
		if it.Due.IsZero() && d.Due != nil {
			it.Due = d.Due(of.Payload)
		}
		return nil
	})
	if err != nil {
		err = fmt.Errorf("%w: computing id, score or due time: %w", ErrEncode, err)
	}
	return it, err
}

// fill writes an item into e.
func (t *Queue[T]) fill(e *journal.Entry, it Item[T], now int64, options []Option) error {
	filled, err := t.complete(it, options)
	if err != nil {
		return err
	}
	return t.q.Fill(e, &filled, now)
}

// Dead is a dead letter: a payload that used up its retries, that its codec refused, or that its handler or a
// person canceled. One that died under a version from before metadata has no Failures
// although Error is set. If such a version accepted it with [At] or [In], EnqueuedAt is
// its due time, as in [Job].
type Dead[T any] struct {
	inspect.DeadPayload // Decode says why Payload is not set; Value is nil
	Payload             T
}

// Morgue lists the dead letters of the queue, in the order in which they were accepted.
// The loop may take its time, and may put back what it was given. A read error is
// yielded once and ends the list.
func (t *Queue[T]) Morgue() iter.Seq2[Dead[T], error] {
	return func(yield func(Dead[T], error) bool) {
		if t == nil || t.q == nil {
			yield(Dead[T]{}, errNoQueue)
			return
		}
		letters := func(yield func(inspect.DeadPayload, error) bool) { t.q.letters(0, yield) }
		if c := t.q.x.cluster; c != nil {
			letters = func(yield func(inspect.DeadPayload, error) bool) { c.Letters(t.q.Name, yield) }
		}
		for letter, err := range letters {
			if err != nil {
				yield(Dead[T]{}, err)
				return
			}
			d := Dead[T]{DeadPayload: letter}
			if d.Payload, d.Decode = decodeBy(t.cfg.Codec, d.Raw); !yield(d, nil) {
				return
			}
		}
	}
}

// letters yields the dead letters of the journal, from a position on.
func (q *queue) letters(from journal.Position, yield func(inspect.DeadPayload, error) bool) {
	for b, err := range q.x.log.Morgue(q.Number, from) {
		if !yield(admin.DeadOf(q.Name, &b), border(err)) {
			return
		}
	}
}

// Pending reports whether an id has anything to do: it waits, runs, is to be
// retried, or is halted. It returns ErrClosed after Stop, and the cause of ctx when
// that ends first.
func (t *Queue[T]) Pending(ctx context.Context, id string) (pending bool, err error) {
	ctx, err = t.usable(ctx)
	if err != nil {
		return false, err
	}
	if t.q.x.cluster != nil {
		a, err := t.q.x.cluster.About(ctx, t.q.Name, id, fleet.Question{Do: "Pending"}, true)
		return a.All, err
	}
	var has bool // a call may come after its caller has gone
	err = t.q.Shards.Of(id).Do(ctx, func(c *shard.Core) { has = c.Has(id) })
	if err != nil {
		return false, border(err)
	}
	return has, nil
}

// Stats returns the figures of the queue.
func (t *Queue[T]) Stats(ctx context.Context) (inspect.QueueStats, error) {
	ctx, err := t.usable(ctx)
	if err != nil {
		return inspect.QueueStats{}, err
	}
	if t.q.x.cluster != nil {
		return t.q.x.cluster.Figures(ctx, t.q.Name)
	}
	return t.q.x.inspector.Figures(ctx, t.q.To)
}

// Lookup returns a registered queue by its name, for a program that does not know the
// type of its payloads: they are the bytes that its codec made. Bytes that the codec
// can't read are accepted, unless Locks.OnEnqueue needs them, and become dead letters
// when they are to run. The functions of Defaults are not called. It returns
// ErrUnknownQueue.
func (x *Executor) Lookup(name string) (*Queue[[]byte], error) {
	if x == nil {
		return nil, fmt.Errorf("%w: no executor; Open makes one", ErrState)
	}
	q, err := x.queues.Lookup(name)
	if err != nil {
		return nil, err
	}
	return &Queue[[]byte]{q: q.Front.(*queue), cfg: QueueConfig[[]byte]{Codec: asBytes{}}}, nil
}
