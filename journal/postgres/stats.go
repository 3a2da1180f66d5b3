package postgres

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/strandjobs/strand/executor"
)

// Stats are figures of all nodes, as the server has them, and some of this one.
type Stats struct {
	Node       string            // the id of this one
	Nodes      map[string]string // names of those that are candidates for partitions, by id
	Partitions []PartitionStats  // by number
	Lost       int               // partitions whose lease this node could not renew in time
	// The oldest transaction that sees the database as it was some time ago. Until it ends the server keeps
	// all rows that were replaced or deleted since: tables grow, and partitions take longer to open, while
	// commits stay as fast. To the second; 0: none is a minute old, or the role may not see whose it is.
	SnapshotAge    time.Duration
	SnapshotHolder string // the session, or prepared transaction, with what ends it
}

// PartitionStats are figures of a partition.
type PartitionStats struct {
	Partition int
	Owner     string     // the id of a node; empty: it has none
	Name      string     // of the owner; empty: it is no candidate any longer
	Epoch     int64      // grows with each owner
	Since     *time.Time // when the owner has acquired it; nil: there is none, or one of before version 2.2
	Inbox     int        // rows that the owner has not taken in, but for those that were
	Refused   int        // by it: the column refused of the table inbox says why; set to null, the row is tried again
	// Of what this node owns: what waits in inbox and log for queues that it does not have, by name; half a minute old at most.
	Unserved map[string]int `db:"-"`
}

// Stats asks the server, until Stop is over: then it is executor.ErrClosed. It returns
// executor.ErrContext for a nil ctx, the cause of ctx, or what the server says.
func (n *Node) Stats(ctx context.Context) (s Stats, err error) {
	if ctx == nil {
		return s, errNilContext
	}
	s, err = readStats(ctx, n.pool, n.texts)
	s.Node = n.id.String()
	n.mu.Lock()
	s.Lost = n.lost
	n.mu.Unlock()
	for i := range s.Partitions {
		if p := n.owned(s.Partitions[i].Partition); p != nil {
			s.Partitions[i].Unserved = maps.Clone(p.taker.unserved())
		}
	}
	switch {
	case err != nil && n.base.Err() != nil:
		return Stats{}, fmt.Errorf("%w: the node was stopped", executor.ErrClosed)
	case err != nil:
		return Stats{}, because(ctx, fmt.Errorf("postgres: stats: %w", err))
	}
	return s, nil
}

// readStats reads what the server knows.
func readStats(ctx context.Context, q querier, texts texts) (s Stats, err error) {
	s.Nodes = make(map[string]string)
	var id, name string
	rows, _ := q.Query(ctx, texts["nodes"])
	_, err = pgx.ForEachRow(rows, []any{&id, &name}, func() error { s.Nodes[id] = name; return nil })
	if err == nil {
		rows, _ = q.Query(ctx, texts["stats"])
		s.Partitions, err = pgx.CollectRows(rows, pgx.RowToStructByPos[PartitionStats])
	}
	if err == nil {
		s.SnapshotAge, s.SnapshotHolder, err = readSnapshot(ctx, q, texts, time.Minute)
	}
	return s, err
}

// Partitions returns the executors of the partitions that the node serves now, by number: to
// inspect them. They are the node's to stop.
func (n *Node) Partitions() map[int]*executor.Executor {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := make(map[int]*executor.Executor)
	for number, p := range n.held {
		if p.serving() {
			all[number] = p.x
		}
	}
	return all
}

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
