package main

import (
	"context"
	"encoding/binary"
	"errors"
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
	timerSlack   = 25 * time.Millisecond // where they may be late
)

// delayed is jobs that are due later: as many as fill an hour, of which the
// first few seconds are watched. With a slack they may be late by as much.
func delayed(name, durability string, slack time.Duration) workload {
	cpu := figure{suffix: "/cpu", unit: "% core", lower: true, baseline: "time.AfterFunc", goal: goal{value: 5}}
	late := figure{suffix: "/late/p95", unit: "µs", lower: true, baseline: "time.AfterFunc"}
	return workload{
		name: name, durability: durability, n: 1_000_000, rounds: 3,
		figures: func(int) []figure { return []figure{cpu, late} },
		subject: func(ctx context.Context, l *lab) (m measured, err error) {
			l.slack = slack
			for lead := time.Duration(1); lead <= 16; lead *= 2 {
				dir := l.journal(durability == "sync")
				if dir != "" {
					dir += fmt.Sprint(lead)
				}
				if m, err = l.delayedJobs(ctx, dir, lead); !errors.Is(err, errLate) {
					break
				}
			}
			return m, err
		},
		baseline: delayedCalls,
	}
}

// errLate: the machine was too busy to enqueue everything before the first job
// was due.
var errLate = errors.New("the first jobs were due before the last ones were enqueued")

// timetable says when n timers are due. Neighbours are not neighbours in time.
// There are lead times as long as usual to set them up.
func timetable(n int, lead time.Duration) (from time.Time, due func(i int) time.Time, window time.Duration) {
	const stride = 611_953 // a prime
	from = time.Now().Add(lead * (time.Duration(n)*timersFilled + time.Second))
	due = func(i int) time.Time { return from.Add(time.Duration(i*stride%n) * timerSpread) }
	return from, due, min(timerWindow, time.Duration(n)*timerSpread)
}

func (l *lab) delayedJobs(ctx context.Context, dir string, lead time.Duration) (measured, error) {
	from, due, window := timetable(l.n, lead)
	late := make([]atomic.Int64, l.n) // by number
	ctx, s, err := l.open(ctx, dir, func(_ context.Context, job executor.Job[[]byte]) error {
		late[binary.LittleEndian.Uint64(job.Payload)].Store(max(1, int64(time.Since(job.Due))))
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
		err = errLate
	}
	if err != nil {
		return measured{}, s.stop(err)
	}
	m, err := watch(from, window, late)
	return m, s.stop(err)
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
	from, due, window := timetable(l.n, 1)
	late := make([]atomic.Int64, l.n)
	stop := baseline.Timers(l.n, due, func(i int) { late[i].Store(max(1, int64(time.Since(due(i))))) })
	defer stop()
	return watch(from, window, late)
}

// watch returns the share of a core that the process takes in a window, and
// how late those were that were due in it.
func watch(from time.Time, window time.Duration, late []atomic.Int64) (measured, error) {
	time.Sleep(time.Until(from))
	before := cpuTime()
	time.Sleep(window)
	share := 100 * float64(cpuTime()-before) / float64(window)
	want := int(window / timerSpread)
	fired := ranLate(late)
	for end := time.Now().Add(stalled); len(fired) < want; fired = ranLate(late) {
		if time.Now().After(end) {
			return measured{}, fmt.Errorf("%d jobs have run, %d were due in %v", len(fired), want, window)
		}
		time.Sleep(10 * time.Millisecond) // the last ones were due a moment ago
	}
	return measured{[]float64{share, float64(percentile(fired, 0.95)) / float64(time.Microsecond)}, window.Seconds()}, nil
}

func ranLate(late []atomic.Int64) (fired []time.Duration) {
	for i := range late {
		if d := late[i].Load(); d > 0 {
			fired = append(fired, time.Duration(d))
		}
	}
	return fired
}
