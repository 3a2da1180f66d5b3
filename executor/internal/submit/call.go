package submit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/executor/internal/brief"
	"github.com/strandjobs/strand/executor/internal/engine"
	"github.com/strandjobs/strand/executor/internal/guard"
	"github.com/strandjobs/strand/executor/internal/keylock"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// Conditions are what a call has to meet to be accepted.
type Conditions struct {
	Key     string   // empty: it has none
	Sources []Source // with a name each
	Absent  bool     // no payload of its id waits
	Alone   string   // what else only one call at a time may name; empty: nothing
	AtOnce  bool     // it does not wait for room

	stateKey string
	inside   []*gate
}

// enter goes through the gates of the conditions and asks whether they are met.
func (o *Submission) enter(ctx context.Context) error {
	d, c := o.to, o.conditions
	if err := d.Once.enter(ctx, c); err != nil {
		return err
	}
	k, err := d.Once.before(c)
	switch {
	case err != nil:
		return err
	case k.N != 0 && k.N != len(o.Entries):
		return fmt.Errorf("%w: %q came with %d items before, now it has %d", keylock.ErrInvalidKey, c.Key, k.N, len(o.Entries))
	case k.N != 0:
		o.Earlier = k.First
		return nil
	}
	for _, s := range c.Sources {
		if last, found, err := d.Once.Offset(s.Name); err != nil {
			return err
		} else if found && s.Offset <= last {
			return d.Stale(s.Name, s.Offset, last)
		}
	}
	if c.Absent {
		return o.checkAbsence(ctx)
	}
	return nil
}

// leave lets the next calls in. While the outcome is open they wait, and learn lets them in.
func (o *Submission) leave() {
	if o.conditions != nil && o.stage != underWay {
		o.to.Once.leave(o.conditions)
	}
}

// checkAbsence refuses a call whose id has a payload that waits. The caller is inside
// the gate of the id.
func (o *Submission) checkAbsence(ctx context.Context) error {
	d, id := o.to, string(o.Entries[0].ID)
	ctx, err := guard.Context(ctx)
	if err != nil {
		return err
	}
	if d.Posts { // what was posted is to be seen
		if err := d.Log.Flush(ctx); err != nil {
			return cmp.Or(context.Cause(ctx), err) // nothing of the call is under way
		}
	}
	var next journal.Position // a call may come after its caller has gone
	var due int64
	if err := d.To.Shards.Of(id).Do(ctx, func(c *shard.Core) { next, due = c.FirstWaiting(id) }); err != nil {
		return err
	}
	if next != 0 {
		return d.Waiting(d.To.Name, id, next, due)
	}
	return nil
}

// KeysOf computes what each of the entries locks; nil: nothing. It returns
// an error, too, for a bad key that is wanted only before the run.
func (d *Door) KeysOf(entries []journal.Entry) (keys [][]string, err error) {
	if d.Locks == nil && !d.To.Admission.Checked() {
		return nil, nil
	}
	if d.Locks != nil && d.Locks.OnEnqueue != nil {
		keys = make([][]string, len(entries))
	}
	for i := range entries {
		e := &entries[i]
		locked, err := d.check(string(e.ID), e.Payload)
		if err != nil {
			return nil, fmt.Errorf("item %d: queue %q, id %q: %w", i, d.To.Name, e.ID, err)
		}
		if keys != nil {
			keys[i] = locked
		}
	}
	return keys, nil
}

// check computes what a payload locks when it is accepted, and all that it will
// want before it runs: the caller hears of a bad key. The payload is decoded although
// Enqueue has the value: a key of what does not survive the codec (an int in an any, a
// field that is not encoded, the monotonic part of a time) would never be unlocked,
// because Unlock is computed from what the journal gives back, after a restart at any
// rate.
func (d *Door) check(id string, payload []byte) (keys []string, err error) {
	k := d.Locks
	value, err := d.To.Decode(payload)
	if err != nil && (k == nil || k.OnEnqueue == nil) {
		return nil, nil // the morgue says so
	}
	if err != nil {
		return nil, fmt.Errorf("the keys to lock: %w", err)
	}
	if k != nil {
		if keys, err = k.KeysOnEnqueue(id, value); err != nil {
			return nil, err
		}
	}
	return keys, d.To.Admission.CheckAll(id, value)
}

// Lock locks the keys of entries.
func (d *Door) Lock(ctx context.Context, entries []journal.Entry, keys [][]string) (p *keylock.Coming, err error) {
	if keys == nil {
		return nil, nil
	}
	p = d.Keys.Coming()
	if d.Locks.Service != nil {
		return p, p.Serve(ctx, d.Locks, slices.Concat(keys...))
	}
	d.Ledger.Do(nil, func() {
		for i := range entries {
			p.Lock(d.Locks, string(entries[i].ID), keys[i])
		}
	})
	for i := range entries {
		d.Reconsider(string(entries[i].ID), keys[i])
	}
	return p, nil
}

