package work

import (
	"context"
	"slices"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/executor/internal/attempt"
	"github.com/strandjobs/strand/executor/internal/dispatch"
	"github.com/strandjobs/strand/executor/internal/followup"
	"github.com/strandjobs/strand/executor/internal/goroutine"
	"github.com/strandjobs/strand/executor/internal/guard"
	"github.com/strandjobs/strand/executor/internal/verdict"
)

// worker is one goroutine that runs handlers. Its fields belong to that goroutine,
// except where something else is said.
type worker struct {
	inHand
	seat *dispatch.Seat

	// phase, with settled, says where user code was called, which may have ended the goroutine.
	phase   phase
	exited  bool // user code has done that
	settled int  // items of batch that have their outcome
	more    bool // the item in hand has another payload to be run, under shard.Config.Single

	rest     func() []error // of the call of a batch handler; nil: none is called
	attempts attempt.Pool   // for the next calls of a handler

	admission admission
	judge     verdict.Judge      // of the item that was judged last
	staged    []followup.Landing // by the last call of a handler, by item of batch; nil: nothing
	followed  bool               // the run has follow-ups

	dismissed bool // another one works in its place
}

type phase uint8

const (
	looking  phase = iota // for a shard: a scheduler may be asked
	handling              // a handler or a codec runs
	settling              // FormatError, RetryIn, methods of an error
	ending                // RetriesExhausted, or the log is told of burials
)

// main works until runs is closed. User code that calls Goexit ends this goroutine;
// then another one goes on where it was.
func (w *worker) main() {
	ended := false
	defer func() {
		if !ended {
			w.exited = true
			w.crew.working.Go(w.main)
		}
	}()
	w.hand.Lock() // the watchdog and the crash recorder are told which goroutine it is
	w.hand.Goroutine = goroutine.Own()
	w.hand.Unlock()
	w.crew.Recorder.Goroutine(w.place, w.hand.Goroutine.Number())
	w.resume()
	for !w.dismissed {
		r, more := <-w.seat.Runs
		if !more {
			break
		}
		if r == nil {
			w.look()
			continue
		}
		w.run, w.queue = r, w.seat.Queue.Owner.(*Queue)
		w.start = time.Now()
		w.crew.Recorder.Began(w.place, w.start)
		w.goOn()
	}
	ended = true
}

// resume begins the work of a worker, or goes on without the user code that ended
// the goroutine before this one.
func (w *worker) resume() {
	switch w.phase {
	case looking:
		w.look()
		return
	case handling:
		w.callOn()
		w.settle()
	case settling:
		w.judge.GiveUp(w.batch[w.settled])
		w.settled++
		w.settle()
	case ending:
		w.endBatch()
	}
	w.goOn()
}

// look finds the next shard.
func (w *worker) look() {
	w.phase = looking
	ask := !w.exited
	w.exited = false
	w.seat.Next(ask)
}

// goOn runs what is left of the run and gives it back.
func (w *worker) goOn() {
	for (w.more || !w.crew.Draining.Load()) && w.takeBatch() {
		if w.queue.hasTime() {
			w.crew.Watchdog.Wake()
		}
		w.call()
	}
	w.hand.Lock()
	w.batch = w.batch[:0] // its items go back to the shard
	replaced := w.hand.End(w.crew.Watchdog)
	w.hand.Unlock()
	r := w.run
	w.run, w.exited = nil, false
	r.Elapsed = time.Since(w.start)
	s := r.Shard
	s.Finish(r)
	if replaced {
		w.dismissed = true
		w.crew.dismiss(w)
		return
	}
	w.keepPace()
	if w.followed { // and stages no more than the committer writes
		w.followed = false
		w.crew.Log.AwaitRoom(w.crew.Handlers.Done())
	}
	if !w.seat.NextAfter(s) {
		w.look()
	}
}

// keepPace lets the results reach a disk that is short of room before the worker has
// more of them: they are written in their order, so that what is old makes room for
// what is new. A disk that has no room left holds no worker up for longer than this.
func (w *worker) keepPace() {
	if !w.crew.Log.Short() {
		return
	}
	ctx, cancel := context.WithTimeout(w.crew.Handlers, 100*time.Millisecond)
	defer cancel()
	_ = w.crew.Log.Settled(ctx) // a log that has failed says so itself
}

