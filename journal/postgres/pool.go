package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// newPool returns a pool of connections that may commit. Each is checked when it is made, so
// that a server which was changed, or has taken another's place, is waited out until it keeps
// what it acknowledges.
func newPool(ctx context.Context, url string, single bool, most int32) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("%w: url: %w", ErrConfig, err)
	}
	cfg.MaxConns = most
	cfg.ConnConfig.OnNotice = noteWarning
	if cfg.ConnConfig.RuntimeParams["application_name"] == "" {
		cfg.ConnConfig.RuntimeParams["application_name"] = "strand"
	}
	cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		// A backend that waits for a lock notices that its client has gone; not all systems can.
		_, _ = conn.Exec(ctx, "SELECT pg_catalog.set_config('client_connection_check_interval', '2s', false)")
		return guardSession(ctx, conn, single)
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return pool, nil
}

// errWarned is an answer with a warning: a server that was told not to wait for its standby
// any longer says that it has committed.
var errWarned = errors.New("postgres: the server warned")

// onConnection calls f with a connection, for no longer than most. After an error the
// connection is not used again, unless the server itself has refused something.
func onConnection(ctx context.Context, pool *pgxpool.Pool, most time.Duration, f func(context.Context, *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	forgetWarning(conn.Conn().PgConn())
	err = f(ctx, conn.Conn())
	if warning := warningOf(conn.Conn().PgConn()); err == nil && warning != "" {
		err = fmt.Errorf("%w: %s", errWarned, warning)
	}
	if refused, ok := errors.AsType[*pgconn.PgError](err); err != nil && (!ok || refused.Code == readOnlyServer) {
		_ = conn.Conn().Close(ctx) // the pool drops it
	}
	return err
}

// take makes the caller the one who may commit to a partition, and returns his epoch. It is
// for tests of the store alone: owners get theirs with a lease.
func take(ctx context.Context, pool *pgxpool.Pool, schema string, partition int) (epoch int64, err error) {
	err = pool.QueryRow(ctx, textsFor(schema).take, partition).Scan(&epoch)
	if errors.Is(err, pgx.ErrNoRows) {
		err = fmt.Errorf("%w: there is no partition %d", ErrConfig, partition)
	}
	return epoch, err
}
