package peer

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Served is a system on a PostgreSQL server.
type Served interface {
	System
	// EnqueueTx enqueues an item with a row of the user's, in one transaction.
	EnqueueTx(ctx context.Context, item Item) error
	// Settle waits until the server has on record that so many jobs are done, all since Open.
	Settle(ctx context.Context, jobs int64) error
	// Commit is one transaction that writes a row, on a connection of its own. It is for one
	// goroutine, as Spent is.
	Commit(ctx context.Context) error
	// Spent counts what the server has had to do so far.
	Spent(ctx context.Context) (Spent, error)
}

// Spent is what a server counts, exactly and at once; those of pg_stat_database and pg_stat_wal
// come up to ten seconds late.
type Spent struct {
	Writes int64 `json:"writes"` // transactions that have written: their numbers
	WAL    int64 `json:"wal"`    // bytes
}

// connections is how many a system, or the user's transactions, may have.
const connections = 32

// database is a server with what belongs to it.
type database struct {
	url   string
	pool  *pgxpool.Pool
	alone *pgx.Conn // for Commit and Spent
	stop  func() error
}

// openDatabase starts a server, with a synchronous standby if the room has one.
func openDatabase(ctx context.Context, r Room) (*database, error) {
	server, url, err := startPostgres(ctx, filepath.Join(r.Dir, "postgres"))
	if err != nil {
		return nil, err
	}
	d := &database{url: url, stop: server.stop}
	if err := d.connect(ctx); err != nil {
		return nil, errors.Join(err, d.close())
	}
	if r.Standby {
		err = d.standby(ctx, filepath.Join(r.Dir, "standby"))
	}
	if err == nil {
		_, err = d.pool.Exec(ctx, "CREATE TABLE orders (number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer text NOT NULL, content bytea NOT NULL)")
	}
	if err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

// connect waits until a server that accepts connections also answers.
func (d *database) connect(ctx context.Context) (err error) {
	if d.pool, err = pgxpool.New(ctx, fmt.Sprintf("%s&pool_max_conns=%d", d.url, connections)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startUp)
	defer cancel()
	if err := until(ctx, func() (bool, error) { return d.pool.Ping(ctx) == nil, nil }); err != nil {
		return err
	}
	d.alone, err = pgx.Connect(ctx, d.url)
	return err
}

// standby makes commits wait for a copy of the server on the same machine.
func (d *database) standby(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, startUp)
	defer cancel()
	server, err := startStandby(ctx, dir, d.alone.Config().Port)
	if err != nil {
		return err
	}
	primary := d.stop
	d.stop = func() error { return errors.Join(primary(), server.stop()) }
	for _, sql := range []string{"ALTER SYSTEM SET synchronous_standby_names = 'standby'", "SELECT pg_reload_conf()"} {
		if _, err := d.alone.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return until(ctx, func() (is bool, err error) {
		return is, d.alone.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync')").Scan(&is)
	})
}

func (d *database) close() error {
	if d.alone != nil {
		_ = d.alone.Close(context.Background()) // the server ends
	}
	if d.pool != nil {
		d.pool.Close()
	}
	return d.stop()
}

// order is a row of the user's.
const order = "INSERT INTO orders (customer, content) VALUES ($1, $2)"

// transact runs f in a transaction with a row of the user's.
func (d *database) transact(ctx context.Context, item Item, f func(pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, d.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, order, item.ID, item.Payload); err != nil {
			return err
		}
		return f(tx)
	})
}

func (d *database) Commit(ctx context.Context) error {
	_, err := d.alone.Exec(ctx, order, "one", make([]byte, 100))
	return err
}

func (d *database) Spent(ctx context.Context) (s Spent, err error) {
	err = d.alone.QueryRow(ctx, "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint, (pg_current_wal_insert_lsn() - '0/0')::bigint").
		Scan(&s.Writes, &s.WAL)
	return s, err
}

// until asks again and again, until the answer is yes.
func until(ctx context.Context, ask func() (bool, error)) error {
	for {
		if yes, err := ask(); yes || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
