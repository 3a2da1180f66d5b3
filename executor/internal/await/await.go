// Package await knows which callers wait for the end of which payload, tells them how it ended, and
// waits for them until that is on disk. The circle that a handler would close by waiting is found by
// package admit.
//
// # What is promised
//
//   - A waiter that was added before its payload was committed hears how it ended,
//     with what its handler returned last.
//   - An end is not missed, whether it comes before a [Call], during its look or after it.
//   - An end counts when it is on disk, also on a full one, unless the queue is asynchronous.
//   - When payloads become one, their waiters go along: all of them hear of the end
//     of the one that ran.
//   - A queue for whose payloads no caller waits pays one load of a word that nothing
//     writes.
//
// What is not promised: to remember. An end of which no waiter is there to hear is
// forgotten, and so is what a handler returned.
//
// No user code is called but contexts. Census: no goroutine; a mutex for each queue, under which
// nothing else is called, so that a waiter may be added under the lock of the journal. A Call
// belongs to one goroutine, and waits for a shard, the journal and its end.
package await

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/strandjobs/strand/executor/internal/guard"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// Fate is how a payload ended.
type Fate uint8

const (
	Done       Fate = iota // its handler was done with it
	Discarded              // its handler said so
	Deleted                // a person did
	Buried                 // it is in the morgue
	Superseded             // the newer one at Position has, and had ended before
)

// End is how a payload ended, and what was said of it.
type End struct {
	Fate  Fate
	Value any   // what its handler returned, if Said
	Said  bool  // it returned something
	Err   error // the last failure, as the handler returned it; nil: none that is known

	Position journal.Position // of the one that ran
	Attempt  int              // in which it was buried: 1, 2, 3, …
	Reason   string           // why it was buried
	// Written is done when the end is on disk.
	Written journal.Ticket
}

// Waiter is one caller who waits for one payload.
type Waiter struct {
	// Done is closed when End is set.
	Done chan struct{}
	End  End // not before Done

	Begin func() error // is called before the payload is accepted, and may refuse it; nil: nobody asks

	at journal.Position // 0: nowhere; guarded by Book.mu
}

// NewWaiter returns a waiter that is in no book.
func NewWaiter() *Waiter { return &Waiter{Done: make(chan struct{})} }

// Over reports whether its payload has ended.
func (w *Waiter) Over() bool { return guard.Over(w.Done) }

// Book has the waiters of a queue, by payload. The zero Book is ready for use.
type Book struct {
	any atomic.Bool // there are accounts

	// mu guards what follows. Nothing is called under it.
	mu       sync.Mutex
	accounts map[journal.Position]*account
}

// account is a payload for which a caller waits.
type account struct {
	waiters []*Waiter
	end     End // as far as it is known
}

// Any reports whether a caller waits for a payload of the queue.
func (b *Book) Any() bool { return b.any.Load() }

// Len counts the payloads for which a caller waits.
func (b *Book) Len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.accounts)
}

// Add has w wait for the payload at a position, and no more for one that was refused.
func (b *Book) Add(w *Waiter, at journal.Position) {
	b.mu.Lock()
	defer b.mu.Unlock()
	_ = b.leave(w)
	if b.accounts == nil {
		b.accounts = make(map[journal.Position]*account)
	}
	a := b.accounts[at]
	if a == nil {
		a = &account{end: End{Position: at}}
		b.accounts[at] = a
		b.any.Store(true)
	}
	w.at, a.waiters = at, append(a.waiters, w)
}

// At returns the payload for which w waits: another than that of Add once it was merged
// into that; 0: w has left, or it is over.
func (b *Book) At(w *Waiter) journal.Position {
	b.mu.Lock()
	defer b.mu.Unlock()
	return w.at
}

// Leave takes w out of the book, if it is still in it, and returns the last failure
// of its payload so far. A caller who does not wait any longer has to leave.
func (b *Book) Leave(w *Waiter) (failure error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.leave(w)
}

func (b *Book) leave(w *Waiter) (failure error) {
	a := b.accounts[w.at]
	if w.at == 0 || a == nil {
		return nil
	}
	a.waiters = slices.DeleteFunc(a.waiters, func(o *Waiter) bool { return o == w })
	failure = a.end.Err
	if w.at = 0; len(a.waiters) == 0 {
		b.close(a.end.Position)
	}
	return failure
}

// close forgets an account. mu is held.
func (b *Book) close(at journal.Position) {
	delete(b.accounts, at)
	b.any.Store(len(b.accounts) > 0)
}

// Returned notes what the handler returned for a payload.
func (b *Book) Returned(at journal.Position, value any) {
	b.note(at, func(end *End) { end.Fate, end.Value, end.Said = Done, value, true })
}

// Failed notes why a payload has failed, or is to be buried.
func (b *Book) Failed(at journal.Position, err error) {
	b.note(at, func(end *End) { end.Fate, end.Err, end.Said = Done, err, false })
}

// Ending notes how a payload is about to end that has no result so far.
func (b *Book) Ending(at journal.Position, fate Fate) {
	b.note(at, func(end *End) { end.Fate, end.Said = fate, false })
}

func (b *Book) note(at journal.Position, f func(*End)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a := b.accounts[at]; a != nil {
		f(&a.end)
	}
}

// Record tells the waiters what a shard has decided, once the journal has it: it is
// on disk when written is done.
func (b *Book) Record(c *shard.Change, written journal.Ticket) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range c.Merged {
		if a := b.accounts[m.Position]; m.Over && a != nil {
			a.end.Fate = Superseded
			b.end(a, written, m.Into)
			continue
		}
		b.merge(m.Position, m.Into)
	}
	for i := range c.Buried {
		burial := &c.Buried[i]
		if a := b.accounts[burial.Ref.Position()]; a != nil {
			a.end.Fate, a.end.Reason, a.end.Attempt = Buried, burial.Reason, burial.Retry+2
			b.end(a, written, 0)
		}
	}
	for _, at := range c.Deleted {
		if a := b.accounts[at]; a != nil {
			a.end.Fate = Deleted
		}
	}
	for _, ref := range c.Ended {
		if a := b.accounts[ref.Position()]; a != nil {
			b.end(a, written, 0)
		}
	}
}

// merge has those who wait for one payload wait for another, which runs in its
// stead. mu is held.
func (b *Book) merge(from, into journal.Position) {
	a := b.accounts[from]
	if a == nil {
		return
	}
	delete(b.accounts, from)
	for _, w := range a.waiters {
		w.at = into
	}
	if other := b.accounts[into]; other != nil {
		other.waiters = append(other.waiters, a.waiters...)
		return
	}
	a.end.Position = into // what ran was both of them, if they were folded for a run
	b.accounts[into] = a
}

// end tells those who wait for a payload; of another one, if it was superseded. mu is held.
func (b *Book) end(a *account, written journal.Ticket, by journal.Position) {
	defer b.close(a.end.Position)
	a.end.Written, a.end.Position = written, cmp.Or(by, a.end.Position)
	for _, w := range a.waiters {
		w.End, w.at = a.end, 0
		close(w.Done)
	}
}