// takeBatch takes the next items in hand, or the next payload of the one that is;
// false when there are none.
func (w *worker) takeBatch() bool {
	w.hand.Lock()
	defer w.hand.Unlock()
	if !w.more {
		w.batch = w.run.Next(w.batch[:0], w.queue.Core.BatchSize)
	}
	w.more, w.pauses, w.called, w.taken = false, w.crew.Pauses.Changes.Load(), time.Time{}, 0
	w.mark(len(w.batch))
	if len(w.batch) == 0 {
		return false
	}
	w.crew.Quarantine.Begun(w.queue.Name, w.batch)
	w.attempt = w.attempts.Next() // under w.hand, so that Cancel and Delete find it
	w.watch()
	return true
}

// call runs the handler for the batch and settles it.
func (w *worker) call() {
	w.phase = handling
	if f := w.queue.Folder; f != nil { // before what the jobs want is computed
		for _, it := range w.batch {
			f.Item(it)
		}
	}
	if !w.queue.Admission.Asked() {
		w.handle()
	} else {
		w.admission.begin()
		w.engage()
		w.admission.rejoin()
	}
	w.settle()
}

// engage has the jobs of the batch meet their conditions, calls the handler for those that need not
// wait, and concludes what is done, from where user code has ended the goroutine.
func (w *worker) engage() {
	if w.admission.ran {
		w.admission.concludeAll()
	} else if w.admission.enter(); len(w.batch) > 0 {
		w.watchAnew()
		for _, it := range w.batch {
			admit.ClaimOf(it.Claim).KeepAlive()
		}
		w.admission.engaged(w.handle)
	}
}

// Resumable has the worker that an attempt is of go on with rest when a call of a handler has ended
// the goroutine. It returns an error for each item, as [Queue.Call] does.
func Resumable(a *attempt.Attempt, rest func() []error) { a.Worker().(*worker).rest = rest }

// callOn is [worker.call] after user code has ended the goroutine: what is left of a
// batch is tried, and all else has failed.
func (w *worker) callOn() {
	switch {
	case w.admission.asking: // for one job, which has failed
		w.engage()
	case w.rest == nil:
		w.attempt.Over()
		w.errs = slices.Repeat([]error{attempt.ErrExited}, len(w.batch))
	case !w.queue.Admission.Asked():
		w.finish(w.rest)
	default:
		w.admission.engaged(func() { w.finish(w.rest) })
	}
	w.admission.rejoin()
}

func (w *worker) handle() {
	if w.heed() || w.paused() {
		return
	}
	if w.taken = len(w.batch); w.queue.Timeout > 0 {
		w.attempt.TakeOn(w.queue.Timeout)
	}
	if w.queue.Events.Watched() {
		w.called = w.queue.Events.Started(w.batch)
	}
	w.finish(func() []error { return w.queue.Call(w.attempt, w.batch) })
}

// finish ends the attempt when the handler has returned, or panicked.
func (w *worker) finish(call func() []error) {
	err := guard.Call(func() error { w.errs = call(); return nil })
	w.rest = nil
	if err != nil {
		w.errs = slices.Repeat([]error{err}, len(w.batch))
	}
	if s := w.attempt.Over(); s != nil {
		w.takeRoom(s)
	}
}

func (w *worker) endBatch() {
	for i := range min(len(w.batch), w.words) {
		w.crew.Recorder.Clear(w.place*w.words + i)
	}
	z := w.crew.Quarantine
	z.Acquit(w.queue.Name, w.batch, w.queue.Core.Single)
	for _, it := range w.batch { // one that did not run, or what it is suspected for stands behind what failed
		z.StandAside(w.queue.Name, it.ID)
	}
	w.errs, w.settled = nil, 0
}

// passOn goes to the next payload of the item in hand, which is done with one, if
// there is another that may run now.
func (w *worker) passOn() bool {
	if !w.queue.Core.Single || len(w.batch) == 0 || w.errs != nil || w.crew.Draining.Load() {
		return false
	}
	it := w.batch[0]
	if it.Outcome.Done+1 == len(it.Payloads) {
		return false
	}
	w.crew.Quarantine.Acquit(w.queue.Name, w.batch, true)
	retry := it.Retry
	if w.more = it.Pass(); w.more && w.queue.Events.Watched() {
		w.queue.Events.Passed(it, retry, w.called)
	}
	return w.more
}

// Progressed implements [attempt.Worker]: an event is about the job in hand, of a batch about
// the first. While the attempt goes on, so does the run: its queue and what is in hand stay.
func (w *worker) Progressed(r inspect.ProgressReport) bool {
	if !w.queue.Events.Watched() {
		return false
	}
	w.hand.Lock()
	it := w.batch[0]
	w.hand.Unlock()
	w.queue.Events.Progress(it, r.At, r.Done, r.Total, r.Message)
	return true
}
