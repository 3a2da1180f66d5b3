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

// Import puts the journal in dir, which no process may have open, into the partitions of a schema that were not used
// yet; or the directory of journals that [Export] makes of several partitions, into any number of them. It is one
// transaction: all is there, or the schema is as it was, also when this process, the connection or the server dies
// meanwhile. Before it is committed, both sides are read again and compared entry by entry. The journal stays as it
// is: keep its program from running the jobs a second time.
//
// The order of each id is kept, with payloads, metadata, states of jobs, the morgue, names of queues, and the epoch
// that fencing tokens grow from; and positions are where a journal is divided, and not joined with others: see
// [Repartition]. A journal is divided as the ids are: by cfg.Partition, which has to be that of the nodes. What an id
// has goes with it, with the locks of its jobs and its pause; the README says what becomes of the rest. A lock or a
// limit that ids of several partitions share binds within each from then on: see the package comment. What the crash
// recorder of a process that died has noted is left out.
//
// Of cfg, Schema, Partitions, Partition, SingleServer and Executor.Logger count, which is told now and then how far it
// is. ctx ends it; while the server does not say what has become of the commit it is asked for a minute. It takes
// about 100 bytes of memory for each live entry, and 100 MiB besides. The server takes as much room for it in its own
// log as in the tables; what one that failed has written there goes with the next vacuum. Nodes that are started
// meanwhile get no partition until it is over.
//
// It returns ErrConfig, ErrNoSchema, ErrTooNew, ErrPartitions, ErrUnsafe, ErrInUse, ErrNotEmpty, ErrIndivisible,
// errDiffers; executor.ErrNotOwned for an id in a journal of another partition than cfg says; the errors of
// journal.OpenView for dir; journal.ErrUnknown when it may be there, which [Check] tells; the cause of ctx, or what
// the server says.
func Import(ctx context.Context, url string, cfg Config, dir string) (Moved, error) {
	dirs, err := journalsIn(dir)
	if err != nil {
		return Moved{}, err
	}
	return withMover(ctx, url, cfg, "import of "+dir, true, func(m *mover) error {
		uuids := newUUIDs(m.partitions)
		return m.transact(ctx, uuids[0], func() error {
			err := m.fill(ctx, dir, dirs, uuids)
			if err == nil { // at the end: who opens the schema would wait for it
				_, _, err = m.cfg.settle(ctx, m.conn, m.cfg.divide(m.partitions), true)
			}
			return err
		})
	})
}

// fill writes what there is in journals, and compares it.
func (m *mover) fill(ctx context.Context, dir string, dirs []string, uuids [][]byte) error {
	heads, err := m.claim(ctx, uuids)
	if err != nil {
		return err
	}
	if _, _, err := m.cfg.settle(ctx, m.conn, m.cfg.divide(m.partitions), false); err != nil {
		return err
	}
	return m.distribute(ctx, dir, newRouter(m.cfg, len(dirs), m.partitions), heads, func(from, together int, do func(*journal.View) error) error {
		opened := false
		err := withJournal(dirs[from], together, func(v *journal.View) error { opened = true; return do(v) })
		if err != nil && !opened && len(dirs) > 1 {
			err = fmt.Errorf("journal %s: %w", filepath.Base(dirs[from]), err)
		}
		return err
	})
}

// withJournal calls f with a journal that is not open, and stays so, which is open together with some others.
func withJournal(dir string, together int, f func(*journal.View) error) error {
	v, err := rest.OpenView(dir, max(rest.AtHand/together, leastBlock))
	if err != nil {
		return err
	}
	return errors.Join(v.Undisturbed(f(v)), v.Close())
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