// Reconsider has a job that waits ask again when keys that it has locked meanwhile close
// a circle: then it hears of that.
func (d *Door) Reconsider(id string, keys []string) {
	if len(keys) > 0 && d.Graph.Closed(admit.Owner{Queue: d.To.Name, ID: id}) != nil {
		d.To.Admission.AskAgain(id)
	}
}

// Errors of filling in.
var (
	ErrInvalidItem = errors.New("executor: invalid item")
	ErrTooLarge    = errors.New("executor: payload too large")
)

// Item is a payload as its call has it, encoded.
type Item struct {
	ID       string
	Payload  []byte
	Score    *float64  // nil: the time of its acceptance
	Due      time.Time // zero: now
	Metadata map[string]string
}

// Fill writes what an enqueue asks for into e. Its checks come before anything is accepted.
func (d *Door) Fill(e *journal.Entry, it *Item, now int64) error {
	if err := engine.CheckID(it.ID); err != nil {
		return err
	}
	if len(it.Payload) > d.MaxPayload {
		return fmt.Errorf("%w: %d bytes for id %q, the limit is %d", ErrTooLarge, len(it.Payload), it.ID, d.MaxPayload)
	}
	// The journal copies it, and changes nothing.
	e.ID = unsafe.Slice(unsafe.StringData(it.ID), len(it.ID))
	e.Queue, e.Payload = d.To.Number, it.Payload
	e.Accepted, e.Due, e.Score, e.Floor = now, now, journal.ScoreOf(now), &d.Scores
	e.Route = d.To.Shards.Route(e.ID)
	if !it.Due.IsZero() {
		setDue(e, it.Due)
	}
	if err := SetMetadata(e, it.Metadata); err != nil {
		return err
	}
	if it.Score != nil {
		if err := setScore(e, *it.Score); err != nil {
			return err
		}
	}
	if d.Refuse != nil { // at last: a follow-up has a use for e
		return d.Refuse(it.ID)
	}
	return nil
}

// Change writes what is another by now of an item into its entry.
func (it *Item) Change(e *journal.Entry) error {
	if it.Due.UnixNano() != e.Due {
		setDue(e, it.Due)
	}
	if it.Score != nil && *it.Score != e.Score {
		if err := setScore(e, *it.Score); err != nil {
			return err
		}
	}
	if !maps.Equal(it.Metadata, maps.Collect(e.Metadata.All())) {
		return SetMetadata(e, it.Metadata)
	}
	return nil
}

// setDue keeps the time within what 64 bits of nanoseconds can say, which is until the year 2262.
func setDue(e *journal.Entry, t time.Time) {
	switch s := t.Unix(); {
	case s >= math.MaxInt64/int64(time.Second):
		e.Due = math.MaxInt64 - 1
	case s > 0:
		e.Due = t.UnixNano()
	default:
		e.Due = 0
	}
}

// setScore gives an entry a score of its own.
func setScore(e *journal.Entry, score float64) error {
	if math.IsNaN(score) || math.IsInf(score, 0) {
		return fmt.Errorf("%w: the score %v for id %q, it must be finite", ErrInvalidItem, score, e.ID)
	}
	e.Score, e.Floor = score+0, nil // −0 becomes 0
	return nil
}

// What metadata may have.
const (
	maxMetadataPairs = 16
	maxMetadataBytes = 1 << 10
)

// SetMetadata gives an entry metadata, in the place of those that it has.
func SetMetadata(e *journal.Entry, pairs map[string]string) error {
	if len(pairs) == 0 {
		e.Metadata = nil
		return nil
	}
	if len(pairs) > maxMetadataPairs {
		return fmt.Errorf("%w: metadata of %d pairs for id %q, the limit is %d", ErrInvalidItem, len(pairs), e.ID, maxMetadataPairs)
	}
	size := 0
	for key, value := range pairs {
		if key == "" {
			return fmt.Errorf("%w: a key of the metadata is empty, of the value %q for id %q", ErrInvalidItem, brief.Text(value), e.ID)
		}
		size += len(key) + len(value)
	}
	if size > maxMetadataBytes {
		return fmt.Errorf("%w: metadata: keys and values for id %q have %d bytes, the limit is %d", ErrInvalidItem, e.ID, size, maxMetadataBytes)
	}
	e.Metadata = journal.NewMetadata(pairs)
	return nil
}

// entryBuffers are used again: the journal copies what it is given.
var entryBuffers = sync.Pool{New: func() any { return new([]journal.Entry) }}

// Borrow returns n empty entries, until they are given back.
func Borrow(n int) *[]journal.Entry {
	buffer := entryBuffers.Get().(*[]journal.Entry)
	*buffer = slices.Grow((*buffer)[:0], n)[:n] // what was used was cleared
	return buffer
}

// GiveBack takes entries back that were borrowed.
func GiveBack(buffer *[]journal.Entry) {
	clear(*buffer)
	entryBuffers.Put(buffer)
}
