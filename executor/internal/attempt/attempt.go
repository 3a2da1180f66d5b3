// Package attempt is one call of a handler as the executor sees it: the context that the
// handler gets, what it says of its progress, what it stages until its outcome is known, and
// a watchdog for handlers that go on although their time is over.
//
// # What is promised
//
//   - The context of an attempt ends with ErrTimeout at its deadline, with the first cause
//     that End is called with, or with ErrReturned when the handler has returned. After that
//     the attempt says nothing more. It stages nothing more, and knows its executor no more,
//     once the handler has returned.
//   - What is staged belongs to one job of one call, and keeps its order there. Each job may
//     stage MaxCount, and MaxBytes, but one of any size has room. Of several calls in one
//     attempt (a batch that is halved, a middleware that calls again) only the last one of
//     each job counts.
//   - The watchdog reports a handler once, when it has gone on for Config.After since its
//     time was over, and ends a context once for want of a heartbeat. It finds out at the
//     second look at the latest: looks come eight times in the shortest timeout, at least once
//     a second, and not at all while nothing with a timeout is in hand.
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
	"cmp"
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

// Keys of an attempt as a context: for itself, and for its executor until its handler has returned.
type (
	Key         struct{}
	ExecutorKey struct{}
)

// Worker is whose attempt it is.
type Worker interface {
	// Progressed is told what the handler says, and returns whether it has passed that on;
	// then it is not asked again for a second. The attempt goes on meanwhile.
	Progressed(r inspect.ProgressReport) (told bool)

	// Jobs names what it has in hand. The attempt goes on meanwhile.
	Jobs() []admit.Owner
}

// Attempt is the context of one call of a handler. There is one for each job, so it is small: what
// most handlers never ask for is made for those that do.
type Attempt struct {
	of *Pool

	// mu guards what follows.
	mu   sync.Mutex
	more *more // nil: it goes on, has no deadline, and nothing was asked of it
}

// more is what an attempt has that has had, or asked for, more than to be called.
type more struct {
	deadline time.Time       // from the call of the handler on, after which it stays; zero: none
	ended    error           // the cause; nil: the attempt goes on
	late     bool            // the deadline was over then
	full     context.Context // nil until the handler asks for it
	cancel   context.CancelCauseFunc
	staged   *Stage                  // nil: nothing yet
	said     *inspect.ProgressReport // last; nil: nothing
	told     time.Time               // when Progressed has passed something on
}

// returned is what most attempts have that are over. It is never written to.
var returned = &more{ended: ErrReturned, staged: nothingMore}

// Pool makes the attempts of a worker. They are not used again, because a goroutine that a handler
// left behind may have one.
type Pool struct {
	Parent context.Context // of all handlers
	Worker Worker

	room []Attempt // in one allocation
	next int       // in it
}

// Next begins an attempt.
func (p *Pool) Next() (a *Attempt) {
	if p.next == len(p.room) {
		p.room, p.next = make([]Attempt, 64), 0
	}
	a = &p.room[p.next]
	a.of, p.next = p, p.next+1
	return a
}

// Worker returns whose attempt it is.
func (a *Attempt) Worker() Worker { return a.of.Worker }

// own returns what is to be written to. mu is held.
func (a *Attempt) own() *more {
	if a.more == nil || a.more == returned {
		a.more = new(*cmp.Or(a.more, new(more)))
	}
	return a.more
}

// seen returns what there is, for those who only look.
func (a *Attempt) seen() (m more) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.more != nil {
		m = *a.more
	}
	return m
}

// TakeOn says for how long the handler may go on from now: before, its jobs may have waited for the disk.
func (a *Attempt) TakeOn(timeout time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.own().deadline = time.Now().Add(timeout)
}

// Jobs returns what the handler has in hand; none once it has returned. Of nil: none.
func (a *Attempt) Jobs() []admit.Owner {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.more != nil && a.more.staged == nothingMore {
		return nil
	}
	return a.of.Worker.Jobs()
}

// overdue reports whether the deadline is over by now.
func (m *more) overdue() bool { return !m.deadline.IsZero() && !time.Now().Before(m.deadline) }

// End ends the context with a cause. Only the first one counts.
func (a *Attempt) End(cause error) {
	a.mu.Lock()
	m := a.own()
	if m.ended == nil {
		m.ended, m.late = cause, m.overdue()
	}
	cancel := m.cancel
	a.mu.Unlock()
	if cancel != nil {
		cancel(cause)
	}
}

// Over ends the attempt, whose handler has returned, and returns what was staged in it; nil:
// nothing was.
func (a *Attempt) Over() (s *Stage) {
	a.mu.Lock()
	if a.more == nil {
		a.more = returned
		a.mu.Unlock()
		return nil
	}
	m := a.own()
	s, m.staged = m.staged, nothingMore // what is in hand is the shard's again
	a.mu.Unlock()
	a.End(ErrReturned)
	return s
}

// Ended returns with what the attempt was ended, and whether its deadline was over then; nil: it goes
// on, or only its deadline is over.
func (a *Attempt) Ended() (cause error, late bool) {
	m := a.seen()
	return m.ended, m.late
}

// whole returns a context that can be waited for.
func (a *Attempt) whole() context.Context {
	a.mu.Lock()
	defer a.mu.Unlock()
	m := a.own()
	if m.full == nil {
		m.full, m.cancel = context.WithCancelCause(a.of.Parent)
		if m.ended != nil {
			m.cancel(m.ended)
		} else if !m.deadline.IsZero() {
			cancel := m.cancel
			full, stop := context.WithDeadlineCause(m.full, m.deadline, ErrTimeout)
			m.full, m.cancel = full, func(cause error) { cancel(cause); stop() }
		}
	}
	return m.full
}

// Done, Deadline, Err and Value implement [context.Context].
func (a *Attempt) Done() <-chan struct{} { return a.whole().Done() }

func (a *Attempt) Deadline() (time.Time, bool) {
	m := a.seen()
	return m.deadline, !m.deadline.IsZero()
}

func (a *Attempt) Err() error {
	if m := a.seen(); m.full == nil && m.ended == nil && !m.overdue() {
		return a.of.Parent.Err()
	}
	return a.whole().Err()
}

func (a *Attempt) Value(key any) any {
	switch key {
	case Key{}:
		return a
	case ExecutorKey{}: // what is asked with it is for handlers that still run
		if a.seen().staged == nothingMore {
			return nil
		}
		return a.Executor()
	}
	return a.whole().Value(key)
}

// Executor returns whose handler it is, also after the end.
func (a *Attempt) Executor() any { return a.of.Parent.Value(ExecutorKey{}) }

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
	m := a.own()
	if m.ended != nil {
		return
	}
	if m.said == nil { // who says something pays for it
		m.said = new(inspect.ProgressReport)
	}
	m.said.At = now
	change(m.said)
	if tell && now.Sub(m.told) >= reported && a.of.Worker.Progressed(*m.said) {
		m.told = now
	}
}

// Said returns what the handler has said last; false: nothing, or it has returned.
func (a *Attempt) Said() (inspect.ProgressReport, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.more == nil || a.more.ended != nil || a.more.said == nil {
		return inspect.ProgressReport{}, false
	}
	return *a.more.said, true
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
	s := a.stage()
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
	if a.more == returned {
		return nothingMore
	}
	m := a.own()
	if m.staged == nil {
		m.staged = new(Stage)
	}
	return m.staged
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
