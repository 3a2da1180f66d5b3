package executor_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
)

// BenchmarkDo compares a call of Do with a bare job, both in memory and with an idle
// executor: until the result is there, and until the handler is entered. The
// processor is busy in between, as in the workload memory/latency of bench.
func BenchmarkDo(b *testing.B) {
	x := open(b, "", executor.Config{})
	entered := make(chan time.Time, 1)
	bare, err := executor.Handle(x, "bare", func(context.Context, executor.Job[int]) error {
		entered <- time.Now()
		return nil
	}, executor.QueueConfig[int]{})
	require.NoError(b, err)
	c, err := executor.HandleResult(x, "result", twice, executor.QueueConfig[int]{})
	require.NoError(b, err)
	start(b, x)
	p50 := func(f func() time.Duration) float64 {
		var took []time.Duration
		for range 5000 {
			for pause := time.Now(); time.Since(pause) < 100*time.Microsecond; {
			}
			took = append(took, f())
		}
		slices.Sort(took)
		return float64(took[len(took)/2]) / 1e3
	}
	for b.Loop() {
		job := p50(func() time.Duration {
			begin := time.Now()
			_, err := bare.Enqueue(b.Context(), "a", 1)
			require.NoError(b, err)
			return (<-entered).Sub(begin)
		})
		do := p50(func() time.Duration {
			begin := time.Now()
			_, err := c.Do(b.Context(), "a", 1)
			require.NoError(b, err)
			return time.Since(begin)
		})
		b.ReportMetric(job, "job-p50-µs")
		b.ReportMetric(do, "do-p50-µs")
		b.ReportMetric(do/job, "ratio")
	}
}
