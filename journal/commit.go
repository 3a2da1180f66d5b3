package journal

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/strandjobs/strand/journal/internal/block"
	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/strandjobs/strand/journal/internal/store"
)

// commitLoop is the committer. It ends when the log is closed and everything
// that was accepted is written, or when a commit failed. While the disk is full
// it looks for room by itself, and a file that has become much too large it
// compacts when there is nothing else to do.
func (l *Log) commitLoop() {
	defer close(l.done)
	var again <-chan time.Time
	idle := false
	for closing := false; !closing; {
		var asked compaction
		select {
		case <-l.wake:
			idle = false
		case asked = <-l.upkeep.calls:
			idle = false
		case <-again:
		case <-l.closing:
			closing, idle = true, false // nothing is accepted any more: the last round
		}
		l.committing.Lock()
		asked.run(l)
		went := l.commitAll()
		if idle && went {
			l.compactIdle()
		}
		again, idle = l.pause()
		l.committing.Unlock()
		if !went {
			return
		}
	}
}

// pause says when the committer wakes up by itself, and whether it has been idle
// then.
func (l *Log) pause() (again <-chan time.Time, idle bool) {
	switch {
	case l.isFull():
		return time.After(fullRetry), false
	case l.bloated(4, maxIdleCompact):
		return time.After(l.cfg.compactAfter), true
	}
	return nil, false
}

// commitAll commits until nothing is left. False: the log has stopped. The
// caller holds committing.
func (l *Log) commitAll() bool {
	for !l.failed() {
		over := l.turn()
		b, t, ok := l.seal()
		if !ok {
			over()
			return !l.failed()
		}
		began := time.Now()
		ok = l.write(b, t)
		over()
		if !ok {
			return false
		}
		took, since, callers := time.Since(began), l.callsSoFar(), b.calls
		l.publish(b)
		select {
		case asked := <-l.upkeep.calls:
			asked.run(l)
		default:
			l.gather(since, callers, took)
		}
	}
	return false
}

// turn waits until it is this log's to commit, if there is something to.
func (l *Log) turn() (over func()) {
	s, shared := l.store.(store.Shared)
	if !shared {
		return func() {}
	}
	if need, _ := l.demand(); need == 0 {
		return func() {}
	}
	defer l.busy()()
	return s.Turn()
}

// commitHere commits what the caller has just appended, on the caller's goroutine:
// without a disk to wait for, waking the committer is what an append costs most. It
// does so once; for what has come since, and while another goroutine commits, it
// wakes the committer.
func (l *Log) commitHere() {
	if !l.committing.TryLock() {
		l.wakeCommitter()
		return
	}
	defer l.committing.Unlock()
	if b, t, ok := l.seal(); ok && l.write(b, t) {
		l.publish(b)
	}
}

// seal closes the open block and begins the next one. Everything that is
// decided about block and transaction is decided here, under the lock, so that
// the transaction never depends on a mark that is not in it or before it.
func (l *Log) seal() (*openBlock, *store.Transaction, bool) {
	if l.volatile {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.sealLocked(store.Endless)
	}
	for {
		need, err := l.demand()
		if need == 0 && err == nil {
			return nil, nil, false
		}
		var room store.Room
		if err == nil {
			room, err = l.prepare(need)
		}
		l.mu.Lock()
		if err != nil {
			next := l.open
			l.mu.Unlock()
			l.fail(next, err)
			return nil, nil, false
		}
		if l.open.weight() <= need { // it may have grown since
			room.Spare += need - l.open.weight()
			b, t, ok := l.sealLocked(room)
			l.mu.Unlock()
			if ok {
				b.Stamp(t.Block, t.Manifest.Epoch)
			}
			return b, t, ok
		}
		l.mu.Unlock()
	}
}

// prepare does what has to be done on the disk before a block is sealed.
func (l *Log) prepare(need int) (store.Room, error) {
	defer l.busy()()
	r, err := l.store.Room(need)
	if err == nil {
		l.mu.Lock()
		doomed := l.chain.Doomed(&l.open.Writer, block.Strain{Weight: l.open.weight(), Room: r, Full: l.disk.full})
		l.mu.Unlock()
		err = l.chain.PageIn(doomed)
	}
	return r, err
}

