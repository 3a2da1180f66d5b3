//go:build unix

package dashboard_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
)

// kinds of work that goes on while people look: handlers that wait for something, and
// such that compute on all processors.
var kinds = map[string]func(){
	"sleeping": func() { time.Sleep(5 * time.Millisecond) },
	"burning": func() {
		var room [16 << 10]byte
		for range 20 {
			room[0] = sha256.Sum256(room[:])[0]
		}
	},
}

// atWork is a site of an executor with a million jobs of queue q that wait, or ten with
// STRAND_LONG, whose queue work is at work; done are its jobs.
func atWork(b *testing.B, work func()) (s site, done *atomic.Int64) {
	waiting := 1_000_000
	if os.Getenv("STRAND_LONG") != "" {
		waiting *= 10
	}
	x := open(b, executor.Config{Workers: 16, WaitForRoom: true})
	q := queue(b, x, "q", nil, executor.QueueConfig[string]{})
	batch := make([]executor.Item[string], 10_000)
	for n := 0; n < waiting; n += len(batch) {
		for i := range batch {
			batch[i] = executor.Item[string]{ID: fmt.Sprint("customer-", (n+i)*7919%waiting), Due: time.Now().Add(time.Hour)}
		}
		_, err := q.EnqueueMany(b.Context(), batch)
		require.NoError(b, err)
	}
	done = new(atomic.Int64)
	busy := queue(b, x, "work", func(context.Context, executor.Job[string]) error {
		work()
		done.Add(1)
		return nil
	}, executor.QueueConfig[string]{MaxBacklog: executor.BacklogLimit{Payloads: 5000}})
	require.NoError(b, x.Start(b.Context()))
	var feed sync.WaitGroup
	ctx, cancel := context.WithCancel(b.Context())
	feed.Go(func() {
		batch := make([]executor.Item[string], 500)
		for n := 0; ; n += len(batch) {
			for i := range batch {
				batch[i] = executor.Item[string]{ID: fmt.Sprint("customer-", (n+i)%100_000)}
			}
			if _, err := busy.EnqueueMany(ctx, batch); err != nil {
				return // the end
			}
		}
	})
	b.Cleanup(func() { cancel(); feed.Wait() })
	return writable(b, x), done
}

// lists are the pages that look at many jobs.
var lists = []string{
	"", "queue?name=q", "queue?name=q&sort=due", "queue?name=q&sort=due&desc=1", "queue?name=q&sort=attempts", "queue?name=q&sort=attempts&desc=1",
	"queue?name=q&sort=payloads&desc=1", "queue?name=q&sort=id", "queue?name=q&prefix=customer-12345", "queue?name=q&error=boom", "hot?name=q",
}

// BenchmarkPagesAtWork is how long each page takes while handlers work beside a million
// jobs that wait, and how many of the pages were a part only. A person opens one every
// two seconds.
func BenchmarkPagesAtWork(b *testing.B) {
	for kind, work := range kinds {
		b.Run(kind, func(b *testing.B) {
			s, _ := atWork(b, work)
			for _, path := range lists {
				b.Run("/"+path, func(b *testing.B) {
					var took []time.Duration
					parts := 0
					for b.Loop() {
						time.Sleep(2 * time.Second)
						began := time.Now()
						text := s.get(path)
						took = append(took, time.Since(began))
						if strings.Contains(text, "this page did not wait") || strings.Contains(text, "those at work go first") {
							parts++
						}
					}
					slices.Sort(took)
					b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
					b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, "max-ms")
					b.ReportMetric(float64(parts)/float64(len(took)), "parts/page")
				})
			}
		})
	}
}

// BenchmarkTenWhoLook is what ten who open a page every two seconds each cost the work: how
// many jobs fewer are done in a second with them than without, in the middle of pairs of
// seconds, one after the other.
func BenchmarkTenWhoLook(b *testing.B) {
	const turn = 2 * time.Second
	for kind, work := range kinds {
		b.Run(kind, func(b *testing.B) {
			s, done := atWork(b, work)
			time.Sleep(turn)
			rate := func() float64 {
				before := done.Load()
				began := time.Now()
				time.Sleep(turn)
				return float64(done.Load()-before) / time.Since(began).Seconds()
			}
			var lost, alone, took []float64
			var mu sync.Mutex
			watched := func() float64 {
				var browsers sync.WaitGroup
				over := make(chan struct{})
				for i := range 10 {
					browsers.Go(func() {
						for n := i; ; n += 3 {
							select {
							case <-time.After(turn/10*time.Duration(i%3+1) + turn/2):
							case <-over:
								return
							}
							began := time.Now()
							s.get(lists[n%len(lists)])
							mu.Lock()
							took = append(took, float64(time.Since(began).Microseconds())/1000)
							mu.Unlock()
						}
					})
				}
				defer browsers.Wait()
				defer close(over)
				return rate()
			}
			for pair := 0; b.Loop(); pair++ {
				var with, without float64
				if pair%2 == 0 {
					without, with = rate(), watched()
				} else {
					with, without = watched(), rate()
				}
				alone, lost = append(alone, without), append(lost, 100*(1-with/without))
			}
			slices.Sort(lost)
			slices.Sort(alone)
			slices.Sort(took)
			b.ReportMetric(lost[len(lost)/2], "lost-%")
			b.ReportMetric(lost[len(lost)/4], "lost-quarter-%")
			b.ReportMetric(lost[3*len(lost)/4], "lost-3quarters-%")
			b.ReportMetric(alone[len(alone)/2], "jobs/s")
			b.ReportMetric(took[len(took)/2], "p50-ms")
			b.ReportMetric(took[len(took)*99/100], "p99-ms")
			b.ReportMetric(took[len(took)-1], "max-ms")
			b.ReportMetric(float64(len(took))/turn.Seconds()/float64(len(lost)), "pages/s")
		})
	}
}
