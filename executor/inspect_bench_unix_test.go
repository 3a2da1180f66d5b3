//go:build unix

package executor_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
)

// processorTime is what the process has computed since it began: unlike a clock it
// stands still while others have the machine.
func processorTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// BenchmarkTenReaders has ten readers list a million jobs that wait, or ten million
// with STRAND_LONG, by id, one page after the other, while blank jobs of another
// queue keep the executor busy. It reports what the readers cost: how much more
// processor time a job takes in the slices of time with readers than in those without.
func BenchmarkTenReaders(b *testing.B) {
	waiting := 1_000_000
	if long() {
		waiting *= 10
	}
	x := open(b, "", executor.Config{})
	blank := func(context.Context, executor.Merged[int]) error { return nil }
	wait, err := executor.HandleMerged(x, "wait", blank, executor.QueueConfig[int]{})
	require.NoError(b, err)
	busy, err := executor.HandleMerged(x, "busy", blank, executor.QueueConfig[int]{})
	require.NoError(b, err)
	batch := make([]executor.Item[int], 10_000)
	for n := 0; n < waiting; n += len(batch) {
		for i := range batch {
			batch[i] = executor.Item[int]{ID: fmt.Sprint("customer-", (n+i)*7919%waiting), Due: time.Now().Add(time.Hour)}
		}
		_, err := wait.EnqueueMany(b.Context(), batch)
		require.NoError(b, err)
	}
	start(b, x)
	var done [2]atomic.Int64 // without readers, with readers
	var took [2]time.Duration
	var counted [2]int64
	var examined, pages atomic.Int64
	var with atomic.Int32
	ctx, cancel := context.WithCancel(b.Context())
	var all sync.WaitGroup
	for p := range 2 {
		all.Go(func() {
			items := make([]executor.Item[int], 100)
			for i := range items {
				items[i].ID = fmt.Sprint(p, "-", i)
			}
			for ctx.Err() == nil {
				if _, err := busy.EnqueueMany(ctx, items); err == nil {
					done[with.Load()].Add(int64(len(items)))
				}
			}
		})
	}
	for b.Loop() {
		for readers := range 2 {
			with.Store(int32(readers))
			began, before := processorTime(), done[readers].Load()
			slice, end := context.WithTimeout(ctx, 4*time.Second)
			var group sync.WaitGroup
			for range 10 * readers {
				group.Go(func() {
					query := inspect.JobQuery{Queue: "wait", Order: inspect.OrderID}
					for slice.Err() == nil {
						page, err := x.Inspect().Jobs(slice, query)
						if err == nil {
							query.Cursor = page.Next
							pages.Add(1)
							examined.Add(int64(page.Examined))
						}
					}
				})
			}
			<-slice.Done()
			took[readers] += processorTime() - began
			counted[readers] += done[readers].Load() - before
			with.Store(0)
			group.Wait()
			end()
		}
	}
	cancel()
	all.Wait()
	rate := func(i int) float64 { return float64(counted[i]) / took[i].Seconds() }
	b.ReportMetric(100*(rate(0)/rate(1)-1), "%cost")
	b.ReportMetric(rate(0), "jobs/cpu-s")
	b.ReportMetric(took[0].Seconds()/4/float64(b.N), "cpus")
	b.ReportMetric(float64(examined.Load())/float64(b.N), "examined/s")
}

// BenchmarkPage is what a page of a million waiting jobs takes while nothing runs.
func BenchmarkPage(b *testing.B) {
	x := open(b, "", executor.Config{})
	q, err := executor.HandleMerged(x, "q", func(context.Context, executor.Merged[int]) error { return nil }, executor.QueueConfig[int]{})
	require.NoError(b, err)
	batch := make([]executor.Item[int], 10_000)
	for n := 0; n < 1_000_000; n += len(batch) {
		for i := range batch {
			batch[i] = executor.Item[int]{ID: fmt.Sprint("customer-", (n+i)*7919%1_000_000), Due: time.Now().Add(time.Hour)}
		}
		_, err := q.EnqueueMany(b.Context(), batch)
		require.NoError(b, err)
	}
	for name, query := range map[string]inspect.JobQuery{
		"none": {}, "hot": {Order: inspect.OrderPayloads, Descending: true}, "id": {Order: inspect.OrderID}, "due": {Order: inspect.OrderDue}, "due desc": {Order: inspect.OrderDue, Descending: true}, "halted": {Order: inspect.OrderDue, States: []inspect.JobState{inspect.JobHalted}},
		"error": {Order: inspect.OrderDue, Filter: inspect.JobFilter{ErrorContains: "boom"}}, "prefix": {Order: inspect.OrderDue, Filter: inspect.JobFilter{IDPrefix: "customer-12345"}},
	} {
		b.Run(name, func(b *testing.B) {
			query.Queue = "q"
			began := processorTime()
			for b.Loop() {
				_, err := x.Inspect().Jobs(b.Context(), query)
				require.NoError(b, err)
			}
			b.ReportMetric(float64((processorTime()-began).Microseconds())/float64(b.N), "cpu-µs/page")
		})
	}
}
