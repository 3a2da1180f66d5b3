package journal

import (
	"errors"
	"slices"

	"github.com/strandjobs/strand/journal/internal/format"
)

// Change is what a consumer decided. It becomes durable as a whole.
type Change struct {
	Ended     []Ref      // entries that are over: done, merged, superseded
	States    []JobState // new states of jobs
	Buried    []Burial   // payloads that go to the morgue; they end with it
	Rewritten []Rewrite  // entries that get another payload
	Sets      []Set      // changes of state keys

	// Exhumed are dead letters of Queue that leave the morgue for good. The caller makes sure that each is there, and
	// that no other Change and no Restore takes it out meanwhile: Record does not look, and would count wrong.
	Exhumed []Position
	Queue   uint32

	// Room is what was taken for burials and follow-ups with [Log.TakeRoom], in bytes. They
	// are results: a full disk does not refuse them, and what it has no room for waits with
	// all results behind it.
	Room int

	// FollowUps are accepted in the commit of what ended, and delivered after it, like the
	// entries of an Append. Record sets Kind and Position, and copies them.
	FollowUps []Entry

	// With returns state keys that belong to the follow-ups, as those of Append do: it is
	// called under the log's lock, with the position of the first of them. Nil: there are none.
	With func(first Position) []Set
}

// JobState is a job's state to be written down, and where it went.
type JobState struct {
	Entry Entry // Kind and Position are set by Record
	Ref   Ref   // set by Record
}

// Rewrite is an entry that gets another payload, and keeps all else that it has. Ask [Ref.Fresh] first: Record panics
// when the entry was rewritten already and the block with that is still open.
type Rewrite struct {
	Ref     Ref // set by Record to that of the new entry, which may be read before its commit
	Payload []byte
	Room    int // bytes that were taken for it with [Log.TakeRoom], beside those of Change.Room

	queue uint32 // it becomes an entry of this queue instead, and keeps its payload; 0: it does not
}

// Burial is a payload that goes to the morgue.
type Burial struct {
	Ref     Ref
	Payload []byte // instead of that of the entry; nil: as it was accepted
	Retry   int    // before the failure that it died of: −1 it had not failed, 0 failed once, …
	Reason  string // the last error
	At      int64  // Unix nanoseconds
	History History
	Crashed bool // it has killed the process
}

func (c *Change) empty() bool {
	return len(c.Ended)+len(c.States)+len(c.Buried)+len(c.Sets)+len(c.FollowUps)+len(c.Rewritten)+len(c.Exhumed) == 0
}

// results are what consumers have decided: it goes into the open block of the head.
type results struct {
	head

	// mu guards them.
	dead  map[uint32]int // payloads in the morgue by queue
	dying map[uint32]int // of these: whose commit is under way
}

// Record adds c to the next commit and sets the Ref of each state. It does not wait for
// that commit: what a crash takes back is decided again, in the old order. It reads the
// disk only for a buried payload that has left memory. After a failure it has no effect.
func (h *results) Record(c *Change) {
	burials, err := editsOf(c.Buried)
	rewritten, unread := entriesOf(c.Rewritten)
	void := err != nil || unread != nil || c.empty()
	if void && c.Room == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.disk.promised.Add(-int64(c.Room)) // here: the committer sees that, or what takes it, and not neither
	if void || h.closed || errors.Is(h.err, ErrFailed) || h.lost != nil {
		return
	}
	for i := range c.States {
		s := &c.States[i]
		s.Entry.Kind, s.Entry.Position = KindState, h.manifest.Next
		h.manifest.Next++
		s.Ref = h.open.Add(&s.Entry, false)
	}
	for _, put := range burials {
		h.open.changes = append(h.open.changes, put)
		h.disk.letter(len(put.Value))
		h.bury(format.QueueOf(put.Key), 1)
	}
	for _, p := range c.Exhumed {
		h.open.changes = append(h.open.changes, format.Edit{Bucket: format.BucketMorgue, Key: format.MorgueKey(c.Queue, p)})
		h.bury(c.Queue, -1)
	}
	h.set(c.Sets)
	h.follow(c.FollowUps, c.With)
	h.rewrite(rewritten, c.Rewritten)
	h.end(c)
	if !h.volatile {
		h.open.cuts = append(h.open.cuts, h.open.cut())
	}
	if !h.volatile || len(c.States)+len(c.Buried)+len(c.Exhumed)+len(c.Sets)+len(c.FollowUps)+len(c.Rewritten) > 0 {
		h.wakeCommitter()
	}
}

