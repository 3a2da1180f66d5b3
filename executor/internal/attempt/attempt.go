// Package attempt is one call of a handler as the executor sees it: the context that the
// handler gets, what it says of its progress, what it stages until its outcome is known, and
// a watchdog for handlers that go on although their time is over.
//
// # What is promised
//
//   - The context of an attempt ends with ErrTimeout at its deadline, with the first cause
//     that End is called with, or with ErrReturned when the handler has returned. After that
//     the attempt says and stages nothing more, and knows its executor no more.
//   - What is staged belongs to one job of one call, and keeps its order there. Each job may
//     stage MaxCount, and MaxBytes, but one of any size has room. Of several calls in one
//     attempt (a batch that is halved, a middleware that calls again) only the last one of
//     each job counts.
//   - The watchdog reports a handler once, when it has gone on for Config.After since its
//     time was over, and ends a context once for want of a heartbeat. It finds out at the
//     second look at the latest: looks come eight times in the shortest timeout, at least once
//     a second, and not at all while nothing with a timeout is in hand. When the process has
//     stood still for more than a second, both times begin anew as it goes on.
//
// Not promised: that an attempt which was ended returns.
//
// # Concurrency and cost
//
// Any goroutine may use an Attempt as a context. Most handlers never wait for theirs, so what
// one can wait for is made when it is asked for: two contexts and a timer would cost more than
// all else that happens to a job. The lock of an Attempt comes before that of a Hand, and the
// watchdog's before both; no code of the program runs under them. There is no goroutine; the
// watchdog has one timer.
package attempt

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/shard"
)

// Causes of the end of an attempt.
var (
	ErrReturned    = errors.New("executor: the handler has returned")
	ErrTimeout     = errors.New("executor: handler timed out")
	ErrNoHeartbeat = errors.New("executor: no sign of life from the handler")
	ErrCanceled    = errors.New("executor: canceled by an operator")
	ErrDeleted     = errors.New("executor: deleted by an operator")

	// ErrExited is of a handler that has ended its goroutine.
	ErrExited = errors.New("executor: handler called runtime.Goexit")
)

// Canceled is ErrCanceled with what the person says.
type Canceled string

func (c Canceled) Error() string { return string(c) }

// Unwrap returns ErrCanceled.
func (c Canceled) Unwrap() error { return ErrCanceled }

// Keys of an attempt as a context: for itself, and for its executor until it has ended.
type (
	Key         struct{}
	ExecutorKey struct{}
)

// Worker is whose attempt it is.
type Worker interface {
	// Progressed is told what the handler says, and returns whether it has passed that on;
	// then it is not asked again for a second. The attempt goes on meanwhile.
	Progressed(r inspect.ProgressReport) (told bool)
}

// Attempt is the context of one call of a handler.
type Attempt struct {
	parent context.Context // of all handlers
	worker Worker

	// For the worker: when the handler was called, zero if it was not, or no reader of events wanted
	// to know; and with how many jobs.
	Called time.Time
	Taken  int

	// mu guards what follows.
	mu       sync.Mutex
	deadline time.Time       // from the call of the handler on, after which it stays; zero: none
	ended    error           // the cause; nil: the attempt goes on
	late     bool            // the deadline was over then
	queue    string          // of the handler
	inHand   []*shard.Item   // what the handler was called with; nil before that, and once it is over
	full     context.Context // nil until the handler asks for it
	cancel   context.CancelCauseFunc
	staged   *Stage                  // nil: nothing yet
	said     *inspect.ProgressReport // last; nil: nothing
	told     time.Time               // when Progressed has passed something on
}

// Pool makes attempts. They are not used again, because a goroutine that a handler left
// behind may have one.
type Pool []Attempt

// Next begins an attempt.
func (p *Pool) Next(parent context.Context, w Worker) *Attempt {
	if len(*p) == 0 {
		*p = make([]Attempt, 32) // in one allocation
	}
	a := &(*p)[0]
	*p = (*p)[1:]
	a.parent, a.worker = parent, w
	return a
}

// Worker returns whose attempt it is.
func (a *Attempt) Worker() Worker { return a.worker }

// TakeOn says what the handler is called with, and for how long; 0 is without end. Its time
// counts from here: before, its jobs may have waited for the disk.
func (a *Attempt) TakeOn(queue string, items []*shard.Item, timeout time.Duration) {
	a.queue, a.inHand, a.Taken = queue, items, len(items)
	if timeout > 0 {
		deadline := time.Now().Add(timeout)
		a.mu.Lock()
		a.deadline = deadline
		a.mu.Unlock()
	}
}

// Jobs returns what the handler has in hand; none once it has returned. Of nil: none.
func (a *Attempt) Jobs() (list []admit.Owner) {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, it := range a.inHand {
		list = append(list, admit.Owner{Queue: a.queue, ID: it.ID})
	}
	return list
}

// overdue reports whether the deadline is over by now.
func (a *Attempt) overdue() bool { return !a.deadline.IsZero() && !time.Now().Before(a.deadline) }

// End ends the context with a cause. Only the first one counts.
func (a *Attempt) End(cause error) {
	a.mu.Lock()
	if a.ended == nil {
		a.ended, a.late = cause, a.overdue()
	}
	cancel := a.cancel
	a.mu.Unlock()
	if cancel != nil {
		cancel(cause)
	}
}

// Over ends the attempt, whose handler has returned, and returns what was staged in it; nil:
// nothing was.
func (a *Attempt) Over() *Stage {
	a.mu.Lock()
	s := a.staged
	a.inHand, a.staged = nil, nothingMore // they are the shard's again
	a.mu.Unlock()
	a.End(ErrReturned)
	return s
}

