package main

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"

	"github.com/strandjobs/strand/bench/baseline"
	"github.com/strandjobs/strand/executor"
)

const (
	smallBacklog = 10_000
	// drainedAtLeast is how many jobs the small side drains in one round, in
	// several goes: one go is too short to time. Many more goes take too long.
	drainedAtLeast = 300_000
	goesAtMost     = 100
)

// backlog is what a waiting job costs: bytes of heap beyond its payload, and
// whether many of them slow the others down. Each job has an id of its own.
// Payloads stay in memory: see beyond-memory for those that don't.
func backlog() workload {
	return workload{
		name: "backlog", durability: "sync", n: 1_000_000, rounds: 3,
		figures: backlogFigures, subject: backlogSubject, baseline: backlogBaseline,
	}
}

// sizes are the backlogs that are looked at: a small one, and n.
func sizes(n int) (small, large int) { return max(1, min(smallBacklog, n/10)), n }

func backlogFigures(n int) []figure {
	small, large := sizes(n)
	heap := figure{unit: "B/job", lower: true, baseline: "map of id to job", goal: goal{value: 150}}
	atSmall, atLarge := heap, heap
	atSmall.suffix, atLarge.suffix = fmt.Sprintf("/heap@%s", short(float64(small))), fmt.Sprintf("/heap@%s", short(float64(large)))
	drain := figure{suffix: "/drain", unit: "jobs/s", baseline: "drain@" + short(float64(small))}
	return []figure{atSmall, atLarge, drain.reach(0.8)}
}

func backlogSubject(ctx context.Context, l *lab) (measured, error) {
	small, large := sizes(l.n)
	atSmall, _, err := l.pile(ctx, "small", small)
	if err != nil {
		return measured{}, err
	}
	atLarge, seconds, err := l.pile(ctx, "large", large)
	return measured{[]float64{atSmall, atLarge, float64(large) / seconds}, seconds}, err
}

func backlogBaseline(ctx context.Context, l *lab) (measured, error) {
	small, large := sizes(l.n)
	goes, total := max(1, min(drainedAtLeast, l.n)/small), 0.0
	for i := range goes {
		_, seconds, err := l.pile(ctx, fmt.Sprintf("go-%d", i), small)
		if err != nil {
			return measured{}, err
		}
		total += seconds
	}
	return measured{[]float64{plainBytes(small), plainBytes(large), float64(goes*small) / total}, total}, nil
}

// pile heaps up n jobs, and drains them. It returns the bytes per job that
// waits, and the seconds of the draining.
func (l *lab) pile(ctx context.Context, name string, n int) (bytes, seconds float64, err error) {
	ids := l.ids
	if n > len(ids) {
		ids = makeIDs(n)
	}
	work := newLoad(n, ids)
	var before int64 // with the executor open: what it takes when empty is no cost of a job
	whole := *l
	whole.budget = -1
	_, drain, err := whole.run(ctx, filepath.Join(l.scratch, name), work, passage{
		enqueue: func(ctx context.Context, q *executor.Queue[[]byte]) error {
			before = heap()
			return work.bulk(ctx, q, bulkProducers)
		},
		filled: func() { bytes = perJob(heap()-before, n) },
	})
	return bytes, drain.Seconds(), err
}

// plainBytes is the same for a plain map.
func plainBytes(n int) float64 {
	before := heap()
	p := baseline.NewPending(n, func(i int) string { return fmt.Sprintf("order-%08d", i) }, payloadBytes)
	return perJob(heap()-before, p.Len())
}

func perJob(bytes int64, n int) float64 { return max(0, float64(bytes)/float64(n)-payloadBytes) }

// heap returns the bytes in use after a collection. The second one frees what
// pools had kept through the first.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
