package postgres

import (
	"context"
	"fmt"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/strandjobs/strand/journal/internal/rest"
)

// class are partitions whose ids go into the same others, and nowhere else.
type class struct {
	m      *mover
	number int
	to     *router
	read   origin
	from   []int // the partitions that are read
	stores []*partitionStore
	name   string
}

// origin calls do with the journal of a partition, which is open meanwhile together with some others.
type origin func(partition, together int, do func(*journal.View) error) error

// distribute writes journals to the partitions that have heads, and compares what is there then.
func (m *mover) distribute(ctx context.Context, name string, to *router, heads []head, read origin) error {
	for number := range to.by {
		c := &class{m: m, number: number, to: to, read: read, name: name}
		for p := number; p < to.from; p += to.by {
			c.from = append(c.from, p)
		}
		for p := number; p < to.to; p += to.by {
			c.stores = append(c.stores, m.store(ctx, p, heads[p].epoch))
		}
		if to.from > 1 {
			c.name = fmt.Sprintf("%s: partition %d and %d others", name, number, len(c.from)-1)
		}
		if err := c.distribute(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (c *class) distribute(ctx context.Context) error {
	for _, s := range c.stores {
		defer s.Close()
	}
	var next format.Position
	var epoch uint64
	err := c.union(c.from, func(u *union) error { next, epoch = u.next, u.epoch; return c.write(ctx, u) })
	if err != nil {
		return err
	}
	parts := make([]*journal.View, len(c.stores))
	for i, s := range c.stores {
		if parts[i], err = s.view(max(atHand/len(c.stores), leastBlock)); err != nil {
			return err
		}
	}
	return c.union(c.from, func(u *union) error {
		if u.next != next || u.epoch != epoch {
			return fmt.Errorf("%w: it was opened meanwhile", &journal.LockedError{Dir: c.name})
		}
		return c.m.compare(ctx, c.name, u, parts)
	})
}

// union calls do with the journals of partitions, and those that are open, as one.
func (c *class) union(from []int, do func(*union) error, open ...*journal.View) error {
	if len(from) > 0 {
		return c.read(from[0], len(c.from), func(v *journal.View) error { return c.union(from[1:], do, append(open, v)...) })
	}
	return do(newUnion(c.to, c.number, open...))
}

// Blocks of what is moved are from the least to the largest of these, so that those under way
// fit into memory together.
const leastBlock, largestBlock = 16 << 10, 1 << 20

// write writes all that u has to the stores.
func (c *class) write(ctx context.Context, u *union) error {
	builders := make([]*rest.Builder, len(c.stores))
	for i, s := range c.stores {
		most := min(max(atHand/len(c.stores), leastBlock), largestBlock)
		builders[i] = rest.BuildOn(s.Commit, u.next, u.epoch, most)
	}
	err := c.m.each(ctx, "write "+c.name, u, func(p *piece) error {
		targets, err := c.to.route(p)
		if err == nil {
			err = checkIntake(p)
		}
		for _, i := range targets {
			if err == nil {
				err = p.add(builders[i])
			}
		}
		return err
	})
	for _, b := range builders {
		if err == nil {
			err = b.Finish()
		}
	}
	return err
}
