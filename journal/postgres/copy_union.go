package postgres

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/journal/internal/crash"
	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/strandjobs/strand/journal/internal/rest"
)

// union are the journals of partitions whose ids come together in others, as one journal. One alone is as it is. The
// positions of the second are moved behind all that any of them has given, those of the third behind these, and so on:
// what an id has stays in its order, and nothing of it gets a position that another payload of it had. With the
// positions move what refers to them: see source.move and source.set.
type union struct {
	sources []*source
	queues  []string // the number of one is its place, from 1
	next    format.Position
	epoch   uint64
	highest bool  // of several offsets of a source that one counts
	err     error // it can't be
}

// source is one of the journals of a union.
type source struct {
	*journal.View
	to        *router // nil: it is alone, and stays as it is
	number    int     // of its partition
	place, of int     // which of so many it is
	shift     format.Position
	queues    map[string]uint32       // as it has them
	numbers   map[uint32]uint32       // what they are in the union
	places    map[format.Position]int // where its payloads went
}

// lastPosition is what no union goes beyond: who reads JSON may take two larger numbers for one.
const lastPosition = 1 << 53

// alone is a journal by itself.
func alone(v *journal.View) *union { return newUnion(nil, 0, v) }

// newUnion returns the journals of a class as one.
func newUnion(to *router, class int, views ...*journal.View) *union {
	u := new(union)
	numbers := make(map[string]uint32)
	for i, v := range views {
		s := &source{View: v, to: to, place: i, of: len(views), queues: v.Queues(), numbers: make(map[uint32]uint32), places: make(map[format.Position]int)}
		if to != nil {
			s.number = class + i*to.by
		}
		for _, name := range slices.SortedFunc(maps.Keys(s.queues), func(a, b string) int { return cmp.Compare(s.queues[a], s.queues[b]) }) {
			if numbers[name] == 0 {
				u.queues = append(u.queues, name)
				numbers[name] = uint32(len(u.queues))
			}
			s.numbers[s.queues[name]] = numbers[name]
		}
		for _, used := range []map[uint32]int{v.Unclaimed(), v.Buried()} {
			for number, n := range used {
				if n > 0 && s.numbers[number] == 0 {
					u.err = format.Damaged("%d payloads are of queue number %d, which has no name", n, number)
				}
			}
		}
		u.sources = append(u.sources, s)
		u.next, u.epoch = max(u.next, v.Info().Next), max(u.epoch, v.Info().Epoch)
	}
	for i, s := range u.sources {
		s.shift = format.Position(i) * u.next
	}
	if n := format.Position(len(views)); n > 1 && u.next > lastPosition/n {
		u.err = fmt.Errorf("%w: %d partitions that are joined have given up to %d positions each, and all of them have to be below %d",
			ErrIndivisible, n, u.next, int64(lastPosition))
	}
	u.next *= format.Position(len(views))
	return u
}

// pieces lists all that u has, in an order that is the same for the same content. It can be done once.
func (u *union) pieces() iter.Seq2[piece, error] {
	return func(yield func(piece, error) bool) {
		if u.err != nil {
			yield(piece{}, u.err)
			return
		}
		for i, name := range u.queues {
			number := uint32(i + 1)
			if !yield(piece{edit: format.QueueEdit(name, number), add: func(b *rest.Builder) error { return b.Queue(name, number) }}, nil) {
				return
			}
		}
		for _, part := range []iter.Seq2[piece, error]{u.live(), u.buried(), u.keys()} {
			for p, err := range part {
				if !yield(p, err) || err != nil {
					return
				}
			}
		}
	}
}

// each yields, for each queue, the journals that have it, with its number there.
func (u *union) each() iter.Seq2[*source, uint32] {
	return func(yield func(*source, uint32) bool) {
		for _, name := range u.queues {
			for _, s := range u.sources {
				if number, known := s.queues[name]; known && !yield(s, number) {
					return
				}
			}
		}
	}
}

func (u *union) live() iter.Seq2[piece, error] {
	return func(yield func(piece, error) bool) {
		var e format.Entry
		add := func(b *rest.Builder) error { return b.Add(e) }
		for s, number := range u.each() {
			pages := s.PendingPages(number)
			for i, page := range pages {
				for _, ref := range page {
					err := ref.Read(&e)
					s.move(&e)
					if !yield(piece{of: s, entry: &e, add: add}, err) || err != nil {
						return
					}
				}
				pages[i] = nil
			}
		}
	}
}

func (u *union) buried() iter.Seq2[piece, error] {
	return func(yield func(piece, error) bool) {
		for s, number := range u.each() {
			for b, err := range s.Morgue(number) {
				s.move(&b.Entry)
				p := piece{of: s, entry: &b.Entry, edit: b.Edit(), add: func(to *rest.Builder) error { return to.Bury(b) }}
				if !yield(p, err) || err != nil {
					return
				}
			}
		}
	}
}

