package executor

import (
	"slices"

	"github.com/strandjobs/strand/shard"
)

// hire starts a worker with a place in the crash recorder. x.mu is held.
func (x *Executor) hire(place int) {
	w := &worker{x: x, runs: make(chan *shard.Run, 1), place: place, words: x.words}
	x.workers = append(x.workers, w)
	x.dispatcher.expect(len(x.workers))
	x.working.Go(w.main)
}

// crew returns the workers there are now.
func (x *Executor) crew() []*worker {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.workers)
}

// replace starts a worker in the place of a stuck one, if there is a spare one and
// the batch with that number is still in hand.
func (x *Executor) replace(w *worker, number uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.state != started || len(x.spares) == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	run := w.hand.run
	if run == nil || w.hand.number != number || w.hand.replaced {
		return
	}
	w.hand.replaced = true
	// The worker can't give the run back before this is in the mailbox.
	run.Shard.Tell(func(c *shard.Core) { c.Exempt(run) })
	x.dispatcher.excuse(w)
	last := len(x.spares) - 1
	x.hire(x.spares[last])
	x.spares = x.spares[:last]
}

// dismiss lets a worker go that was replaced and has returned after all. Its place
// is free for another one.
func (x *Executor) dismiss(w *worker) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.workers = slices.DeleteFunc(x.workers, func(other *worker) bool { return other == w })
	x.spares = append(x.spares, w.place)
	x.dispatcher.expect(len(x.workers))
}
