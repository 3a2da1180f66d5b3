package executor

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/strandjobs/strand/journal"
)

// Item is one payload of [Queue.EnqueueMany], or of [Executor.EnqueueManyRaw].
type Item[T any] struct {
	ID      string // may be left out if QueueConfig.ID is set
	Payload T
	Score   *float64  // nil: QueueConfig.Score, or now
	Due     time.Time // zero: QueueConfig.Due, or now

	Metadata map[string]string // see [Metadata]; nil: none
}

// With returns the item with what the options say that it leaves open, which is what
// [Queue.EnqueueMany] does with them, and the options that are about a call and not
// about an item: [FromSource], [IdempotencyKey] and [IfAbsent]. It is for a program that
// carries items to another one, which enqueues them there.
func (it Item[T]) With(options ...Option) (filled Item[T], rest []Option) {
	for _, o := range slices.Backward(options) { // the last one counts
		fillIn(o, &it)
	}
	for _, o := range options {
		if o.isCondition() {
			rest = append(rest, o)
		}
	}
	return it, rest
}

// Enqueue accepts a payload for an id: any string of 1 to 512 bytes. When it
// returns nil under [DurabilitySync], the payload is on disk.
//
// If the id waits already, the payload joins the job: due time and retry count of
// the waiting one stay, unless QueueConfig.FreshDue, Debounce or OnFresh says
// otherwise, and of equal payloads one stays, as QueueConfig.Merge says.
//
// It returns ErrInvalidID, ErrInvalidScore, ErrInvalidKey, ErrInvalidMetadata,
// ErrTooLarge, ErrEncode, ErrNotOwned, ErrWaiting, ErrStale, ErrMiddleware, ErrContext, a
// FullError, ErrClosed, ErrFailed, or the cause of ctx when that ended before anything
// was accepted; then nothing was. After ErrUnknown it may be either way.
func (t *Queue[T]) Enqueue(ctx context.Context, id string, payload T, options ...Option) (Receipt, error) {
	if t == nil || t.q == nil {
		return Receipt{}, errNoQueue
	}
	entries := borrowEntries(1)
	defer giveBackEntries(entries)
	if err := t.fill(&(*entries)[0], Item[T]{ID: id, Payload: payload}, t.q.stamp()); err != nil {
		return Receipt{}, err
	}
	return t.q.enqueue(ctx, *entries, options)
}

// EnqueueRaw accepts an encoded payload for a queue that is known by its name only;
// it returns ErrUnknownQueue for one that is not registered. Bytes that the codec
// of the queue can't read are accepted, unless Locks.OnEnqueue needs them, and go
// to the morgue when they are to run. See [Queue.Enqueue] for everything else.
func (x *Executor) EnqueueRaw(ctx context.Context, queue, id string, payload []byte, options ...Option) (Receipt, error) {
	if x == nil {
		return Receipt{}, fmt.Errorf("%w: no executor; Open makes one", ErrState)
	}
	q, err := x.lookup(queue)
	if err != nil {
		return Receipt{}, err
	}
	entries := borrowEntries(1)
	defer giveBackEntries(entries)
	if err := q.fill(&(*entries)[0], id, payload, q.stamp()); err != nil {
		return Receipt{}, err
	}
	return q.enqueue(ctx, *entries, options)
}

// enqueue accepts one entry. What the options say goes before what was computed.
func (q *queue) enqueue(ctx context.Context, entries []journal.Entry, options []Option) (Receipt, error) {
	if err := applyAll(options, &entries[0]); err != nil {
		return Receipt{}, err
	}
	o, err := q.accept(ctx, entries, options, nil)
	if err != nil {
		return Receipt{}, err
	}
	return o.receipt(0), nil
}

// errNoQueue is what a Queue says that no registration made.
var errNoQueue = fmt.Errorf("%w: this queue was not made by Handle, HandleMerged or HandleBatch", ErrState)

// usable is [usable] for a call to a queue.
func (t *Queue[T]) usable(ctx context.Context) (context.Context, error) {
	if t == nil || t.q == nil {
		return nil, errNoQueue
	}
	return usable(ctx)
}

func (t *Queue[T]) encode(payload T) (data []byte, err error) {
	err = guarded(func() (err error) {
		data, err = t.cfg.Codec.Encode(payload)
		return err
	})
	return data, err
}

// computes reports whether there is anything that compute could fill in.
func (t *Queue[T]) computes() bool { return t.cfg.ID != nil || t.cfg.Score != nil || t.cfg.Due != nil }

