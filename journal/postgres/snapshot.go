package postgres

import (
	"context"
	"log/slog"
	"time"
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

// readSnapshot returns the oldest snapshot that is held for so long, or longer.
func (n *Node) readSnapshot(ctx context.Context, least time.Duration) (s Snapshot, err error) {
	var seconds int64
	err = n.control.QueryRow(ctx, n.texts.held, int64(least.Seconds())).Scan(&seconds, &s.Holder)
	s.Age = time.Duration(seconds) * time.Second
	return s, err
}

// tellOfSnapshots keeps a snapshot that is older than so much for Err, and logs it once.
func (n *Node) tellOfSnapshots(ctx context.Context, least time.Duration) {
	s, err := n.readSnapshot(ctx, least)
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
