package journal

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/strandjobs/strand/journal/internal/store"
)

// morgue is what callers do with payloads that were buried: look, and put back. How
// many there are is counted with the results, and they are read from the last commit.
type morgue struct {
	c     *committer
	sides *sides

	// restoring holds the commit of the last Restore while no other one is at work. It
	// comes before the locks of the log.
	restoring chan *commit
}

// Buried returns how many payloads a queue has in the morgue, with those on their way there.
func (m *morgue) Buried(queue uint32) int {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	return m.c.dead[queue]
}

// Listed returns how many of them Morgue lists for certain: those on their way there don't
// count, and those that a recorded change takes out don't, either.
func (m *morgue) Listed(queue uint32) int {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	return m.c.dead[queue] - m.c.dying[queue]
}

// BuriedAt returns the buried payload of a queue at a position, or [ErrNotFound].
func (m *morgue) BuriedAt(queue uint32, p Position) (Buried, error) {
	key := format.MorgueKey(queue, p)
	v, err := m.sides.get(format.BucketMorgue, key)
	if err != nil {
		return Buried{}, err
	}
	if v == nil {
		return Buried{}, fmt.Errorf("%w: position %d", ErrNotFound, p)
	}
	return format.ParseBuried(key, v)
}

// Morgue lists the buried payloads of a queue in position order, from one position on. It
// reads a page at a time, 256 payloads or a MiB of them, so the loop may take as long as
// it likes and may take out what it was given. A read error is yielded once and
// ends the list.
func (m *morgue) Morgue(queue uint32, from Position) iter.Seq2[Buried, error] {
	first := format.MorgueKey(queue, from)
	return store.Pages(m.sides.page).Burials(first, first[:4])
}

// Restore puts buried payloads back into the log, at their old positions and
// scores, due at the given Unix time in nanoseconds. route says for each id
// where to deliver it. All of them go back, or none; [ErrNotFound] when one is
// not in the morgue. A position that is listed twice goes back once. It returns
// when they were taken in, like [Ticket.Wait].
//
// All of them are in memory together, and in one block: for many, call it again and
// again. ErrTooLarge for more than a GiB. route is called under no lock.
func (m *morgue) Restore(ctx context.Context, queue uint32, ps []Position, due int64, route func(id []byte) uint32) error {
	if err := m.beginRestore(ctx); err != nil {
		return err
	}
	ticket, err := m.restore(ctx, queue, ps, due, route)
	return cmp.Or(err, ticket.Wait(ctx))
}

// beginRestore waits for its turn. One at a time: until the commit that takes a
// payload out of the morgue, a second Restore would find it there and run it
// twice. So the commit of each is left for the next one to wait for, which also
// works when the first one's caller has gone.
func (m *morgue) beginRestore(ctx context.Context) error {
	if err := cause(ctx); err != nil {
		return err
	}
	over := done(ctx) // not in the middle
	var before *commit
	select {
	case before = <-m.restoring:
	case <-over:
		return ended(ctx)
	}
	select {
	case <-before.done:
		return nil
	case <-over:
		m.restoring <- before
		return ended(ctx)
	}
}

func (m *morgue) restore(ctx context.Context, queue uint32, ps []Position, due int64, route func([]byte) uint32) (ticket Ticket, err error) {
	ticket.commit = settled
	defer func() { m.restoring <- ticket.commit }() // also when route ends the goroutine
	ps = slices.Clone(ps)
	slices.Sort(ps)
	entries, need, err := m.exhume(queue, slices.Compact(ps))
	if err != nil {
		return ticket, err
	}
	for i := range entries {
		e := &entries[i]
		e.Accepted = e.AcceptedAt()
		e.Restored, e.Due, e.Route = true, due, route(e.ID)
	}
	if err := m.c.lockWithRoom(ctx, need); err != nil {
		return ticket, err
	}
	defer m.c.mu.Unlock()
	if len(entries) == 0 {
		return ticket, nil
	}
	for i := range entries {
		e := &entries[i]
		m.c.open.route(e.Route, m.c.open.Add(e, true).Off)
		m.c.open.restored = append(m.c.open.restored, format.Edit{Bucket: format.BucketMorgue, Key: format.MorgueKey(queue, e.Position)})
	}
	m.c.wakeCommitter()
	return Ticket{commit: m.c.open.commit}, nil
}

// exhume reads payloads in the morgue, and says how much room they need.
func (m *morgue) exhume(queue uint32, ps []Position) (entries []Entry, need int, err error) {
	entries = make([]Entry, len(ps))
	for i, p := range ps {
		b, err := m.BuriedAt(queue, p)
		if err != nil {
			return nil, 0, err
		}
		entries[i] = b.Entry
		if need += format.EntryBound(&entries[i]); need > format.MaxAppendBytes {
			return nil, 0, fmt.Errorf("%w: the first %d of %d payloads have %d bytes, the limit of one call is %d",
				ErrTooLarge, i+1, len(ps), need, format.MaxAppendBytes)
		}
	}
	return entries, need, nil
}
