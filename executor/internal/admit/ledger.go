package admit

import (
	"sync"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// Ledger has what jobs hold and the journal's copy of it change together: what is done
// under it comes to the journal in the order in which it happened.
type Ledger struct {
	Log  interface{ Record(*journal.Change) }
	Book Book // nil: there is none

	// mu is held while what is journaled changes and the journal is given that, which
	// does not wait. No user code is called.
	mu     sync.Mutex
	closed bool
}

// Book is something that changes under a ledger. Open is called before the change; Close
// after it, adds what the journal has to know, and returns whom to wake when nothing is
// held, or nil.
type Book interface {
	Open()
	Close(c *journal.Change) (wake func())
}

// Do has f change what is in the book, and records that together with c in one commit;
// without c only if there is something to be recorded.
func (b *Ledger) Do(c *journal.Change, f func()) {
	silent := c == nil
	if silent {
		c = new(journal.Change)
	}
	b.mu.Lock()
	var wake func()
	if b.Book == nil {
		f()
	} else {
		b.Book.Open()
		f()
		wake = b.Book.Close(c)
	}
	if !silent || len(c.Sets) > 0 {
		b.Log.Record(c)
	}
	b.mu.Unlock()
	if wake != nil {
		wake()
	}
}

// Settle records what a shard has decided, with what it means for what the jobs of a list
// held; also adds what belongs to it besides. The list may be nil.
func (b *Ledger) Settle(l *List, c *shard.Change, also func()) {
	if l == nil {
		l = new(List)
	}
	b.Do(&c.Change, func() {
		for _, w := range l.witnesses {
			w.Merging(c)
		}
		for _, held := range c.Claims {
			c.Sets = append(c.Sets, held.Held.Settle(held.Verdict, held.Over)...)
		}
		for _, w := range l.witnesses {
			w.Ending(c)
		}
		also()
	})
	for _, w := range l.listeners {
		w.Recorded(c)
	}
	for _, held := range c.Claims {
		held.Held.Release(held.Over)
	}
}

// Try is Do for what a person does; false: nothing is changed any more.
func (b *Ledger) Try(c *journal.Change, f func()) (open bool) {
	b.Do(c, func() {
		if open = !b.closed; open {
			f()
		}
	})
	return open
}

// View lets f look at what is in the book.
func (b *Ledger) View(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
}

// Closed reports whether nothing is changed by hand any more. The ledger is held.
func (b *Ledger) Closed() bool { return b.closed }

// End keeps people from changing anything. What jobs do is still recorded.
func (b *Ledger) End() { b.Do(nil, func() { b.closed = true }) }
