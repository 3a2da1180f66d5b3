package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ErrUnsafe is returned for a server that would not keep what it acknowledges, or that can't
// be used; the text says which setting it is, and what to do.
var ErrUnsafe = errors.New("postgres: the server is not set up for it")

// leastServer is the oldest version whose functions are used.
const leastServer = 140000

// unprepared is the mode of statements that may have to do without a session: through a
// pooler the next one finds another's prepared statements.
const unprepared = pgx.QueryExecModeExec

// guard checks the server of a connection, what is between, and the schema, and returns its number of partitions.
func (cfg Config) guard(ctx context.Context, conn *pgxpool.Conn, others *pgxpool.Pool, commits bool) (partitions int, err error) {
	if commits {
		err = guardServer(ctx, conn.Conn(), cfg.SingleServer, true)
	}
	if err == nil {
		err = guardPooler(ctx, conn.Conn(), others)
	}
	if err == nil {
		partitions, err = cfg.readSchema(ctx, conn)
	}
	return partitions, err
}

// guardServer refuses a connection on which a commit that is acknowledged may be lost; begins: also a
// server that nothing should be begun on. Later it may become so, while its standby is away, say: then
// commits wait.
func guardServer(ctx context.Context, conn *pgx.Conn, single, begins bool) error {
	var version int
	var fsync, pages, synchronous, readOnly, names string
	var standby bool
	err := conn.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, current_setting('fsync'),
		current_setting('full_page_writes'), current_setting('synchronous_commit'), pg_is_in_recovery(),
		current_setting('transaction_read_only'), current_setting('synchronous_standby_names')`, unprepared).
		Scan(&version, &fsync, &pages, &synchronous, &standby, &readOnly, &names)
	switch {
	case err != nil:
		return err
	case version < leastServer:
		return fmt.Errorf("%w: it is version %d.%d; 14 is the oldest that will do", ErrUnsafe, version/10000, version%10000)
	case fsync != "on":
		return fmt.Errorf("%w: fsync is %s, so that a crash of its machine loses what was acknowledged; set fsync = on", ErrUnsafe, fsync)
	case pages != "on":
		return fmt.Errorf("%w: full_page_writes is %s, so that a crash of its machine may tear pages; set full_page_writes = on", ErrUnsafe, pages)
	case synchronous == "off":
		return fmt.Errorf("%w: synchronous_commit is off for %s, so that a crash loses what was acknowledged; set it to on, for the role or the database",
			ErrUnsafe, conn.Config().User)
	case !single && synchronous != "on" && synchronous != "remote_apply":
		return fmt.Errorf("%w: synchronous_commit is %s for %s, so that a failover may lose what was acknowledged; set it to on, for the role or the database, or say SingleServer",
			ErrUnsafe, synchronous, conn.Config().User)
	case !begins:
	case standby:
		return fmt.Errorf("%w: %s is a standby; give the url of the primary, or all hosts with target_session_attrs=read-write", ErrUnsafe, conn.Config().Host)
	case readOnly == "on":
		return fmt.Errorf("%w: transactions of %s are read-only; set default_transaction_read_only = off for the role or the database", ErrUnsafe, conn.Config().User)
	case !single && strings.TrimSpace(names) == "":
		return fmt.Errorf("%w: synchronous_standby_names is empty, so that what was acknowledged is on one machine; name a standby, or say SingleServer", ErrUnsafe)
	}
	return nil
}

// poolerRounds is how often one is asked: once will do, unless it is at work for others.
const poolerRounds = 8

// guardPooler refuses a pooler that gives a session of the server to several connections, as
// conn and one of another pool. A pooler has numbers of its own for its connections. One that
// gives a session back after each transaction gives the next who asks that one, or another one
// to who has asked before.
func guardPooler(ctx context.Context, conn *pgx.Conn, others *pgxpool.Pool) error {
	var session uint32
	const ask = "SELECT pg_catalog.pg_backend_pid()"
	if err := conn.QueryRow(ctx, ask, unprepared).Scan(&session); err != nil || session == conn.PgConn().PID() {
		return err
	}
	other, err := others.Acquire(ctx)
	if err != nil {
		return err
	}
	defer other.Release()
	for range poolerRounds {
		for _, c := range []*pgx.Conn{other.Conn(), conn, conn} {
			var now uint32
			if err := c.QueryRow(ctx, ask, unprepared).Scan(&now); err != nil {
				return err
			}
			if (now == session) != (c == conn) {
				return fmt.Errorf("%w: a pooler at %s shares sessions of the server among connections, as in transaction or statement mode; "+
					"give the url of the server, or of a pool in session mode (pgbouncer: pool_mode = session)", ErrUnsafe, conn.Config().Host)
			}
		}
	}
	return nil
}
