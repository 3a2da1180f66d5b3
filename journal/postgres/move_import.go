package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/strandjobs/strand/journal/internal/rest"
	"github.com/strandjobs/strand/journal/internal/store"
)

// Import puts the journal in dir, which no process may have open, into the partitions of a
// schema that were not used yet; or the directory of journals that [Export] makes of several
// partitions, each into its own. It is one transaction: all is there, or the schema is as
// it was, also when this process, the connection or the server dies meanwhile. Before it is
// committed, both sides are read again and compared entry by entry. The journal stays as it
// is: keep its program from running the jobs a second time.
//
// Positions, and so the order of each id, are kept, with payloads, metadata, states of
// jobs, the morgue, names and numbers of queues, and the epoch that fencing tokens grow
// from. One journal is divided as the ids are: by cfg.Partition, which has to be that of
// the nodes. What an id has goes with it, with the locks of its jobs and its pause. Pauses
// of queues, idempotency keys, offsets of sources and locks that a person has set are for
// all partitions then. A lock or a limit that ids of several partitions share binds within
// each from then on: see the package comment. Slots, and state keys of unknown kinds, are
// ErrIndivisible unless there is one partition. What the crash recorder of a process that
// died has noted is left out.
//
// Of cfg, Schema, Partitions, Partition and SingleServer count. ctx ends it; while the server
// does not say what has become of the commit it is asked for a minute. It takes about 100
// bytes of memory for each live entry, and 100 MiB besides. Nodes that are started meanwhile
// get no partition until it is over.
//
// It returns ErrConfig, ErrNoSchema, ErrTooNew, ErrPartitions, ErrUnsafe, ErrInUse,
// ErrNotEmpty, ErrIndivisible, ErrDiffers; executor.ErrNotOwned for an id in a journal of
// another partition than cfg says; the errors of journal.OpenView for dir;
// journal.ErrUnknown when it may be there, which [Check] tells; the cause of ctx, or what
// the server says.
func Import(ctx context.Context, url string, cfg Config, dir string) (Moved, error) {
	dirs, err := journalsIn(dir)
	if err != nil {
		return Moved{}, err
	}
	m, err := newMover(ctx, url, cfg, true)
	if err != nil {
		return Moved{}, err
	}
	defer m.close()
	if dirs.divided && len(dirs.names) != m.partitions {
		return Moved{}, fmt.Errorf("%w: %s has journals of %d partitions, and schema %q has %d; each has positions "+
			"of its own, so that they can't be joined or divided",
			ErrPartitions, dir, len(dirs.names), m.cfg.Schema, m.partitions)
	}
	uuids := make([][]byte, m.partitions)
	for p := range uuids {
		uuids[p] = format.NewUUID()
	}
	tx, err := m.begin(ctx, pgx.TxOptions{})
	if err != nil {
		return Moved{}, fmt.Errorf("postgres: import: %w", err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // after a commit it does nothing
	moved, err := m.fill(ctx, dirs, uuids)
	if err == nil {
		err = m.commit(ctx, tx, uuids[0])
	}
	if err != nil {
		return Moved{}, fmt.Errorf("postgres: import of %s: %w", dir, because(ctx, err))
	}
	return moved, nil
}

// fill writes what there is and compares it.
func (m *mover) fill(ctx context.Context, dirs journals, uuids [][]byte) (moved Moved, err error) {
	epochs, err := m.claim(ctx, uuids)
	if err != nil {
		return moved, err
	}
	stores := make([]*partitionStore, m.partitions)
	for p, epoch := range epochs {
		stores[p] = m.store(ctx, p, epoch)
		defer stores[p].Close()
	}
	if !dirs.divided {
		moved, err = m.distribute(ctx, dirs.names[0], stores, newRouter(m.cfg.divide(m.partitions)))
		moved.Partitions = m.partitions
		return moved, err
	}
	moved.Partitions = m.partitions
	names := make(map[string]bool)
	for p, dir := range dirs.names {
		part, err := m.distribute(ctx, dir, stores[p:p+1], &owned{m.cfg.divide(m.partitions), p, names})
		if err != nil {
			return moved, fmt.Errorf("partition %d: %w", p, err)
		}
		moved.Live, moved.Buried, moved.Keys = moved.Live+part.Live, moved.Buried+part.Buried, moved.Keys+part.Keys
	}
	moved.Queues = len(names)
	return moved, nil
}

// route says to which of some stores a piece goes.
type route interface {
	begin(v *journal.View)
	route(p *piece) ([]int, error)
}

// owned is the route of a journal that was a partition: all of it goes there.
type owned struct {
	divide executor.Splitter
	self   int
	names  map[string]bool // of the queues so far
}

func (*owned) begin(*journal.View) {}

func (o *owned) route(p *piece) ([]int, error) {
	if id, ok := p.id(); ok {
		switch owner, err := o.divide.OwnerOf(id); {
		case err != nil:
			return nil, err
		case owner != o.self:
			return nil, &executor.NotOwnedError{ID: id, Owner: owner, Self: o.self}
		}
	}
	if p.number != 0 {
		o.names[p.name] = true
	}
	return []int{0}, nil
}

// distribute writes a journal to stores, and compares what is there then.
func (m *mover) distribute(ctx context.Context, dir string, stores []*partitionStore, to route) (moved Moved, err error) {
	info, err := withJournal(dir, func(v *journal.View) (err error) {
		moved, err = m.write(ctx, v, stores, to)
		return err
	})
	if err != nil {
		return moved, err
	}
	parts := make([]content, len(stores))
	for i, s := range stores {
		r, err := s.read(ctx, max(atHand/len(stores), leastBlock))
		if err != nil {
			return moved, err
		}
		if r.manifest.Next != info.Next || r.manifest.Epoch != info.Epoch {
			return moved, fmt.Errorf("%w: partition %d goes on at position %d in epoch %d, and not at %d in %d",
				ErrDiffers, s.partition, r.manifest.Next, r.manifest.Epoch, info.Next, info.Epoch)
		}
		parts[i] = r
	}
	c := newComparison(parts)
	defer c.stop()
	again, err := withJournal(dir, func(v *journal.View) error {
		to.begin(v)
		for p, err := range pieces(v) {
			if err == nil {
				err = context.Cause(ctx)
			}
			if err != nil {
				return err
			}
			targets, err := to.route(&p)
			if err != nil {
				return err
			}
			for _, i := range targets {
				if err := c.expect(i, &p); err != nil {
					return err
				}
			}
		}
		return c.finish()
	})
	if err == nil && again != info {
		err = fmt.Errorf("%w: it was opened meanwhile", journal.ErrLocked)
	}
	return moved, err
}

// withJournal calls f with a journal that is not open, and stays so.
func withJournal(dir string, f func(*journal.View) error) (journal.Info, error) {
	v, err := journal.OpenView(dir)
	if err != nil {
		return journal.Info{}, err
	}
	info := v.Info()
	err = v.Undisturbed(f(v))
	return info, errors.Join(err, v.Close())
}

// Blocks of an import are from the least to the largest of these, so that those under way
// fit into memory together.
const leastBlock, largestBlock = 16 << 10, 1 << 20

// write writes all that v has to stores.
func (m *mover) write(ctx context.Context, v *journal.View, stores []*partitionStore, to route) (moved Moved, err error) {
	info := v.Info()
	to.begin(v)
	sinks := make([]*sink, len(stores))
	builders := make([]*rest.Builder, len(stores))
	for i, s := range stores {
		sinks[i] = &sink{m: m, s: s}
		most := min(max(atHand/len(stores), leastBlock), largestBlock)
		builders[i] = rest.BuildOn(sinks[i].write, info.Next, info.Epoch, most)
	}
	for p, err := range pieces(v) {
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return moved, err
		}
		targets, err := to.route(&p)
		if err == nil {
			err = checkIntake(&p)
		}
		if err != nil {
			return moved, err
		}
		moved.count(&p)
		for _, i := range targets {
			if err := p.add(builders[i]); err != nil {
				return moved, err
			}
		}
	}
	for i, b := range builders {
		err := b.Finish()
		if err == nil {
			err = sinks[i].finish()
		}
		if err != nil {
			return moved, err
		}
	}
	return moved, nil
}

func (p *piece) add(b *rest.Builder) error {
	switch {
	case p.entry != nil:
		return b.Add(*p.entry)
	case p.buried != nil:
		return b.Bury(*p.buried)
	case p.set != nil:
		return b.Set(*p.set)
	}
	return b.Queue(p.name, p.number)
}

// sink writes the rows of a partition that is empty. Its row of tail comes last, once.
type sink struct {
	m          *mover
	s          *partitionStore
	text       []byte // manifest
	sides, sum int64
}

func (k *sink) write(t *store.Transaction) error {
	c := k.s.call(t)
	k.text = c.text
	for i, part := range c.parts {
		if err := k.m.exec(k.s.ctx, "INSERT INTO {schema}.block (partition, seq, part, data) VALUES ($1, $2, $3, $4)",
			k.s.partition, int64(c.seq), i, part); err != nil {
			return translated(err)
		}
	}
	if len(c.keys) == 0 {
		return nil
	}
	for _, sum := range c.sums {
		k.sides, k.sum = k.sides+1, k.sum^sum
	}
	return translated(k.m.exec(k.s.ctx, `INSERT INTO {schema}.side (partition, bucket, key, value, sum)
		SELECT $1, c.* FROM unnest($2::smallint[], $3::bytea[], $4::bytea[], $5::bigint[]) c`,
		k.s.partition, c.buckets, c.keys, c.values, c.sums))
}

func (k *sink) finish() error {
	return translated(k.m.exec(k.s.ctx, `UPDATE {schema}.tail SET number = 1, manifest = $3, sides = $4, sum = $5
		WHERE partition = $1 AND epoch = $2`, k.s.partition, k.s.epoch, k.text, k.sides, k.sum))
}

// outcomeTime is how long a commit without an answer is asked about.
const outcomeTime = time.Minute

// commit commits, and finds out what has become of it: then the first partition has that
// UUID, or has not.
func (m *mover) commit(ctx context.Context, tx pgx.Tx, uuid []byte) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	forgetWarning(m.conn.Conn().PgConn())
	err := tx.Commit(ctx)
	if text := warningOf(m.conn.Conn().PgConn()); err == nil && text != "" {
		err = fmt.Errorf("%w: %s", errWarned, text) // perhaps it is not on the standby
	}
	if err == nil || refusedForGood(err) {
		return err
	}
	_ = m.conn.Conn().Close(context.WithoutCancel(ctx)) // its transaction ends, in one way or the other
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), outcomeTime)
	defer cancel()
	for pause := firstPause; ; pause = min(pause*2, longestPause) {
		there, unknown := m.ask(limit, uuid)
		switch {
		case unknown == nil && there:
			return nil
		case unknown == nil:
			return err
		}
		select {
		case <-limit.Done():
			return fmt.Errorf("%w: the commit has no answer: %w", journal.ErrUnknown, errors.Join(err, unknown))
		case <-time.After(pause):
		}
	}
}

// ask tells whether the first partition has a UUID, once the transaction that gave it to it
// is over; the answer is one of a commit, which the standby has, too.
func (m *mover) ask(ctx context.Context, uuid []byte) (there bool, err error) {
	err = onConnection(ctx, m.pool, outcomeTime, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, in(m.cfg.Schema,
			"UPDATE {schema}.tail SET asked = asked + 1 WHERE partition = 0 RETURNING uuid = $1"), uuid).Scan(&there)
	})
	return there, err
}
