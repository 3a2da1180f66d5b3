package executor

import (
	"cmp"
	"container/list"

	"github.com/strandjobs/strand/shard"
)

// waiter is a call that waits for room in the backlog.
type waiter struct {
	queue  *queue
	weight shard.Weight
	number uint64 // those that came before have lower ones

	// Guarded by backlog.mu.
	stands *quota // in whose line; nil: it waits no more
	at     *list.Element

	ready chan struct{} // closed when it has its room, or err
	err   error         // why it has none
}

// await puts a call in line, unless there is room by now.
func (b *backlog) await(q *queue, more shard.Weight) *waiter {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.turn++
	w := &waiter{queue: q, weight: more, number: b.turn, ready: make(chan struct{})}
	switch c := b.obstacle(q, more, w.number); {
	case b.closed != nil:
		w.err = b.closed
		close(w.ready)
	case c == nil:
		b.add(q, more)
		close(w.ready)
	default:
		w.join(c)
		b.held(c, more)
	}
	return w
}

// join takes the place in a line that is w's by its number.
func (w *waiter) join(c *quota) {
	w.stands = c
	for e := c.line.Back(); e != nil; e = e.Prev() {
		if e.Value.(*waiter).number < w.number {
			w.at = c.line.InsertAfter(w, e)
			return
		}
	}
	w.at = c.line.PushFront(w)
}

func (w *waiter) leave() {
	w.stands.line.Remove(w.at)
	w.stands, w.at = nil, nil
}

// serve hands out the room that q has left. The caller holds mu.
func (b *backlog) serve(q *queue) {
	for _, c := range q.quotas {
		b.serveLine(c)
	}
}

// serveLine lets those in a line go on for whom there is room under that limit: each
// has it, or stands in the line of another one.
func (b *backlog) serveLine(c *quota) {
	for e := c.line.Front(); e != nil; e = c.line.Front() {
		w := e.Value.(*waiter)
		if !c.fits(w.weight) {
			return
		}
		w.leave()
		if other := b.obstacle(w.queue, w.weight, w.number); other != nil {
			w.join(other)
			b.held(other, w.weight)
			continue
		}
		b.add(w.queue, w.weight)
		close(w.ready)
	}
}

// quit ends the wait of a call that waits no longer, and says for what it waited;
// nil: it has not.
func (b *backlog) quit(w *waiter) *FullError {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := w.stands
	if c == nil {
		if w.err == nil {
			b.subtract(w.queue, w.weight) // it came too late
		}
		return nil
	}
	full := b.full(c, w.weight)
	w.leave()
	b.serveLine(c) // smaller ones may have waited behind it
	return full
}

// close sends those who wait away with an error, and those who would have to.
func (b *backlog) close(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = cmp.Or(b.closed, err)
	if b.watch != nil {
		b.watch.Stop()
	}
	for _, c := range b.quotas {
		for e := c.line.Front(); e != nil; e = c.line.Front() {
			w := e.Value.(*waiter)
			w.leave()
			w.err = b.closed
			close(w.ready)
		}
	}
}
