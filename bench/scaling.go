package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/strandjobs/strand/executor"
)

// A curve is a workload with a figure for each setting, all beside the same
// one.
type curve struct {
	name, durability, unit string
	n, rounds              int
	lower                  bool
	points                 func(n int) []int
	beside                 int // the point that the others are compared with
	measure                func(ctx context.Context, l *lab, point int) (value, seconds float64, err error)
}

func (c curve) workload() workload {
	side := func(pick func(n int) []int) func(context.Context, *lab) (measured, error) {
		return func(ctx context.Context, l *lab) (m measured, err error) {
			for _, point := range pick(l.n) {
				own := *l
				value, seconds, err := c.measure(ctx, &own, point)
				if err != nil {
					return m, fmt.Errorf("%s@%d: %w", c.name, point, err)
				}
				m.values, m.seconds = append(m.values, value), m.seconds+seconds
			}
			return m, nil
		}
	}
	return workload{
		name: c.name, durability: c.durability, n: c.n, rounds: c.rounds,
		figures: func(n int) (all []figure) {
			for _, point := range c.points(n) {
				all = append(all, figure{suffix: fmt.Sprintf("@%d", point), unit: c.unit, lower: c.lower, baseline: fmt.Sprintf("@%d", c.beside)})
			}
			return all
		},
		subject: side(c.points),
		baseline: func(ctx context.Context, l *lab) (measured, error) {
			m, err := side(func(int) []int { return []int{c.beside} })(ctx, l)
			if err != nil {
				return m, err
			}
			value := m.values[0]
			m.values = nil
			for range c.points(l.n) {
				m.values = append(m.values, value)
			}
			return m, nil
		},
	}
}

func fixed(points ...int) func(int) []int { return func(int) []int { return points } }

// scaling is what more shards, workers and producers give.
func scaling() []workload {
	return []workload{
		curve{
			name: "scaling/shards", durability: "memory", unit: "jobs/s", n: 300_000, rounds: 3,
			points: fixed(1, 2, 5, 16, 64), beside: 5,
			measure: func(ctx context.Context, l *lab, shards int) (float64, float64, error) {
				l.shards = shards
				return value(bothWays(false, inBulk)(ctx, l))
			},
		}.workload(),
		curve{
			name: "scaling/workers", durability: "sync", unit: "jobs/s", n: 20_000, rounds: 3,
			points: fixed(1, 5, 25, 100, 400), beside: 5, measure: withWorkers,
		}.workload(),
		curve{
			name: "scaling/producers", durability: "sync", unit: "jobs/s", n: 30_000, rounds: 3,
			points: fixed(1, 4, 16, 64, 256, 1024), beside: 256,
			measure: func(ctx context.Context, l *lab, producers int) (float64, float64, error) {
				l.n = min(l.n, 500*producers)
				work := newLoad(l.n, l.ids)
				return value(l.both(ctx, work, true, func(ctx context.Context, q *executor.Queue[[]byte]) error {
					return work.single(ctx, q, producers)
				}))
			},
		}.workload(),
	}
}

func value(m measured, err error) (float64, float64, error) {
	if err != nil {
		return 0, 0, err
	}
	return m.values[0], m.seconds, nil
}

// sleepy is what a handler takes that is not blank.
const sleepy = time.Millisecond

// withWorkers has handlers that sleep, each id with one payload.
func withWorkers(ctx context.Context, l *lab, workers int) (value, seconds float64, err error) {
	n := min(l.n, 500*workers)
	l.workers = workers
	var ran atomic.Int64
	done := make(chan struct{})
	ctx, s, err := l.open(ctx, l.journal(true), func(context.Context, executor.Job[[]byte]) error {
		time.Sleep(sleepy)
		if ran.Add(1) == int64(n) {
			close(done)
		}
		return nil
	})
	if err != nil {
		return 0, 0, err
	}
	work := newLoad(n, l.ids)
	if err := work.bulk(ctx, s.q, bulkProducers); err != nil {
		return 0, 0, s.stop(err)
	}
	start := time.Now()
	if err := s.x.Start(ctx); err != nil {
		return 0, 0, s.stop(err)
	}
	select {
	case <-done:
	case <-ctx.Done():
		return 0, 0, s.stop(context.Cause(ctx))
	}
	seconds = time.Since(start).Seconds()
	if err = s.stop(nil); err == nil && ran.Load() != int64(n) {
		err = fmt.Errorf("%d jobs have run, want %d", ran.Load(), n)
	}
	return float64(n) / seconds, seconds, err
}
