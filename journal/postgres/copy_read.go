package postgres

import (
	"bytes"
	"context"
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

// piece is one thing that a journal has; set is what of it counts.
type piece struct {
	name   string // of a queue
	number uint32
	entry  *format.Entry // live; valid until the next piece
	buried *format.Buried
	set    *format.Set
}

// pieces lists all that c has, in an order that is the same for the same content. It can be
// done once.
func pieces(c *journal.View) iter.Seq2[piece, error] {
	return func(yield func(piece, error) bool) {
		queues := c.Queues()
		for _, name := range slices.SortedFunc(maps.Keys(queues), func(a, b string) int { return int(queues[a]) - int(queues[b]) }) {
			if !yield(piece{name: name, number: queues[name]}, nil) {
				return
			}
		}
		var e format.Entry
		for _, number := range slices.Sorted(maps.Keys(c.Unclaimed())) {
			pages := c.PendingPages(number)
			for i, page := range pages {
				for _, ref := range page {
					if err := ref.Read(&e); !yield(piece{entry: &e}, err) || err != nil {
						return
					}
				}
				pages[i] = nil
			}
		}
		for b, err := range c.Morgue() {
			if !yield(piece{buried: &b}, err) || err != nil {
				return
			}
		}
		for set, err := range c.Keys() {
			if !yield(piece{set: &set}, err) || err != nil {
				return
			}
		}
	}
}

// encode writes p into b so that two that differ in anything are different.
func (p *piece) encode(b []byte) []byte {
	switch {
	case p.entry != nil:
		return format.AppendEntry(append(b, 'e'), p.entry, true, 0, 0)
	case p.buried != nil:
		edit := p.buried.Edit()
		return append(append(append(b, 'b'), edit.Key...), edit.Value...)
	case p.set != nil:
		b = fmt.Appendf(append(b, 'k'), "%d/", len(p.set.Key))
		return append(append(b, p.set.Key...), p.set.Value...)
	}
	return fmt.Appendf(append(b, 'q'), "%d/%s", p.number, p.name)
}

// id is that of what p is about, when it is about one.
func (p *piece) id() (id string, ok bool) {
	switch {
	case p.entry != nil:
		return string(p.entry.ID), true
	case p.buried != nil:
		return string(p.buried.Entry.ID), true
	}
	return "", false
}

func (p *piece) String() string {
	switch {
	case p.entry != nil && p.entry.Kind == format.KindState:
		return fmt.Sprintf("the state of id %q, position %d", p.entry.ID, p.entry.Position)
	case p.entry != nil:
		return fmt.Sprintf("the payload of id %q at position %d", p.entry.ID, p.entry.Position)
	case p.buried != nil:
		return fmt.Sprintf("the buried payload of id %q at position %d", p.buried.Entry.ID, p.buried.Entry.Position)
	case p.set != nil:
		return fmt.Sprintf("state key %q", p.set.Key)
	}
	return fmt.Sprintf("queue %q, number %d", p.name, p.number)
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
		if err == nil {
			err = context.Cause(ctx)
		}
		if err == nil {
			err = do(&p)
		}
		if err != nil {
			return err
		}
		if p.entry != nil {
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
	case p.entry != nil:
		m.moved.Live++
	case p.buried != nil:
		m.moved.Buried++
	case p.set != nil:
		m.moved.Keys++
	default:
		m.queues[p.name] = true
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
	if err != nil {
		return err
	}
	return c.finish()
}

// expect returns an error unless the next piece of a part is p.
func (c *comparison) expect(part int, p *piece) error {
	got, err, ok := c.next[part]()
	switch {
	case err != nil:
		return err
	case !ok:
		return fmt.Errorf("%w: part %d ends before %v", errDiffers, part, p)
	}
	if c.a, c.b = p.encode(c.a[:0]), got.encode(c.b[:0]); !bytes.Equal(c.a, c.b) {
		return fmt.Errorf("%w: part %d has %v where %v should be", errDiffers, part, &got, p)
	}
	return nil
}

// finish returns an error unless all parts have ended.
func (c *comparison) finish() error {
	for part, next := range c.next {
		p, err, ok := next()
		if err != nil {
			return err
		}
		if ok {
			return fmt.Errorf("%w: part %d has %v, which should not be there", errDiffers, part, &p)
		}
	}
	return nil
}
