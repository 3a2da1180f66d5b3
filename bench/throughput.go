package main

import (
	"context"
	"path/filepath"

	"github.com/strandjobs/strand/bench/baseline"
	"github.com/strandjobs/strand/executor"
)

const (
	bulkProducers   = 2
	singleProducers = 256
)

// throughput is producing while draining, from some goroutines, in bulk or one
// by one, with and without a file.
func throughput() []workload {
	raw := figure{unit: "jobs/s", baseline: "bbolt/put+delete"}
	chans := figure{unit: "jobs/s", baseline: "chan/16"}
	return []workload{
		{
			name: "durable/bulk", durability: "sync", n: 300_000, rounds: 5,
			figures: one(raw.reach(1.5)), subject: bothWays(true, inBulk), baseline: putDelete,
		},
		{
			name: "durable/single", durability: "sync", n: 100_000, rounds: 5,
			figures: one(raw.reach(0.4)), subject: bothWays(true, oneByOne), baseline: putDelete,
		},
		{
			name: "memory/bulk", durability: "memory", n: 500_000, rounds: 5,
			figures: one(chans.reach(0.12)), subject: bothWays(false, inBulk), baseline: throughChannels,
		},
		{
			name: "memory/single", durability: "memory", n: 200_000, rounds: 5,
			figures: one(chans), subject: bothWays(false, oneByOne), baseline: throughChannels,
		},
	}
}

// reach gives a figure a ratio to reach.
func (f figure) reach(ratio float64) figure {
	f.goal.ratio = ratio
	return f
}

// way is how payloads are enqueued.
type way func(context.Context, *load, *executor.Queue[[]byte]) error

func inBulk(ctx context.Context, work *load, q *executor.Queue[[]byte]) error {
	return work.bulk(ctx, q, bulkProducers)
}

func oneByOne(ctx context.Context, work *load, q *executor.Queue[[]byte]) error {
	return work.single(ctx, q, singleProducers)
}

// bothWays produces and drains at the same time.
func bothWays(durable bool, enqueue way) func(context.Context, *lab) (measured, error) {
	return func(ctx context.Context, l *lab) (measured, error) {
		work := newLoad(l.n, l.ids)
		return l.both(ctx, work, durable, func(ctx context.Context, q *executor.Queue[[]byte]) error { return enqueue(ctx, work, q) })
	}
}

// both is the same with a load that is there already.
func (l *lab) both(ctx context.Context, work *load, durable bool, enqueue func(context.Context, *executor.Queue[[]byte]) error) (measured, error) {
	_, took, err := l.run(ctx, l.journal(durable), work, passage{enqueue: enqueue})
	return rate(work.n, took.Seconds()), err
}

// journal is a directory for a new journal, or none.
func (l *lab) journal(durable bool) string {
	if !durable {
		return ""
	}
	return filepath.Join(l.scratch, "jobs.strand")
}

func putDelete(ctx context.Context, l *lab) (measured, error) {
	took, err := baseline.PutDelete(ctx, l.scratch, l.n)
	return rate(l.n, took.Seconds()), err
}

func throughChannels(ctx context.Context, l *lab) (measured, error) {
	took, err := baseline.Channels(ctx, l.n, l.ids, make([]byte, payloadBytes))
	return rate(l.n, took.Seconds()), err
}
