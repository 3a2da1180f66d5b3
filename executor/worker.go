package executor

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strandjobs/strand/executor/internal/goroutine"
	"github.com/strandjobs/strand/shard"
)

// worker is one goroutine that runs handlers. Its fields belong to that goroutine,
// except where something else is said.
type worker struct {
	x *Executor
	// runs has room for the one run that it may be assigned. Nil means: look for a
	// shard.
	runs   chan *shard.Run
	serves *fairShare // nil while it works for no queue; guarded by dispatcher.mu

	run   *shard.Run // what it works on; nil while idle
	queue *queue     // of run; set by the dispatcher, before the shard assigns it
	start time.Time  // of run

	// phase, with settled, says where user code was called, which may have ended
	// the goroutine.
	phase   phase
	exited  bool        // user code has done that
	errs    []error     // what became of batch; nil: all are done
	settled int         // items of batch that have their outcome
	fatal   *FatalError // of batch, or of its last payload; nil: none
	more    bool        // the item in hand has another payload to be run, under shard.Config.Single

	halves   halves    // of the batch handler that is called; nil: none is
	attempt  *attempt  // the context of the last call of a handler
	attempts []attempt // for the next ones

	staged   *attemptStage // by the last call of a handler; nil: nothing
	rooms    []int         // that its follow-ups have taken, by item of the batch
	followed bool          // the run has follow-ups

	refused  []*shard.Item // of batch: those that did not get what they need to run
	refusals []error       // and why

	place, words int  // its part of the crash recorder
	dismissed    bool // another one works in its place

	// mu guards writes to batch and hand, and reads by others. No user code is
	// called under it.
	mu    sync.Mutex
	batch []*shard.Item // what the handler has in hand
	hand  watched       // the same, as the watchdog sees it

	sign atomic.Pointer[sign] // of life, the last that a handler gave; written by handlers
}

type phase uint8

const (
	looking  phase = iota // for a shard: a scheduler may be asked
	handling              // a handler or a codec runs
	settling              // FormatError, RetryIn, methods of an error
	ending                // RetriesExhausted, or the log is told of burials
)

// Assign implements [shard.Worker].
func (w *worker) Assign(r *shard.Run) { w.runs <- r }

// Return implements [shard.Worker].
func (w *worker) Return() { w.x.dispatcher.takeBack(w) }

// main works until runs is closed. User code that calls Goexit ends this goroutine;
// then another one goes on where it was.
func (w *worker) main() {
	ended := false
	defer func() {
		if !ended {
			w.exited = true
			w.x.working.Go(w.main)
		}
	}()
	w.showItself()
	w.resume()
	for !w.dismissed {
		r, more := <-w.runs
		if !more {
			break
		}
		if r == nil {
			w.look()
			continue
		}
		w.run = r
		w.start = time.Now()
		w.x.running.Began(w.place, w.start)
		w.goOn()
	}
	ended = true
}

// showItself tells the watchdog and the crash recorder which goroutine it is.
func (w *worker) showItself() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hand.goroutine = goroutine.Own()
	w.x.running.Goroutine(w.place, w.hand.goroutine.Number())
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
		w.giveUp(w.batch[w.settled])
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
	if s := w.x.dispatcher.next(w, ask); s != nil {
		s.GrantHere(w)
	}
}

// goOn runs what is left of the run and gives it back.
func (w *worker) goOn() {
	for (w.more || !w.x.draining.Load()) && w.startBatch() {
		w.call()
	}
	replaced := w.emptyHands()
	r := w.run
	r.Elapsed = time.Since(w.start)
	w.run, w.exited = nil, false
	s := r.Shard
	s.Finish(r)
	if replaced {
		w.dismissed = true
		w.x.dismiss(w)
		return
	}
	w.keepPace()
	if w.followed { // and stages no more than the committer writes
		w.followed = false
		w.x.log.AwaitRoom(w.x.handlers.Done())
	}
	if w.x.dispatcher.strict.Load() && s.Tell(func(*shard.Core) { w.runs <- nil }) {
		return // it looks when the shard has offered what it has next
	}
	w.look()
}

// keepPace lets the results reach a disk that is short of room before the worker has
// more of them: they are written in their order, so that what is old makes room for
// what is new. A disk that has no room left holds no worker up for longer than this.
func (w *worker) keepPace() {
	if !w.x.log.Short() {
		return
	}
	ctx, cancel := context.WithTimeout(w.x.handlers, 100*time.Millisecond)
	defer cancel()
	_ = w.x.log.Settled(ctx) // a log that has failed says so itself
}

// startBatch takes the next items in hand, or the next payload of the one that is;
// false when there are none.
func (w *worker) startBatch() bool {
	if !w.takeBatch() {
		return false
	}
	if w.queue.hasTime() {
		w.x.watchdog.wake()
	}
	return true
}

