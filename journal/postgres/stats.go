package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Stats are figures of all nodes, as the server has them, and some of this one.
type Stats struct {
	Node       string // the id of this one
	Nodes      []NodeStats
	Partitions []PartitionStats // by number
	Lost       int              // partitions whose lease this node could not renew in time
}

// NodeStats is a node that is a candidate for partitions.
type NodeStats struct{ ID, Name string }

// PartitionStats are figures of a partition.
type PartitionStats struct {
	Partition int
	Owner     string // the id of a node; empty: it has none
	Epoch     int64  // grows with each owner
	Inbox     int    // rows that the owner has not taken in, but for those that were
	Refused   int    // by it; their texts are in the table inbox, and to clear one tries that row again
}

// Stats asks the server. It returns the cause of ctx, or what the server says.
func (n *Node) Stats(ctx context.Context) (s Stats, err error) {
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
	if err != nil {
		return Stats{}, fmt.Errorf("postgres: stats: %w", err)
	}
	return s, nil
}
