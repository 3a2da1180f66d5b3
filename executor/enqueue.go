package executor

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/strandjobs/strand/journal"
)

// Item is one payload of [Queue.EnqueueMany].
type Item[T any] struct {
	ID      string // may be left out if QueueConfig.ID is set
	Payload T
	Score   *float64  // nil: QueueConfig.Score, or now
	Due     time.Time // zero: QueueConfig.Due, or now

	Metadata map[string]string // see [Metadata]; nil: none
}

// Enqueue accepts a payload for an id: any string of 1 to 512 bytes. When it
// returns nil under [Sync], the payload is on disk.
//
// If the id waits already, the payload joins the job: due time and retry count
// of the waiting one stay, and of equal payloads one stays, as
// QueueConfig.Merge says.
//
// It returns ErrInvalidID, ErrInvalidScore, ErrInvalidKey, ErrInvalidMetadata, ErrTooLarge,
// ErrEncode, ErrStale, a FullError, ErrClosed, ErrFailed, or the cause of ctx when that ended before anything was
// accepted; then nothing was. After ErrUnknown it may be either way.
func (t *Queue[T]) Enqueue(ctx context.Context, id string, payload T, options ...Option) (Receipt, error) {
	if t == nil || t.q == nil {
		return Receipt{}, errNoQueue
	}
	data, err := t.encode(payload)
	if err != nil {
		return Receipt{}, fmt.Errorf("%w: id %q: %w", ErrEncode, id, err)
	}
	if !t.computes() {
		return t.q.enqueue(ctx, id, data, options)
	}
	// What is computed comes first, what was asked for wins.
	it := Item[T]{ID: id, Payload: payload}
	if err := t.compute(&it); err != nil {
		return Receipt{}, err
	}
	computed := make([]Option, 0, len(options)+2)
	if !it.Due.IsZero() {
		computed = append(computed, At(it.Due))
	}
	if it.Score != nil {
		computed = append(computed, Score(*it.Score))
	}
	return t.q.enqueue(ctx, it.ID, data, append(computed, options...))
}

// errNoQueue is what a Queue that Handle did not make says.
var errNoQueue = fmt.Errorf("%w: this queue was not made by Handle", ErrState)

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

// EnqueueMany accepts all items or none: they are in one commit. Their order
// counts for each id. The error names the first item that was wrong; see Enqueue. [Once] and
// [Key] are for the call as a whole, other options for the items that do not say
// it themselves.
func (t *Queue[T]) EnqueueMany(ctx context.Context, items []Item[T], options ...Option) ([]Receipt, error) {
	if len(items) == 0 {
		return nil, nil
	}
	if t == nil || t.q == nil {
		return nil, errNoQueue
	}
	buffer := borrowEntries(len(items))
	defer giveBackEntries(buffer)
	entries := *buffer
	now := t.q.stamp()
	for i := range items {
		it := items[i]
		for _, o := range options {
			fillIn(o, &it)
		}
		if err := t.fill(&entries[i], it, now); err != nil {
			return nil, fmt.Errorf("item %d: %w", i, err)
		}
	}
	if slices.ContainsFunc(options, Option.conditional) {
		return t.q.appendIf(ctx, entries, options)
	}
	ticket, err := t.q.append(ctx, entries)
	if err != nil {
		return nil, err
	}
	receipts := make([]Receipt, len(items))
	for i := range receipts {
		receipts[i] = t.q.receipt(ticket, i, t.q.durability)
	}
	return receipts, nil
}

func (t *Queue[T]) fill(e *journal.Entry, it Item[T], now stamp) error {
	data, err := t.encode(it.Payload)
	if err != nil {
		return fmt.Errorf("%w: id %q: %w", ErrEncode, it.ID, err)
	}
	if err := t.compute(&it); err != nil {
		return err
	}
	if err := t.q.fill(e, it.ID, data, now); err != nil {
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