// sealLocked seals for a disk that has so much room. The caller holds mu.
func (l *Log) sealLocked(r store.Room) (*openBlock, *store.Transaction, bool) {
	b := l.open
	l.disk.allow(r, b.weight())
	if l.disk.full {
		r = l.disk.readmit(b, r, l.closed)
	}
	if b.empty() && !(l.disk.full && l.chain.Reclaimable(r)) {
		return nil, nil, false
	}
	b.Reach(l.manifest.Next)
	b.room = r
	l.disk.gauge(r, l.chain.Live)
	t := &store.Transaction{Seq: b.Block.Seq, Changes: append(b.changes, b.restored...)}
	b.carried = len(b.Entries)
	t.Drop = l.chain.Trim(&b.Writer, block.Strain{Weight: b.weight(), Room: r, Full: l.disk.full})
	if fresh := int(l.manifest.Next - b.Block.First); fresh > 0 && len(b.routes) > 0 {
		b.commit.merged = make([]Position, fresh)
	}
	b.commit.pending.Store(int32(len(b.routes)))
	t.Block = b.Join()
	b.Settle()
	l.chain.Admit(b.Block)
	l.manifest.Seq, l.manifest.Oldest = b.Block.Seq, l.chain.Blocks[0].Seq
	t.Manifest = l.manifest
	l.last = b.commit
	l.open, l.spare = newOpenBlock(l.spare, l.manifest), nil
	l.open.Shown = l.volatile
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
func (l *Log) write(b *openBlock, t *store.Transaction) bool {
	if (b.room.Spare >= 0 || b.final) && !b.refused {
		err := l.commit(t)
		if err == nil {
			return true
		}
		if !errors.Is(err, ErrFull) {
			l.fail(b, err)
			return false
		}
	}
	return l.writeResults(b, t)
}

func (l *Log) commit(t *store.Transaction) error {
	defer l.busy()()
	if err := l.store.Commit(t); err != nil {
		return err
	}
	took := l.commitAge()
	l.commits.Add(1)
	l.commitTime.Add(int64(took))
	l.lastCommit.Store(l.began.Load() - 1 + int64(took))
	if l.cfg.Committed != nil {
		l.cfg.Committed(took)
	}
	return nil
}

// busy notes that the disk is at work, until the function that it returns is
// called.
func (l *Log) busy() (done func()) {
	l.began.Store(int64(time.Since(l.born)) + 1)
	return func() { l.began.Store(0) }
}

// commitAge returns how long the disk has been at work for the present commit; 0 when
// there is none.
func (l *Log) commitAge() time.Duration {
	began := l.began.Load()
	if began == 0 {
		return 0
	}
	return time.Since(l.born) - time.Duration(began-1)
}

// publish hands the committed block on, and its buffers back.
func (l *Log) publish(b *openBlock) {
	l.mu.Lock()
	for _, c := range b.restored { // they live from here on
		l.bury(format.QueueOf(c.Key), -1)
	}
	l.mu.Unlock()
	for _, route := range b.routes {
		l.deliver(b.deliveries[route])
	}
	if len(b.routes) == 0 {
		close(b.commit.done)
	}
	b.Retire()
	l.mu.Lock()
	l.spare = b
	crowded := l.chain.Crowded()
	l.mu.Unlock()
	if crowded {
		l.chain.Evict(&l.mu)
	}
}

func (l *Log) deliver(d *Delivery) {
	if l.cfg.Deliver != nil {
		l.cfg.Deliver(d)
	} else {
		d.Done()
	}
}

func (l *Log) failed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.Is(l.err, ErrFailed)
}

// fail latches the log. All that callers learn is that the outcome of b and of
// everything after it is unknown.
func (l *Log) fail(b *openBlock, cause error) {
	l.mu.Lock()
	latched := fmt.Errorf("%w: %w", ErrFailed, cause)
	l.err = latched
	next := l.open
	for len(l.disk.questions) > 0 {
		l.disk.grant() // nothing is written any more
	}
	l.wakeWaiters()
	l.mu.Unlock()
	for _, o := range slices.Compact([]*openBlock{b, next}) {
		o.commit.err = fmt.Errorf("%w: %w", ErrUnknown, cause)
		for _, route := range o.routes {
			o.deliveries[route].discard()
		}
		close(o.commit.done)
	}
	if l.cfg.Failed != nil {
		l.cfg.Failed(latched)
	}
}

// unreadable has the committer stop the log because of what it could not read
// back.
func (l *Log) unreadable(err error) {
	l.mu.Lock()
	if l.lost == nil {
		l.lost = err
	}
	l.mu.Unlock()
	l.wakeCommitter()
}

// demand is how much room the next commit asks for, with some more for what is
// appended meanwhile. 0: there is nothing to do. After an error there is nothing
// that may be done.
func (l *Log) demand() (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	asked := l.disk.asked()
	if l.lost != nil || l.open.empty() && !l.disk.full && asked == 0 {
		return 0, l.lost
	}
	weight := l.open.weight() + asked
	if len(l.disk.waiting) > 0 {
		weight += l.disk.waiting[0].weight
	}
	return weight + weight/8 + 4<<10, nil
}

func (l *Log) isFull() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.disk.full
}
