package journal

import (
	"slices"
	"time"

	"github.com/strandjobs/strand/journal/internal/store"
)

// FollowUps are payloads that a [Change] accepts: they are in the commit of what
// ended, and delivered after it, like those of an Append. They are results: a full
// disk does not refuse them, and what it has no room for waits with all results behind
// it. So their room is taken before, with [Log.TakeRoom].
type FollowUps struct {
	// Entries are as for Append. Record sets Kind and Position, and copies them.
	Entries []Entry

	// With returns state keys that belong to the entries, as those of Append do:
	// it is called under the log's lock, with the position of the first of them. Nil:
	// there are none.
	With func(first Position) []Set

	Room int // bytes, of what was taken for them
}

func (c *Change) empty() bool {
	return len(c.Ended)+len(c.States)+len(c.Buried)+len(c.Sets)+len(c.FollowUps.Entries)+len(c.Rewritten)+len(c.Exhumed) == 0
}

// set adds what a consumer decided about state keys. The caller holds mu.
func (l *Log) set(sets []Set) {
	for _, s := range sets {
		c := s.Edit()
		l.disk.owed.overtake(c)
		l.open.changes = append(l.open.changes, c)
	}
}

// follow adds what a consumer accepts. The caller holds mu.
func (l *Log) follow(f *FollowUps) {
	if len(f.Entries) == 0 {
		return
	}
	l.disk.promised.Add(-int64(f.Room))
	first, now := l.manifest.Next, int64(0)
	for i := range f.Entries {
		e := &f.Entries[i]
		off := l.admit(e, &now)
		l.open.route(e.Route, off)
		l.open.followed = append(l.open.followed, off)
	}
	if f.With != nil {
		l.set(f.With(first))
	}
}

// follows reports whether the entry at off came with a call of Record: no full disk
// refuses it.
func (b *openBlock) follows(off uint32) bool {
	_, found := slices.BinarySearch(b.followed, off)
	return found
}

// TakeRoom takes room on the disk for so many bytes of follow-ups, state keys
// included, which Record gets next, or GiveRoomBack; false: there is none. They may have
// a quarter of the reserve: the rest is for the results that have none, and give room
// back. When that is not known to be enough it waits until the committer has looked at
// the disk, and on a full disk for 100 ms, or until over is closed: a caller who comes
// back later writes that down, which takes room, too.
//
// When there is none the disk is full, as if an append had been refused.
func (l *Log) TakeRoom(over <-chan struct{}, bytes int) bool {
	return l.volatile || l.disk.take(bytes) || l.askRoom(over, bytes)
}

// GiveRoomBack gives back what TakeRoom has taken.
func (l *Log) GiveRoomBack(bytes int) {
	if !l.volatile {
		l.disk.promised.Add(-int64(bytes))
	}
}

// askRoom has the committer look whether there is room on the disk, and takes it.
func (l *Log) askRoom(over <-chan struct{}, bytes int) bool {
	q := &question{bytes, make(chan struct{})}
	l.mu.Lock()
	if l.err != nil { // nothing will be written
		l.mu.Unlock()
		return true
	}
	l.disk.questions = append(l.disk.questions, q)
	l.wakeCommitter()
	l.mu.Unlock()
	late := time.NewTimer(fullRetry)
	defer late.Stop()
	for {
		select {
		case <-q.granted:
			return true
		case <-over:
			return true // the program stops: it is written if it can be
		case <-late.C:
		}
		if wait, granted := l.quit(q); !wait {
			return granted
		}
		late.Reset(fullRetry)
	}
}

// quit ends a question on a full disk. On another one the committer is at work, and
// will look.
func (l *Log) quit(q *question) (wait, granted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.disk.questions, q)
	switch {
	case i < 0:
		return false, true
	case !l.disk.full:
		return true, false
	}
	l.disk.questions = slices.Delete(l.disk.questions, i, i+1)
	return false, false
}

// question is a call that waits for room.
type question struct {
	bytes   int
	granted chan struct{} // closed when it has it
}

// take takes room that is known to be there.
func (d *fullDisk) take(bytes int) bool {
	d.promised.Add(int64(bytes)) // before: the committer may look now
	for {
		left := d.allowance.Load()
		if left < int64(bytes) {
			d.promised.Add(-int64(bytes))
			return false
		}
		if d.allowance.CompareAndSwap(left, left-int64(bytes)) {
			return true
		}
	}
}

// asked is how much room the questions are about. The caller holds mu.
func (d *fullDisk) asked() (bytes int) {
	for _, q := range d.questions {
		bytes += q.bytes
	}
	return bytes
}

// allow says how much room follow-ups may take until the next block is made, of a disk
// that has so much for one that has a weight, and gives it to those who wait. The caller
// holds mu.
func (d *fullDisk) allow(r store.Room, weight int) {
	reserve := max(r.Bytes-r.Spare-weight, 0)
	d.allowance.Store(int64(r.Spare) + int64(reserve/4) - d.promised.Load())
	for len(d.questions) > 0 && d.take(d.questions[0].bytes) {
		d.grant()
	}
	if len(d.questions) > 0 {
		d.begin(d.questions[0].bytes)
	}
}

// grant gives the first of those who wait its room. The caller holds mu.
func (d *fullDisk) grant() {
	close(d.questions[0].granted)
	d.questions = d.questions[1:]
}

// AwaitRoom waits while the open block is full, until over is closed, as Append does. It
// is for a caller of Record whose changes have follow-ups: Record does not wait. While
// appends are refused it does not wait either.
func (l *Log) AwaitRoom(over <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.refusal() == nil && l.open.Size() > l.cfg.MaxBlockBytes {
		room := l.nextRoom()
		l.mu.Unlock()
		select {
		case <-room:
			l.mu.Lock()
		case <-over:
			l.mu.Lock()
			return
		}
	}
}
