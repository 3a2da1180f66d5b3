package journal

import (
	"bytes"
	"cmp"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strandjobs/strand/journal/internal/block"
	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/strandjobs/strand/journal/internal/store"
)

// fullDisk is what a log does about a disk that has no room. What it guards is:
// a result is written down as long as there is any room at all, because results
// are what gives room back; and who was refused is not on disk later.
//
//   - The store keeps a reserve that only results may take ([store.Store]). A block
//     for which there is no room beside it is not written as it is.
//   - refuse sends its appenders away, and those who came since: [ErrFull]. What
//     was posted, for which no caller waits, stays in memory as a [postedCall],
//     with the state keys that it owes. A follow-up of an id that waits so is written,
//     and waits behind it, too: its consumer gets an id in the order of positions.
//   - What is left of the block, results and what was carried into it, is a
//     [remainder]. It is written in pieces that each end where a call of Record
//     did, down to one call. When that does not fit, the committer tries again
//     ten times a second, and once more when the log is closed.
//   - Before each block the committer asks the store for room ([Log.demand]).
//     readmit takes in the posted calls that find some, in position order, and ends
//     the refusals when none is left and what was refused last would fit.
//   - The chain is trimmed harder meanwhile ([block.Strain]), so that a disk which
//     nothing else fills comes back by itself.
//   - Who gives out work is told before the reserve is gone that results should come
//     in their order (gauge, [Log.Short]): from when less than shortRoom is left
//     beside it until there is as much as live entries take, or the disk gives more.
//
// mu, which is that of the log, guards all of it but what is atomic.
type fullDisk struct {
	short   atomic.Bool     // there was hardly more room than the reserve when the last block was made
	full    bool            // appends are refused
	missed  int             // bytes that there should be room for until they are not
	dead    int             // weight before the last empty commit since the committer woke up
	waiting []postedCall    // posted calls that found no room, in position order
	late    map[string]bool // ids of what has waited since there was nothing that did
	owed    owed            // their state keys

	// What follow-ups may take until the next block is made, and what they have taken
	// that is not in a block yet, in bytes. See Log.TakeRoom.
	allowance, promised atomic.Int64
	whole               atomic.Int64 // of the allowance, what may go into one block
	run                 atomic.Int64 // of the disk, in one piece, less what is promised of it
	leaves              int          // what the burials of the open block may take of that
	largest             atomic.Int64 // bytes of a letter in the morgue, at some time
	questions           []*question  // of callers who wait for it
	starved             bool         // the first of them was looked at, and asks for more bytes than there are

	mu      *sync.Mutex
	logger  *slog.Logger
	dir     string
	told    bool        // the Logger knows of a full disk, and of no room since
	lasting *time.Timer // tells it of the room; nil until there was some
	over    bool        // the log is closed
}

// postedCall is a posted call that waits for room, or a follow-up behind one.
type postedCall struct {
	entries []Entry
	changes []*format.Edit
	weight  int
	written Ref // where the follow-up is on disk
}

// add copies an entry, whose bytes are the block's.
func (p *postedCall) add(route uint32, e Entry) {
	e.Route, e.ID, e.Payload, e.Metadata = route, bytes.Clone(e.ID), bytes.Clone(e.Payload), bytes.Clone(e.Metadata)
	p.entries = append(p.entries, e)
	p.weight += format.EntryBound(&e)
}

// owed are the changes of state keys that wait with posted calls, by key. A
// result that sets such a key is younger and on disk sooner, so what is owed for
// the key by then is never written.
type owed map[string][]*format.Edit

// overtake gives up what is owed for the key of c.
func (o owed) overtake(c format.Edit) {
	if c.Bucket == format.BucketState {
		for _, late := range o[string(c.Key)] {
			late.Key = nil
		}
		delete(o, string(c.Key))
	}
}

// paid takes out a change that is about to be written.
func (o owed) paid(c *format.Edit) {
	rest := slices.DeleteFunc(o[string(c.Key)], func(other *format.Edit) bool { return other == c })
	if o[string(c.Key)] = rest; len(rest) == 0 {
		delete(o, string(c.Key))
	}
}

