package work

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/admin"
	"github.com/strandjobs/strand/executor/internal/attempt"
	"github.com/strandjobs/strand/executor/internal/engine"
	"github.com/strandjobs/strand/executor/internal/goroutine"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// Crew is the workers of an executor.
type Crew struct {
	*engine.Engine
	Logger   *slog.Logger
	Handlers context.Context // what the contexts of handlers come from
	Starting context.Context // ends with Closed when nothing new is started
	Volatile bool
	Crashes  int         // of which a job is given up; 0: none is
	Fail     func(error) // the journal can't give back a payload
	End      func(error) // a handler wants the executor to end

	Draining atomic.Bool // nothing new is started

	Recorder *journal.CrashRecorder // has a place for each worker, and for each spare one
	working  sync.WaitGroup

	// mu guards what follows. It comes before the locks of hands and of the dispatcher.
	mu      sync.Mutex
	workers []*worker
	spares  []int // places in the crash recorder for workers that replace others
	words   int   // of the crash recorder, for each worker
}

// Open has the engine show what the workers do. Handlers are stuck that are late by that much.
func (c *Crew) Open(stuck time.Duration) {
	c.Hands, c.EndRemoved = c.hands, c.endRemoved
	hands := func() (all []*attempt.Hand) {
		for _, w := range c.all() {
			all = append(all, &w.hand)
		}
		return all
	}
	c.Watchdog = attempt.NewWatchdog(attempt.Config{After: stuck, Hands: hands, Replace: c.replace, Report: func(s attempt.Stuck) {
		c.Logger.Error("handler is stuck", slog.Any("jobs", s.Worker.(*worker).jobs()),
			slog.Duration("after", s.Age), slog.String("stack", goroutine.All().Of(s.Goroutine)))
	}})
}

// Hire starts workers. The recorder has so many words for each of them.
func (c *Crew) Hire(words, workers, spares int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.words = words
	for place := range workers {
		c.hire(place)
	}
	for i := range spares {
		c.spares = append(c.spares, workers+i)
	}
}

// hire starts a worker with a place in the crash recorder. mu is held.
func (c *Crew) hire(place int) {
	w := &worker{crew: c, seat: c.Dispatcher.Seat(), place: place, words: c.words}
	w.hand.Worker = w
	c.workers = append(c.workers, w)
	c.Dispatcher.Expect(len(c.workers))
	c.working.Go(w.main)
}

// all returns the workers there are now.
func (c *Crew) all() []*worker {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.workers)
}

// Drain has no worker begin anything.
func (c *Crew) Drain() (quiet <-chan struct{}) {
	c.Draining.Store(true)
	return c.Dispatcher.Close()
}

// Close lets the workers go, whose shards have stopped.
func (c *Crew) Close() {
	for _, w := range c.all() {
		close(w.seat.Runs)
	}
}

// Wait waits until all have gone.
func (c *Crew) Wait() { c.working.Wait() }

// Jobs names what the workers have in hand.
func (c *Crew) Jobs() []string {
	names := []string{}
	for _, w := range c.all() {
		names = append(names, w.jobs()...)
	}
	slices.Sort(names)
	return names
}

// replace starts a worker in the place of a stuck one, if there is a spare one and
// the batch is still in hand.
func (c *Crew) replace(s attempt.Stuck) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Draining.Load() || len(c.spares) == 0 {
		return
	}
	w := s.Worker.(*worker)
	w.hand.Lock()
	defer w.hand.Unlock()
	run := w.hand.Replace(s)
	if run == nil {
		return
	}
	// The worker can't give the run back before this is in the mailbox.
	run.Shard.Tell(func(c *shard.Core) { c.Exempt(run) })
	c.Dispatcher.Excuse(w.seat)
	last := len(c.spares) - 1
	c.hire(c.spares[last])
	c.spares = c.spares[:last]
}

