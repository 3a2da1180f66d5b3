package postgres

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/strandjobs/strand/executor"
)

// Stats are figures of all nodes, as the server has them, and some of this one.
type Stats struct {
	Node       string // the id of this one
	Nodes      []NodeStats
	Partitions []PartitionStats // by number
	Lost       int              // partitions whose lease this node could not renew in time
	Snapshot   Snapshot         // the oldest that is held in the database
}

// NodeStats is a node that is a candidate for partitions.
type NodeStats struct{ ID, Name string }

// PartitionStats are figures of a partition.
type PartitionStats struct {
	Partition int
	Owner     string // the id of a node; empty: it has none
	Epoch     int64  // grows with each owner
	Inbox     int    // rows that the owner has not taken in, but for those that were
	Refused   int    // by it: the column refused of the table inbox says why; set to null, the row is tried again
	// Of what this node owns: what waits in inbox and log for queues that it does not have, by name; half a minute old at most.
	Unserved map[string]int `db:"-"`
}

// Stats asks the server, until Stop is over: then it is executor.ErrClosed. It returns
// executor.ErrContext for a nil ctx, the cause of ctx, or what the server says.
func (n *Node) Stats(ctx context.Context) (s Stats, err error) {
	if ctx == nil {
		return s, errNilContext
	}
	s.Node = n.id.String()
	n.mu.Lock()
	s.Lost = n.lost
	n.mu.Unlock()
	rows, err := n.pool.Query(ctx, n.texts.nodes)
	if err == nil {
		s.Nodes, err = pgx.CollectRows(rows, pgx.RowToStructByPos[NodeStats])
	}
	if err == nil {
		rows, err = n.pool.Query(ctx, n.texts.stats)
	}
	if err == nil {
		s.Partitions, err = pgx.CollectRows(rows, pgx.RowToStructByPos[PartitionStats])
	}
	if err == nil {
		s.Snapshot, err = n.readSnapshot(ctx, time.Minute)
	}
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
