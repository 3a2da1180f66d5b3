package journal

import (
	"bytes"
	"cmp"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"
)

// A full disk. Whoever appends is sent away; what was posted waits in memory;
// and results, which are what gives room back, are written into what is left:
// first of all, without the bytes that were refused, and in pieces if need be.

// posting is a posted call that waits for room.
type posting struct {
	entries []Entry
	changes []*change
	weight  int
}

// owed are the changes of state keys that wait with posted calls, by key. A
// result that sets such a key is younger and on disk sooner, so what is owed for
// the key by then is never written.
type owed map[string][]*change

func (o owed) add(c change) *change {
	o[string(c.key)] = append(o[string(c.key)], &c)
	return &c
}

// overtake gives up what is owed for the key of c.
func (o owed) overtake(c change) {
	if c.bucket != bucketState {
		return
	}
	for _, late := range o[string(c.key)] {
		late.key = nil
	}
	delete(o, string(c.key))
}

// paid takes out a change that is about to be written.
func (o owed) paid(c *change) {
	rest := slices.DeleteFunc(o[string(c.key)], func(other *change) bool { return other == c })
	if o[string(c.key)] = rest; len(rest) == 0 {
		delete(o, string(c.key))
	}
}

// demand is how much room the next commit asks for, with some more for what is
// appended meanwhile. 0: there is nothing to do. After an error there is nothing
// that may be done.
func (l *Log) demand() (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost != nil || l.open.empty() && !l.full {
		return 0, l.lost
	}
	weight := l.open.weight()
	if len(l.waiting) > 0 {
		weight += l.waiting[0].weight
	}
	return weight + weight/8 + 4<<10, nil
}

func (l *Log) isFull() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.full
}

// readmit takes posted calls that now find room into the open block, and ends
// the refusals when none is left and there is still some. Their positions are
// older than the block's, like those of entries that are carried forward. The
// caller holds mu.
func (l *Log) readmit(r room) room {
	b := l.open
	if b.refused {
		return r // its turn comes first
	}
	b.final = l.closed
	for len(l.waiting) > 0 && (l.closed || l.waiting[0].weight <= r.spare) {
		p := l.waiting[0]
		l.waiting = l.waiting[1:]
		r.spare -= p.weight
		call := uint32(len(b.entries))
		for i := range p.entries {
			off := b.add(&p.entries[i], true).off
			b.route(p.entries[i].Route, off)
			b.keep(off, call)
		}
		for _, c := range p.changes {
			if c.key != nil { // nothing has overtaken it
				l.owed.paid(c)
				c.owner = call
				b.changes = append(b.changes, *c)
			}
		}
	}
	if l.full = len(l.waiting) > 0 || r.spare < l.missed; !l.full {
		l.waiting, l.owed = nil, nil
		l.expectRoom()
	}
	return r
}

// roomAfter is how long there must be room before that is told: at the brink, where
// small appends fit and large ones don't, it comes and goes ten times a second.
const roomAfter = 5 * time.Second

// tellFull has the Logger know, once, that the disk is full. The committer does not
// wait for it, and the caller holds mu.
func (l *Log) tellFull() {
	if l.toldFull {
		return
	}
	l.toldFull = true
	go l.cfg.Logger.Warn("disk is full: what is new is refused until there is room, what ends is still written down; make some, the rest goes by itself",
		slog.String("dir", l.dir))
}

// expectRoom sees to it that the Logger learns of the room, if it lasts. The caller
// holds mu.
func (l *Log) expectRoom() {
	switch {
	case l.closed || !l.toldFull:
	case l.lasting == nil:
		l.lasting = time.AfterFunc(roomAfter, l.tellRoom)
	default:
		l.lasting.Reset(roomAfter)
	}
}

func (l *Log) tellRoom() {
	l.mu.Lock()
	over := l.toldFull && !l.full && !l.closed
	l.toldFull = l.toldFull && !over
	l.mu.Unlock()
	if over {
		l.cfg.Logger.Info("disk has room again: what is new is accepted", slog.String("dir", l.dir))
	}
}

// writeResults writes what is left of a block for which there is no room. False:
// the log has stopped.
func (l *Log) writeResults(b *openBlock, t *transaction) bool {
	l.refuse(b, t)
	if l.vanish(b, t) {
		return true
	}
	rest := newRemainder(l, b, t)
	for n := rest.fitting(b.room.bytes); rest.left() > 0; {
		err := l.commit(rest.piece(n))
		closing := l.isClosed()
		switch {
		case err == nil:
			rest.wrote()
			n = rest.left()
		case !errors.Is(err, ErrFull) || closing && n == 1:
			l.fail(b, err)
			return false
		case n > 1:
			n /= 2
		default:
			select {
			case <-time.After(fullRetry):
			case <-l.closing: // one last attempt: it is worth it
			}
		}
	}
	l.mu.Lock()
	rest.settle()
	forsaken := b.final && len(l.waiting) > 0
	l.mu.Unlock()
	if forsaken {
		l.fail(b, ErrFull)
	}
	return !forsaken
}

