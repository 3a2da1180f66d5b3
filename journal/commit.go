package journal

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/strandjobs/strand/journal/internal/block"
	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/strandjobs/strand/journal/internal/store"
)

// committer takes what the head has to the disk, block by block, and hands it on: on one
// goroutine, or in memory on those that append. Who is at it holds committing.
type committer struct {
	results
	store  store.Store // Invariant: only who holds committing changes what is on it
	upkeep *upkeep

	closing chan struct{}
	done    chan struct{} // closed when the committer has ended

	meter
}

// commitLoop is the committer. It ends when the log is closed and everything
// that was accepted is written, or when a commit failed. While the disk is full
// it looks for room by itself, and a file that has become much too large it
// compacts when there is nothing else to do.
func (c *committer) commitLoop() {
	defer close(c.done)
	var again <-chan time.Time
	idle := false
	for closing := false; !closing; {
		var asked compaction
		select {
		case <-c.wake:
			idle = false
		case asked = <-c.upkeep.calls:
			idle = false
		case <-again:
		case <-c.closing:
			closing, idle = true, false // nothing is accepted any more: the last round
		}
		c.committing.Lock()
		c.upkeep.run(asked)
		went := c.commitAll()
		if idle && went {
			c.upkeep.compactIdle()
		}
		again, idle = c.pause()
		c.committing.Unlock()
		if !went {
			return
		}
	}
}

// pause says when the committer wakes up by itself, and whether it has been idle then.
func (c *committer) pause() (again <-chan time.Time, idle bool) {
	c.mu.Lock()
	full := c.disk.full
	c.mu.Unlock()
	switch {
	case full:
		return time.After(fullRetry), false
	case c.upkeep.bloated(4, maxIdleCompact):
		return time.After(c.cfg.compactAfter), true
	}
	return nil, false
}

// commitAll commits until nothing is left. False: the log has stopped. The
// caller holds committing.
func (c *committer) commitAll() bool {
	c.disk.dead = math.MaxInt
	for !errors.Is(c.stopped(), ErrFailed) {
		over := c.turn()
		b, t, ok := c.seal()
		if !ok {
			over()
			return !errors.Is(c.stopped(), ErrFailed)
		}
		began := time.Now()
		ok = c.write(b, t)
		over()
		if !ok {
			return false
		}
		took, callers := time.Since(began), b.calls
		since := c.publish(b)
		select {
		case asked := <-c.upkeep.calls:
			c.upkeep.run(asked)
		default:
			c.gather(since, callers, took)
		}
	}
	return false
}

// turn waits until it is this log's to commit, if there is something to.
func (c *committer) turn() (over func()) {
	if s, shared := c.store.(store.Shared); shared {
		if need, _, _ := c.demand(); need > 0 {
			defer c.busy().idle()
			return s.Turn()
		}
	}
	return func() {}
}

// commitHere commits what the caller has just appended, on the caller's goroutine: without
// a disk to wait for, waking the committer is what an append costs most. It does so once;
// for what has come since, and while another goroutine commits, it wakes the committer.
func (c *committer) commitHere() {
	if !c.committing.TryLock() {
		c.wakeCommitter()
		return
	}
	defer c.committing.Unlock()
	if b, t, ok := c.seal(); ok && c.write(b, t) {
		c.publish(b)
	}
}

// seal closes the open block and begins the next one. Everything that is
// decided about block and transaction is decided here, under the lock, so that
// the transaction never depends on a mark that is not in it or before it.
func (c *committer) seal() (*openBlock, *store.Transaction, bool) {
	if c.volatile {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.sealLocked(store.Endless)
	}
	for {
		need, run, err := c.demand()
		if need == 0 && err == nil {
			return nil, nil, false
		}
		var room store.Room
		if err == nil {
			room, err = c.prepare(need, run)
		}
		if err != nil {
			c.fail(err)
			return nil, nil, false
		}
		c.mu.Lock()
		if c.open.weight() <= need { // it may have grown since
			room.Spare += need - c.open.weight()
			b, t, ok := c.sealLocked(room)
			c.mu.Unlock()
			if ok {
				b.Stamp(t.Block, t.Manifest.Epoch)
			}
			return b, t, ok
		}
		c.mu.Unlock()
	}
}

// demand is how much room the next commit asks for, with some more for what is
// appended meanwhile, and how much of it in one piece. 0: there is nothing to do. After an
// error there is nothing that may be done.
func (c *committer) demand() (need, run int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	asked, _, run := c.disk.asked()
	if c.lost != nil || c.open.empty() && !c.disk.full && asked == 0 {
		return 0, 0, c.lost
	}
	weight := c.open.weight() + asked
	return weight + weight/8 + 4<<10, run, nil
}

// prepare does what has to be done on the disk before a block is sealed.
func (c *committer) prepare(need, run int) (store.Room, error) {
	defer c.busy().idle()
	c.mu.Lock()
	kept := c.chain.Kept(len(c.open.Entries))
	_, whole, _ := c.disk.asked()
	more := c.chain.Kept(len(c.open.Entries)+whole) - kept // to carry what waits, where the disk gives it
	c.mu.Unlock()
	r, err := c.store.Room(need+kept+more, run)
	r.Spare, r.Kept = r.Spare+more, kept
	if err == nil {
		c.mu.Lock()
		s := block.Strain{Weight: c.open.weight(), Room: r, Full: c.disk.full}
		s.Room.Spare += need - s.Weight // as when it is sealed
		doomed := c.chain.Doomed(&c.open.Writer, s)
		front := 0
		if len(doomed) > 0 {
			front = doomed[0].Bytes
		}
		c.mu.Unlock()
		if front > r.Spare && r.Gives { // it is carried when there is room for it, too
			r, err = c.store.Room(need+kept+more+front, run)
			r.Spare, r.Kept = r.Spare+more+front, kept
		}
		err = cmp.Or(err, c.chain.PageIn(doomed))
	}
	return r, err
}

