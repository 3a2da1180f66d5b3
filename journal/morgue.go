package journal

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/strandjobs/strand/journal/internal/store"
)

// bury notes that a queue has n more payloads in the morgue. The caller holds mu.
func (l *Log) bury(queue uint32, n int) {
	if l.dead[queue] += n; l.dead[queue] == 0 {
		delete(l.dead, queue)
	}
}

// Buried returns how many payloads a queue has in the morgue.
func (l *Log) Buried(queue uint32) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead[queue]
}

// changesOf returns what burials write to the morgue.
func changesOf(burials []Burial) (list []format.Edit, err error) {
	for i := range burials {
		c, err := burials[i].change()
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, nil
}

// change reads the payload and returns what goes to the morgue.
func (b *Burial) change() (format.Edit, error) {
	d := Buried{Retry: b.Retry, Reason: b.Reason, At: b.At, History: b.History}
	if err := b.Ref.Read(&d.Entry); err != nil {
		return format.Edit{}, err
	}
	if b.Payload != nil {
		d.Entry.Payload = b.Payload
	}
	return d.Edit(), nil
}

// Morgue lists the buried payloads of a queue in position order, from one position on. It
// reads a page at a time, 256 payloads or a MiB of them, so the loop may take as long as
// it likes and may restore or delete what it was given. A read error is yielded once and
// ends the list.
func (l *Log) Morgue(queue uint32, from Position) iter.Seq2[Buried, error] {
	first := format.MorgueKey(queue, from)
	return store.Burials(l.each(format.BucketMorgue, first), first[:4])
}

// Restore puts buried payloads back into the log, at their old positions and
// scores, due at the given Unix time in nanoseconds. route says for each id
// where to deliver it. All of them go back, or none; [ErrNotFound] when one is
// not in the morgue. A position that is listed twice goes back once. It returns
// when they were taken in, like [Ticket.Wait].
//
// All of them are in memory together, and in one block: for many, call it again and
// again. ErrTooLarge for more than a GiB. route is called under no lock.
func (l *Log) Restore(ctx context.Context, queue uint32, ps []Position, due int64, route func(id []byte) uint32) error {
	release, err := l.beginRestore(ctx)
	if err != nil {
		return err
	}
	ticket := Ticket{commit: settled}
	err = func() error {
		defer func() { release(ticket.commit) }() // also when route ends the goroutine
		ticket, err = l.restore(ctx, queue, ps, due, route)
		return err
	}()
	if err != nil {
		return err
	}
	return ticket.Wait(ctx)
}

// beginRestore waits for its turn. One at a time: until the commit that takes a
// payload out of the morgue, a second Restore would find it there and run it
// twice. So the commit of each is left for the next one to wait for, which also
// works when the first one's caller has gone.
func (l *Log) beginRestore(ctx context.Context) (release func(*commit), err error) {
	if err := cause(ctx); err != nil {
		return nil, err
	}
	over := done(ctx) // not in the middle
	var before *commit
	select {
	case before = <-l.restoring:
	case <-over:
		return nil, ended(ctx)
	}
	for {
		select {
		case <-before.done:
		case <-over:
			l.restoring <- before
			return nil, ended(ctx)
		}
		if before.err != ErrFull {
			return func(c *commit) { l.restoring <- c }, nil
		}
		l.mu.Lock() // what a full disk has refused is over, and a Delete goes with the results
		before = l.newest().commit
		l.mu.Unlock()
		l.wakeCommitter()
	}
}

func (l *Log) restore(ctx context.Context, queue uint32, ps []Position, due int64, route func(id []byte) uint32) (Ticket, error) {
	ps = slices.Clone(ps)
	slices.Sort(ps)
	entries, need, err := l.exhume(queue, slices.Compact(ps))
	if err != nil {
		return Ticket{commit: settled}, err
	}
	for i := range entries {
		e := &entries[i]
		e.Accepted = e.AcceptedAt()
		e.Restored, e.Due, e.Route = true, due, route(e.ID)
	}
	if err := l.lockWithRoom(ctx, need); err != nil {
		return Ticket{commit: settled}, err
	}
	defer l.mu.Unlock()
	if len(entries) == 0 {
		return Ticket{commit: settled}, nil
	}
	for i := range entries {
		e := &entries[i]
		l.open.route(e.Route, l.open.Add(e, true).Off)
		l.open.restored = append(l.open.restored, format.Edit{Bucket: format.BucketMorgue, Key: format.MorgueKey(queue, e.Position)})
	}
	l.wakeCommitter()
	return Ticket{commit: l.open.commit}, nil
}

// exhume reads payloads in the morgue, and says how much room they need.
func (l *Log) exhume(queue uint32, ps []Position) (entries []Entry, need int, err error) {
	entries = make([]Entry, len(ps))
	for i, p := range ps {
		if entries[i], err = l.exhumeOne(queue, p); err != nil {
			return nil, 0, err
		}
		if need += format.EntryBound(&entries[i]); need > format.MaxAppendBytes {
			return nil, 0, fmt.Errorf("%w: the first %d of %d payloads have %d bytes, the limit of one call is %d",
				ErrTooLarge, i+1, len(ps), need, format.MaxAppendBytes)
		}
	}
	return entries, need, nil
}

func (l *Log) exhumeOne(queue uint32, p Position) (Entry, error) {
	b, err := l.BuriedAt(queue, p)
	return b.Entry, err
}

// BuriedAt returns the buried payload of a queue at a position, or [ErrNotFound].
func (l *Log) BuriedAt(queue uint32, p Position) (Buried, error) {
	key := format.MorgueKey(queue, p)
	v, err := l.get(format.BucketMorgue, key)
	if err != nil {
		return Buried{}, err
	}
	if v == nil {
		return Buried{}, fmt.Errorf("%w: position %d", ErrNotFound, p)
	}
	return format.ParseBuried(key, v)
}

// get and each read what the last commit left.

func (l *Log) get(name format.Bucket, key []byte) ([]byte, error) {
	if l.isClosed() {
		return nil, ErrClosed
	}
	return l.store.Get(name, key)
}

func (l *Log) each(name format.Bucket, from []byte) iter.Seq2[format.Pair, error] {
	return store.Each(func(from []byte) ([]format.Pair, error) {
		if l.isClosed() {
			return nil, ErrClosed
		}
		return l.store.Page(name, from)
	}, from)
}

func (l *Log) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}
