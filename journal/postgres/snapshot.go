package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
)

// Snapshot is a transaction that sees the database as it was some time ago. Until it ends the server
// keeps all rows that were replaced or deleted since: tables grow, and partitions take longer to open,
// while commits stay as fast as they are.
type Snapshot struct {
	Age    time.Duration // to the second; 0: none is a minute old, or the node's role may not see whose it is
	Holder string        // the session, or prepared transaction, with what ends it
}

// oldSnapshot is how old one has to be for Err and the log: a dump takes its time.
const oldSnapshot = time.Hour

// The session of another role is shown to those with pg_read_all_stats.
const oldestSnapshot = `SELECT extract(epoch FROM clock_timestamp() - since)::bigint, holder FROM (
	SELECT xact_start, format('session %s of %s (%s, %s): pg_terminate_backend(%s) ends it, idle_in_transaction_session_timeout the next one',
		pid, usename, application_name, state, pid) FROM pg_stat_activity
	WHERE datname = current_database() AND pid <> pg_backend_pid() AND coalesce(backend_xid, backend_xmin) IS NOT NULL
	UNION ALL SELECT prepared, format('prepared transaction %s: COMMIT PREPARED or ROLLBACK PREPARED ends it', gid)
	FROM pg_prepared_xacts WHERE database = current_database()) s (since, holder)
	WHERE since < clock_timestamp() - $1::bigint * interval '1 second' ORDER BY since LIMIT 1`

// readSnapshot returns the oldest snapshot that is held for at least so long.
func readSnapshot(ctx context.Context, q querier, least time.Duration) (s Snapshot, err error) {
	var seconds int64
	err = q.QueryRow(ctx, oldestSnapshot, int64(least.Seconds())).Scan(&seconds, &s.Holder)
	if errors.Is(err, pgx.ErrNoRows) {
		err = nil
	}
	s.Age = time.Duration(seconds) * time.Second
	return s, err
}

// tellOfSnapshots keeps a snapshot that is older than so much for Err, and logs it once.
func (n *Node) tellOfSnapshots(ctx context.Context, least time.Duration) {
	s, err := readSnapshot(ctx, n.control, least)
	if err != nil {
		return // or a minute later
	}
	n.mu.Lock()
	before := n.snapshot
	n.snapshot = s
	n.mu.Unlock()
	if s.Holder != "" && s.Holder != before.Holder {
		n.log.Warn("a snapshot is held for long, and nothing older can be cleared from the tables",
			slog.Duration("age", s.Age), slog.String("holder", s.Holder))
	}
}

// failing is nil when there is none.
func (s Snapshot) failing() error {
	if s.Holder == "" {
		return nil
	}
	return fmt.Errorf("postgres: nothing newer than %v can be cleared from the tables, because of %s", s.Age, s.Holder)
}
