package dashboard_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
)

// BenchmarkPages is what each page takes while a million jobs wait: 200 ms are the
// most that a person should wait for.
func BenchmarkPages(b *testing.B) {
	const waiting = 1_000_000
	x := open(b, executor.Config{})
	q := queue(b, x, "q", nil, executor.QueueConfig[string]{})
	batch := make([]executor.Item[string], 10_000)
	for n := 0; n < waiting; n += len(batch) {
		for i := range batch {
			batch[i] = executor.Item[string]{ID: fmt.Sprint("customer-", (n+i)*7919%waiting), Due: time.Now().Add(time.Hour)}
		}
		_, err := q.EnqueueMany(b.Context(), batch)
		require.NoError(b, err)
	}
	require.NoError(b, x.Start(b.Context()))
	s := writable(b, x)
	for _, path := range []string{
		"", "queue?name=q", "queue?name=q&tab=retrying&sort=due", "queue?name=q&sort=due", "queue?name=q&sort=id",
		"queue?name=q&sort=attempts&desc=1",
		"queue?name=q&prefix=customer-12345", "queue?name=q&tab=morgue", "hot?name=q", "job?queue=q&id=customer-4711",
		"find?id=customer-4711",
		"running?stacks=1", "locks", "journal",
	} {
		b.Run("/"+path, func(b *testing.B) {
			for b.Loop() {
				s.get(path)
			}
			b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms/page")
		})
	}
}
