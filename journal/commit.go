package journal

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// commitLoop is the committer. It ends when the log is closed and everything
// that was accepted is written, or when a commit failed.
func (l *Log) commitLoop() {
	defer close(l.done)
	for closing := false; !closing; {
		select {
		case <-l.wake:
		case <-l.closing:
			closing = true // nothing is accepted any more: the last round
		}
		l.committing.Lock()
		went := l.commitAll()
		l.committing.Unlock()
		if !went {
			return
		}
	}
}

// commitAll commits until nothing is left. False: the log has stopped. The
// caller holds committing.
func (l *Log) commitAll() bool {
	for {
		b, t, ok := l.seal()
		if !ok {
			return true
		}
		if !l.write(b, t) {
			return false
		}
		l.publish(b, t)
	}
}

// commitHere commits what the caller has just appended, on the caller's
// goroutine: without a disk to wait for, waking the committer is what an append
// costs most. It does so once; for whatever has come since, and while somebody
// else is at it, the committer is woken.
func (l *Log) commitHere() {
	if !l.committing.TryLock() {
		l.wakeCommitter()
		return
	}
	defer l.committing.Unlock()
	if b, t, ok := l.seal(); ok && l.write(b, t) {
		l.publish(b, t)
	}
}

// seal closes the open block and begins the next one. Everything that is
// decided about block and transaction is decided here, under the lock, so that
// the transaction never depends on a mark that is not in it or before it.
func (l *Log) seal() (*openBlock, *transaction, bool) {
	b, t, ok := l.sealLocked()
	if ok && !l.volatile {
		b.stamp(t.block, t.tail.epoch)
	}
	return b, t, ok
}

func (l *Log) sealLocked() (*openBlock, *transaction, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.open
	if b.empty() {
		return nil, nil, false
	}
	t := &transaction{seq: b.block.seq, changes: append(b.changes, b.restored...)}
	t.drop = l.trim(b)
	if fresh := int(l.tail.next - b.block.first); fresh > 0 && len(b.routes) > 0 {
		b.commit.merged = make([]Position, fresh)
	}
	b.commit.pending.Store(int32(len(b.routes)))
	t.block = b.join()
	b.settle()
	l.admit(b.block)
	l.tail.seq, l.tail.oldest = b.block.seq, l.blocks[0].seq
	l.tail.buried -= uint64(len(b.restored))
	t.tail = l.tail
	l.last = b.commit
	l.open, l.spare = newOpenBlock(l.spare, l.tail), nil
	l.wakeWaiters()
	return b, t, true
}

// wakeWaiters has those who wait for room look again. The caller holds mu.
func (l *Log) wakeWaiters() {
	if l.room != nil {
		close(l.room)
		l.room = nil
	}
}

// write commits t. False: the log has stopped.
func (l *Log) write(b *openBlock, t *transaction) bool {
	for refused := false; ; refused = true {
		err := l.store.commit(t)
		if err == nil {
			if refused {
				l.setFull(false)
			}
			return true
		}
		if !errors.Is(err, ErrFull) {
			l.fail(b, err)
			return false
		}
		if !refused {
			l.refuse(b, t)
		}
		select {
		case <-time.After(fullRetry):
		case <-l.closing:
			// One last attempt: what Record was given is worth it.
			if err := l.store.commit(t); err != nil {
				l.fail(b, err)
				return false
			}
			return true
		}
	}
}

// publish hands the committed block on, and its buffers back.
func (l *Log) publish(b *openBlock, t *transaction) {
	for _, route := range b.routes {
		if d := b.deliveries[route]; l.cfg.Deliver != nil {
			l.cfg.Deliver(d)
		} else {
			d.Done()
		}
	}
	if len(b.routes) == 0 {
		close(b.commit.done)
	}
	b.retire()
	l.mu.Lock()
	l.spare = b
	l.mu.Unlock()
}

// refuse sends the appenders of a block that found no room away, and those who
// came since. What Record was given stays where it is and is tried again.
func (l *Log) refuse(b *openBlock, t *transaction) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.full = true
	l.wakeWaiters()
	l.refuseFresh(l.open)
	l.size -= b.block.size
	b.entries = b.entries[:b.end]
	restored := len(b.restored) // and already off the account
	l.refuseFresh(b)
	t.block = b.seal(l.tail.epoch, l.volatile)
	l.size += b.block.size
	t.changes, t.tail.buried = b.changes, t.tail.buried+uint64(restored)
	l.tail.buried += uint64(restored)
	l.last = b.commit
}

// refuseFresh turns what was appended to b into ended entries, because the
// offsets of all others must stay, and tells whoever waits for b. What was
// posted stays: nobody would learn that it went.
func (l *Log) refuseFresh(b *openBlock) {
	refused := b.commit
	b.commit = &commit{first: refused.first, done: make(chan struct{}), merged: refused.merged}
	routes := b.routes[:0]
	var gone []uint32
	for _, route := range b.routes {
		d := b.deliveries[route]
		posted := d.offsets[:0]
		for _, off := range d.offsets {
			if _, found := b.posted[off]; found {
				posted = append(posted, off)
			} else {
				gone = append(gone, off)
			}
		}
		if d.offsets, d.commit = posted, b.commit; len(posted) > 0 {
			routes = append(routes, route)
		} else {
			b.deliveries[route] = nil
		}
	}
	b.routes, b.restored = routes, b.restored[:0]
	b.commit.pending.Store(int32(len(routes)))
	b.changes = slices.DeleteFunc(b.changes, func(c change) bool {
		_, posted := b.posted[c.owner]
		return c.owner != 0 && !posted
	})
	l.endFresh(b, gone)
	refused.err = ErrFull
	close(refused.done)
}

// endFresh ends the entries of b at some offsets.
func (l *Log) endFresh(b *openBlock, offsets []uint32) {
	if len(offsets) == 0 {
		return
	}
	b.beginMarks(len(offsets))
	for _, off := range offsets {
		r := b.ref(off)
		l.markDead(r)
		b.markEnded(r.pos)
	}
}

func (l *Log) setFull(full bool) {
	l.mu.Lock()
	l.full = full
	l.mu.Unlock()
}

// fail latches the log. Nobody learns more than that the outcome of b and of
// everything after it is unknown.
func (l *Log) fail(b *openBlock, cause error) {
	l.mu.Lock()
	latched := fmt.Errorf("%w: %w", ErrFailed, cause)
	l.err = latched
	next := l.open
	l.wakeWaiters()
	l.mu.Unlock()
	for _, o := range []*openBlock{b, next} {
		o.commit.err = fmt.Errorf("%w: %w", ErrUnknown, cause)
		close(o.commit.done)
	}
	if l.cfg.Failed != nil {
		l.cfg.Failed(latched)
	}
}
