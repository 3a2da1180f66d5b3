package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

// shapes are loads as they come in real life, each beside the even one.
func shapes() []workload {
	even := figure{unit: "jobs/s", baseline: "the same, ids even"}
	calm := figure{unit: "jobs/s", baseline: "the same, no failures"}
	durable, memory := figure{unit: "jobs/s", baseline: "the same, alone"}, figure{unit: "jobs/s", baseline: "the same, alone"}
	durable.suffix, memory.suffix = "/durable", "/memory"
	return []workload{
		{
			name: "zipf", durability: "sync", n: 300_000, rounds: 3,
			figures: one(even), subject: skewed, baseline: bothWays(true, inBulk),
		},
		{
			name: "retry", durability: "sync", n: 300_000, rounds: 3,
			figures: one(calm), subject: failing, baseline: bothWays(true, inBulk),
		},
		{
			name: "mixed", durability: "both", n: 300_000, rounds: 3,
			figures: func(int) []figure { return []figure{durable, memory} }, subject: mixed, baseline: apart,
		},
		delayed("delayed/durable", "sync", 0),
		delayed("delayed/durable/slack", "sync", timerSlack),
		delayed("delayed/memory", "memory", 0),
	}
}

// skewed has payloads whose ids are spread by Zipf's law, with exponent 1.1:
// with 100,000 ids the first one gets about an eighth of them.
func skewed(ctx context.Context, l *lab) (measured, error) {
	work := newLoad(l.n, l.ids)
	zipf := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.1, 1, uint64(len(work.ids)-1))
	work.assigned = make([]int32, l.n)
	for i := range work.assigned {
		work.assigned[i] = int32(zipf.Uint64())
	}
	return l.both(ctx, work, true, work.inBulk)
}

// failing has one in twenty payloads fail when it runs for the first time; its
// job runs again a millisecond later.
func failing(ctx context.Context, l *lab) (measured, error) {
	c := *l
	c.retryIn = func(int) time.Duration { return time.Millisecond }
	work := newLoad(l.n, l.ids)
	work.failed = make([]bool, l.n)
	work.fails = func(number int) bool { return number%20 == 0 }
	return c.both(ctx, work, true, work.inBulk)
}

// mixed has two executors side by side, one with a journal and one in memory.
func mixed(ctx context.Context, l *lab) (measured, error) {
	var durable, memory measured
	var errs [2]error
	var group sync.WaitGroup
	start := time.Now()
	group.Go(func() { durable, errs[0] = bothWays(true, inBulk)(ctx, l) })
	group.Go(func() { memory, errs[1] = bothWays(false, inBulk)(ctx, l) })
	group.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return measured{}, err
	}
	return measured{[]float64{durable.values[0], memory.values[0]}, time.Since(start).Seconds()}, nil
}

// apart is the same, one after the other.
func apart(ctx context.Context, l *lab) (measured, error) {
	durable, err := bothWays(true, inBulk)(ctx, l)
	if err != nil {
		return measured{}, err
	}
	memory, err := bothWays(false, inBulk)(ctx, l)
	if err != nil {
		return measured{}, err
	}
	return measured{[]float64{durable.values[0], memory.values[0]}, durable.seconds + memory.seconds}, nil
}
