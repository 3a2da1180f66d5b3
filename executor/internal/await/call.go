package await

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/strandjobs/strand/executor/internal/admin"
	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/executor/internal/attempt"
	"github.com/strandjobs/strand/executor/internal/engine"
	"github.com/strandjobs/strand/executor/internal/guard"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// Errors of package executor, which says what they mean.
var (
	ErrDeadlock  = errors.New("executor: it would wait for itself")
	ErrDiscarded = errors.New("executor: discarded")
	ErrDeleted   = errors.New("executor: deleted")
)

// Left is why a call waits no longer for what was accepted.
type Left struct {
	Err     error
	Failure error // the last one of the payload; nil: none that is known
}

func (e *Left) Error() string { return guard.Text(e.Err.Error) }

// Grave is the executor.BuriedError of a payload that became a dead letter.
type Grave struct {
	ID       string
	Position uint64
	Attempt  int
	Reason   string
	Err      error
}

func (e *Grave) Error() string {
	return fmt.Sprintf("executor: buried: id %q, position %d, attempt %d: %s", e.ID, e.Position, e.Attempt, e.Reason)
}

// buriedBy returns why a payload was buried: a person, or its last failure.
func buriedBy(reason string, failure error) error {
	if strings.HasPrefix(reason, attempt.ErrCanceled.Error()) {
		return attempt.Canceled(reason)
	}
	return failure
}

// graveOf says what a dead letter says.
func graveOf(b *journal.Buried) error {
	return &Grave{string(b.Entry.ID), uint64(b.Entry.Position), b.Retry + admin.FirstAttempt, b.Reason, buriedBy(b.Reason, nil)}
}

// Call is one wait. Done has to follow.
type Call struct {
	X       *engine.Engine
	Context context.Context
	Queue   *engine.Queue
	Book    *Book
	Async   bool // an end counts before it is on disk
	Waiter  *Waiter
	Handler func() (a *attempt.Attempt, own bool) // whose Context is; not own: it is no handler's of this executor

	ID      string
	At      journal.Position // of the payload that runs
	Another bool             // ID may be another than that of the payload, if that is of an earlier call; Earlier finds out

	edge *admit.Call // nil: the caller is no handler
}

// Enter returns why the caller may not wait, if it is a handler, or a hook.
func (c *Call) Enter() error {
	a, own := c.Handler()
	switch {
	case !own:
		return nil
	case a == nil: // its job is not known, and may be what it would wait for
		return fmt.Errorf("%w: a hook holds its worker, and may not wait for a job", ErrDeadlock)
	}
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
	if c.edge != nil {
		c.X.Graph.End(c.edge)
	}
	return c.Book.Leave(c.Waiter)
}

// Earlier is Outcome for a payload that was accepted before, and may have ended.
func (c *Call) Earlier() (End, error) {
	over, letter, err := c.past()
	switch {
	case c.Waiter.Over(): // whose it was may not be known
	case letter != nil:
		return End{Position: c.At}, graveOf(letter)
	case err != nil:
		return End{}, &Left{c.unknown(err), c.Done()}
	case over:
		return End{Position: c.At}, nil
	default:
		if err := c.Enter(); err != nil {
			return End{}, err
		}
	}
	return c.Outcome()
}

// Outcome waits for the end of the payload, and says how it ended, or why the call waits no longer.
func (c *Call) Outcome() (End, error) {
	end, err := c.wait()
	if err != nil {
		return end, &Left{err, c.Done()}
	}
	switch end.Fate {
	case Superseded: // by one that may be dead
		letter, err := c.letter(end.Position)
		switch {
		case letter != nil:
			err = graveOf(letter)
		case err != nil:
			err = &Left{c.unknown(err), c.Done()}
		}
		return end, err
	case Discarded:
		err = ErrDiscarded
	case Deleted:
		err = ErrDeleted
	case Buried:
		err = &Grave{c.ID, uint64(end.Position), end.Attempt, end.Reason, buriedBy(end.Reason, end.Err)}
	}
	return end, err
}

// past has the waiter listen, and reports whether the payload was over before; letter is not nil if
// it is dead. All of it is on disk. What the waiter hears of itself is not past.
func (c *Call) past() (over bool, letter *journal.Buried, err error) {
	c.Book.Add(c.Waiter, c.At) // from now on no end is missed
	if live, err := c.lives(); err != nil || live || c.Waiter.Over() {
		return false, nil, err
	}
	// What was posted may not be there yet, and the end of what is over not be on disk.
	if held, err := c.X.Log.Arrived(c.Context, c.At); err != nil || held {
		return false, nil, err
	}
	if letter, err = c.letter(c.At); err != nil || letter != nil {
		return letter != nil, letter, err
	}
	// If it is not among the dead because it has just been put back, its shard has it now.
	if err := c.X.Log.Settled(c.Context); err != nil {
		return false, nil, err
	}
	for {
		live, err := c.lives()
		if err == nil && !live && c.Another {
			live, err = c.search()
		}
		at := c.Book.At(c.Waiter)
		if live || err != nil || at == c.At || at == 0 { // 0: the waiter hears
			return err == nil && !live, nil, err
		}
		c.At = at // it was replaced meanwhile
	}
}

// lives asks whether the payload waits or runs.
func (c *Call) lives() (live bool, err error) {
	var has bool // a call may come after its caller has gone
	err = c.Queue.Shards.Of(c.ID).Do(c.Context, func(s *shard.Core) { has = s.HasPayload(c.ID, c.At) })
	return err == nil && has, err
}

// search is lives for any id, which becomes that of the call: the journal does not know whose a position is. Only the
// id of the payload itself is read, and not on a shard, which would stand still meanwhile, and break when it can't.
func (c *Call) search() (live bool, err error) {
	var found atomic.Pointer[journal.Ref] // a visit may come after its caller has gone
	_, err = c.Queue.Shards.Scan(c.Context, c.X.Now, func(core *shard.Core, _ int64, v *shard.View) int {
		if ref := core.Payload(v, c.At); !ref.IsZero() {
			found.Store(&ref)
		}
		return 0
	}, func(n int, err error) (int, error) {
		if found.Load() != nil {
			err = errFound
		}
		return n, err
	})
	ref := found.Load()
	if ref == nil {
		return false, err
	}
	id, there, err := ref.PeekID()
	switch {
	case there:
		c.ID = string(id)
	case err == nil: // it has ended since
		err = c.until(c.Waiter.Done)
	}
	return true, err
}

// errFound ends a search.
var errFound = errors.New("found")

// letter returns the dead letter of a payload; nil: there is none.
func (c *Call) letter(at journal.Position) (*journal.Buried, error) {
	b, err := c.X.Log.BuriedAt(c.Queue.Number, at)
	switch {
	case errors.Is(err, journal.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &b, nil
}

// wait waits for the end of the payload, and for the disk to have it. The error is why it waits no
// longer.
func (c *Call) wait() (End, error) {
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
		return End{}, c.unknown(err)
	}
	return c.Waiter.End, nil
}

// unknown says why it is not known how a payload ended.
func (c *Call) unknown(err error) error {
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
		closing = c.X.Starting.Done() // Stop waits for the handler, and starts nothing any more
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
