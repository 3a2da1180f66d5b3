package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/strandjobs/strand/bench/baseline"
	"github.com/strandjobs/strand/executor"
)

const (
	timerSpread  = time.Hour / 1_000_000 // between two of a million timers
	timerWindow  = 5 * time.Second       // for how long they are watched
	timersFilled = 4 * time.Microsecond  // what it takes to enqueue one, with room to spare
)

// delayed is jobs that are due later: as many as fill an hour, of which the
// first few seconds are watched.
func delayed(name, durability string) workload {
	cpu := figure{suffix: "/cpu", unit: "% core", lower: true, baseline: "time.AfterFunc", goal: goal{value: 5}}
	late := figure{suffix: "/late/p99", unit: "µs", lower: true, baseline: "time.AfterFunc"}
	return workload{
		name: name, durability: durability, n: 1_000_000, rounds: 1,
		figures: func(int) []figure { return []figure{cpu, late} },
		subject: func(ctx context.Context, l *lab) (measured, error) {
			return l.delayedJobs(ctx, l.journal(durability == "sync"))
		},
		baseline: delayedCalls,
	}
}

// timetable says when n timers are due. Neighbours are not neighbours in time.
func timetable(n int) (from time.Time, due func(i int) time.Time, window time.Duration) {
	const stride = 611_953 // a prime
	from = time.Now().Add(time.Duration(n)*timersFilled + 200*time.Millisecond)
	due = func(i int) time.Time { return from.Add(time.Duration(i*stride%n) * timerSpread) }
	return from, due, min(timerWindow, time.Duration(n)*timerSpread)
}

func (l *lab) delayedJobs(ctx context.Context, dir string) (measured, error) {
	from, due, window := timetable(l.n)
	var ran atomic.Int64
	late := make([]atomic.Int64, l.n) // by number
	ctx, s, err := l.open(ctx, dir, func(_ context.Context, job executor.Job[[]byte]) error {
		late[binary.LittleEndian.Uint64(job.Latest())].Store(max(1, int64(time.Since(job.Due))))
		ran.Add(1)
		return nil
	})
	if err != nil {
		return measured{}, err
	}
	if err := s.x.Start(ctx); err != nil {
		return measured{}, s.stop(err)
	}
	err = enqueueDelayed(ctx, s.q, l.n, due)
	if err == nil && time.Now().After(from) {
		err = fmt.Errorf("to enqueue %d jobs took %v longer than there was until the first one was due", l.n, time.Since(from))
	}
	if err != nil {
		return measured{}, s.stop(err)
	}
	m := watch(from, window, late)
	want := int64(window / timerSpread)
	if err := s.stop(nil); err != nil {
		return measured{}, err
	}
	if got := ran.Load(); got < want*9/10 { // a few may be late
		return measured{}, fmt.Errorf("%d jobs have run in %v, want %d", got, window, want)
	}
	return m, nil
}

func enqueueDelayed(ctx context.Context, q *executor.Queue[[]byte], n int, due func(int) time.Time) error {
	items := make([]executor.Item[[]byte], 0, bulk)
	for i := range n {
		payload := make([]byte, payloadBytes)
		binary.LittleEndian.PutUint64(payload, uint64(i))
		items = append(items, executor.Item[[]byte]{ID: fmt.Sprintf("order-%08d", i), Payload: payload, Due: due(i)})
		if len(items) == bulk || i == n-1 {
			if _, err := q.EnqueueMany(ctx, items); err != nil {
				return err
			}
			items = items[:0]
		}
	}
	return nil
}

func delayedCalls(_ context.Context, l *lab) (measured, error) {
	from, due, window := timetable(l.n)
	late := make([]atomic.Int64, l.n)
	stop := baseline.Timers(l.n, due, func(i int) { late[i].Store(max(1, int64(time.Since(due(i))))) })
	defer stop()
	return watch(from, window, late), nil
}

// watch returns the share of a core that the process takes in a window, and
// how late those were that were due in it.
func watch(from time.Time, window time.Duration, late []atomic.Int64) measured {
	time.Sleep(time.Until(from))
	before := cpuTime()
	time.Sleep(window)
	share := 100 * float64(cpuTime()-before) / float64(window)
	// Those at the very end get a moment, too.
	time.Sleep(50 * time.Millisecond)
	var fired []time.Duration
	for i := range late {
		if d := late[i].Load(); d > 0 {
			fired = append(fired, time.Duration(d))
		}
	}
	return measured{[]float64{share, float64(percentile(fired, 0.99)) / float64(time.Microsecond)}, window.Seconds()}
}
