//go:build unix

package dashboard_test

import (
	"context"
	"fmt"
	"io"
	"net/http/httptest"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
)

// BenchmarkTenWatchers is what ten browsers cost that watch the live figures and load two
// pages in a second together. cpu-ms/s is the CPU time that they take of each second
// beside 20,000 jobs that wait. lost-% is how many jobs fewer are done for each second of
// CPU time, of turns with them against turns without: on a machine that has other work
// it takes many turns to say anything. The browsers are in the same process, so what they
// take is counted, too.
func BenchmarkTenWatchers(b *testing.B) {
	const turn = 2 * time.Second
	x := open(b, executor.Config{WaitForRoom: true})
	q := queue(b, x, "q", nil, executor.QueueConfig[string]{MaxBacklog: executor.BacklogLimit{Payloads: 20_000}})
	require.NoError(b, x.Start(b.Context()))
	var feed sync.WaitGroup
	feed.Go(func() {
		batch := make([]executor.Item[string], 1000)
		for n := 0; ; n += len(batch) {
			for i := range batch {
				batch[i] = executor.Item[string]{ID: fmt.Sprint("customer-", (n+i)%100_000)}
			}
			if _, err := q.EnqueueMany(b.Context(), batch); err != nil {
				return // the end
			}
		}
	})
	b.Cleanup(feed.Wait)
	s := writable(b, x)
	server := httptest.NewServer(s.mux)
	defer server.Close()
	now := func() (done uint64, cpu time.Duration) {
		stats, err := q.Stats(b.Context())
		require.NoError(b, err)
		var u syscall.Rusage
		require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
		return stats.Done, time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	type sum struct{ done, cpu float64 }
	work := func(s *sum) {
		done, cpu := now()
		time.Sleep(turn)
		doneThen, cpuThen := now()
		s.done, s.cpu = s.done+float64(doneThen-done), s.cpu+(cpuThen-cpu).Seconds()
	}
	read := func(path string) {
		response, err := server.Client().Get(server.URL + "/strand/" + path)
		if err == nil {
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
		}
	}
	var alone, watched sum
	loaded := 0
	pages := []string{"", "queue?name=q", "queue?name=q&sort=due", "running", "locks", "journal", "api/v1/stats", "hot?name=q",
		"queue?name=q&tab=morgue", "queue?name=q&tab=running"}
	watch := func() (leave func()) {
		var browsers sync.WaitGroup
		over := make(chan struct{})
		for range 10 {
			browsers.Go(func() {
				for tick := time.NewTicker(time.Second); ; {
					read("live")
					select {
					case <-tick.C:
					case <-over:
						return
					}
				}
			})
		}
		browsers.Go(func() {
			for tick := time.NewTicker(time.Second / 2); ; {
				select {
				case <-tick.C:
					loaded++
					read(pages[loaded%len(pages)])
				case <-over:
					return
				}
			}
		})
		return func() {
			close(over)
			browsers.Wait()
		}
	}
	for b.Loop() {
		work(&alone)
		leave := watch()
		work(&watched)
		leave()
	}
	_, err := x.Inspect().Pause(b.Context(), inspect.SelectExecutor())
	require.NoError(b, err)
	time.Sleep(turn) // what runs ends, and the backlog is full
	var idle, watching sum
	work(&idle)
	leave := watch()
	work(&watching)
	leave()
	b.ReportMetric(1000*(watching.cpu-idle.cpu)/turn.Seconds(), "cpu-ms/s")
	b.ReportMetric(100*(1-watched.done/watched.cpu/(alone.done/alone.cpu)), "lost-%")
	b.ReportMetric(alone.done/alone.cpu, "jobs/cpu-s")
	_ = x.Stop(context.Background())
}
