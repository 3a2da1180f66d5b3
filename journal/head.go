package journal

import (
	"context"
	"errors"
	"sync"

	"github.com/strandjobs/strand/journal/internal/block"
	"github.com/strandjobs/strand/journal/internal/format"
)

// head is the end of the log that grows: it gives out positions, and has the open block,
// the accounts of the blocks that are sealed, and why nothing more is accepted. It never
// waits for the disk. What it has accepted, the committer takes with sealLocked.
type head struct {
	cfg      Config
	volatile bool          // the store keeps no blocks: nothing outlives the process
	wake     chan struct{} // holds a token while there may be something to commit

	// committing is held during a commit, by the committer or, in memory, an
	// appender, and for reading by who streams. It comes before mu.
	committing sync.RWMutex

	// mu is held for memory work only, never across I/O or a callback. It
	// decides the order of everything: the order in which it is taken is the
	// order of positions. It guards all that follows.
	mu       sync.Mutex
	open     *openBlock
	spare    *openBlock    // the one before, for its buffers
	last     *commit       // of the block before the open one
	room     chan struct{} // closed when the open block was taken; nil while no caller waits
	manifest format.Manifest
	chain    *block.Chain // of the sealed blocks
	streams  []stream     // by route; none but in memory
	disk     fullDisk     // what is done while there is no room on it
	group    groupCommit

	err    error // why nothing more is accepted: ErrClosed or ErrFailed
	lost   error // what could not be read back
	closed bool
}

// lockWithRoom takes mu once need bytes may be added to the open block.
func (h *head) lockWithRoom(ctx context.Context, need int) error {
	if err := cause(ctx); err != nil {
		return err
	}
	for {
		h.mu.Lock()
		if err := h.refusal(); err != nil {
			h.mu.Unlock()
			return err
		}
		if size := h.open.Size(); size+need <= h.cfg.MaxBlockBytes || size <= format.HeaderSize {
			return nil
		}
		room := h.nextRoom()
		h.mu.Unlock()
		select {
		case <-room:
		case <-done(ctx):
			return ended(ctx)
		}
	}
}

// nextRoom is closed when the open block has been taken, which begins at once. The
// caller holds mu.
func (h *head) nextRoom() <-chan struct{} {
	if h.room == nil {
		h.room = make(chan struct{})
		h.group.end()
	}
	return h.room
}

// refusal says why nothing is accepted now. The caller holds mu.
func (h *head) refusal() error {
	if h.err == nil && h.disk.full {
		return ErrFull
	}
	return h.err
}

// accept adds entries to the open block, and unlocks mu, which the caller holds:
// also when sets panics, and then nothing has changed. What is streamed has no ticket
// yet.
func (h *head) accept(entries []Entry, posted bool, sets func(Position) []Set) (ticket Ticket, streamed *Delivery) {
	defer h.mu.Unlock()
	if len(entries) == 0 {
		return Ticket{commit: settled}, nil // no commit would ever come
	}
	ticket = Ticket{commit: h.open.commit, first: h.manifest.Next}
	call := uint32(len(h.open.Entries)) // where the first entry will be
	if sets != nil {
		for _, s := range sets(ticket.first) {
			c := s.Edit()
			c.Owner = call
			h.open.changes = append(h.open.changes, c)
		}
	}
	if h.volatile && len(entries) == 1 {
		if d := h.stream(&entries[0]); d != nil {
			return ticket, d
		}
	}
	now := int64(0)
	for i := range entries {
		e := &entries[i]
		off := h.admit(e, &now)
		d := h.open.route(e.Route, off)
		if len(entries) == 1 {
			ticket.taken = d.taken
		}
		if posted {
			h.open.keep(off, call)
		}
	}
	if !posted {
		h.open.calls++
		h.group.called()
	}
	return ticket, nil
}

// admit gives e the next position, and what depends on it, and returns where it is in
// the open block. The caller holds mu.
func (h *head) admit(e *Entry, now *int64) (off uint32) {
	e.Kind, e.Restored, e.Position = KindEnqueued, false, h.manifest.Next
	h.manifest.Next++
	if e.Floor != nil {
		e.Floor.Settle(e, now)
	}
	return h.open.Add(e, false).Off
}

// Raise makes sure that no entry that is appended with this floor from now on gets a lower score.
func (h *head) Raise(f *Floor, score float64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f.Raise(score)
}

func (h *head) wakeCommitter() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// newest stands for everything that was accepted so far. The caller holds mu.
func (h *head) newest() Ticket {
	if h.open.empty() {
		return Ticket{commit: h.last}
	}
	return Ticket{commit: h.open.commit}
}

// Flush returns nil when everything that was accepted before is on disk, whether or not consumers have taken it in.
// While the disk is full it returns ErrFull at once, even if nothing waits: what was accepted is not lost. Its other
// errors are ErrFailed, and ErrUnknown with the cause of ctx, or of a commit that has failed meanwhile.
func (h *head) Flush(ctx context.Context) error {
	h.mu.Lock()
	return h.await(ctx, false)
}

// Settled waits until what was recorded is on disk, as Flush does, and on a full disk until there is room for that:
// results have the reserve. Its errors are those of Flush but ErrFull.
func (h *head) Settled(ctx context.Context) error {
	_, err := h.Arrived(ctx, 0)
	return err
}

// Arrived is Settled for posted entries, too. False: the entry at p has been handed to its
// consumer, if it was accepted before the call. True: the entry waits for room on a full
// disk, and Arrived does not wait for that.
func (h *head) Arrived(ctx context.Context, p Position) (held bool, err error) {
	for {
		h.mu.Lock()
		if h.disk.holds(p) {
			h.mu.Unlock()
			return true, nil
		}
		err := h.await(ctx, true)
		if !errors.Is(err, ErrFull) || errors.Is(err, ErrFailed) { // closed on a full disk, it is never written
			return false, err
		}
	}
}

// await waits for everything that was accepted so far; on a full disk only if told to.
// It unlocks mu, which the caller holds.
func (h *head) await(ctx context.Context, full bool) error {
	if err := h.err; errors.Is(err, ErrFailed) {
		h.mu.Unlock()
		return err
	}
	if h.disk.full && !full {
		h.mu.Unlock()
		return ErrFull
	}
	ticket := h.newest()
	h.mu.Unlock()
	h.wakeCommitter()
	return ticket.Wait(ctx)
}

// wakeWaiters has those who wait for room look again. The caller holds mu.
func (h *head) wakeWaiters() {
	if h.room != nil {
		close(h.room)
		h.room = nil
	}
}

func (h *head) isClosed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.closed
}

// stopped returns ErrClosed or ErrFailed, once that is so.
func (h *head) stopped() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err
}
