package journal

import (
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"slices"
)

// Buried is a payload in the morgue.
type Buried struct {
	Entry  Entry  // of KindEnqueued, as it was accepted
	Retry  int    // the retry count it died with
	Reason string // the last error
	At     int64  // Unix nanoseconds

	// History are its failures, of which the last one is Reason. Empty for what an
	// older version of this package has buried.
	History History
}

// morguePage and morguePageBytes bound what is read of a bucket at once.
const (
	morguePage      = 256
	morguePageBytes = 1 << 20
)

// morgueKeySize is a queue and a position.
const morgueKeySize = 4 + 8

func morgueKey(queue uint32, p Position) []byte {
	key := binary.BigEndian.AppendUint32(make([]byte, 0, morgueKeySize), queue)
	return binary.BigEndian.AppendUint64(key, uint64(p))
}

// queueOf is the queue in a key of the morgue.
func queueOf(key []byte) uint32 { return binary.BigEndian.Uint32(key) }

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
func changesOf(burials []Burial) (list []change, err error) {
	for i := range burials {
		c, err := burials[i].change()
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, nil
}

// change builds the value of the morgue: version, count, time, reason, the entry as
// in a block that begins at zero, and since version 2 the history.
func (b *Burial) change() (change, error) {
	var e Entry
	if err := b.Ref.Read(&e); err != nil {
		return change{}, err
	}
	v := make([]byte, 0, entryBound(&e)+len(b.Reason)+len(b.History)+checksumSize)
	v = append(v, blockVersion)
	v = binary.AppendVarint(v, int64(b.Retry))
	v = binary.AppendVarint(v, b.At)
	v = binary.AppendUvarint(v, uint64(len(b.Reason)))
	v = append(v, b.Reason...)
	v = appendEntry(v, &e, true, 0, 0)
	v = binary.AppendUvarint(v, uint64(len(b.History)))
	v = append(v, b.History...)
	key := morgueKey(e.Queue, e.Position)
	return change{bucket: bucketMorgue, key: key, value: appendChecksum(v, key)}, nil
}

func parseBuried(key, v []byte) (b Buried, err error) {
	v, err = cutChecksum(v, key)
	if err == nil && len(key) != morgueKeySize {
		err = errShort
	}
	if err != nil {
		return b, &CorruptError{Reason: fmt.Sprintf("buried payload %x: %v", key, err)}
	}
	d := decoder{b: v}
	version := d.byte()
	if version > blockVersion {
		return b, fmt.Errorf("%w: a buried payload has version %d", ErrTooNew, version)
	}
	b.Retry = int(d.varint())
	b.At = d.varint()
	b.Reason = string(d.bytes(d.uvarint()))
	d.entry(&b.Entry, 0, 0)
	if version > 1 {
		b.History = d.bytes(d.uvarint())
	}
	if d.err != nil {
		return b, &CorruptError{Reason: fmt.Sprintf("buried payload %x: %v", key, d.err)}
	}
	return b, nil
}

// Morgue lists the buried payloads of a queue in position order. It reads a
// page at a time, 256 payloads or a MiB of them, so the loop may take as long as it likes and may restore or
// delete what it was given. A read error is yielded once and ends the list.
func (l *Log) Morgue(queue uint32) iter.Seq2[Buried, error] {
	return func(yield func(Buried, error) bool) {
		from := morgueKey(queue, 0)
		for {
			page, err := l.morguePage(from)
			if err != nil {
				yield(Buried{}, err)
				return
			}
			for _, kv := range page {
				if queueOf(kv.key) != queue {
					return
				}
				b, err := parseBuried(kv.key, kv.value)
				if !yield(b, err) || err != nil {
					return
				}
			}
			if len(page) == 0 {
				return
			}
			from = append(page[len(page)-1].key, 0)
		}
	}
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
	select {
	case <-before.done:
		return func(c *commit) { l.restoring <- c }, nil
	case <-over:
		l.restoring <- before
		return nil, ended(ctx)
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
		l.open.route(e.Route, l.open.add(e, true).off)
		l.open.restored = append(l.open.restored, change{bucket: bucketMorgue, key: morgueKey(queue, e.Position)})
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
		if need += entryBound(&entries[i]); need > maxAppendBytes {
			return nil, 0, fmt.Errorf("%w: the first %d of %d payloads have %d bytes, the limit of one call is %d",
				ErrTooLarge, i+1, len(ps), need, maxAppendBytes)
		}
	}
	return entries, need, nil
}

func (l *Log) exhumeOne(queue uint32, p Position) (Entry, error) {
	key := morgueKey(queue, p)
	v, err := l.get(bucketMorgue, key)
	if err != nil {
		return Entry{}, err
	}
	if v == nil {
		return Entry{}, fmt.Errorf("%w: position %d", ErrNotFound, p)
	}
	b, err := parseBuried(key, v)
	return b.Entry, err
}

// get, page and morguePage read what the last commit left.

func (l *Log) get(name bucket, key []byte) ([]byte, error) {
	if l.isClosed() {
		return nil, ErrClosed
	}
	return l.store.get(name, key)
}

func (l *Log) page(name bucket, from []byte) ([]pair, error) {
	if l.isClosed() {
		return nil, ErrClosed
	}
	return l.store.page(name, from, morguePage)
}

func (l *Log) morguePage(from []byte) ([]pair, error) {
	if l.isClosed() {
		return nil, ErrClosed
	}
	return l.store.pageWithin(bucketMorgue, from, morguePage, morguePageBytes)
}

func (l *Log) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}
