package journal

// A log that works in memory only has nothing to commit but state keys and the morgue.
// So a payload that comes alone, without a key, is delivered at once by the goroutine
// that appends it, and is read in the open block. What waits for a commit comes before
// it: while there is such a thing, the payload waits for the next one, too.

const (
	// streamBytes is how large the open block may become by it.
	streamBytes = 64 << 10
	// streamTurn is how many payloads an appender delivers for others, at most.
	streamTurn = 16
)

// stream keeps the payloads of a route in position order that are delivered without a
// commit: who finds another one at it leaves its own to that one. It is guarded by Log.mu.
type stream struct {
	busy    bool
	turn    int         // payloads that were left to the one that is at it
	waiting []*Delivery // of these
}

// stream adds an entry to the open block that needs no commit, and returns what holds
// it. Nil: it has to wait for one. The caller holds mu.
func (h *head) stream(e *Entry) *Delivery {
	if h.open.pends() || h.open.Size() > streamBytes || !h.committing.TryRLock() {
		return nil
	}
	if n := int(e.Route) + 1 - len(h.streams); n > 0 {
		h.streams = append(h.streams, make([]stream, n)...)
	}
	s := &h.streams[e.Route]
	if s.busy {
		defer h.committing.RUnlock() // the one that is at it has it, too
		if s.turn == streamTurn {
			return nil
		}
	}
	now := int64(0)
	off := h.admit(e, &now)
	d := newDelivery(h.open.Block, e.Route)
	d.offsets, d.alone, d.leads = append(d.offsets, off), e.Position, !s.busy
	if s.busy {
		s.turn++
		s.waiting = append(s.waiting, d)
	} else {
		s.busy, s.turn = true, 0
	}
	return d
}

// following returns what is to be delivered to a route next, nil when nothing is.
func (h *head) following(route uint32) (d *Delivery) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := &h.streams[route]
	if len(s.waiting) == 0 {
		s.busy = false
		return nil
	}
	d, s.waiting = s.waiting[0], s.waiting[1:]
	return d
}

// ticket stands for what was streamed. The appender lets go of d.
func (d *Delivery) ticket() Ticket {
	t := Ticket{commit: settled, first: d.alone}
	if d.late.Load() == nil {
		c := &commit{first: d.alone, done: make(chan struct{})}
		if d.late.CompareAndSwap(nil, c) {
			t.commit = c
			return t
		}
	}
	t.into = d.into
	d.free()
	return t
}

// arrived is Done of what was streamed. Of its consumer and its appender, who comes
// last lets it be used again.
func (d *Delivery) arrived() {
	if c := d.late.Swap(settled); c != nil {
		c.merged = []Position{d.into}
		d.free()
		close(c.done)
	}
}
