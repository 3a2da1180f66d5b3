package main

import (
	"context"
	"fmt"
	"time"

	"github.com/strandjobs/strand/bench/baseline"
	"github.com/strandjobs/strand/executor"
)

// Pauses make the executor idle: nothing runs, nothing is being committed.
const (
	durablePause = 2 * time.Millisecond
	memoryPause  = 200 * time.Microsecond
)

// asleep is a pause after which the processor has to wake up and its caches are
// cold. Beside a commit that does not matter.
func asleep(d time.Duration) func() { return func() { time.Sleep(d) } }

// busy is a pause in which the caller does something else, as one that handles
// requests does: the executor is idle, the processor is not.
func busy(d time.Duration) func() {
	return func() {
		for start := time.Now(); time.Since(start) < d; {
		}
	}
}

// latency is from before Enqueue until the handler is entered. The tail is what
// one in twenty takes longer than: one in a hundred depends so much on what the
// machine does by chance that two runs hardly ever agree.
func latency() []workload {
	figures := func(baseline string, p50 goal) func(int) []figure {
		f := figure{unit: "µs", lower: true, baseline: baseline}
		median, tail := f, f
		median.suffix, median.goal, tail.suffix = "/p50", p50, "/p95"
		return func(int) []figure { return []figure{median, tail} }
	}
	return []workload{
		{
			name: "durable/latency", durability: "sync", n: 500, rounds: 5,
			figures: figures("bbolt/commit", goal{ratio: 1 / 0.85}),
			subject: enqueueToHandler(true, asleep(durablePause)),
			baseline: func(ctx context.Context, l *lab) (measured, error) {
				took, err := baseline.Commits(ctx, l.scratch, l.n, durablePause)
				return latencies(took), err
			},
		},
		memoryLatency("memory/latency", 3000, figures("chan/hand-off", goal{value: 5}), busy(memoryPause)),
		memoryLatency("memory/latency/cold", 1000, figures("chan/hand-off", goal{}), asleep(memoryPause)),
	}
}

func memoryLatency(name string, n int, figures func(int) []figure, pause func()) workload {
	return workload{
		name: name, durability: "memory", n: n, rounds: 5,
		figures: figures,
		subject: enqueueToHandler(false, pause),
		baseline: func(ctx context.Context, l *lab) (measured, error) {
			took, err := baseline.HandOffs(ctx, l.n, pause)
			return latencies(took), err
		},
	}
}

func latencies(took []time.Duration) measured {
	var total time.Duration
	for _, t := range took {
		total += t
	}
	micro := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
	// The last one is for the gate: what nothing disturbed.
	return measured{[]float64{micro(percentile(took, 0.5)), micro(percentile(took, 0.95)), micro(percentile(took, 0.05))}, total.Seconds()}
}

func enqueueToHandler(durable bool, pause func()) func(context.Context, *lab) (measured, error) {
	return func(ctx context.Context, l *lab) (measured, error) {
		entered := make(chan time.Time, 1)
		ctx, s, err := l.open(ctx, l.journal(durable), func(context.Context, executor.Job[[]byte]) error {
			entered <- time.Now()
			return nil
		})
		if err != nil {
			return measured{}, err
		}
		took, err := s.probe(ctx, l, entered, pause)
		if err = s.stop(err); err == nil {
			err = s.empty(ctx)
		}
		return latencies(took), err
	}
}

func (s *subject) probe(ctx context.Context, l *lab, entered <-chan time.Time, pause func()) ([]time.Duration, error) {
	if err := s.x.Start(ctx); err != nil {
		return nil, err
	}
	payload := make([]byte, payloadBytes)
	took := make([]time.Duration, 0, l.n)
	for i := range l.n {
		pause()
		start := time.Now()
		if _, err := s.q.Enqueue(ctx, l.ids[i%len(l.ids)], payload); err != nil {
			return nil, err
		}
		select {
		case at := <-entered:
			took = append(took, at.Sub(start))
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(stalled):
			return nil, fmt.Errorf("job %d did not run for %v", i, stalled)
		}
	}
	return took, nil
}
