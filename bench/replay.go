package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/strandjobs/strand/bench/baseline"
	"github.com/strandjobs/strand/executor"
)

// replay opens a journal with many pending jobs, in a process of its own, so
// that its peak memory is that of the replay.
func replay() workload {
	return workload{
		name: "replay", durability: "sync", n: 1_000_000, rounds: 3,
		figures: func(int) []figure {
			return []figure{
				{unit: "jobs/s", baseline: "bbolt/scan", goal: goal{value: 3.2e6}},
				{suffix: "/rss", unit: "MiB", baseline: "bbolt/scan", lower: true},
			}
		},
		prepare:  prepareReplay,
		subject:  func(ctx context.Context, l *lab) (measured, error) { return l.loading(ctx, childReplay) },
		baseline: func(ctx context.Context, l *lab) (measured, error) { return l.loading(ctx, childScan) },
	}
}

func (l *lab) loading(ctx context.Context, kind string) (measured, error) {
	r, err := l.child(ctx, kind)
	return measured{[]float64{float64(l.n) / r.Seconds, r.PeakMiB}, r.Seconds}, err
}

func prepareReplay(ctx context.Context, l *lab) error {
	if err := baseline.Fill(l.dir, l.n); err != nil {
		return err
	}
	ids := l.ids
	if l.n > len(ids) {
		ids = makeIDs(l.n)
	}
	work := newLoad(l.n, ids)
	ctx, s, err := l.open(ctx, filepath.Join(l.dir, "jobs.strand"), work.handle)
	if err != nil {
		return err
	}
	return s.stop(work.bulk(ctx, s.q, bulkProducers))
}

// replay is the work of the child.
func (o order) replay() (time.Duration, error) {
	start := time.Now()
	l := &lab{shards: o.Shards}
	ctx, s, err := l.open(context.Background(), filepath.Join(o.Dir, "jobs.strand"), func(context.Context, executor.Job[[]byte]) error { return nil })
	if err != nil {
		return 0, err
	}
	stats, err := s.q.Stats(ctx) // every shard answers after it has loaded
	took := time.Since(start)
	if err == nil && stats.Payloads != o.N {
		err = fmt.Errorf("%d payloads came back, want %d", stats.Payloads, o.N)
	}
	return took, s.stop(err)
}
