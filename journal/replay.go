package journal

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// positionSet is a set of positions that takes memory only around those it
// holds: a job that waits for a year keeps old positions in use. Pages are small,
// because a file that was made to do harm has a mark of three bytes on each.
type positionSet map[Position]*[positionPage / 64]uint64

const positionPage = 1 << 9

func (s positionSet) add(p Position) {
	page := s[p/positionPage]
	if page == nil {
		page = new([positionPage / 64]uint64)
		s[p/positionPage] = page
	}
	page[p%positionPage/64] |= 1 << (p % 64)
}

func (s positionSet) remove(p Position) {
	if page := s[p/positionPage]; page != nil {
		page[p%positionPage/64] &^= 1 << (p % 64)
	}
}

func (s positionSet) has(p Position) bool {
	page := s[p/positionPage]
	return page != nil && page[p%positionPage/64]&(1<<(p%64)) != 0
}

// survey reads a log: it checks every block and finds out which positions
// ended.
type survey struct {
	ended positionSet
	// latest tells for a position that was written more than once, because it
	// was carried or restored, which block counts.
	latest map[Position]uint64
	oldest uint64 // sequence of the first block
	newest uint64 // and of the last one, 0 when there is none
	next   Position
}

func newSurvey() *survey {
	return &survey{ended: positionSet{}, latest: map[Position]uint64{}}
}

func (s *survey) block(seq uint64, data []byte) error {
	_, err := s.visit(seq, data, func(uint32, int, *Entry) {})
	return err
}

// visit is block that calls entry for each entry with its offset and size.
func (s *survey) visit(seq uint64, data []byte, entry func(off uint32, size int, e *Entry)) (h header, err error) {
	if s.newest != 0 && seq != s.newest+1 {
		return h, &CorruptError{Block: s.newest + 1, Offset: -1, Reason: fmt.Sprintf("missing; block %d follows %d", seq, s.newest)}
	}
	if h, err = parseHeader(data, seq); err != nil {
		return h, err
	}
	if s.newest == 0 {
		s.oldest, s.next = seq, h.first
	}
	s.newest = seq
	if h.first != s.next {
		return h, &CorruptError{Block: seq, Offset: -1, Reason: fmt.Sprintf("begins at position %d, want %d", h.first, s.next)}
	}
	return h, h.scan(data, func(off uint32, size int, e *Entry) {
		entry(off, size, e)
		if e.Position < h.first { // carried or restored
			s.latest[e.Position] = seq
			s.ended.remove(e.Position)
			return
		}
		s.next = e.Position + 1
	}, s.ended.add)
}

// finish compares what was found with where the log says that it begins and
// ends.
func (s *survey) finish(t tail) error {
	missing := func(seq uint64, why string, args ...any) error {
		return &CorruptError{Block: seq, Offset: -1, Reason: "missing; " + fmt.Sprintf(why, args...)}
	}
	switch {
	case s.newest == 0 && t.oldest > t.seq:
		return nil
	case s.newest == 0:
		return missing(t.oldest, "the log has no blocks")
	case s.oldest != t.oldest:
		return missing(t.oldest, "the log begins at block %d", s.oldest)
	case s.newest != t.seq:
		return missing(t.seq, "the log ends at block %d", s.newest)
	case s.next != t.next:
		return &CorruptError{Block: s.newest, Offset: -1, Reason: fmt.Sprintf("ends before position %d, the log before %d", s.next, t.next)}
	}
	return nil
}

// live reports whether the entry at p in block seq has not ended and has not
// been written again since.
func (s *survey) live(p Position, seq uint64) bool {
	if s.ended.has(p) {
		return false
	}
	latest, moved := s.latest[p]
	return !moved || latest == seq
}

