package main

import (
	"context"
	"fmt"
	"time"

	"github.com/strandjobs/strand/bench/baseline"
	"github.com/strandjobs/strand/lock"
)

const (
	lockedKeys = 100 // of the uncontended ones
	fewWaiters = 100 // what many are compared with
)

// locks is what locks cost, alone and with jobs that wait for them.
func locks() []workload {
	took := figure{unit: "ns", lower: true, baseline: "map under a mutex", goal: goal{ratio: 1.0 / 5}}
	all := []workload{
		{
			name: "lock/uncontended", durability: "memory", n: 2_000_000, rounds: 9,
			figures: one(took), subject: acquireAndRelease,
			baseline: func(_ context.Context, l *lab) (measured, error) {
				took, err := baseline.Guarded(l.n, l.ids[:lockedKeys])
				return each(l.n, took, time.Nanosecond), err
			},
		},
		crowded("lock/hand-over", handOver),
		crowded("lock/barrier", queueAtBarrier),
		crowded("lock/unique", queueForLease),
		parked("lock/unlocked", unlockByHand),
		parked("lock/succeeded", unlockBySuccess),
		{
			name: "lock/idle", durability: "sync", n: idleQueues, rounds: 3,
			figures: func(int) []figure {
				return []figure{{suffix: "/wakeups", unit: "per s", lower: true, slack: 2, baseline: "an empty process", goal: goal{value: 5}}}
			},
			subject:  func(ctx context.Context, l *lab) (measured, error) { return l.wakeups(ctx, childLocks) },
			baseline: func(ctx context.Context, l *lab) (measured, error) { return l.wakeups(ctx, childEmpty) },
		},
	}
	return all
}

// each is the outcome of a side that did n things.
func each(n int, took, unit time.Duration) measured {
	return measured{[]float64{float64(took) / float64(unit) / float64(n)}, took.Seconds()}
}

func acquireAndRelease(ctx context.Context, l *lab) (measured, error) {
	table := new(lock.Table)
	start := time.Now()
	for i := range l.n {
		k := i % lockedKeys
		lease, err := table.Acquire(ctx, lock.Options{}, l.ids[k:k+1]...)
		if err == nil {
			err = lease.Unlock()
		}
		if err != nil {
			return measured{}, err
		}
	}
	return each(l.n, time.Since(start), time.Nanosecond), nil
}

// crowded has n wait for one key, beside few who do so again and again. What
// one hand-over costs must not grow with those who wait.
func crowded(name string, pass func(ctx context.Context, l *lab, waiting int) (time.Duration, error)) workload {
	return workload{
		name: name, durability: "memory", n: 10_000, rounds: 5,
		figures: one(figure{unit: "µs", lower: true, baseline: fmt.Sprintf("the same, %d wait", fewWaiters), goal: goal{ratio: 0.5}}),
		subject: func(ctx context.Context, l *lab) (measured, error) {
			took, err := pass(ctx, l, l.n)
			return each(l.n, took, time.Microsecond), err
		},
		baseline: func(ctx context.Context, l *lab) (measured, error) {
			few := min(fewWaiters, l.n)
			times := (l.n + few - 1) / few
			var total time.Duration
			for range times {
				took, err := pass(ctx, l, few)
				if err != nil {
					return measured{}, err
				}
				total += took
			}
			return each(times*few, total, time.Microsecond), nil
		},
	}
}

// handOver has goroutines wait for one key of a table. Each must get it in its
// turn.
func handOver(ctx context.Context, _ *lab, waiting int) (time.Duration, error) {
	table := new(lock.Table)
	first, err := table.Acquire(ctx, lock.Options{}, "key")
	if err != nil {
		return 0, err
	}
	next, wrong := 0, 0 // touched by the holder of the key only
	done := make(chan error, waiting)
	for i := range waiting {
		ready := make(chan struct{})
		place, err := table.Queue(lock.Options{}, func() { close(ready) }, "key")
		if err != nil {
			return 0, err
		}
		go func() { // ends with its turn, which comes
			<-ready
			if next != i {
				wrong++
			}
			next++
			lease, _ := place.Lease()
			done <- lease.Unlock()
		}()
	}
	time.Sleep(time.Millisecond) // they have begun to wait
	start := time.Now()
	if err := first.Unlock(); err != nil {
		return 0, err
	}
	for range waiting {
		if err := <-done; err != nil {
			return 0, err
		}
	}
	took := time.Since(start)
	if next != waiting || wrong > 0 {
		return 0, fmt.Errorf("%d of %d had the key, %d of them out of turn", next, waiting, wrong)
	}
	return took, nil
}
