package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// costs are curves over how much waits and how large it is.
func costs() []workload {
	return []workload{
		curve{
			name: "cost/backlog", durability: "sync", unit: "jobs/s", n: 10_000_000, rounds: 3,
			points: backlogs, beside: smallBacklog,
			measure: func(ctx context.Context, l *lab, waiting int) (float64, float64, error) {
				goes, total := max(1, min(min(drainedAtLeast, l.n)/waiting, goesAtMost)), 0.0
				for i := range goes {
					_, seconds, err := l.pile(ctx, fmt.Sprintf("%d-%d", waiting, i), waiting)
					if err != nil {
						return 0, 0, err
					}
					total += seconds
				}
				return float64(goes*waiting) / total, total, nil
			},
		}.workload(),
		curve{
			name: "cost/payload", durability: "sync", unit: "jobs/s", n: 200_000, rounds: 3,
			points: fixed(0, 8, 100, 1<<10, 10<<10, 100<<10, 1<<20), beside: 100,
			measure: func(ctx context.Context, l *lab, size int) (float64, float64, error) {
				l.n = max(1, min(l.n, payloadTotal/max(1, size)))
				if size < 8 {
					l.n = min(l.n, len(l.ids))
				}
				work := newLoad(l.n, l.ids)
				work.size = size
				return value(l.both(ctx, work, true, work.inBulk))
			},
		}.workload(),
	}
}

// payloadTotal is how many bytes go through a queue at most.
const payloadTotal = 256 << 20

const bytesPerWaiting = 1000 // of memory, the harness included and room to spare

// backlogs are powers of ten up to n, as far as memory allows.
func backlogs(n int) (sizes []int) {
	for size := 1000; size <= n && size*bytesPerWaiting < available(); size *= 10 {
		sizes = append(sizes, size)
	}
	if sizes == nil {
		sizes = []int{n}
	}
	return sizes
}

var availableAtStart = func() int {
	text, err := os.ReadFile(filepath.FromSlash("/proc/meminfo"))
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, "MemAvailable:"); found && err == nil {
			var kiB int
			if _, err := fmt.Sscan(rest, &kiB); err == nil {
				return kiB << 10
			}
		}
	}
	return 4 << 30
}()

// available is the memory that is free for a backlog. It does not change while
// the program runs, or figures would come and go.
func available() int { return availableAtStart }