// replay rebuilds blocks, accounts and pending entries.
func (l *Log) replay() error {
	r := newReading(l.settleIn)
	if err := l.store.scan(r.block); err != nil {
		return err
	}
	t, err := l.readTail()
	if err != nil {
		return err
	}
	if err := r.finish(t); err != nil {
		return err
	}
	r.load(l)
	t.epoch++
	l.tail = t
	return nil
}

// readTail returns what a journal begins with when nothing was ever written.
func (l *Log) readTail() (tail, error) {
	v, err := l.get(bucketMeta, keyTail)
	if err != nil {
		return tail{}, err
	}
	if v == nil {
		return firstTail, nil
	}
	return parseTail(v)
}

// firstTail is the tail of an empty journal. A file is created with it: one
// without it is damaged.
var firstTail = tail{oldest: 1, next: 1}

// readQueues fills the table of queue names.
func (l *Log) readQueues() error {
	from := []byte{}
	for {
		page, err := l.page(bucketQueues, from)
		if err != nil {
			return err
		}
		for _, kv := range page {
			number, err := parseQueue(kv.key, kv.value)
			if err != nil {
				return err
			}
			l.queues[string(kv.key)] = number
		}
		if len(page) < morguePage {
			return nil
		}
		from = append(page[len(page)-1].key, 0)
	}
}

func queueChange(name string, number uint32) change {
	return change{bucket: bucketQueues, key: []byte(name), value: binary.BigEndian.AppendUint32(nil, number)}
}

func parseQueue(name, value []byte) (uint32, error) {
	if len(value) != 4 {
		return 0, brokenValue(bucketQueues, name, fmt.Errorf("%d bytes", len(value)))
	}
	return binary.BigEndian.Uint32(value), nil
}

// maxQueueName is the longest name of a queue, in bytes.
const maxQueueName = 4096

// Queue returns the number that stands for a queue in entries, and makes one
// durable for a name that is new. It returns ErrQueueName for a name that is
// empty or longer than 4096 bytes, and for a new name ErrFull while the disk is
// full: one that the journal knows takes no room.
func (l *Log) Queue(ctx context.Context, name string) (uint32, error) {
	if name == "" || len(name) > maxQueueName {
		return 0, fmt.Errorf("%w, not %d", ErrQueueName, len(name))
	}
	if err := cause(ctx); err != nil {
		return 0, err
	}
	l.mu.Lock()
	number, known := l.queues[name]
	if err := l.refusal(); err != nil && !(known && errors.Is(err, ErrFull)) {
		l.mu.Unlock()
		return 0, err
	}
	if !known {
		number = uint32(len(l.queues)) + 1
		l.queues[name] = number
		l.open.changes = append(l.open.changes, queueChange(name, number))
	}
	ticket := Ticket{commit: l.open.commit}
	l.mu.Unlock()
	if known {
		return number, nil
	}
	l.wakeCommitter()
	return number, ticket.Wait(ctx)
}

// Queues returns the number of every queue that the journal knows, by name.
func (l *Log) Queues() map[string]uint32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	names := make(map[string]uint32, len(l.queues))
	maps.Copy(names, l.queues)
	return names
}

// Pending hands over what a queue had when the journal was opened: its live
// entries in position order. A second call returns none.
func (l *Log) Pending(queue uint32) []Ref { return slices.Concat(l.PendingPages(queue)...) }

// PendingPages is Pending in pages, for whoever lets go of each once it is taken
// in: of many entries they are a quarter of the memory.
func (l *Log) PendingPages(queue uint32) [][]Ref {
	l.mu.Lock()
	defer l.mu.Unlock()
	pages := l.pending[queue]
	delete(l.pending, queue)
	return pages
}

// Unclaimed returns the number of entries that each queue had when the journal
// was opened, without those that Pending has handed over.
func (l *Log) Unclaimed() map[uint32]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	counts := make(map[uint32]int, len(l.pending))
	for queue, pages := range l.pending {
		for _, page := range pages {
			counts[queue] += len(page)
		}
	}
	return counts
}
