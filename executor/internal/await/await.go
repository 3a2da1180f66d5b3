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
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/executor/internal/attempt"
	"github.com/strandjobs/strand/executor/internal/engine"
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

// ErrDeadlock is of a handler that would wait for what can't end before it does.
var ErrDeadlock = errors.New("executor: it would wait for itself")

// Call is one wait. Done has to follow.
type Call struct {
	X       *engine.Engine
	Context context.Context
	Queue   *engine.Queue
	Book    *Book
	Async   bool // an end counts before it is on disk
	Waiter  *Waiter

	ID      string
	At      journal.Position // of the payload that runs
	Another bool             // ID may be another than that of the payload, if that is of an earlier call; Past finds out

	edge *admit.Call // nil: the caller is no handler
}

// Enter returns why a handler, whose attempt it is, may not wait.
func (c *Call) Enter(a *attempt.Attempt) error {
	call := &admit.Call{Attempt: a, From: a.Jobs(), To: admit.Owner{Queue: c.Queue.Name, ID: c.ID}, Over: c.Waiter.Over}
	if len(call.From) == 0 {
		return nil // it has just returned
	}
	workers, _ := c.X.Dispatcher.Load()
	circle, ok := c.X.Graph.Begin(call, workers)
	switch {
	case ok:
		c.edge = call
		return nil
	case circle == nil:
		return AllWait(workers)
	}
	var text strings.Builder
	text.WriteString(circle[0].Owner)
	for _, hop := range circle {
		if text.WriteString(" waits for "); hop.Key != "" {
			text.WriteString(hop.Key + " of ")
		}
		text.WriteString(hop.Holder)
	}
	return fmt.Errorf("%w: %s", ErrDeadlock, text.String())
}

// AllWait is an ErrDeadlock of a call that would leave no worker for what it waits for.
func AllWait(workers int) error {
	return fmt.Errorf("%w: the handlers of all %d workers would wait; Config.Workers says how many there are", ErrDeadlock, workers)
}

// Done lets go of what the wait has taken, and returns the last failure of the payload.
func (c *Call) Done() (failure error) {
	failure = c.Book.Leave(c.Waiter)
	if c.edge != nil {
		c.X.Graph.End(c.edge)
	}
	return failure
}

// Past has the waiter listen, and reports whether the payload was over before; letter is not nil if
// it is dead. All of it is on disk. What the waiter hears of itself is not past.
func (c *Call) Past() (over bool, letter *journal.Buried, err error) {
	c.Book.Add(c.Waiter, c.At) // from now on no end is missed
	if live, err := c.lives(); err != nil || live || c.Waiter.Over() {
		return false, nil, err
	}
	// What was posted may not be there yet, and the end of what is over not be on disk.
	if held, err := c.X.Log.Arrived(c.Context, c.At); err != nil || held {
		return false, nil, err
	}
	if letter, err = c.Letter(c.At); err != nil || letter != nil {
		return letter != nil, letter, err
	}
	// If it is not among the dead because it has just been put back, its shard has it now.
	if err := c.X.Log.Settled(c.Context); err != nil {
		return false, nil, err
	}
	live, err := c.lives()
	moved := c.Book.At(c.Waiter) != c.At // it was replaced meanwhile
	return err == nil && !live && !moved, nil, err
}

// lives asks whether the payload waits or runs.
func (c *Call) lives() (live bool, err error) {
	var has bool // a call may come after its caller has gone
	err = c.Queue.Shards.Of(c.ID).Do(c.Context, func(s *shard.Core) { has = s.HasPayload(c.ID, c.At) })
	if err == nil && !has && c.Another {
		return c.search()
	}
	return err == nil && has, err
}

// jobsPerVisit is how many jobs a visit to a shard looks at.
const jobsPerVisit = 1024

// search is lives for any id, which becomes that of the call: it looks at all jobs, since the journal does not know of
// which id a position is.
func (c *Call) search() (live bool, err error) {
	for _, s := range c.Queue.Shards.All {
		for next, more := shard.Cursor(0), true; more; {
			var id string
			err := s.Do(c.Context, func(core *shard.Core) {
				next, more = core.Scan(next, jobsPerVisit, 0, func(v *shard.View) {
					if v.First.Position() != c.At && v.Payloads < 2 {
						return
					}
					if core.Identify(v); core.HasPayload(v.ID, c.At) {
						id = v.ID
					}
				})
			})
			if err != nil {
				return false, err
			}
			if id != "" {
				c.ID = id
				return true, nil
			}
		}
	}
	return false, nil
}

// Letter returns the dead letter of a payload; nil: there is none.
func (c *Call) Letter(at journal.Position) (*journal.Buried, error) {
	b, err := c.X.Log.BuriedAt(c.Queue.Number, at)
	switch {
	case errors.Is(err, journal.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &b, nil
}

// Wait waits for the end of the payload, and for the disk to have it. The error is why it waits no
// longer.
func (c *Call) Wait() (End, error) {
	if err := c.until(c.Waiter.Done); err != nil {
		return End{}, err
	}
	written := c.Waiter.End.Written
	if c.Async {
		return c.Waiter.End, nil
	}
	if err := c.until(written.Done()); err != nil {
		return End{}, err
	}
	err := written.Wait(c.Context) // it does not wait
	if errors.Is(err, journal.ErrFull) {
		err = c.X.Log.Settled(c.Context)
	}
	if err != nil {
		return End{}, c.Unknown(err)
	}
	return c.Waiter.End, nil
}

// Unknown says why it is not known how a payload ended.
func (c *Call) Unknown(err error) error {
	if guard.Over(guard.Done(c.Context)) {
		return guard.Cause(c.Context)
	}
	if errors.Is(err, journal.ErrUnknown) {
		return c.until(nil) // the commit has failed, and so the executor fails
	}
	return c.X.Border(err)
}

// until waits for a channel, and returns why it waits no longer. What is over is, also
// when the rest has come to its end meanwhile.
func (c *Call) until(over <-chan struct{}) error {
	var closing <-chan struct{}
	if c.edge != nil {
		closing = c.X.Closing // Stop waits for the handler, and starts nothing any more
	}
	var err error
	select {
	case <-over:
		return nil
	case <-guard.Done(c.Context):
		err = guard.Cause(c.Context)
	case <-c.X.Failed:
		err = c.X.Failure()
	case <-closing:
		err = c.X.Closed
	case <-c.X.Stopped:
		err = c.X.Closed
	}
	if guard.Over(over) {
		return nil
	}
	return err
}
