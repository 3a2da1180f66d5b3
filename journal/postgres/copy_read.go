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
	"slices"
	"time"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/strandjobs/strand/journal/internal/rest"
)

// atHand is how many bytes of live entries a mover has in memory, of all partitions.
const atHand = 32 << 20

// view reads a partition within a transaction: checked and replayed as an owner does it.
func (s *partitionStore) view(most int) (*journal.View, error) {
	if err := s.load(s.ctx, s.within); err != nil {
		return nil, err
	}
	return rest.ViewOf(s, most)
}

// piece is one thing that a journal has.
type piece struct {
	entry *format.Entry // live or buried; valid until the next piece; nil: it is about no id
	edit  format.Edit   // of what stands beside the log; zero: the entry is live
	add   func(*rest.Builder) error
}

// live reports whether p is in the log.
func (p *piece) live() bool { return p.edit.Key == nil }

// pieces lists all that c has, in an order that is the same for the same content. It can be
// done once.
func pieces(c *journal.View) iter.Seq2[piece, error] {
	return func(yield func(piece, error) bool) {
		queues := c.Queues()
		for _, name := range slices.SortedFunc(maps.Keys(queues), func(a, b string) int { return int(queues[a]) - int(queues[b]) }) {
			add := func(b *rest.Builder) error { return b.Queue(name, queues[name]) }
			if !yield(piece{edit: format.QueueEdit(name, queues[name]), add: add}, nil) {
				return
			}
		}
		var e format.Entry
		add := func(b *rest.Builder) error { return b.Add(e) }
		for _, number := range slices.Sorted(maps.Keys(c.Unclaimed())) {
			pages := c.PendingPages(number)
			for i, page := range pages {
				for _, ref := range page {
					if err := ref.Read(&e); !yield(piece{entry: &e, add: add}, err) || err != nil {
						return
					}
				}
				pages[i] = nil
			}
		}
		for b, err := range c.Morgue() {
			p := piece{entry: &b.Entry, edit: b.Edit(), add: func(to *rest.Builder) error { return to.Bury(b) }}
			if !yield(p, err) || err != nil {
				return
			}
		}
		for set, err := range c.Keys() {
			p := piece{edit: set.Edit(), add: func(to *rest.Builder) error { return to.Set(set) }}
			if !yield(p, err) || err != nil {
				return
			}
		}
	}
}

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

// tellEach is how often the log is told how far a mover is.
const tellEach = 5 * time.Second

// each calls do for each piece of c, and tells the log how far it is.
func (m *mover) each(ctx context.Context, doing string, c *journal.View, do func(*piece) error) error {
	done, all := 0, 0
	for _, n := range c.Unclaimed() {
		all += n
	}
	for p, err := range pieces(c) {
		if err = cmp.Or(err, context.Cause(ctx)); err == nil {
			err = do(&p)
		}
		if err != nil {
			return err
		}
		if p.live() {
			done++
		}
		if time.Since(m.told) >= tellEach {
			m.told = time.Now()
			m.cfg.Executor.Logger.Info("moving: "+doing, slog.Int("done", done), slog.Int("payloads", all))
		}
	}
	return nil
}

// count counts p in.
func (m *mover) count(p *piece) {
	switch {
	case p.live():
		m.moved.Live++
	case p.entry != nil:
		m.moved.Buried++
	case p.edit.Bucket == format.BucketState:
		m.moved.Keys++
	default:
		m.queues[string(p.edit.Key)] = true
		m.moved.Queues = len(m.queues)
	}
}

// comparison compares the pieces of a journal with what partitions have of them.
type comparison struct {
	next []func() (piece, error, bool)
	a, b []byte
}

// compare returns an error unless the parts have the pieces of a whole, each where it goes.
func (m *mover) compare(ctx context.Context, name string, whole *journal.View, parts []*journal.View, to *router) error {
	c := new(comparison)
	for _, part := range parts {
		next, stop := iter.Pull2(pieces(part))
		defer stop()
		c.next = append(c.next, next)
	}
	err := m.each(ctx, "compare "+name, whole, func(p *piece) error {
		m.count(p)
		targets, err := to.route(p)
		for _, i := range targets {
			if err == nil {
				err = c.expect(i, p)
			}
		}
		return err
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
