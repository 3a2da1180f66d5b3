package work

import (
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/executor/internal/attempt"
	"github.com/strandjobs/strand/executor/internal/each"
	"github.com/strandjobs/strand/executor/internal/engine"
	"github.com/strandjobs/strand/executor/internal/goroutine"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// Crew is the workers of an executor.
type Crew struct {
	*engine.Engine
	End func(error) // a handler wants the executor to end

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
	hands := func() []*attempt.Hand { return each.Of(c.all(), func(w *worker) *attempt.Hand { return &w.hand }) }
	c.Watchdog = attempt.NewWatchdog(attempt.Config{After: stuck, Hands: hands, Replace: c.replace, Report: func(s attempt.Stuck) {
		c.Logger.Error("handler is stuck", slog.Any("jobs", namesOf(s.Worker)),
			slog.Duration("after", s.Age), slog.String("stack", goroutine.All().Of(s.Goroutine)))
	}})
}

// Hire starts workers. The recorder has so many words for each of them.
func (c *Crew) Hire(words, workers, spares int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.Volatile { // where nobody would read them
		c.words = words
	}
	for place := range workers {
		c.hire(place)
	}
	for i := range spares {
		c.spares = append(c.spares, workers+i)
	}
}

// hire starts a worker with a place in the crash recorder. mu is held.
func (c *Crew) hire(place int) {
	w := &worker{inHand: inHand{crew: c, place: place, words: c.words}, seat: c.Dispatcher.Seat()}
	w.attempts.Parent, w.attempts.Worker = c.Handlers, w
	w.hand.Worker, w.admission.inHand = w, &w.inHand
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

func namesOf(w attempt.Worker) []string { return each.Of(w.Jobs(), admit.Owner.String) }

// Jobs names what the workers have in hand.
func (c *Crew) Jobs() []string {
	names := []string{}
	for _, w := range c.all() {
		names = append(names, namesOf(w)...)
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

// dismiss lets a worker go that was replaced and has returned after all. Its place is free for another one.
func (c *Crew) dismiss(w *worker) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.workers = slices.DeleteFunc(c.workers, func(other *worker) bool { return other == w })
	c.spares = append(c.spares, w.place)
	c.Dispatcher.Expect(len(c.workers))
}

// hands are what workers have in hand.
func (c *Crew) hands(now time.Time) []engine.Hand {
	all := each.Of(c.all(), func(w *worker) engine.Hand { return w.show(now) })
	return slices.DeleteFunc(all, func(h engine.Hand) bool { return len(h.Jobs) == 0 })
}

// endRemoved ends the contexts of what runs and is to be gone.
func (c *Crew) endRemoved() {
	for _, w := range c.all() {
		w.endRemoved()
	}
}
