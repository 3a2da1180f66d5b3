package journal

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/strandjobs/strand/journal/internal/block"
)

// commit is what the appenders and the consumers of one block share.
type commit struct {
	first   Position
	done    chan struct{} // closed when the block is committed and taken in, or refused
	err     error         // set before done is closed
	pending atomic.Int32  // deliveries that are not done yet
	merged  []Position    // by position − first: the entry it was merged into, or 0
}

// settled is the commit of those who have nothing to wait for.
var settled = func() *commit {
	c := &commit{done: make(chan struct{})}
	close(c.done)
	return c
}()

// Ticket stands for the entries of one Append.
type Ticket struct {
	commit *commit
	taken  chan struct{} // of the delivery that has all of them; nil: none has
	first  Position
	into   Position // what it was merged into, if it was streamed
}

// Position returns the position of the i-th entry.
func (t Ticket) Position(i int) Position { return t.first + Position(i) }

// Done returns a channel that is closed when Wait would not wait.
func (t Ticket) Done() <-chan struct{} {
	if t.taken != nil {
		return t.taken
	}
	return t.commit.done
}

// Wait returns when the entries are on disk and were taken in by their
// consumers. It returns ErrFull when they were refused for want of room, and
// ErrUnknown when the commit failed or ctx ended first.
func (t Ticket) Wait(ctx context.Context) error {
	over := t.Done()
	select {
	case <-over:
		return t.commit.err
	default:
	}
	select {
	case <-over:
		return t.commit.err
	case <-done(ctx):
		return fmt.Errorf("%w: %w", ErrUnknown, ended(ctx))
	}
}

// Merged returns the position of the entry that the i-th one was merged into,
// or 0. Only after Wait returned nil.
func (t Ticket) Merged(i int) Position {
	if t.commit.merged == nil {
		return t.into
	}
	return t.commit.merged[t.first+Position(i)-t.commit.first]
}

// Delivery hands the committed entries of one block and route to their
// consumer. It belongs to the consumer until Done.
type Delivery struct {
	Route   uint32
	block   *block.Block
	offsets []uint32
	commit  *commit
	taken   chan struct{} // closed when they are taken in, or refused

	// Of one entry that is streamed, instead of commit and taken.
	alone Position               // its position; 0: it is not
	into  Position               // what it was merged into
	leads bool                   // its appender delivers
	late  atomic.Pointer[commit] // settled once it is taken in, or of an appender who could not wait for that
}

var deliveries = sync.Pool{New: func() any { return new(Delivery) }}

func newDelivery(b *block.Block, route uint32) *Delivery {
	d := deliveries.Get().(*Delivery)
	d.Route, d.block, d.offsets = route, b, d.offsets[:0]
	return d
}

// Len returns the number of entries.
func (d *Delivery) Len() int { return len(d.offsets) }

// Read decodes the i-th entry into e, from 0, and returns its Ref; or ErrFailed, with the cause, or ErrClosed, where
// that has to read the disk. The bytes in e must not be changed, and stay valid after Done.
func (d *Delivery) Read(i int, e *Entry) (Ref, error) {
	// A consumer may be slow enough for the block to have been carried forward,
	// or to have left memory.
	return d.block.Read(d.offsets[i], e)
}

// Merged tells the caller who enqueued the entry at p that it was merged into another.
func (d *Delivery) Merged(p, into Position) {
	if d.alone != 0 {
		if p == d.alone {
			d.into = into
		}
		return
	}
	if i := p - d.commit.first; p >= d.commit.first && i < Position(len(d.commit.merged)) {
		d.commit.merged[i] = into
	}
}

// Done says that all entries were taken in. d must not be used afterwards.
func (d *Delivery) Done() {
	c := d.commit
	if c == nil {
		d.arrived()
		return
	}
	d.discard()
	if c.pending.Add(-1) == 0 {
		close(c.done)
	}
}

// discard tells those who wait for d alone, and has d used again.
func (d *Delivery) discard() {
	close(d.taken)
	d.free()
}

func (d *Delivery) free() {
	d.block, d.commit, d.taken = nil, nil, nil
	d.alone, d.into = 0, 0
	d.late.Store(nil)
	deliveries.Put(d)
}