// dismiss lets a worker go that was replaced and has returned after all. Its place
// is free for another one.
func (c *Crew) dismiss(w *worker) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.workers = slices.DeleteFunc(c.workers, func(other *worker) bool { return other == w })
	c.spares = append(c.spares, w.place)
	c.Dispatcher.Expect(len(c.workers))
}

// hands are what workers have in hand. What a worker writes without the lock of its hand, it
// writes while that is nothing.
func (c *Crew) hands(now time.Time) (all []engine.Hand) {
	for _, w := range c.all() {
		w.hand.Lock()
		h := engine.Hand{Goroutine: w.hand.Goroutine}
		if h.More = max(len(w.batch)-inspect.MaxListed, 0); len(w.batch) > 0 {
			h.Queue, h.Worker, h.Since, h.Age, h.Timeout, h.Stuck = w.queue.Name, w.place, w.start, now.Sub(w.start), w.queue.Timeout, w.hand.Stuck
		}
		for _, it := range w.batch[:len(w.batch)-h.More] {
			p, retry := it.InHand()
			h.Jobs = append(h.Jobs, inspect.RunningJob{ID: it.ID, Attempt: retry + admin.FirstAttempt, Position: uint64(p.Ref.Position()), Payloads: len(it.Payloads)})
		}
		a := w.attempt
		w.hand.Unlock()
		if len(h.Jobs) == 0 {
			continue
		}
		if r, said := a.Said(); said {
			h.Progress = &r
		}
		all = append(all, h)
	}
	return all
}

// How a person ends jobs. What waits ends on its shard, in one change with all that it
// holds. For what runs the shard notes what is wanted, and has the last word when the
// worker gives the item back; here the context of its handler ends. The worker makes
// its context known and then looks for the note, and who has had the note made looks
// for the context: so one of the two finds the other.

// causeOf is what the context of a handler ends with.
func causeOf(r *shard.Removal) error {
	if r.Verdict == shard.VerdictDeleted {
		return attempt.ErrDeleted
	}
	return attempt.Canceled(r.Reason)
}

// heed reports whether a person wants some of what the worker has in hand to be gone.
// Then no handler is called, and the rest of its batch runs again.
func (w *worker) heed() bool {
	r := w.removal()
	if r == nil {
		return false
	}
	w.skip(causeOf(r))
	return true
}

// skip ends what is in hand before its handler is called.
func (w *worker) skip(cause error) {
	w.attempt.End(cause)
	w.errs = slices.Repeat([]error{cause}, len(w.batch))
}

var errPaused = errors.New("executor: paused") // of what no handler was called for: it runs again

// paused reports whether a pause has returned that means some of what the worker has in hand, while a
// condition or user code kept it from its handler. Then none is called, and all of it goes back.
func (w *worker) paused() bool {
	if w.pauses == w.crew.Pauses.Changes.Load() {
		return false
	}
	paused, ids := false, make([]string, len(w.batch))
	for i, it := range w.batch {
		ids[i] = it.ID
	}
	if err := w.run.Shard.Do(w.crew.Handlers, func(c *shard.Core) { paused = slices.ContainsFunc(ids, c.Paused) }); err != nil || !paused { // or it may be asked yet
		return false
	}
	w.skip(errPaused)
	return true
}

// removal returns what a person wants of what the worker has in hand. The worker calls
// it, or a holder of mu.
func (w *worker) removal() *shard.Removal {
	for _, it := range w.batch {
		if r := it.Removal(w.queue.Core.Single); r != nil {
			return r
		}
	}
	return nil
}

// endRemoved ends the contexts of what runs and is to be gone. No user code is called
// under a lock: a context may have functions that wait for its end.
func (c *Crew) endRemoved() {
	for _, w := range c.all() {
		w.hand.Lock()
		a, r := w.attempt, w.removal()
		w.hand.Unlock()
		if r != nil {
			a.End(causeOf(r))
		}
	}
}