func (w *worker) takeBatch() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.more {
		w.batch = w.run.Next(w.batch[:0], w.queue.batch)
	}
	w.more = false
	for i, it := range w.batch[:min(len(w.batch), w.words)] {
		w.x.running.Set(w.place*w.words+i, w.queue.core.InHand(it)[0].Ref.Position())
	}
	if len(w.batch) == 0 {
		return false
	}
	w.x.quarantine.Begun(w.queue.name, w.batch)
	if w.queue.hasTime() {
		w.hand.begin(w.queue, w.run)
	}
	w.newAttempt() // here, so that a person who ends it finds it
	return true
}

// call runs the handler for the batch and settles it.
func (w *worker) call() {
	w.phase = handling
	if f := w.queue.folder; f != nil { // before what the jobs want is computed
		for _, it := range w.batch {
			f.item(it)
		}
	}
	if !w.queue.admission.Asked() {
		w.handle()
	} else {
		w.callLocked()
	}
	w.settle()
}

// callLocked runs the handler for those of the batch that need not wait.
func (w *worker) callLocked() {
	w.enter()
	if len(w.batch) > 0 {
		w.watchAnew()
		for _, it := range w.batch {
			claimOf(it.Claim).KeepAlive()
		}
		w.engaged(w.handle)
	}
	w.rejoin()
}

// watchAnew has the watchdog count from here: what jobs need before they run, user code or
// the disk may be slow to give, and that is not the handler's time.
func (w *worker) watchAnew() {
	if !w.queue.hasTime() {
		return
	}
	w.mu.Lock()
	w.hand.begin(w.queue, w.run)
	if w.queue.heartbeat > 0 {
		w.hand.attempt = w.attempt
	}
	w.mu.Unlock()
	w.x.watchdog.wake()
}

// halves is a batch that may go on when a call of its handler has ended the goroutine.
type halves interface{ exited() []error }

// callOn is [worker.call] after user code has ended the goroutine: what is left of a
// batch is tried, and all else has failed.
func (w *worker) callOn() {
	switch {
	case w.halves == nil:
		w.attempt.over()
		w.errs = repeat(ErrHandlerExited, len(w.batch))
	case !w.queue.admission.Asked():
		w.handleRest()
	default:
		w.engaged(w.handleRest)
	}
	w.rejoin()
}

func (w *worker) handle() {
	if w.heed() {
		return
	}
	w.attempt.takeOn(w.queue, w.batch)
	if w.queue.events.Watched() {
		w.attempt.called = w.queue.events.Started(w.batch)
	}
	w.over(guarded(func() error {
		w.errs = w.queue.call(w.attempt, w.batch)
		return nil
	}))
}

func (w *worker) handleRest() {
	w.over(guarded(func() error {
		w.errs = w.halves.exited()
		return nil
	}))
}

// over ends the attempt when the handler has returned, or panicked.
func (w *worker) over(err error) {
	w.halves = nil
	if err != nil {
		w.errs = repeat(err, len(w.batch))
	}
	if s := w.attempt.over(); s != nil {
		w.takeRoom(s)
	}
}

func repeat(err error, n int) []error {
	errs := make([]error, n)
	for i := range errs {
		errs[i] = err
	}
	return errs
}

func (w *worker) endBatch() {
	for i := range min(len(w.batch), w.words) {
		w.x.running.Clear(w.place*w.words + i)
	}
	z := &w.x.quarantine
	z.Acquit(w.queue.name, w.batch, w.queue.core.Single)
	if w.queue.core.Single {
		for _, it := range w.batch { // what it is suspected for may stand behind what failed
			z.StandAside(w.queue.name, it.ID)
		}
	}
	w.errs, w.settled = nil, 0
}

// passOn goes to the next payload of the item in hand, which is done with one, if
// there is another that may run now.
func (w *worker) passOn() bool {
	if !w.queue.core.Single || len(w.batch) == 0 || w.errs != nil || w.x.draining.Load() {
		return false
	}
	it := w.batch[0]
	if it.Outcome.Done+1 == len(it.Payloads) {
		return false
	}
	w.x.quarantine.Acquit(w.queue.name, w.batch, true)
	retry := it.Retry
	if w.more = it.Pass(); w.more && w.queue.events.Watched() {
		w.queue.events.Passed(it, retry, w.attempt.called)
	}
	return w.more
}

// emptyHands lets go of the last batch: its items go back to the shard. It reports
// whether another worker has taken this one's place.
func (w *worker) emptyHands() (replaced bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.batch = w.batch[:0]
	w.hand.end(w.x)
	return w.hand.replaced
}

// jobs names what the worker has in hand. Any goroutine may call it.
func (w *worker) jobs() (names []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, it := range w.batch {
		names = append(names, holder{Queue: w.queue.name, ID: it.ID}.String())
	}
	return names
}