// maxMissed bounds the room that must be there before appends are accepted
// again. Below it, it is what the last one that was refused would have taken.
const maxMissed = 64 << 10

// vanish reports whether nothing is left of a block that was refused, and then
// forgets it: who tries again and again must not fill the disk. The next block
// begins where it did.
func (l *Log) vanish(b *openBlock, t *transaction) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) > 0 {
		return false // it has to be older than the block that it will be in
	}
	next := l.open
	if len(next.cuts)+len(next.marks) == 0 && next.refused {
		next.clear()
		next.skipped = l.tail.next // also if b stays
	}
	if len(b.cuts)+len(b.marks)+len(b.changes)+len(t.drop) > 0 || b.carried < b.end || next.size() > headerSize {
		return false
	}
	l.blocks = l.blocks[:len(l.blocks)-1]
	l.size -= b.block.size
	l.tail.seq--
	next.block.seq, next.block.first, next.commit.first = b.block.seq, b.block.first, b.block.first
	next.skipped = l.tail.next
	return true
}

// clear takes out all entries of a block, which were refused.
func (b *openBlock) clear() {
	b.entries = b.entries[:headerSize]
	b.block = &Block{seq: b.block.seq, first: b.block.first, base: b.block.base}
	b.refused = false
}

// refuse sends the appenders of a block that found no room away, and those who
// came since. What Record was given stays.
func (l *Log) refuse(b *openBlock, t *transaction) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.full, l.missed = true, min(b.weight(), maxMissed)
	l.tellFull()
	l.wakeWaiters()
	back := slices.Clone(b.restored) // they stay dead, and are off the account already
	fresh := make(owed)
	l.waiting = append(l.refuseFresh(b, fresh), l.waiting...)
	l.waiting = append(l.waiting, l.refuseFresh(l.open, fresh)...)
	l.owe(fresh)
	t.changes = b.changes
	for _, c := range back {
		l.bury(queueOf(c.key), 1)
	}
	l.last = b.commit
}

// owe adds to what is owed.
func (l *Log) owe(fresh owed) {
	if l.owed == nil {
		l.owed = fresh
		return
	}
	for key, list := range fresh {
		l.owed[key] = append(l.owed[key], list...)
	}
}

// refuseFresh takes what was appended out of b and tells whoever waits for b.
// Its bytes stay in memory, because the offsets of all others must. It returns
// what was posted: nobody would learn that it went. The keys of that are owed.
func (l *Log) refuseFresh(b *openBlock, fresh owed) []posting {
	refused := b.commit
	refused.err = ErrFull
	b.commit = &commit{first: refused.first, done: make(chan struct{})}
	calls := make(map[uint32]*posting)
	for _, route := range b.routes {
		d := b.deliveries[route]
		for _, off := range d.offsets {
			e, r := b.read(off)
			l.markDead(r)
			call, posted := b.posted[off]
			if !posted {
				continue
			}
			if calls[call] == nil {
				calls[call] = new(posting)
			}
			e.Route, e.ID, e.Payload, e.Metadata = route, bytes.Clone(e.ID), bytes.Clone(e.Payload), bytes.Clone(e.Metadata)
			calls[call].entries = append(calls[call].entries, e)
		}
		b.deliveries[route] = nil
		d.discard()
	}
	b.disown(fresh.overtake, func(c change) {
		if p := calls[c.owner]; p != nil {
			p.changes = append(p.changes, fresh.add(c))
			p.weight += weigh([]change{c})
		}
	})
	b.refused = b.refused || len(b.routes) > 0
	b.routes, b.restored, b.posted, b.calls = b.routes[:0], b.restored[:0], nil, 0
	b.commit.pending.Store(0)
	close(refused.done)
	return inOrder(calls)
}

// disown takes out the changes that belong to entries, and shows those that
// stay, in their order.
func (b *openBlock) disown(stays, out func(change)) {
	kept, cuts := b.changes[:0], b.cuts
	for i, c := range b.changes {
		for len(cuts) > 0 && cuts[0].changes == i {
			cuts[0].changes = len(kept)
			cuts = cuts[1:]
		}
		if c.owner == 0 {
			kept = append(kept, c)
			stays(c)
		} else {
			out(c)
		}
	}
	for i := range cuts {
		cuts[i].changes = len(kept)
	}
	b.changes = kept
}

// inOrder sorts calls, whose entries are by route, by position.
func inOrder(calls map[uint32]*posting) []posting {
	list := make([]posting, 0, len(calls))
	for _, call := range slices.Sorted(maps.Keys(calls)) {
		p := calls[call]
		slices.SortFunc(p.entries, func(a, b Entry) int { return cmp.Compare(a.Position, b.Position) })
		for i := range p.entries {
			p.weight += entryBound(&p.entries[i])
		}
		list = append(list, *p)
	}
	return list
}
