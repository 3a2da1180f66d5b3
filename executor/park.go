package executor

import (
	"sync/atomic"

	"github.com/strandjobs/strand/shard"
)

// How a parked job wakes: what it waits for, a key, a lease or a slot, was given
// its waker and calls it once; the waker tells the shard, which unparks the id.
// Nothing asks again, except where a [Locks.Service] can't watch.

// waker returns what makes a parked job run again, and whether it was called.
func (w *worker) waker(it *shard.Item) (*atomic.Bool, func()) {
	woken, q, s, id := new(atomic.Bool), w.queue, w.run.Shard, it.ID
	return woken, func() {
		woken.Store(true)
		s.Tell(func(c *shard.Core) {
			c.Unpark(id)
			q.stepAside(c, id)
		})
	}
}

// postpone gives a job back that has to wait. If it is woken before the shard hears
// of it, it is not parked.
func (w *worker) postpone(it *shard.Item, woken *atomic.Bool) {
	w.x.quarantine.StandAside(w.queue.name, it.ID)
	w.tellParked(it)
	q, id := w.queue, it.ID // it is the shard's in a moment
	w.run.Shard.Tell(func(c *shard.Core) {
		c.Postpone(it, !woken.Load())
		q.stepAside(c, id)
	})
}