// readmit takes posted calls that now find room into the open block b, and ends the refusals
// when none is left and there is still some; in the last block there is room for all of
// them. Their positions are older than the block's, like those of entries that are carried
// forward. It returns the room that is left. The caller holds mu.
func (d *fullDisk) readmit(b *openBlock, chain *block.Chain, r store.Room) store.Room {
	if b.refused {
		return r // its turn comes first
	}
	b.final = d.over
	for len(d.waiting) > 0 && (d.over || chain.Fits(d.waiting[0].weight, len(b.Entries), r)) {
		p := d.waiting[0]
		d.waiting = d.waiting[1:]
		r.Spare -= p.weight
		call := uint32(len(b.Entries))
		for i := range p.entries {
			off := p.written.Off
			switch {
			case p.written.Block == nil:
				off = b.Add(&p.entries[i], true).Off
				b.keep(off, call)
			case p.written.Block != b.Block:
				chain.End(p.written, &b.Writer)
				off = b.Add(&p.entries[i], true).Off
				b.recorded = append(b.recorded, off)
			}
			b.route(p.entries[i].Route, off)
		}
		for _, c := range p.changes {
			if c.Key != nil { // nothing has overtaken it
				d.owed.paid(c)
				c.Owner = call
				b.changes = append(b.changes, *c)
			}
		}
		kept := max(min(chain.Kept(len(b.Entries))-r.Kept, r.Spare), 0)
		r.Spare, r.Kept = r.Spare-kept, r.Kept+kept
	}
	if d.full = len(d.waiting) > 0 || d.starved || r.Spare < d.missed; !d.full {
		d.waiting, d.late, d.owed = nil, nil, nil
		d.expectRoom()
	}
	return r
}

// roomAfter is how long there must be room before that is told: at the brink, where
// small appends fit and large ones don't, it comes and goes ten times a second.
const roomAfter = 5 * time.Second

// begin refuses appends until there is room for so many bytes, and has the Logger
// know of it, once. The caller holds mu.
func (d *fullDisk) begin(missed int) {
	d.full, d.missed = true, min(missed, shortRoom)
	if d.late == nil {
		d.late, d.owed = make(map[string]bool), make(owed)
	}
	if !d.told {
		d.told = true
		// A goroutine, because the caller holds mu, and the committer does not wait.
		go d.logger.Warn("disk is full: what is new is refused until there is room, what ends is still written down; make some, the rest goes by itself",
			slog.String("dir", d.dir))
	}
}

// expectRoom starts the timer after which it is logged that the disk has room again, unless it
// is full by then. The caller holds mu.
func (d *fullDisk) expectRoom() {
	switch {
	case d.over || !d.told:
	case d.lasting == nil:
		d.lasting = time.AfterFunc(roomAfter, d.tellRoom)
	default:
		d.lasting.Reset(roomAfter)
	}
}

func (d *fullDisk) tellRoom() {
	d.mu.Lock()
	over := d.told && !d.full && !d.over
	d.told = d.told && !over
	d.mu.Unlock()
	if over {
		d.logger.Info("disk has room again: what is new is accepted", slog.String("dir", d.dir))
	}
}

// holds reports whether the entry at p was posted and waits for room. The caller holds mu.
func (d *fullDisk) holds(p Position) bool {
	return slices.ContainsFunc(d.waiting, func(call postedCall) bool {
		return slices.ContainsFunc(call.entries, func(e Entry) bool { return e.Position == p })
	})
}

// writeResults writes what is left of a block for which there is no room. False:
// the log has stopped.
func (c *committer) writeResults(b *openBlock, t *store.Transaction) bool {
	c.refuse(b, t)
	if c.vanish(b, t) {
		return true
	}
	rest := &remainder{b: b, whole: t, from: cut{entries: format.HeaderSize}, drop: t.Drop, first: b.Block.First}
	for n := rest.fitting(b.room.Bytes); rest.left() > 0; {
		piece, wrote := rest.piece(n)
		err := c.commit(piece)
		closing := c.isClosed()
		switch {
		case err == nil:
			wrote()
			n = rest.left()
		case !errors.Is(err, ErrFull) || closing && n == 1:
			c.fail(err, b)
			return false
		case n > 1:
			n /= 2
		default:
			select {
			case <-time.After(fullRetry):
			case <-c.closing: // one last attempt: it is worth it
			}
		}
	}
	c.mu.Lock()
	c.chain.InPieces(b.Block, rest.parts)
	c.open.Block.Seq += uint64(len(rest.parts) - 1)
	c.manifest.Seq += uint64(len(rest.parts) - 1)
	forsaken := b.final && len(c.disk.waiting) > 0
	c.mu.Unlock()
	if forsaken {
		c.fail(ErrFull, b)
	}
	return !forsaken
}

