package backlog

import (
	"cmp"
	"container/list"

	"github.com/strandjobs/strand/shard"
)

// Waiter is a call that waits for room.
type Waiter struct {
	account *Account
	weight  shard.Weight
	number  uint64 // those that came before have lower ones

	// Guarded by Backlog.mu.
	stands *quota // in whose line; nil: it waits no more
	at     *list.Element

	// Ready is closed when the call has its room, or Err.
	Ready chan struct{}
	Err   error // what Close was given: there will be no room. To be read once Ready is closed
}

// Wait puts a call in line, unless there is room by now.
func (a *Account) Wait(more shard.Weight) *Waiter {
	b := a.b
	b.mu.Lock()
	defer b.mu.Unlock()
	b.turn++
	w := &Waiter{account: a, weight: more, number: b.turn, Ready: make(chan struct{})}
	switch c := a.obstacle(more, w.number); {
	case b.closed != nil:
		w.Err = b.closed
		close(w.Ready)
	case c == nil:
		a.add(more)
		close(w.Ready)
	default:
		w.join(c)
		b.held(c, more)
	}
	return w
}

// join takes the place in a line that is w's by its number.
func (w *Waiter) join(c *quota) {
	w.stands = c
	for e := c.line.Back(); e != nil; e = e.Prev() {
		if e.Value.(*Waiter).number < w.number {
			w.at = c.line.InsertAfter(w, e)
			return
		}
	}
	w.at = c.line.PushFront(w)
}

func (w *Waiter) leave() {
	w.stands.line.Remove(w.at)
	w.stands, w.at = nil, nil
}

// serve takes those calls out of a line for which there is room under that limit:
// each has its room then, or stands in the line of another limit. The caller holds
// mu.
func (b *Backlog) serve(c *quota) {
	for e := c.line.Front(); e != nil; e = c.line.Front() {
		w := e.Value.(*Waiter)
		if !c.fits(w.weight) {
			return
		}
		w.leave()
		if other := w.account.obstacle(w.weight, w.number); other != nil {
			w.join(other)
			b.held(other, w.weight)
			continue
		}
		w.account.add(w.weight)
		close(w.Ready)
	}
}

// Quit ends the wait of a call that waits no longer, and says for what it waited;
// nil: its wait was over.
func (w *Waiter) Quit() *Full {
	b := w.account.b
	b.mu.Lock()
	defer b.mu.Unlock()
	c := w.stands
	if c == nil {
		if w.Err == nil {
			w.account.subtract(w.weight) // its room came too late
		}
		return nil
	}
	full := b.full(c, w.weight)
	w.leave()
	b.serve(c) // smaller ones may have waited behind it
	return full
}

// Close ends all waits with an error, and those that would begin later. Only the
// first error counts.
func (b *Backlog) Close(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = cmp.Or(b.closed, err)
	if b.watch != nil {
		b.watch.Stop()
	}
	for _, c := range b.quotas {
		for e := c.line.Front(); e != nil; e = c.line.Front() {
			w := e.Value.(*Waiter)
			w.leave()
			w.Err = b.closed
			close(w.Ready)
		}
	}
}