// Ended returns with what the attempt was ended, and whether its deadline was over then; nil: it goes
// on, or only its deadline is over.
func (a *Attempt) Ended() (cause error, late bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ended, a.late
}

// whole returns a context that can be waited for.
func (a *Attempt) whole() context.Context {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.full == nil {
		a.full, a.cancel = context.WithCancelCause(a.parent)
		if a.ended != nil {
			a.cancel(a.ended)
		} else if !a.deadline.IsZero() {
			cancel := a.cancel
			full, stop := context.WithDeadlineCause(a.full, a.deadline, ErrTimeout)
			a.full, a.cancel = full, func(cause error) { cancel(cause); stop() }
		}
	}
	return a.full
}

// Deadline implements [context.Context].
func (a *Attempt) Deadline() (time.Time, bool) { return a.deadline, !a.deadline.IsZero() }

// Done implements [context.Context].
func (a *Attempt) Done() <-chan struct{} { return a.whole().Done() }

// Err implements [context.Context].
func (a *Attempt) Err() error {
	a.mu.Lock()
	plain := a.full == nil && a.ended == nil
	a.mu.Unlock()
	if plain && !a.overdue() {
		return a.parent.Err()
	}
	return a.whole().Err()
}

// Value implements [context.Context].
func (a *Attempt) Value(key any) any {
	switch key {
	case Key{}:
		return a
	case ExecutorKey{}: // what is asked with it is for handlers that still run
		if ended, _ := a.Ended(); ended != nil {
			return nil
		}
		return a.Executor()
	}
	return a.whole().Value(key)
}

// Executor returns whose handler it is, also after the end.
func (a *Attempt) Executor() any { return a.parent.Value(ExecutorKey{}) }

// reported is the pause between two reports that are passed on.
const reported = time.Second

// Progress gives a sign of life, and says how far the handler has come.
func (a *Attempt) Progress(done, total int64, message string) {
	a.say(true, func(r *inspect.ProgressReport) { r.Done, r.Total, r.Message = done, total, message })
}

// Heartbeat gives a sign of life.
func (a *Attempt) Heartbeat() { a.say(false, func(*inspect.ProgressReport) {}) }

// say gives a sign of life, with what is to change of the last report.
func (a *Attempt) say(tell bool, change func(*inspect.ProgressReport)) {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended != nil {
		return
	}
	if a.said == nil { // who says something pays for it
		a.said = new(inspect.ProgressReport)
	}
	a.said.At = now
	change(a.said)
	if tell && now.Sub(a.told) >= reported && a.worker.Progressed(*a.said) {
		a.told = now
	}
}

// Said returns what the handler has said last; false: nothing, or it has returned.
func (a *Attempt) Said() (inspect.ProgressReport, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended != nil || a.said == nil {
		return inspect.ProgressReport{}, false
	}
	return *a.said, true
}

// The limits of what one job may stage.
const (
	MaxCount = 1000
	MaxBytes = 4 << 20
)

// Errors of Attempt.Stage, beside ErrReturned.
var (
	ErrTooMany  = errors.New("attempt: too many for one job")
	ErrTooLarge = errors.New("attempt: too many bytes for one job")
)

// Stage is what was staged in one attempt. The zero Stage is in its first call, which
// has the number 0. It is plain data: its attempt serialises all calls.
type Stage struct {
	call   int
	first  staged
	others map[*shard.Item]*staged // nil: there is one job
}

// staged is what was staged for one job.
type staged struct {
	job   *shard.Item
	call  int // in which that was
	list  []any
	bytes int
}

// nothingMore is the stage of all attempts that are over. No call is its call, or changes it.
var nothingMore = &Stage{call: -1, first: staged{call: -1}}

// Stage stages something of so many bytes for a job, from a call of its handler: nil for the
// only job.
func (a *Attempt) Stage(job *shard.Item, call int, what any, bytes int) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stage().add(job, call, what, bytes)
}

// Begin begins a further call of the handler.
func (a *Attempt) Begin(call int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := a.stage(); s != nothingMore {
		s.call = call
	}
}

// Again begins a further call, after one for the same jobs that does not count: what was
// staged in that one is forgotten.
func (a *Attempt) Again(call int) {
	a.Begin(call)
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.staged
	if s.first.call == call-1 {
		s.first.list, s.first.bytes = nil, 0
	}
	for _, j := range s.others {
		if j.call == call-1 {
			j.list, j.bytes = nil, 0
		}
	}
}

// stage returns what was staged so far. mu is held.
func (a *Attempt) stage() *Stage {
	if a.staged == nil {
		a.staged = new(Stage)
	}
	return a.staged
}

func (s *Stage) add(job *shard.Item, call int, what any, bytes int) error {
	if call != s.call {
		return ErrReturned
	}
	j := s.of(job)
	if j == nil && s.first.list == nil && s.first.job == nil {
		j = &s.first
		j.job = job
	} else if j == nil {
		if s.others == nil {
			s.others = make(map[*shard.Item]*staged)
		}
		j = &staged{job: job}
		s.others[job] = j
	}
	switch {
	case len(j.list) >= MaxCount:
		return ErrTooMany
	case len(j.list) > 0 && j.bytes+bytes > MaxBytes:
		return ErrTooLarge
	}
	j.call, j.list, j.bytes = call, append(j.list, what), j.bytes+bytes
	return nil
}

// of returns what was staged for a job; nil: nothing was.
func (s *Stage) of(job *shard.Item) *staged {
	if s.first.job == job {
		return &s.first
	}
	return s.others[job]
}

// Of returns what was staged for a job, in order, and how many bytes that is.
func (s *Stage) Of(job *shard.Item) (all []any, bytes int) {
	if j := s.of(job); j != nil {
		return j.list, j.bytes
	}
	return nil, 0
}
