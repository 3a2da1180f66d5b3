package postgres

import (
	"context"
	"log/slog"
	"time"
)

// oldSnapshot is how old one has to be for Err and the log: a dump takes its time.
const oldSnapshot = time.Hour

// readSnapshot returns the oldest snapshot that is held for so long, or longer.
func readSnapshot(ctx context.Context, q querier, texts texts, least time.Duration) (age time.Duration, holder string, err error) {
	var seconds int64
	err = q.QueryRow(ctx, texts["held"], int64(least.Seconds())).Scan(&seconds, &holder)
	return time.Duration(seconds) * time.Second, holder, err
}

// tellOfSnapshots keeps a snapshot that is older than so much for Err, and logs it once.
func (n *Node) tellOfSnapshots(ctx context.Context, least time.Duration) {
	age, holder, err := readSnapshot(ctx, n.control, n.texts, least)
	if err != nil {
		return // or a minute later
	}
	n.mu.Lock()
	before := n.holder
	n.snapshot, n.holder = age, holder
	n.mu.Unlock()
	if holder != "" && holder != before {
		n.log.Warn("a snapshot is held for long, and nothing older can be cleared from the tables",
			slog.Duration("age", age), slog.String("holder", holder))
	}
}
