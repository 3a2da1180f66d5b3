package journal

import (
	"slices"
	"time"

	"github.com/strandjobs/strand/journal/internal/block"
	"github.com/strandjobs/strand/journal/internal/store"
)

// Callers of Record get room on the disk beforehand: nothing that they record is
// refused. What they have taken is counted without the lock of the head.

// Short reports whether the disk had no more room than what is kept for results when
// the last block was made. A caller that gives out work should then give out the oldest
// first: a block leaves the disk when all that is older has ended.
func (h *head) Short() bool { return h.disk.short.Load() }

// TakeRoom takes room on the disk for follow-ups, state keys included, and for burials. A [Change] that has
// it as its Room uses it, or GiveRoomBack gives it back. False: there is none. Follow-ups and burials may
// have a quarter of the reserve: the rest is for results that take no room, and give room back. If it is not
// known that this is enough, TakeRoom waits until the committer has looked at the disk, and on a full disk
// for 100 ms, or until over is closed: a caller who comes back later writes that down, which takes room, too.
//
// When bytes are missing, and not only a piece, the disk is full as if an append had been refused.
func (h *head) TakeRoom(over <-chan struct{}, n Room) bool { return h.TryRoom(n) || h.askRoom(over, n) }

// TryRoom is TakeRoom for a caller who may not wait. False: it is not known that there is some.
func (h *head) TryRoom(n Room) bool { return h.volatile || h.disk.take(n) }

// Room is what something takes on the disk that is about to be recorded.
type Room struct {
	Bytes  int
	Letter int // bytes of the largest dead letter of it
}

// AddLetter adds a dead letter with a payload that takes so many bytes, and so much text. It may
// stand in a leaf of bbolt's of which nothing else changes, and all of that is written again.
func (r *Room) AddLetter(payload, text int) {
	n := payload + text + letterRoom
	r.Bytes, r.Letter = r.Bytes+n+leafRoom, max(r.Letter, n)
}

// whole is how much of it goes into one block, which dead letters don't.
func (r *Room) whole() int64 {
	if r.Letter > 0 {
		return 0
	}
	return int64(r.Bytes)
}

// letterRoom is more than a dead letter takes beside its payload and its reason, and leafRoom
// more than a leaf, with its share of what is above it.
const letterRoom, leafRoom = 256, 5 << 10

// leafLetters is how many letters that are larger than half a page bbolt has in one leaf at
// most, of which it writes all when one comes or goes.
const leafLetters, halfPage = 5, 1900

// maxRun bounds what a file keeps in one piece. Letters of which a leaf takes more find room only
// on a disk that gives what is wanted.
const maxRun = 16 << 20

// leafOf is how much of the disk a leaf with letters takes in one piece, when the largest is so
// large.
func leafOf(largest int) int {
	if largest <= halfPage {
		return 0
	}
	return leafLetters * largest
}

// GiveRoomBack gives back what TakeRoom has taken.
func (h *head) GiveRoomBack(bytes int) { h.disk.promised.Add(-int64(bytes)) }

// AwaitRoom waits while the open block is full, until over is closed, as Append does. It
// is for a caller of Record whose changes have follow-ups: Record does not wait. While
// appends are refused it does not wait either.
func (h *head) AwaitRoom(over <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for h.refusal() == nil && h.open.Size() > h.cfg.MaxBlockBytes && !store.IsOver(over) {
		room := h.nextRoom()
		h.mu.Unlock()
		select {
		case <-room:
		case <-over:
		}
		h.mu.Lock()
	}
}

// askRoom has the committer look whether there is room on the disk, and takes it.
func (h *head) askRoom(over <-chan struct{}, n Room) bool {
	q := &question{Room: n, granted: make(chan struct{})}
	h.mu.Lock()
	if h.err != nil { // nothing will be written
		h.mu.Unlock()
		return true
	}
	h.disk.questions = append(h.disk.questions, q)
	h.wakeCommitter()
	h.mu.Unlock()
	for {
		select {
		case <-q.granted:
		case <-over:
		case <-time.After(fullRetry):
		}
		if wait, granted := h.quit(q, store.IsOver(over)); !wait {
			return granted
		}
	}
}