// bury notes that a queue has n more payloads in the morgue, once they are on disk if it
// gets them. The caller holds mu.
func (h *results) bury(queue uint32, n int) {
	h.dying[queue] += max(n, 0)
	if h.dead[queue] += n; h.dead[queue] == 0 {
		delete(h.dead, queue)
	}
}

// editsOf returns what burials write to the morgue. The payloads may have to be read from
// the disk.
func editsOf(burials []Burial) (list []format.Edit, err error) {
	for _, b := range burials {
		d := Buried{Retry: b.Retry, Reason: b.Reason, At: b.At, History: b.History, Crashed: b.Crashed}
		if err := b.Ref.Read(&d.Entry); err != nil {
			return nil, err
		}
		if b.Payload != nil {
			d.Entry.Payload = b.Payload
		}
		list = append(list, d.Edit())
	}
	return list, nil
}

// entriesOf returns the entries that rewrites write, of which the same is true.
func entriesOf(list []Rewrite) (entries []Entry, err error) {
	entries = make([]Entry, len(list))
	for i := range list {
		if err := list[i].Ref.Read(&entries[i]); err != nil {
			return nil, err
		}
		if list[i].queue != 0 {
			entries[i].Queue = list[i].queue
		} else {
			entries[i].Payload = list[i].Payload
		}
	}
	return entries, nil
}

// set adds what a consumer decided about state keys. The caller holds mu.
func (h *results) set(sets []Set) {
	for _, s := range sets {
		c := s.Edit()
		h.disk.owed.overtake(c)
		h.open.changes = append(h.open.changes, c)
	}
}

// follow adds what a consumer accepts. The caller holds mu.
func (h *results) follow(entries []Entry, with func(first Position) []Set) {
	if len(entries) == 0 {
		return
	}
	first, now := h.manifest.Next, int64(0)
	for i := range entries {
		e := &entries[i]
		off := h.admit(e, &now)
		h.open.recorded = append(h.open.recorded, off)
		if p := h.disk.behind(h.open, e.Route, off); p != nil {
			h.disk.waiting = append(h.disk.waiting, *p)
		} else {
			h.open.route(e.Route, off)
		}
	}
	if with != nil {
		h.set(with(first))
	}
}

// rewrite writes entries again, with other payloads. A position that is in two blocks
// counts in the later one, as one that was carried does; so what it takes the place of
// gets no mark, but leaves the accounts. The caller holds mu.
func (h *results) rewrite(entries []Entry, list []Rewrite) {
	for i := range list {
		r := &list[i]
		if r.Ref.Fresh() {
			panic("journal: bug: an entry was rewritten twice in one block")
		}
		h.chain.End(r.Ref, &h.open.Writer)
		h.open.recorded = append(h.open.recorded, uint32(len(h.open.Entries)))
		r.Ref = h.open.Rewrite(&entries[i])
		h.disk.promised.Add(-int64(r.Room))
	}
}

// end takes what is over according to c off the accounts and lists it among the
// marks. The accounts come first: they notice a bug of the consumer, and must
// not leave half a list behind.
func (h *results) end(c *Change) {
	over := slices.Clip(c.Ended)
	for i := range c.Buried {
		over = append(over, c.Buried[i].Ref)
	}
	for _, r := range over {
		h.chain.End(r, &h.open.Writer)
	}
	if h.volatile || len(over) == 0 {
		return
	}
	h.open.BeginMarks(len(over))
	for _, r := range over {
		h.open.MarkEnded(r.Position())
	}
}
