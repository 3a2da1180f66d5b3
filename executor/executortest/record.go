package executortest

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/events"
	"github.com/strandjobs/strand/executor/internal/admin"
	"github.com/strandjobs/strand/executor/internal/backdoor"
	"github.com/strandjobs/strand/journal"
)

// Enqueued is a payload that was accepted: of a call of Enqueue, or of a follow-up.
type Enqueued struct {
	Queue, ID string
	Payload   any    // what the codec of the queue makes of it; nil: it does not decode
	Raw       []byte // its bytes
	Position  uint64
	Score     float64
	Due       time.Time         // as it was asked for; see [RequireDue] for that of its job
	Metadata  map[string]string // nil: none
	At        time.Time         // when it was accepted
}

// Ran is a call of a handler, of one id: a call for a batch is one Ran for each of its
// ids.
type Ran struct {
	Queue, ID string
	Attempt   int                     // 1, 2, 3, …
	Payloads  []executor.Payload[any] // one at least; with Handle one
	Began     time.Time

	// Outcome is what came of it: events.Done, events.Failed, events.Snoozed, events.Discarded,
	// events.Cancelled or events.Interrupted. "": it has none, because it still runs, the process was
	// killed, a person deleted the payloads, or a batch was tried again in halves. With PayloadErrors it is
	// that of the payloads that run again, if there are any, or else of the last one.
	Outcome events.Kind
	Error   string        // of Outcome, up to 512 bytes
	Delay   time.Duration // until it runs again
	Final   bool          // a failure after which a payload was buried, or the id halted
	Err     error         // what the handler returned for the id
	Took    time.Duration // from its beginning to its outcome
}

// record is what has happened. Its methods may be called from any goroutine.
type record struct {
	changed chan struct{} // has one when something has happened

	// mu guards what follows. Nothing is called under it.
	mu       sync.Mutex
	enqueued []Enqueued
	runs     []*Ran
	events   []events.Event
	latest   map[[2]string]*Ran // of each job, also of those that are forgotten
	told     int                // events of all times
	starts   int                // how many of all events told are starts
	most     int                // starts that are allowed; see witness.Told
	ran      bool               // more than that
	until    uint64             // the payload with whose outcome all is held; 0: none
}

// locked calls f under a mutex.
func locked(mu *sync.Mutex, f func()) {
	mu.Lock()
	defer mu.Unlock()
	f()
}

// signal says that something has happened.
func (r *record) signal() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// witness records one life.
type witness struct {
	*record
	x     *executor.Executor // set before anything runs
	hold  func()             // keeps the workers from jobs
	dead  atomic.Bool        // what it sees is not recorded any more
	calls atomic.Int64       // of handlers that have not returned
	ahead *atomic.Int64      // see Config
}

var _ backdoor.Witness = (*witness)(nil)

// Now is the clock of the executor.
func (w *witness) Now() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) }

// Accepted implements backdoor.Witness. What it hears of is on the disk, also after a
// kill, which may have come between the commit and this call.
func (w *witness) Accepted(queue string, e *journal.Entry) {
	if e.Restored {
		return
	}
	accepted := Enqueued{
		Queue: queue, ID: string(e.ID), Raw: bytes.Clone(e.Payload), Position: uint64(e.Position), Score: e.Score,
		Due: time.Unix(0, e.Due), Metadata: admin.MetadataOf(e), At: time.Now(),
	}
	locked(&w.mu, func() { w.enqueued = append(w.enqueued, accepted) })
}

// Told implements backdoor.Witness. Too many starts end in a hold: a loop that takes no
// time would keep the clock, and the test, from going on.
func (w *witness) Told(e events.Event) {
	if w.dead.Load() {
		return
	}
	w.mu.Lock()
	w.events = append(w.events, e)
	w.told++
	switch e.Kind {
	case events.Started:
		w.starts++
		if w.starts > w.most && !w.ran {
			w.ran = true
			defer w.hold()
		}
	case events.Done, events.Failed, events.Snoozed, events.Discarded,
		events.Cancelled, events.Interrupted:
		if run := w.latest[[2]string{e.Queue, e.ID}]; run != nil && run.has(e.Position) {
			run.Outcome, run.Error, run.Delay, run.Took = e.Kind, e.Error, e.Delay, e.Duration
			if w.until != 0 && run.has(w.until) {
				defer w.hold()
			}
		}
	case events.Buried, events.Halted:
		if run := w.latest[[2]string{e.Queue, e.ID}]; run != nil && run.Outcome == events.Failed && run.has(e.Position) {
			run.Final = true
		}
	}
	w.mu.Unlock()
	w.signal()
}

func (r *Ran) has(position uint64) bool {
	return slices.ContainsFunc(r.Payloads, func(p executor.Payload[any]) bool { return p.Position == position })
}

// around is the middleware that sees what handlers get and return.
func (w *witness) around(ctx context.Context, run *executor.Run, next func(context.Context) error) error {
	w.calls.Add(1)
	defer w.signal()
	defer w.calls.Add(-1)
	var runs []*Ran
	w.mu.Lock()
	for _, job := range run.Jobs {
		r := &Ran{Queue: run.Queue, ID: job.ID, Attempt: job.Attempt, Payloads: slices.Clone(job.Payloads), Began: time.Now()}
		runs = append(runs, r)
		if !w.dead.Load() {
			w.runs = append(w.runs, r)
			w.latest[[2]string{r.Queue, r.ID}] = r
		}
	}
	w.mu.Unlock()
	err := next(ctx)
	if err == nil || w.dead.Load() {
		return err
	}
	var errs []error
	for _, its := range run.Outcomes(err) {
		errs = append(errs, its)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, r := range runs {
		r.Err = errs[i]
	}
	return err
}

// allow lets handlers be called so often from now on.
func (r *record) allow(runs int) { locked(&r.mu, func() { r.most, r.ran = r.starts+runs, false }) }

// holdAfter has the workers take up nothing more once a payload has an outcome.
func (r *record) holdAfter(position uint64) { locked(&r.mu, func() { r.until = position }) }

// Enqueued returns every payload that was accepted so far, in that order, also those that
// have run or were merged since: of the named queues, or of all.
func (x *Executor) Enqueued(queues ...string) (all []Enqueued) {
	x.record.mu.Lock()
	all = append(all, slices.DeleteFunc(slices.Clone(x.record.enqueued), func(e Enqueued) bool { return !contains(queues, e.Queue) })...) // nil: none
	x.record.mu.Unlock()
	now := x.present().x
	for i := range all {
		e := &all[i]
		if v, err := backdoor.Decode(now, e.Queue, e.Raw); err == nil {
			e.Payload = v
		}
	}
	return all
}

// Runs returns the calls of handlers in the order in which they began; of some queues,
// or of all.
func (x *Executor) Runs(queues ...string) (all []Ran) {
	x.record.mu.Lock()
	defer x.record.mu.Unlock()
	for _, r := range x.record.runs {
		if contains(queues, r.Queue) {
			all = append(all, *r)
		}
	}
	return all
}

// History returns all events, as [executor.Executor.Events] tells them, but that none is
// missed, their Numbers are 0, and pauses of the executor as a whole are not among them.
func (x *Executor) History() (all []events.Event) {
	locked(&x.record.mu, func() { all = slices.Clone(x.record.events) })
	return all
}

// Forget has assertions and lists be about what happens from now on.
func (x *Executor) Forget() {
	locked(&x.record.mu, func() { x.record.enqueued, x.record.runs, x.record.events = nil, nil, nil })
}