// quit ends a question that was looked at, or of a full disk; else the committer is at work, and
// will look. A caller who is gone has the room: it is written if it can be, or given back.
func (h *head) quit(q *question, gone bool) (wait, granted bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.Index(h.disk.questions, q)
	switch {
	case i < 0:
		return false, true
	case gone:
		h.disk.promised.Add(int64(q.Bytes))
	case !h.disk.full && !q.seen:
		return true, false
	}
	h.disk.questions = slices.Delete(h.disk.questions, i, i+1)
	return false, gone
}

// question is a call that waits for room.
type question struct {
	Room
	granted chan struct{} // closed when it has it
	seen    bool          // the committer has looked, and there was not enough
}

// take takes room that is known to be there.
func (d *fullDisk) take(n Room) bool {
	bytes, leaf := int64(n.Bytes), int64(d.leaf(n))
	if leaf > 0 && int64(n.Letter) > d.largest.Load() {
		return false // nobody has asked for so much in one piece
	}
	d.promised.Add(bytes) // before: the committer may look now
	for {
		left := d.allowance.Load()
		if left < bytes || n.whole() > max(d.whole.Load(), 0) || leaf > 0 && d.run.Load() < 2*leaf { // a leaf is left for who deletes one
			d.promised.Add(-bytes)
			return false
		}
		if d.allowance.CompareAndSwap(left, left-bytes) {
			d.whole.Add(-n.whole())
			d.run.Add(-leaf)
			return true
		}
	}
}

// leaf is the largest leaf of the morgue that may have to be written for n.
func (d *fullDisk) leaf(n Room) int {
	if n.Letter == 0 {
		return 0
	}
	return leafOf(max(n.Letter, int(d.largest.Load())))
}

// letter notes that the open block has a dead letter of so many bytes. The caller holds mu.
func (d *fullDisk) letter(bytes int) {
	d.largest.Store(max(d.largest.Load(), int64(bytes)))
	d.leaves += leafOf(int(d.largest.Load()))
}

// asked is how much room there should be for what waits, how much of it goes into one block, and how
// much is in one piece. The caller holds mu.
func (d *fullDisk) asked() (bytes, whole, run int) {
	if len(d.waiting) > 0 {
		bytes, whole = d.waiting[0].weight, d.waiting[0].weight
	}
	run = leafOf(int(d.largest.Load()))
	for _, q := range d.questions {
		bytes, whole = bytes+q.Bytes, whole+int(q.whole())
		run = max(run, d.leaf(q.Room))
	}
	return bytes, whole, min(2*run, maxRun)
}

// allow says how much room follow-ups may take until the next block is made, of a disk
// that has so much for one that has a weight, and gives it to those who wait. The caller
// holds mu.
func (d *fullDisk) allow(r store.Room, weight int, chain *block.Chain) {
	d.largest.Store(max(d.largest.Load(), int64(r.Letter)))
	d.run.Store(int64(r.Run - d.leaves))
	d.leaves = 0
	left := r.Spare + block.Strain{Weight: weight, Room: r}.Reserve()/4 - int(d.promised.Load())
	d.allowance.Store(int64(left))
	if len(d.questions) == 0 || !chain.Hopeless(d.questions[0].Bytes, r) {
		free := r.Kept/3*2 + block.Small // for a block of as much it is kept already
		left = min(left, free+(left-free)/5*2)
	}
	d.whole.Store(int64(left))
	for len(d.questions) > 0 {
		d.largest.Store(max(d.largest.Load(), int64(d.questions[0].Letter)))
		if !d.take(d.questions[0].Room) {
			break
		}
		d.grant()
	}
	for _, q := range d.questions {
		q.seen = true
	}
	if d.starved = len(d.questions) > 0 && (int64(d.questions[0].Bytes) > d.allowance.Load() || d.questions[0].whole() > d.whole.Load()); d.starved {
		d.begin(d.questions[0].Bytes)
	}
}

// grant gives the first of those who wait its room. The caller holds mu.
func (d *fullDisk) grant() {
	close(d.questions[0].granted)
	d.questions = d.questions[1:]
}
