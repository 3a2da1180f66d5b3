package postgres

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"log/slog"
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

// tellEach is how often the log is told how far a mover is.
const tellEach = 5 * time.Second

// each calls do for each piece of u, and tells the log how far it is.
func (m *mover) each(ctx context.Context, doing string, u *union, do func(*piece) error) error {
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

// comparison compares the pieces of journals with what partitions have of them.
type comparison struct {
	next []func() (piece, error, bool)
	a, b []byte
}

// compare returns an error unless the parts have the pieces of a whole, each where it goes.
func (m *mover) compare(ctx context.Context, name string, whole *union, parts []*journal.View) error {
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
	err := m.each(ctx, "compare "+name, whole, func(p *piece) error {
		m.count(p)
		targets, err := whole.to.route(p)
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
