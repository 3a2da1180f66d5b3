package admit

import (
	"sync"
	"time"

	"github.com/strandjobs/strand/journal"
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

// Alarm is a timer that is set to what happens next by itself, of all that its owner
// knows of. It is guarded by the owner's mutex.
type Alarm struct {
	timer *time.Timer   // nil until it was set
	rings time.Duration // when it does, since base; 0: it does not
}

// Set has f called at a time since base, or before that if it was set so: then it rings
// for nothing, once, and is set again. Without ok it is not called. f has to say that it
// was, with Rang.
func (a *Alarm) Set(base time.Time, at time.Duration, ok bool, f func()) {
	switch {
	case !ok:
		if a.rings = 0; a.timer != nil {
			a.timer.Stop()
		}
		return
	case a.rings > 0 && a.rings <= at:
		return
	case a.timer == nil:
		a.timer = time.AfterFunc(at-time.Since(base), f)
	default:
		a.timer.Reset(at - time.Since(base))
	}
	a.rings = at
}

// Rang notes that it did.
func (a *Alarm) Rang() { a.rings = 0 }
