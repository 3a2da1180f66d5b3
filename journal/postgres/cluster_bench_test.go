//go:build unix

package postgres

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

// BenchmarkEnqueue is of calls that are acknowledged, with the owner running what comes: by a
// node that owns nothing, and by one that owns everything.
func BenchmarkEnqueue(b *testing.B) {
	for _, owner := range []bool{false, true} {
		for _, callers := range []int{1, 256} {
			for _, items := range []int{1, 1000} {
				if callers > 1 && items > 1 {
					continue
				}
				b.Run(fmt.Sprintf("owner=%v/callers=%d/items=%d", owner, callers, items), func(b *testing.B) {
					benchmarkEnqueue(b, owner, callers, items)
				})
			}
		}
	}
}

func benchmarkEnqueue(b *testing.B, owner bool, callers, items int) {
	c := newCluster(b, pgtest.Shared(b).URL(), 16, 3*time.Second)
	n := c.start(c.url)
	c.serving(n)
	from := n
	if !owner {
		from = c.node(c.url)
	}
	var next atomic.Int64
	var calling sync.WaitGroup
	b.ResetTimer()
	for range callers {
		calling.Go(func() {
			for {
				k := next.Add(1)
				if k > int64(b.N) {
					return
				}
				all := make([]executor.Item[int], items)
				for i := range all {
					all[i] = executor.Item[int]{ID: fmt.Sprint("id ", k, i), Payload: 1}
				}
				_, err := from.q.EnqueueMany(b.Context(), all)
				require.NoError(b, err)
			}
		})
	}
	calling.Wait()
	b.ReportMetric(float64(b.N*items)/b.Elapsed().Seconds(), "jobs/s")
	b.StopTimer()
	began := time.Now()
	require.Eventually(b, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.ran) == b.N*items
	}, time.Minute, 5*time.Millisecond)
	b.ReportMetric(time.Since(began).Seconds(), "s-until-all-ran")
}
