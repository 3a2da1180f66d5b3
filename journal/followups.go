package journal

import (
	"context"
	"slices"

	"github.com/strandjobs/strand/journal/internal/store"
)

// FollowUps are payloads that a [Change] accepts: they are in the commit of what
// ended, and delivered after it, like those of an Append. They are results: a full
// disk does not refuse them. So a caller who has a choice asks [Log.RoomFor] first.
type FollowUps struct {
	// Entries are as for Append. Record sets Kind and Position, and copies them.
	Entries []Entry

	// With returns state keys that belong to the entries, as those of AppendWith do:
	// it is called under the log's lock, with the position of the first of them. Nil:
	// there are none.
	With func(first Position) []Set
}

func (c *Change) empty() bool {
	return len(c.Ended)+len(c.States)+len(c.Buried)+len(c.Sets)+len(c.FollowUps.Entries) == 0
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
	first := l.manifest.Next
	for i := range f.Entries {
		e := &f.Entries[i]
		e.Kind, e.Restored, e.Position = KindEnqueued, false, l.manifest.Next
		l.manifest.Next++
		off := l.open.Add(e, false).Off
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

// RoomFor reports whether there is room on the disk for so many bytes of follow-ups,
// and takes it if so. While the disk is short of room they have half of the reserve:
// the other half is for the results that have none, and give room back. Otherwise
// there is always room: what the disk turns out to have none for then waits for it,
// together with the result that it belongs to.
func (l *Log) RoomFor(bytes int) bool {
	if !l.disk.short.Load() {
		return true
	}
	for {
		left := l.disk.allowance.Load()
		if left < int64(bytes) {
			return false
		}
		if l.disk.allowance.CompareAndSwap(left, left-int64(bytes)) {
			return true
		}
	}
}

// HasRoomFor is RoomFor that takes none.
func (l *Log) HasRoomFor(bytes int) bool {
	return !l.disk.short.Load() || l.disk.allowance.Load() >= int64(bytes)
}

// AwaitRoom waits while the open block is full, until ctx ends, as Append does. It is
// for a caller of Record whose changes have follow-ups: Record does not wait. While
// appends are refused it does not wait either.
func (l *Log) AwaitRoom(ctx context.Context) {
	if l.lockWithRoom(ctx, 0) == nil {
		l.mu.Unlock()
	}
}

// allow says how much follow-ups may take until the next block is made, of a disk that
// has so much room for one that has a weight.
func (d *fullDisk) allow(r store.Room, weight int) {
	reserve := max(r.Bytes-r.Spare-weight, 0)
	d.allowance.Store(int64(r.Spare) + int64(reserve/2))
}
