package main

import (
	"context"
	"time"

	"github.com/strandjobs/strand/executor"
)

// What Lowkiq's own benchmark took, on another machine: 65 s with its fastest Redis client
// and scheduler, hiredis and seq; 155 s with the default ones.
const (
	lowkiqSeconds = 65
	lowkiqJobs    = 100_000
	lowkiqWorkers = 5
)

// lowkiq is Lowkiq's own benchmark: blank jobs are enqueued, then drained.
// Both parts count here, only the second one there.
func lowkiq() workload {
	f := figure{baseline: "Lowkiq, as published", lower: true}
	total, each := f, f
	total.suffix, total.unit = "/total", "s"
	each.suffix, each.unit = "/job", "ms"
	return workload{
		name: "lowkiq", durability: "sync", n: lowkiqJobs, rounds: 3,
		figures: func(int) []figure { return []figure{total, each} },
		subject: func(ctx context.Context, l *lab) (measured, error) {
			l.workers = lowkiqWorkers
			fill, drain, err := l.fillThenDrain(ctx, newLoad(l.n, l.ids))
			s := (fill + drain).Seconds()
			return measured{[]float64{s, 1000 * s / float64(l.n)}, s}, err
		},
		baseline: func(_ context.Context, l *lab) (measured, error) {
			s := lowkiqSeconds * float64(l.n) / lowkiqJobs
			return measured{[]float64{s, 1000 * s / float64(l.n)}, s}, nil
		},
	}
}

// fillThenDrain enqueues everything before the first job runs.
func (l *lab) fillThenDrain(ctx context.Context, work *load) (fill, drain time.Duration, err error) {
	return l.run(ctx, l.journal(true), work, passage{
		enqueue: func(ctx context.Context, q *executor.Queue[[]byte]) error { return work.bulk(ctx, q, bulkProducers) },
		filled:  func() {},
	})
}

// hotID is a single id with very many payloads. What it costs must grow with
// them, and not with their square: ten times the payloads in at most twelve
// times the time.
func hotID() workload {
	side := func(part int) func(context.Context, *lab) (measured, error) {
		return func(ctx context.Context, l *lab) (measured, error) {
			n := max(1, l.n/part)
			fill, drain, err := l.fillThenDrain(ctx, newLoad(n, l.ids[:1]))
			return rate(n, (fill + drain).Seconds()), err
		}
	}
	f := figure{unit: "payload/s", baseline: "the same with a tenth"}
	return workload{
		name: "hotid", durability: "sync", n: 1_000_000, rounds: 3,
		figures: one(f.reach(10.0 / 12)), subject: side(1), baseline: side(10),
	}
}
