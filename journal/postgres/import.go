package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/journal/internal/rest"
)

// Import puts the journal in dir, which no process may have open, into the partitions of a
// schema that were not used yet; or the directory of journals that [Export] makes of several
// partitions, each into its own, or divided, where the schema has a multiple of their number.
// It is one transaction: all is there, or the schema is as it was, also when this process, the
// connection or the server dies meanwhile. Before it is committed, both sides are read again
// and compared entry by entry. The journal stays as it is: keep its program from running the
// jobs a second time.
//
// Positions, and so the order of each id, are kept, with payloads, metadata, states of
// jobs, the morgue, names and numbers of queues, and the epoch that fencing tokens grow
// from. A journal is divided as the ids are: by cfg.Partition, which has to be that of
// the nodes. What an id has goes with it, with the locks of its jobs and its pause. Pauses
// of queues, idempotency keys, offsets of sources and locks that a person has set are for
// all partitions that the journal goes to. A lock or a limit that ids of several partitions
// share binds within each from then on: see the package comment. Slots, and state keys of
// unknown kinds, are ErrIndivisible in a journal that goes to more than one. What the crash
// recorder of a process that died has noted is left out.
//
// Of cfg, Schema, Partitions, Partition, SingleServer and Executor.Logger count, which is told
// now and then how far it is. ctx ends it; while the server does not say what has become of
// the commit it is asked for a minute. It takes about 100 bytes of memory for each live entry,
// and 100 MiB besides. The server takes as much room for it in its own log as in the tables;
// what one that failed has written there goes with the next vacuum. Nodes that are started
// meanwhile get no partition until it is over.
//
// It returns ErrConfig, ErrNoSchema, ErrTooNew, ErrPartitions, ErrUnsafe, ErrInUse,
// ErrNotEmpty, ErrIndivisible, errDiffers; executor.ErrNotOwned for an id in a journal of
// another partition than cfg says; the errors of journal.OpenView for dir;
// journal.ErrUnknown when it may be there, which [Check] tells; the cause of ctx, or what
// the server says.
func Import(ctx context.Context, url string, cfg Config, dir string) (Moved, error) {
	dirs, err := journalsIn(dir)
	if err != nil {
		return Moved{}, err
	}
	return withMover(ctx, url, cfg, "import of "+dir, true, func(m *mover) error { return m.importFrom(ctx, dir, dirs) })
}

func (m *mover) importFrom(ctx context.Context, dir string, dirs []string) error {
	if n := len(dirs); m.partitions%n != 0 {
		return fmt.Errorf("%w: %s has the journals of %d partitions, and schema %q has %d: each has positions "+
			"of its own, so that they can be divided but not joined; migrate another schema with %d partitions, or %d, or %d, and so on",
			ErrPartitions, dir, n, m.cfg.Schema, m.partitions, n, 2*n, 3*n)
	}
	uuids := newUUIDs(m.partitions)
	tx, err := m.begin(ctx, pgx.TxOptions{})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // after a commit it does nothing
	err = m.fill(ctx, dirs, uuids)
	if err == nil { // at the end: who opens the schema would wait for it
		_, _, err = m.cfg.settle(ctx, m.conn, m.cfg.divide(m.partitions), true)
	}
	if err == nil {
		err = m.commit(ctx, tx, uuids[0])
	}
	return err
}