// move gives an entry its queue and positions in the union. What begins with 0 among the failed is not
// positions but for what stands third, or fourth behind two zeros, and later; see package shard.
func (s *source) move(e *format.Entry) {
	e.Queue, e.Position = s.numbers[e.Queue], e.Position+s.shift
	f := e.Failed
	switch {
	case len(f) == 4 && f[0] == 0 && f[1] == 0: // a version: the third is a score
		f = f[3:]
	case len(f) > 0 && f[0] == 0:
		f = f[min(len(f), 2):]
	}
	for i := range f {
		if f[i] != 0 {
			f[i] += s.shift
		}
	}
}

// keys lists the state keys of all, in their order, each once. Those of several journals are in memory for that.
func (u *union) keys() iter.Seq2[piece, error] {
	return func(yield func(piece, error) bool) {
		kept := make(map[string]piece)
		for _, s := range u.sources {
			for set, err := range s.sets() {
				p := piece{of: s, edit: set.Edit(), add: func(to *rest.Builder) error { return to.Set(set) }}
				if err == nil && s.of > 1 {
					if old, twice := kept[set.Key]; twice {
						p, err = u.one(&old, &p)
					}
					kept[set.Key] = p
				}
				if (err != nil || s.of == 1) && (!yield(p, err) || err != nil) {
					return
				}
			}
		}
		for _, key := range slices.Sorted(maps.Keys(kept)) {
			if !yield(kept[key], nil) {
				return
			}
		}
	}
}

// one returns which of two pieces counts, which are the same state key of two journals.
func (u *union) one(a, b *piece) (piece, error) {
	key, x, y := string(a.edit.Key), a.edit.Value, b.edit.Value
	later := false
	switch kind, name, _ := strings.Cut(key, "/"); {
	case kind == "pause":
	case kind == "mark" && len(x) == 8 && len(y) == 8:
		was, is := int64(binary.BigEndian.Uint64(x)), int64(binary.BigEndian.Uint64(y))
		if later = is > was; was != is && !u.highest && !strings.HasPrefix(name, "cron/") {
			return *a, fmt.Errorf("%w: of source %q one of them has offset %d and another one %d, and one offset can't say what is between: "+
				"make sure that all calls with lower offsets were answered, and say that the highest counts", ErrIndivisible, name, was, is)
		}
	case kind == "key" && len(x) == idempotencySize && len(y) == idempotencySize:
		if later = b.waits(); later == a.waits() {
			later = binary.BigEndian.Uint64(y) > binary.BigEndian.Uint64(x) // when it was accepted
		}
	default:
		return *a, indivisible(key)
	}
	if later {
		return *b, nil
	}
	return *a, nil
}

// idempotencySize is that of a time, a position, and how many follow from there.
const idempotencySize = 3 * 8

// waits reports whether a payload is left of those that an idempotency key stands for.
func (p *piece) waits() bool {
	first, n := format.Position(binary.BigEndian.Uint64(p.edit.Value[8:])), binary.BigEndian.Uint64(p.edit.Value[16:])
	for i := range min(n, callBytes/itemBytes) {
		if _, waits := p.of.places[first+format.Position(i)]; waits {
			return true
		}
	}
	return false
}

// sets lists the state keys as they are in the union. Their order stays.
func (s *source) sets() iter.Seq2[format.Set, error] {
	return func(yield func(format.Set, error) bool) {
		for set, err := range s.Keys() {
			switch {
			case err == nil && s.to != nil && s.to.foreign(set.Key, s.number):
				continue
			case err == nil && s.of > 1:
				set, err = s.set(set)
			}
			if !yield(set, err) || err != nil {
				return
			}
		}
	}
}

// set is a state key with the positions, and the number of a lock, in the union.
func (s *source) set(set format.Set) (format.Set, error) {
	kind, rest, _ := strings.Cut(set.Key, "/")
	switch v := set.Value; {
	case kind == "mark", kind == "pause":
		return set, nil
	case kind == "key" && len(v) == idempotencySize:
		moved := binary.BigEndian.AppendUint64(slices.Clone(v[:8]), binary.BigEndian.Uint64(v[8:])+uint64(s.shift))
		set.Value = append(moved, v[16:]...)
		return set, nil
	case kind+"/" == crash.SuspectPrefix:
		at, suspicion, err := crash.ParseSuspicion(set.Key, v)
		return suspicion.Set(at + s.shift), err
	case kind == "lock" && len(rest) == 8:
		l, err := parseLock(set)
		number := binary.BigEndian.Uint64([]byte(rest))
		if err != nil || number >= math.MaxUint64/uint64(s.of) {
			return set, cmp.Or(err, indivisible(set.Key))
		}
		if l.at != 0 {
			l.at += uint64(s.shift)
		}
		set.Key = string(binary.BigEndian.AppendUint64([]byte("lock/"), number*uint64(s.of)+uint64(s.place)))
		set.Value = append(binary.AppendUvarint(slices.Clone(v[:2]), l.at), l.rest...)
		return set, nil
	}
	return set, indivisible(set.Key)
}
