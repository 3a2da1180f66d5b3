package main

import (
	"context"
	"runtime"
)

// footprint is what a job takes from disk and allocator over its life.
func footprint() []workload {
	bytes := func(most float64) func(int) []figure {
		return one(figure{suffix: "/bytes", unit: "B/job", lower: true, baseline: "bbolt/put+delete", goal: goal{value: most}})
	}
	allocs := figure{unit: "per job", lower: true, baseline: "2, and the codec's copy", goal: goal{value: 3}}
	return []workload{
		{
			name: "written/bulk", durability: "sync", n: 300_000, rounds: 3, figures: bytes(135),
			subject: onDisk(bothWays(true, inBulk)), baseline: onDisk(putDelete),
		},
		{
			name: "written/single", durability: "sync", n: 100_000, rounds: 3, figures: bytes(150),
			subject: onDisk(bothWays(true, oneByOne)), baseline: onDisk(putDelete),
		},
		{
			name: "allocs/durable", durability: "sync", n: 1_000_000, rounds: 3, figures: one(allocs),
			subject: allocated(bothWays(true, inBulk)), baseline: three,
		},
		{
			name: "allocs/memory", durability: "memory", n: 1_000_000, rounds: 3, figures: one(allocs),
			subject: allocated(bothWays(false, inBulk)), baseline: three,
		},
		{
			name: "allocs/single", durability: "memory", n: 300_000, rounds: 3, figures: one(allocs),
			subject: allocated(bothWays(false, oneByOne)), baseline: three,
		},
	}
}

// onDisk counts the bytes that a side sends to the disk: each page as often as
// it is written.
func onDisk(side func(context.Context, *lab) (measured, error)) func(context.Context, *lab) (measured, error) {
	return func(ctx context.Context, l *lab) (measured, error) {
		before := written()
		m, err := side(ctx, l)
		m.values = []float64{(written() - before) / float64(l.n)}
		return m, err
	}
}

// allocated counts the objects that a side allocates, from opening to closing.
func allocated(side func(context.Context, *lab) (measured, error)) func(context.Context, *lab) (measured, error) {
	return func(ctx context.Context, l *lab) (measured, error) {
		var before, after runtime.MemStats
		c := *l
		c.stopped = func() { runtime.ReadMemStats(&after) }
		runtime.ReadMemStats(&before)
		m, err := side(ctx, &c)
		m.values = []float64{float64(after.Mallocs-before.Mallocs) / float64(l.n)}
		return m, err
	}
}

// three is what a job may allocate: two objects, and the copy of the payload
// that the codec gives to the handler.
func three(context.Context, *lab) (measured, error) { return measured{[]float64{3}, 0}, nil }