// compute fills in what an item leaves out.
func (t *Queue[T]) compute(it *Item[T]) error {
	if !t.computes() {
		return nil
	}
	err := guarded(func() error {
		if it.ID == "" && t.cfg.ID != nil {
			it.ID = t.cfg.ID(it.Payload)
		}
		if it.Score == nil && t.cfg.Score != nil {
			it.Score = new(t.cfg.Score(it.Payload))
		}
		if it.Due.IsZero() && t.cfg.Due != nil {
			it.Due = t.cfg.Due(it.Payload)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%w: computing id, score or due time: %w", ErrEncode, err)
	}
	return nil
}

// entryBuffers are used again: the journal copies what it is given.
var entryBuffers = sync.Pool{New: func() any { return new([]journal.Entry) }}

// borrowEntries returns n empty entries, until they are given back.
func borrowEntries(n int) *[]journal.Entry {
	buffer := entryBuffers.Get().(*[]journal.Entry)
	*buffer = slices.Grow((*buffer)[:0], n)[:n] // what was used was cleared
	return buffer
}

func giveBackEntries(buffer *[]journal.Entry) {
	clear(*buffer)
	entryBuffers.Put(buffer)
}

// EnqueueManyRaw is [Queue.EnqueueMany] of encoded payloads, for a queue that is known
// by its name only, as [Executor.EnqueueRaw] is Enqueue: it returns ErrUnknownQueue for
// one that is not registered, and the functions of QueueConfig that compute id, score or
// due time are not asked: an item without an id is ErrInvalidID.
func (x *Executor) EnqueueManyRaw(ctx context.Context, queue string, items []Item[[]byte], options ...Option) ([]Receipt, error) {
	if len(items) == 0 {
		return nil, nil
	}
	if x == nil {
		return nil, fmt.Errorf("%w: no executor; Open makes one", ErrState)
	}
	q, err := x.lookup(queue)
	if err != nil {
		return nil, err
	}
	return enqueueMany(ctx, q, items, options, func(e *journal.Entry, it Item[[]byte], now int64) error {
		return fillItem(q, e, it, it.Payload, now)
	})
}

// EnqueueMany accepts all items or none: they are in one commit. Their order counts
// for each id. The error names the first item that was wrong; see Enqueue.
// [FromSource] and [IdempotencyKey] are for the call as a whole, other options for
// the items that do not say it themselves. A call without items has no effect and
// checks none of its options: [Executor.SetSourceOffset] moves an offset without
// payloads.
func (t *Queue[T]) EnqueueMany(ctx context.Context, items []Item[T], options ...Option) ([]Receipt, error) {
	if len(items) == 0 {
		return nil, nil
	}
	if t == nil || t.q == nil {
		return nil, errNoQueue
	}
	return enqueueMany(ctx, t.q, items, options, t.fill)
}

// enqueueMany accepts items that fill writes into entries.
func enqueueMany[T any](ctx context.Context, q *queue, items []Item[T], options []Option, fill func(*journal.Entry, Item[T], int64) error) ([]Receipt, error) {
	buffer := borrowEntries(len(items))
	defer giveBackEntries(buffer)
	entries := *buffer
	now := q.stamp()
	for i := range items {
		it := items[i]
		for _, o := range slices.Backward(options) { // as With does
			fillIn(o, &it)
		}
		if err := fill(&entries[i], it, now); err != nil {
			return nil, fmt.Errorf("item %d: %w", i, err)
		}
	}
	o, err := q.accept(ctx, entries, options, nil)
	if err != nil {
		return nil, err
	}
	return o.receipts(), nil
}

// fill writes an item into e. What the item says goes before what is computed.
func (t *Queue[T]) fill(e *journal.Entry, it Item[T], now int64) error {
	data, err := t.encode(it.Payload)
	if err != nil {
		return fmt.Errorf("%w: id %q: %w", ErrEncode, it.ID, err)
	}
	if err := t.compute(&it); err != nil {
		return err
	}
	return fillItem(t.q, e, it, data, now)
}

// fillItem writes an item into e, whose payload is encoded.
func fillItem[T any](q *queue, e *journal.Entry, it Item[T], data []byte, now int64) error {
	if err := q.fill(e, it.ID, data, now); err != nil {
		return err
	}
	if !it.Due.IsZero() {
		setDue(e, it.Due)
	}
	if err := setMetadata(e, it.Metadata); err != nil {
		return err
	}
	if it.Score != nil {
		return setScore(e, *it.Score)
	}
	return nil
}

// fill writes what an enqueue asks for into e. Its checks come before anything is
// accepted.
func (q *queue) fill(e *journal.Entry, id string, payload []byte, now int64) error {
	if err := checkID(id); err != nil {
		return err
	}
	if len(payload) > q.x.cfg.MaxPayloadBytes {
		return fmt.Errorf("%w: %d bytes for id %q, the limit is %d", ErrTooLarge, len(payload), id, q.x.cfg.MaxPayloadBytes)
	}
	if err := q.x.cfg.Splitter.refuse(id); err != nil {
		return err
	}
	// The journal copies it, and changes nothing.
	e.ID = unsafe.Slice(unsafe.StringData(id), len(id))
	e.Queue, e.Payload = q.number, payload
	e.Accepted, e.Due, e.Score, e.Floor = now, now, journal.ScoreOf(now), &q.scores
	e.Route = q.route(e.ID)
	return nil
}

func checkID(id string) error {
	if id == "" || len(id) > MaxIDBytes {
		return badID(id)
	}
	return nil
}

// badID is apart so that checkID is inlined, which each payload comes through.
func badID(id string) error {
	return fmt.Errorf("%w: it has %d bytes, it must have from 1 to %d", ErrInvalidID, len(id), MaxIDBytes)
}
