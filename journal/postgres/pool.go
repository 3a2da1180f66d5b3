package postgres

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal/internal/format"
)

// newPool returns a pool of connections that may commit. Each is checked when it is made, so
// that a server which was changed, or has taken another's place, is waited out until it keeps
// what it acknowledges.
func newPool(ctx context.Context, url string, single bool, most int32) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("%w: url: %w", executor.ErrConfig, err)
	}
	cfg.MaxConns = most
	cfg.ConnConfig.OnNotice = noteWarning
	dial := cfg.ConnConfig.DialFunc
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &watchedConn{Conn: conn}, nil
	}
	if cfg.ConnConfig.RuntimeParams["application_name"] == "" {
		cfg.ConnConfig.RuntimeParams["application_name"] = "strand"
	}
	cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		// A backend that waits for a lock notices that its client has gone; not all systems can.
		_, _ = conn.Exec(ctx, "SET client_connection_check_interval = '2s'")
		// Who waits for a lock has to see what the one before has written, whatever the role has.
		if _, err := conn.Exec(ctx, "SET default_transaction_isolation = 'read committed'"); err != nil {
			return err
		}
		// What is compiled for a short statement takes longer than that; and a plan that reads a whole table,
		// because it was small when the connection was young, is slow when an old snapshot has made it large.
		_, _ = conn.Exec(ctx, "SELECT set_config(s, 'off', false) FROM unnest(ARRAY['jit', 'enable_seqscan', 'enable_bitmapscan']) s")
		return guardServer(ctx, conn, single, false)
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", executor.ErrConfig, err)
	}
	return pool, nil
}

// errWarned is an answer with a warning: a server that was told not to wait for its standby
// any longer says that it has committed.
var errWarned = errors.New("postgres: the server warned")

// errSilent is why an attempt ended that no byte has come or gone for.
var errSilent = fmt.Errorf("postgres: the server is silent: %w", context.DeadlineExceeded)

// watchedConn tells when bytes move on a connection.
type watchedConn struct {
	net.Conn
	moved atomic.Pointer[func()]
}

func (c *watchedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.note(n)
	return n, err
}

// writeStep is how much is written between two signs of life.
const writeStep = 64 << 10

func (c *watchedConn) Write(b []byte) (done int, err error) {
	for first, n := true, 0; err == nil && (first || done < len(b)); first = false {
		n, err = c.Conn.Write(b[done:min(done+writeStep, len(b))])
		done += n
		c.note(n)
	}
	return done, err
}

func (c *watchedConn) note(n int) {
	if f := c.moved.Load(); n > 0 && f != nil {
		(*f)()
	}
}

// watched is what is under a connection of a pool.
func watched(conn *pgx.Conn) *watchedConn {
	c := conn.PgConn().Conn()
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	w, _ := c.(*watchedConn)
	return w
}

// silence is how long a server may be silent that so many bytes were sent to: what is in the
// buffers of this system, a few MiB, has to get through, at 100 KiB a second say, and then the server
// works on all of it.
func silence(patience time.Duration, size int) time.Duration {
	return patience + 3*patience*time.Duration(min(size, 4<<20))>>20 + patience*3/4*time.Duration(size)>>20
}

// onConnection calls f with a connection, until no byte has come or gone there for as long as
// silence: how long it takes depends on how much there is, and how slow the link. After an
// error the connection is not used again, unless the server itself has refused something.
func onConnection(ctx context.Context, pool *pgxpool.Pool, silence time.Duration, f func(context.Context, *pgx.Conn) error) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(silence, func() { cancel(errSilent) })
	defer timer.Stop()
	defer func() {
		if err != nil && context.Cause(ctx) == errSilent {
			err = fmt.Errorf("%w: %w", errSilent, err)
		}
	}()
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	if w := watched(conn.Conn()); w != nil {
		w.moved.Store(new(func() { timer.Reset(silence) }))
		defer w.moved.Store(nil)
	}
	forgetWarning(conn.Conn().PgConn())
	err = cmp.Or(f(ctx, conn.Conn()), warned(conn.Conn().PgConn()))
	if refused, ok := errors.AsType[*pgconn.PgError](err); err != nil && (!ok || refused.Code == readOnlyServer) {
		_ = conn.Conn().Close(ctx) // the pool drops it
	}
	return err
}

// statement is one, to be executed on a connection.
func statement(sql string, args ...any) func(context.Context, *pgx.Conn) error {
	return func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, sql, args...)
		return err
	}
}

// scalar is a statement whose answer is one value.
func scalar(value any, sql string, args ...any) func(context.Context, *pgx.Conn) error {
	return func(ctx context.Context, conn *pgx.Conn) error { return conn.QueryRow(ctx, sql, args...).Scan(value) }
}

// ErrUnsafe is returned for a server that would not keep what it acknowledges, or that can't
// be used; the text says which setting it is, and what to do.
var ErrUnsafe = errors.New("postgres: the server is not set up for it")

// leastServer is the oldest version whose functions are used.
const leastServer = 140000

// unprepared is the mode of statements that may have to do without a session: through a
// pooler the next one finds another's prepared statements.
const unprepared = pgx.QueryExecModeExec

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

// What the server says, by SQLSTATE.
const (
	diskFull        = "53100"
	readOnlyServer  = "25006"
	lockTimeout     = "55P03" // this and deadlock: of a transaction that had to give way to others
	deadlock        = "40P01"
	undefinedColumn = "42703" // of a statement with a column that the table does not have
	otherSchema     = "SD002" // of the function same
	lateRows        = "SD003" // of the function in_time
)

// passing are the classes, and codes, of refusals that another attempt may not meet: of the
// connection, a transaction that gave way to another one, a server without resources, one
// that somebody works on or that may only be read.
var passing = []string{"08", "40", "53", "55", "57", readOnlyServer}

// refusedForGood reports whether the server has refused a transaction, all of it, and another
// attempt would be refused, too; a full disk counts: its caller makes the next attempt.
func refusedForGood(err error) bool {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || refused.SeverityUnlocalized != "ERROR" {
		return false // the connection, or the server, is gone: nothing is known
	}
	if refused.Code == diskFull {
		return true
	}
	return !slices.ContainsFunc(passing, func(class string) bool { return strings.HasPrefix(refused.Code, class) })
}

// translated is an error in the words of a store.
func translated(err error) error {
	stated, ok := errors.AsType[interface { // of any driver
		error
		SQLState() string
	}](err)
	if !ok {
		return err
	}
	switch stated.SQLState() {
	case otherSchema:
		return fmt.Errorf("%w: %w", errRemade, err)
	case diskFull:
		return fmt.Errorf("%w: the server: %w", format.ErrFull, err)
	case "XX001", "XX002": // its own checks of pages and indexes
		return &format.CorruptError{Reason: "the server: " + stated.Error()}
	}
	return err
}

// Warnings are noted with the connection that they came on.
const warningKey = "strand.warning"

// noteWarning is for pgconn.Config.OnNotice of all connections that commit.
func noteWarning(conn *pgconn.PgConn, n *pgconn.Notice) {
	if n.SeverityUnlocalized == "WARNING" {
		conn.CustomData()[warningKey] = n.Message
	}
}

func forgetWarning(conn *pgconn.PgConn) { delete(conn.CustomData(), warningKey) }

// warned returns errWarned with the warning beside the last answer; nil: there was none.
func warned(conn *pgconn.PgConn) error {
	if text, _ := conn.CustomData()[warningKey].(string); text != "" {
		return fmt.Errorf("%w: %s", errWarned, text)
	}
	return nil
}