// fill writes what there is and compares it. Of n journals the first goes into the partitions
// 0, n, 2n and so on: no id of another one belongs there.
func (m *mover) fill(ctx context.Context, dirs []string, uuids [][]byte) error {
	heads, err := m.claim(ctx, uuids)
	if err != nil {
		return err
	}
	divide := m.cfg.divide(m.partitions)
	if _, _, err := m.cfg.settle(ctx, m.conn, divide, false); err != nil {
		return err
	}
	for from, dir := range dirs {
		var stores []*partitionStore
		for p := from; p < m.partitions; p += len(dirs) {
			s := m.store(ctx, p, heads[p].epoch)
			defer s.Close()
			stores = append(stores, s)
		}
		err := m.distribute(ctx, dir, stores, newRouter(divide, from, len(dirs)))
		if err != nil && len(dirs) > 1 {
			err = fmt.Errorf("journal %s: %w", filepath.Base(dir), err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// distribute writes a journal to stores, and compares what is there then.
func (m *mover) distribute(ctx context.Context, dir string, stores []*partitionStore, to *router) error {
	info, err := withJournal(dir, func(v *journal.View) error { return m.write(ctx, dir, v, stores, to) })
	if err != nil {
		return err
	}
	parts := make([]*journal.View, len(stores))
	for i, s := range stores {
		r, err := s.view(max(atHand/len(stores), leastBlock))
		if err != nil {
			return err
		}
		if got := r.Info(); got.Next != info.Next || got.Epoch != info.Epoch {
			return fmt.Errorf("%w: partition %d goes on at position %d in epoch %d, and not at %d in %d",
				errDiffers, s.partition, got.Next, got.Epoch, info.Next, info.Epoch)
		}
		parts[i] = r
	}
	again, err := withJournal(dir, func(v *journal.View) error { return m.compare(ctx, dir, v, parts, to) })
	if err == nil && again != info {
		err = fmt.Errorf("%w: it was opened meanwhile", &journal.LockedError{Dir: dir})
	}
	return err
}

// withJournal calls f with a journal that is not open, and stays so.
func withJournal(dir string, f func(*journal.View) error) (journal.Info, error) {
	v, err := journal.OpenView(dir)
	if err != nil {
		return journal.Info{}, err
	}
	return v.Info(), errors.Join(v.Undisturbed(f(v)), v.Close())
}

// Blocks of an import are from the least to the largest of these, so that those under way
// fit into memory together.
const leastBlock, largestBlock = 16 << 10, 1 << 20

// write writes all that v has to stores.
func (m *mover) write(ctx context.Context, dir string, v *journal.View, stores []*partitionStore, to *router) error {
	info := v.Info()
	for p := range v.Suspects() {
		to.suspects[p] = 0
	}
	builders := make([]*rest.Builder, len(stores))
	for i, s := range stores {
		most := min(max(atHand/len(stores), leastBlock), largestBlock)
		builders[i] = rest.BuildOn(s.Commit, info.Next, info.Epoch, most)
	}
	err := m.each(ctx, "write "+dir, v, func(p *piece) error {
		targets, err := to.route(p)
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
	if err != nil {
		return err
	}
	for _, b := range builders {
		if err := b.Finish(); err != nil {
			return err
		}
	}
	return nil
}

// outcomeTime is for mover.outcome.
const outcomeTime = time.Minute

// commit commits, and finds out what has become of it: then the first partition has that
// UUID, or has not.
func (m *mover) commit(ctx context.Context, tx pgx.Tx, uuid []byte) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	forgetWarning(m.conn.Conn().PgConn())
	err := cmp.Or(tx.Commit(ctx), warned(m.conn.Conn().PgConn()))
	if err == nil || refusedForGood(err) {
		return err
	}
	_ = m.conn.Conn().Close(context.WithoutCancel(ctx)) // its transaction ends, in one way or the other
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.outcome)
	defer cancel()
	there := false // the answer is one of a commit, which the standby has, too
	for pause := firstPause; ; {
		unknown := onConnection(limit, m.pool, m.outcome, func(ctx context.Context, conn *pgx.Conn) error {
			return conn.QueryRow(ctx, in(m.cfg.Schema, "SELECT uuid = $1 FROM {schema}.last(0)"), uuid).Scan(&there)
		})
		switch {
		case unknown == nil && there:
			return nil
		case unknown == nil:
			return err
		}
		if retryAfter(limit, &pause) != nil {
			return fmt.Errorf("%w: the commit has no answer: %w", journal.ErrUnknown, errors.Join(err, unknown))
		}
	}
}