// sealLocked closes the open block and begins the next one, for a disk that has so much
// room. The caller holds mu.
func (c *committer) sealLocked(r store.Room) (*openBlock, *store.Transaction, bool) {
	b := c.open
	c.disk.allow(r, b.weight(), c.chain)
	if c.disk.full {
		r = c.disk.readmit(b, c.chain, r)
	}
	if b.empty() && !(c.disk.full && c.chain.Reclaimable(r, &c.disk.dead)) {
		return nil, nil, false
	}
	b.Reach(c.manifest.Next)
	b.room = r
	c.disk.gauge(r, c.chain.Live)
	t := &b.transaction
	t.Seq, t.Changes = b.Block.Seq, append(b.changes, b.restored...)
	b.carried = len(b.Entries)
	t.Drop = c.chain.Trim(&b.Writer, block.Strain{Weight: b.weight(), Room: r, Full: c.disk.full})
	if fresh := int(c.manifest.Next - b.Block.First); fresh > 0 && len(b.routes) > 0 {
		b.commit.merged = make([]Position, fresh)
	}
	b.commit.pending.Store(int32(len(b.routes)))
	t.Block = b.Join()
	b.Settle()
	c.chain.Admit(b.Block)
	c.manifest.Seq, c.manifest.Oldest = b.Block.Seq, c.chain.Blocks[0].Seq
	t.Manifest = c.manifest
	c.last = b.commit
	c.open, c.spare = newOpenBlock(c.spare, c.manifest), nil
	c.open.Shown = c.volatile
	c.wakeWaiters()
	return b, t, true
}

// write commits t. False: the log has stopped.
func (c *committer) write(b *openBlock, t *store.Transaction) bool {
	if (b.room.Spare >= 0 || b.final) && !b.refused {
		switch err := c.commit(t); {
		case err == nil:
			return true
		case !errors.Is(err, ErrFull):
			c.fail(err, b)
			return false
		}
	}
	return c.writeResults(b, t)
}

func (c *committer) commit(t *store.Transaction) error {
	defer c.busy().idle()
	if err := c.store.Commit(t); err != nil {
		return err
	}
	took := c.committed()
	if c.cfg.Committed != nil {
		c.cfg.Committed(took)
	}
	return nil
}

// publish hands the committed block on, and its buffers back. It returns how many calls of
// Append there had been before.
func (c *committer) publish(b *openBlock) (calls int) {
	c.mu.Lock()
	calls = c.group.calls
	for _, edit := range b.changes {
		if edit.Bucket == format.BucketMorgue && edit.Value != nil {
			c.dying[format.QueueOf(edit.Key)]--
		}
	}
	for _, edit := range b.restored { // they live from here on
		c.bury(format.QueueOf(edit.Key), -1)
	}
	c.mu.Unlock()
	for _, route := range b.routes {
		c.cfg.Deliver(b.deliveries[route])
	}
	if len(b.routes) == 0 {
		close(b.commit.done)
	}
	b.Retire()
	b.transaction = store.Transaction{} // what it refers to may be large
	c.mu.Lock()
	c.spare = b
	crowded := c.chain.Crowded()
	c.mu.Unlock()
	if crowded {
		c.chain.Evict(&c.mu)
	}
	return calls
}

// fail latches the log. All that callers learn is that the outcome of what was sealed and
// of everything after it is unknown.
func (c *committer) fail(cause error, sealed ...*openBlock) {
	c.mu.Lock()
	if c.closed && errors.Is(cause, ErrFull) {
		cause = fmt.Errorf("closed before there was room for the last results, whose jobs run again: %w", cause)
	}
	latched := fmt.Errorf("%w: %w", ErrFailed, cause)
	c.err = latched
	unknown := append(sealed, c.open)
	for len(c.disk.questions) > 0 {
		c.disk.grant() // nothing is written any more
	}
	c.wakeWaiters()
	c.mu.Unlock()
	for _, o := range unknown {
		o.commit.err = fmt.Errorf("%w: %w", ErrUnknown, cause)
		for _, route := range o.routes {
			o.deliveries[route].discard()
		}
		close(o.commit.done)
	}
	if c.cfg.Failed != nil {
		c.cfg.Failed(latched)
	}
}

// unreadable has the committer stop the log because of what it could not read back.
func (c *committer) unreadable(err error) {
	c.mu.Lock()
	c.lost = cmp.Or(c.lost, err)
	c.mu.Unlock()
	c.wakeCommitter()
}

// meter says when the disk is at work for a log, and how long it took.
type meter struct {
	born  time.Time    // when its opening began
	began atomic.Int64 // when the disk began with what it does now: ns after born, and one; 0: nothing

	commits    atomic.Uint64
	commitTime atomic.Int64 // of all of them, ns
	lastCommit atomic.Int64 // its end: ns after born
}

// busy notes that the disk is at work, until idle is called.
func (m *meter) busy() *meter {
	m.began.Store(int64(time.Since(m.born)) + 1)
	return m
}

func (m *meter) idle() { m.began.Store(0) }

// commitAge returns how long the disk has been at work for the present commit; 0 when
// there is none.
func (m *meter) commitAge() time.Duration {
	began := m.began.Load()
	if began == 0 {
		return 0
	}
	return time.Since(m.born) - time.Duration(began-1)
}

// committed counts the present commit, and returns how long it took.
func (m *meter) committed() time.Duration {
	took := m.commitAge()
	m.commits.Add(1)
	m.commitTime.Add(int64(took))
	m.lastCommit.Store(m.began.Load() - 1 + int64(took))
	return took
}
