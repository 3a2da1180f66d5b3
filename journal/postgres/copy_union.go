package postgres

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

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
	to      *router
	sources []*source
	queues  []string // the number of one is its place, from 1
	next    format.Position
	epoch   uint64
	err     error // it can't be
}

// source is one of the journals of a union.
type source struct {
	*journal.View
	number  int // of its partition
	place   int // among the others
	shift   format.Position
	queues  map[string]uint32       // as it has them
	numbers map[uint32]uint32       // what they are in the union
	places  map[format.Position]int // where its payloads went
}

// alone is a journal by itself, which stays as it is.
func alone(v *journal.View) *union { return newUnion(newRouter(Config{}, 1, 1), 0, v) }

// newUnion returns the journals of a class as one.
func newUnion(to *router, class int, views ...*journal.View) *union {
	u := &union{to: to}
	numbers := make(map[string]uint32)
	for i, v := range views {
		s := &source{View: v, number: class + i*to.by, place: i, queues: v.Queues(), numbers: make(map[uint32]uint32), places: make(map[format.Position]int)}
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

// pieces yields all that u has, in an order that is the same for the same content. It can be done once.
func (u *union) pieces(yield func(piece, error) bool) {
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
	for _, part := range []iter.Seq2[piece, error]{u.live, u.buried, u.keys} {
		for p, err := range part {
			if !yield(p, err) || err != nil {
				return
			}
		}
	}
}

// each yields, for each queue, the journals that have it, with its number there.
func (u *union) each(yield func(*source, uint32) bool) {
	for _, name := range u.queues {
		for _, s := range u.sources {
			if number, known := s.queues[name]; known && !yield(s, number) {
				return
			}
		}
	}
}

func (u *union) live(yield func(piece, error) bool) {
	var e format.Entry
	add := func(b *rest.Builder) error { return b.Add(e) }
	for s, number := range u.each {
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

func (u *union) buried(yield func(piece, error) bool) {
	for s, number := range u.each {
		for b, err := range s.Morgue(number) {
			s.move(&b.Entry)
			p := piece{of: s, entry: &b.Entry, edit: b.Edit(), add: func(to *rest.Builder) error { return to.Bury(b) }}
			if !yield(p, err) || err != nil {
				return
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

// keys yields the state keys of all, in their order, each once. Those of several journals are in memory for that.
func (u *union) keys(yield func(piece, error) bool) {
	kept := make(map[string]piece)
	for _, s := range u.sources {
		for set, err := range s.Keys() {
			if err == nil && u.to.foreign(set.Key, s.number) {
				continue
			}
			if err == nil && len(u.sources) > 1 {
				set, err = u.set(s, set)
			}
			p := piece{of: s, edit: set.Edit(), add: func(to *rest.Builder) error { return to.Set(set) }}
			if err == nil && len(u.sources) > 1 {
				if old, twice := kept[set.Key]; twice {
					p, err = u.one(&old, &p)
				}
				kept[set.Key] = p
			}
			if (err != nil || len(u.sources) == 1) && (!yield(p, err) || err != nil) {
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

// one returns which of two pieces counts, which are the same state key of two journals.
func (u *union) one(a, b *piece) (piece, error) {
	key, x, y := string(a.edit.Key), a.edit.Value, b.edit.Value
	later := false
	switch kind, name, _ := strings.Cut(key, "/"); {
	case kind == "pause":
	case kind == "mark" && len(x) == 8 && len(y) == 8:
		was, is := int64(binary.BigEndian.Uint64(x)), int64(binary.BigEndian.Uint64(y))
		if later = is > was; was != is && !u.to.highest && !strings.HasPrefix(name, "cron/") {
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

// set is a state key with the positions, and the number of a lock, in the union.
func (u *union) set(s *source, set format.Set) (format.Set, error) {
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
		if err != nil || number >= math.MaxUint64/uint64(len(u.sources)) {
			return set, cmp.Or(err, indivisible(set.Key))
		}
		if l.at != 0 {
			l.at += uint64(s.shift)
		}
		set.Key = string(binary.BigEndian.AppendUint64([]byte("lock/"), number*uint64(len(u.sources))+uint64(s.place)))
		set.Value = append(binary.AppendUvarint(slices.Clone(v[:2]), l.at), l.rest...)
		return set, nil
	}
	return set, indivisible(set.Key)
}

// view reads a partition within a transaction: checked and replayed as an owner does it.
func (s *partitionStore) view(most int) (*journal.View, error) {
	if err := s.load(s.ctx, s.within); err != nil {
		return nil, err
	}
	return rest.ViewOf(s, most)
}

// piece is one thing that a journal has.
type piece struct {
	of    *source       // that has it
	entry *format.Entry // live or buried; valid until the next piece; nil: it is about no id
	edit  format.Edit   // of what stands beside the log; zero: the entry is live
	add   func(*rest.Builder) error
}

// live reports whether p is in the log.
func (p *piece) live() bool { return p.edit.Key == nil }

// encode writes p into b so that two that differ in anything are different.
func (p *piece) encode(b []byte) []byte {
	if p.live() {
		return format.AppendEntry(append(b, 'e'), p.entry, true, 0, 0)
	}
	b = fmt.Appendf(b, "%s/%d/", p.edit.Bucket, len(p.edit.Key))
	return append(append(b, p.edit.Key...), p.edit.Value...)
}

func (p *piece) String() string {
	what := "the payload"
	switch {
	case p.edit.Bucket == format.BucketQueues:
		return fmt.Sprintf("queue %q, number %d", p.edit.Key, binary.BigEndian.Uint32(p.edit.Value))
	case p.edit.Bucket == format.BucketState:
		return fmt.Sprintf("state key %q", p.edit.Key)
	case !p.live():
		what = "the buried payload"
	case p.entry.Kind == format.KindState:
		return fmt.Sprintf("the state of id %q, position %d", p.entry.ID, p.entry.Position)
	}
	return fmt.Sprintf("%s of id %q at position %d", what, p.entry.ID, p.entry.Position)
}

// tally counts what is moved, and tells the log how far that is.
type tally struct {
	log    *slog.Logger
	moved  Moved
	queues map[string]bool // names so far
	told   time.Time       // when the log was told
}

// each calls do for each piece of u, and tells the log how far it is.
func (t *tally) each(ctx context.Context, doing string, u *union, do func(*piece) error) error {
	done, all := 0, 0
	for _, s := range u.sources {
		for _, n := range s.Unclaimed() {
			all += n
		}
	}
	for p, err := range u.pieces {
		if err = cmp.Or(err, context.Cause(ctx)); err == nil {
			err = do(&p)
		}
		if err != nil {
			return err
		}
		if p.live() {
			done++
		}
		if time.Since(t.told) >= tellEach {
			t.told = time.Now()
			t.log.Info("moving: "+doing, slog.Int("done", done), slog.Int("payloads", all))
		}
	}
	return nil
}

// count counts p in.
func (t *tally) count(p *piece) {
	switch {
	case p.live():
		t.moved.Live++
	case p.entry != nil:
		t.moved.Buried++
	case p.edit.Bucket == format.BucketState:
		t.moved.Keys++
	default:
		t.queues[string(p.edit.Key)] = true
		t.moved.Queues = len(t.queues)
	}
}

// comparison compares the pieces of journals with what partitions have of them.
type comparison struct {
	next []func() (piece, error, bool)
	a, b []byte
}

// compare returns an error unless the parts have the pieces of a whole, each where it goes.
func (t *tally) compare(ctx context.Context, name string, whole *union, parts []*journal.View) error {
	c := new(comparison)
	for i, part := range parts {
		if got := part.Info(); got.Next != whole.next || got.Epoch != whole.epoch {
			return fmt.Errorf("%w: part %d goes on at position %d in epoch %d, and not at %d in %d",
				errDiffers, i, got.Next, got.Epoch, whole.next, whole.epoch)
		}
		next, stop := iter.Pull2(alone(part).pieces)
		defer stop()
		c.next = append(c.next, next)
	}
	err := t.each(ctx, "compare "+name, whole, func(p *piece) error {
		t.count(p)
		return whole.to.route(p, func(i int) error { return c.expect(i, p) })
	})
	for i := range parts {
		if err == nil {
			err = c.expect(i, nil)
		}
	}
	return err
}

// expect returns an error unless the next piece of a part is p; nil: there is none.
func (c *comparison) expect(part int, p *piece) error {
	got, err, ok := c.next[part]()
	switch {
	case err != nil:
		return err
	case p == nil && ok:
		return fmt.Errorf("%w: part %d has %v, which should not be there", errDiffers, part, &got)
	case p == nil:
		return nil
	case !ok:
		return fmt.Errorf("%w: part %d ends before %v", errDiffers, part, p)
	}
	if c.a, c.b = p.encode(c.a[:0]), got.encode(c.b[:0]); !bytes.Equal(c.a, c.b) {
		return fmt.Errorf("%w: part %d has %v where %v should be", errDiffers, part, &got, p)
	}
	return nil
}
