package executor

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/strandjobs/strand/shard"
)

// QueueInfo is a queue with its shards.
type QueueInfo struct {
	QueueStats
	Busy   int          // workers that work for the queue
	Shards []ShardStats // none of a queue that is not registered
}

// ShardStats are the figures of one shard of a queue; see [QueueStats], of which
// those of its shards are the sum, and the longest Lag.
type ShardStats struct {
	Shard int // 0, 1, 2, …

	Jobs, Payloads, Retrying, Halted, Running, Parked     int
	Done, Discarded, Buried, Failed, Snoozed, Interrupted uint64

	Lag time.Duration
}

// Fresh returns how many jobs have not failed.
func (s ShardStats) Fresh() int { return s.Jobs - s.Retrying }

func newShardStats(i int, c shard.Counts, overdue int64) ShardStats {
	return ShardStats{
		Shard: i, Jobs: c.Jobs, Payloads: c.Payloads, Retrying: c.Retrying, Halted: c.Halted, Running: c.Running, Parked: c.Parked,
		Done: c.Done, Discarded: c.Discarded, Buried: c.Buried, Failed: c.Failed, Snoozed: c.Snoozed, Interrupted: c.Interrupted,
		Lag: time.Duration(overdue),
	}
}

// Queues returns the figures of all queues and their shards, by name: those of
// [Executor.Stats], in the same way. It returns ErrContext, ErrClosed, or the cause
// of ctx.
func (i *Inspector) Queues(ctx context.Context) ([]QueueInfo, error) {
	if i == nil || i.x == nil {
		return nil, errNoInspector
	}
	ctx, err := usable(ctx)
	if err != nil {
		return nil, err
	}
	queues := i.x.registered()
	all, err := figuresOf(ctx, queues)
	if err != nil {
		return nil, err
	}
	for at, q := range queues {
		all[at].Busy = i.x.dispatcher.busyFor(q)
	}
	for _, s := range i.x.unregistered(queues) {
		all = append(all, QueueInfo{QueueStats: s})
	}
	slices.SortFunc(all, func(a, b QueueInfo) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// busyFor returns how many workers work for a queue.
func (d *dispatcher) busyFor(q *queue) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return q.share.running
}
