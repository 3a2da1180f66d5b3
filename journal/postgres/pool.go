package postgres

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
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
		// What is compiled for a short statement takes longer than that; and a plan that reads a whole table,
		// because it was small when the connection was young, is slow when an old snapshot has made it large.
		_, _ = conn.Exec(ctx, "SELECT set_config(s, 'off', false) FROM unnest(ARRAY['jit', 'enable_seqscan', 'enable_bitmapscan']) s")
		return guardServer(ctx, conn, single, false)
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
