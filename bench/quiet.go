package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/strandjobs/strand/bench/baseline"
	"github.com/strandjobs/strand/executor"
)

const (
	idleQueues = 100
	idleEach   = 20 * time.Millisecond // for each queue
)

// quiet is what Strand takes when there is nothing to do.
func quiet() []workload {
	durable := figure{suffix: "/new", unit: "ms", lower: true, baseline: "bbolt/open+close"}
	again, memory := durable, durable
	again.suffix, memory.suffix = "/again", "/memory"
	wakes := figure{suffix: "/wakeups", unit: "per s", lower: true, slack: 2, baseline: "an empty process", goal: goal{value: 5}}
	cpu := figure{suffix: "/cpu", unit: "ms/s", lower: true, slack: 0.5, baseline: "an empty process"}
	return []workload{
		{
			name: "startup", durability: "sync", n: 1, rounds: 5,
			figures: func(int) []figure { return []figure{durable, again, memory} }, subject: startUp, baseline: openBolt,
		},
		{
			name: "idle", durability: "sync", n: idleQueues, rounds: 3,
			figures:  func(int) []figure { return []figure{wakes, cpu} },
			subject:  func(ctx context.Context, l *lab) (measured, error) { return l.still(ctx, childIdle) },
			baseline: func(ctx context.Context, l *lab) (measured, error) { return l.still(ctx, childEmpty) },
		},
	}
}

// startUp opens an executor with one queue and stops it: in a new directory, in
// one that is there, and in memory.
func startUp(_ context.Context, l *lab) (measured, error) {
	var m measured
	dir := filepath.Join(l.scratch, "jobs.strand")
	for _, where := range []string{dir, dir, ""} {
		start := time.Now()
		ctx, s, err := l.open(context.Background(), where, func(context.Context, executor.Job[[]byte]) error { return nil })
		if err != nil {
			return m, err
		}
		if err := s.stop(s.x.Start(ctx)); err != nil {
			return m, err
		}
		took := time.Since(start).Seconds()
		m.values, m.seconds = append(m.values, 1000*took), m.seconds+took
	}
	return m, nil
}

func openBolt(_ context.Context, l *lab) (measured, error) {
	start := time.Now()
	if err := baseline.Fill(l.scratch, 0); err != nil {
		return measured{}, err
	}
	s := time.Since(start).Seconds()
	return measured{[]float64{1000 * s, 1000 * s, 1000 * s}, s}, nil
}

// still watches a process that has nothing to do.
func (l *lab) still(ctx context.Context, kind string) (measured, error) {
	r, err := l.child(ctx, kind)
	if err != nil {
		return measured{}, err
	}
	return measured{[]float64{r.Wakeups, r.CPU}, r.Seconds}, nil
}

// keepStill opens an executor with some queues, has each of them run a job, and
// then does nothing.
func (o order) keepStill() (r report, err error) {
	x, err := executor.Open(filepath.Join(o.Scratch, "idle.strand"), executor.Config{})
	if err != nil {
		return r, err
	}
	ran := make(chan struct{}, o.N)
	for i := range o.N {
		q, err := executor.Handle(x, fmt.Sprintf("queue-%03d", i), func(context.Context, executor.Job[[]byte]) error {
			ran <- struct{}{}
			return nil
		}, executor.QueueConfig[[]byte]{})
		if err == nil {
			_, err = q.Enqueue(context.Background(), "a", nil)
		}
		if err != nil {
			return r, errors.Join(err, x.Stop(context.Background()))
		}
	}
	if err := x.Start(context.Background()); err != nil {
		return r, errors.Join(err, x.Stop(context.Background()))
	}
	for range o.N {
		<-ran
	}
	r = doNothing(o.N)
	return r, x.Stop(context.Background())
}

// doNothing counts what happens by itself.
func doNothing(queues int) report {
	time.Sleep(200 * time.Millisecond) // what was begun ends
	window := time.Duration(queues) * idleEach
	wakes, cpu := switches(), cpuTime()
	time.Sleep(window)
	s := window.Seconds()
	return report{Seconds: s, Wakeups: (switches() - wakes) / s, CPU: float64(cpuTime()-cpu) / float64(time.Millisecond) / s}
}
