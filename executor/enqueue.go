package executor

import (
	"context"
	"fmt"
	"time"
	"unsafe"

	"github.com/strandjobs/strand/executor/internal/guard"
	"github.com/strandjobs/strand/executor/internal/submit"
	"github.com/strandjobs/strand/journal"
)

// Item is one payload of [Queue.EnqueueMany].
type Item[T any] struct {
	ID      string // may be left out if QueueConfig.Defaults.ID is set
	Payload T
	Score   *float64  // nil: QueueConfig.Defaults.Score, or now
	Due     time.Time // zero: QueueConfig.Defaults.Due, or now

	Metadata map[string]string // see [Metadata]; nil: none
}

// Enqueue accepts a payload for an id, which is any string of 1 to 512 bytes. When it
// returns nil under DurabilitySync, the payload is on disk.
//
// If the id has a job that waits, the payload joins it. The job keeps its due time and
// retry count, unless FreshDue, Debounce or Pull of Gather says otherwise. Of equal
// payloads one stays if QueueConfig.Merge says so.
//
// It returns ErrInvalidID, ErrInvalidItem, ErrInvalidKey, ErrTooLarge, ErrEncode,
// ErrNotOwned, a [StaleError], ErrMiddleware, ErrContext, a [WaitingError], a
// [FullError], ErrClosed, ErrFailed, or the cause of ctx when that ended before
// anything was accepted. After all of these nothing was accepted. After ErrUnknown the
// payload may have been accepted or not; see [IdempotencyKey].
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

// usable is [usable] for a call to a queue.
func (t *Queue[T]) usable(ctx context.Context) (context.Context, error) {
	if t == nil || t.q == nil {
		return nil, errNoQueue
	}
	return guard.Context(ctx)
}

func (t *Queue[T]) encode(payload T) (data []byte, err error) {
	err = guard.Call(func() (err error) {
		data, err = t.cfg.Codec.Encode(payload)
		return err
	})
	return data, err
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

// complete encodes an item, and fills in what it leaves open. What it says goes before the options,
// and those before what is computed.
func (t *Queue[T]) complete(of Item[T], options []Option) (it submit.Item, err error) {
	it = submit.Item{ID: of.ID, Score: of.Score, Due: of.Due, Metadata: of.Metadata}
	it.Ask(options)
	if it.Payload, err = t.encode(of.Payload); err != nil {
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

// Receipt says what became of an enqueued payload.
type Receipt struct {
	// ID is the id of the job. For a Duplicate it is that of this call, even if the
	// first call had another.
	ID string
	// Position is the number of the payload in its journal: never given twice there,
	// and growing in the order of acceptance. Payloads of an id that were enqueued
	// without a score run in this order. A journal that goes on from a copy, or is
	// begun anew, gives numbers again that the other one gave. If a database has to
	// tell payloads apart over that, put an id of your own into the payload.
	Position uint64
	// MergedInto is the position of an equal payload of the same id that this one was
	// merged into: that one runs, and this one has ended. Under MergeSupersede it is
	// the position of the newer payload that superseded this one as it arrived, and
	// that may have run before. 0: the payload stands by itself so far.
	//
	// It is also 0 for a payload that Gather.Fold folds later, for a Duplicate, and
	// under DurabilityAsync without IdempotencyKey, FromSource or IfAbsent. An equal
	// payload that is accepted later may take the place of this one, as QueueConfig.Merge
	// says: no receipt tells that. Then Replaced in [inspect.QueueStats] counts it, and the
	// handler sees in Payload.Position which one runs.
	MergedInto uint64
	// Durable is true when the payload is on disk. It is false in memory, and under
	// DurabilityAsync without IdempotencyKey, FromSource or IfAbsent.
	Durable bool
	// Duplicate is true when a call with the same [IdempotencyKey] was accepted before,
	// so that this one enqueued nothing. Position is that of the first call's payload.
	Duplicate bool
}

// receipt says what became of the payload i of a submission that was accepted.
func receipt(q *queue, o *submit.Submission, i int) Receipt {
	onDisk, id := !q.x.crew.Volatile, unsafe.String(unsafe.SliceData(o.Entries[i].ID), len(o.Entries[i].ID)) // as fill got it
	switch {
	case o.Earlier != 0:
		return Receipt{ID: id, Position: uint64(o.Earlier) + uint64(i), Duplicate: true, Durable: onDisk}
	case o.Posted():
		return Receipt{ID: id, Position: uint64(o.Ticket.Position(i))}
	}
	return Receipt{ID: id, Position: uint64(o.Ticket.Position(i)), MergedInto: uint64(o.Ticket.Merged(i)), Durable: onDisk}
}

// receipts says what became of all of them.
func receipts(q *queue, o *submit.Submission) []Receipt {
	all := make([]Receipt, len(o.Entries))
	for i := range all {
		all[i] = receipt(q, o, i)
	}
	return all
}