// shortRoom is the room beside the reserve below which a disk is short of it: less
// than a file that may grow ever has. It also bounds the room that must be there before
// appends are accepted again: below it, that is what the last refused one would have taken.
const shortRoom = 64 << 10

// gauge notes whether a disk with so much room is short of it. Once it was, it is until it
// gives more again, or there is room for all that is live, which may all have to be buried.
func (d *fullDisk) gauge(r store.Room, live int) {
	d.short.Store(d.full || r.Spare < shortRoom || d.short.Load() && !r.Gives && r.Spare < live)
}

// vanish reports whether nothing is left of a block that was refused, and then forgets it:
// who tries again and again must not fill the disk. The next block begins where it did.
func (c *committer) vanish(b *openBlock, t *store.Transaction) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.disk.waiting) > 0 {
		return false // it has to be older than the block that it will be in
	}
	next := c.open
	if len(next.cuts) == 0 && next.refused {
		next.Clear()
		next.refused = false // also if b stays
	}
	if len(b.cuts)+len(b.changes)+len(b.recorded)+len(t.Drop) > 0 || b.carried < b.End || next.Size() > format.HeaderSize {
		return false
	}
	c.chain.TakeBack()
	c.manifest.Seq--
	next.Begin(b.Block.Seq, b.Block.First)
	next.commit.first = b.Block.First
	return true
}

// refuse sends the appenders of a block that found no room away, and those who
// came since. What Record was given stays.
func (c *committer) refuse(b *openBlock, t *store.Transaction) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.disk.begin(b.weight())
	c.wakeWaiters()
	d, fresh := &c.disk, make(owed)
	for _, block := range []*openBlock{b, c.open} {
		for _, call := range c.refuseFresh(block, fresh) { // whose entries are by route
			slices.SortFunc(call.entries, func(a, b Entry) int { return cmp.Compare(a.Position, b.Position) })
			d.waiting = append(d.waiting, *call)
		}
	}
	slices.SortFunc(d.waiting, func(a, b postedCall) int { return cmp.Compare(a.entries[0].Position, b.entries[0].Position) })
	for key, list := range fresh {
		d.owed[key] = append(d.owed[key], list...)
	}
	t.Changes = b.changes
	c.last = b.commit
}

// refuseFresh takes what was appended out of b and tells the callers who wait for
// b. Its bytes stay in memory, because the offsets of all others must. What came with
// results stays in b. It returns what was posted, because no caller would learn that it
// went, and what is to wait behind that. The keys of what was posted are owed.
func (c *committer) refuseFresh(b *openBlock, fresh owed) map[uint32]*postedCall {
	refused := b.commit
	refused.err = ErrFull
	b.commit = &commit{first: refused.first, done: make(chan struct{})}
	calls := make(map[uint32]*postedCall)
	routes := b.routes
	b.routes = b.routes[:0] // those that stay overwrite those that were read
	for _, route := range routes {
		d := b.deliveries[route]
		b.deliveries[route] = nil
		stay := d.offsets[:0]
		for _, off := range d.offsets {
			if b.stays(off) {
				stay = append(stay, off)
				continue
			}
			b.refused = true
			e, r := b.Read(off)
			c.chain.EndHere(r, &c.open.Writer)
			if call, posted := b.posted[off]; posted {
				calls[call] = cmp.Or(calls[call], new(postedCall))
				calls[call].add(route, e)
				c.disk.late[string(e.ID)] = true
			}
		}
		for _, off := range stay {
			if p := c.disk.behind(b, route, off); p != nil {
				calls[off] = p
			} else {
				b.route(route, off)
			}
		}
		d.discard()
	}
	b.disown(fresh.overtake, func(c format.Edit) {
		if p := calls[c.Owner]; p != nil {
			p.changes = append(p.changes, &c)
			fresh[string(c.Key)] = append(fresh[string(c.Key)], &c)
			p.weight += weigh([]format.Edit{c})
		}
	})
	b.restored, b.posted, b.calls = b.restored[:0], nil, 0
	b.commit.pending.Store(int32(len(b.routes)))
	close(refused.done)
	return calls
}

// behind returns a call for the follow-up at off of b, if its id waits for room.
func (d *fullDisk) behind(b *openBlock, route, off uint32) *postedCall {
	if len(d.late) == 0 {
		return nil
	}
	e, r := b.Read(off)
	if !d.late[string(e.ID)] {
		return nil
	}
	p := &postedCall{written: r}
	p.add(route, e)
	return p
}
