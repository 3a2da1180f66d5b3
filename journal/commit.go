package journal

import (
	"errors"
	"fmt"
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
		for {
			b, t, ok := l.seal()
			if !ok {
				break
			}
			if !l.write(b, t) {
				return
			}
			l.publish(b, t)
		}
	}
}

// seal closes the open block and begins the next one. Everything that is
// decided about block and transaction is decided here, under the lock, so that
// the transaction never depends on a mark that is not in it or before it.
func (l *Log) seal() (*openBlock, *transaction, bool) {
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
	t.block = b.seal(l.tail.epoch, l.volatile)
	b.settle()
	l.admit(b.block)
	l.tail.seq = b.block.seq
	t.tail = l.tail
	l.last = b.commit
	l.open, l.spare = newOpenBlock(l.spare, l.tail), nil
	if l.room != nil {
		close(l.room)
		l.room = nil
	}
	return b, t, true
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
	if len(b.routes) == 0 && b.commit.err == nil {
		close(b.commit.done)
	}
	l.mu.Lock()
	l.spare = b
	l.mu.Unlock()
}

// refuse turns the fresh entries of a block that found no room into ended
// ones. What Record was given stays in the block and is tried again.
func (l *Log) refuse(b *openBlock, t *transaction) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.full = true
	if len(b.routes) == 0 {
		return
	}
	n := 0
	for _, route := range b.routes {
		n += b.deliveries[route].Len()
	}
	var e Entry
	b.entries = b.entries[:b.end]
	b.beginMarks(n)
	for _, route := range b.routes {
		d := b.deliveries[route]
		for i := range d.Len() {
			r := d.Read(i, &e)
			l.markDead(r)
			b.markEnded(r.pos)
		}
	}
	b.routes = b.routes[:0]
	l.size -= b.block.size
	t.block = b.seal(l.tail.epoch, l.volatile)
	l.size += b.block.size
	t.changes = b.changes
	b.commit.err = ErrFull
	close(b.commit.done)
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
	if l.room != nil {
		close(l.room)
		l.room = nil
	}
	l.mu.Unlock()
	for _, o := range []*openBlock{b, next} {
		if o.commit.err == nil {
			o.commit.err = fmt.Errorf("%w: %w", ErrUnknown, cause)
			close(o.commit.done)
		}
	}
	if l.cfg.Failed != nil {
		l.cfg.Failed(latched)
	}
}
