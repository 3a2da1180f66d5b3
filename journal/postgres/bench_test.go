//go:build unix

package postgres

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal/internal/store"
	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

// kept is how many blocks a log of the benchmarks has.
const kept = 64

// timed calls f until the benchmark is over and reports the median.
func timed(b *testing.B, bytes int, f func(i int) error) {
	took := make([]time.Duration, 0, 100_000)
	b.SetBytes(int64(bytes))
	for i := 0; b.Loop(); i++ {
		began := time.Now()
		require.NoError(b, f(i))
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
}

// BenchmarkCommit is a fenced block that goes to the end of a log of 64, beside a
// transaction of bbolt that writes, and drops, as much.
func BenchmarkCommit(b *testing.B) {
	for _, size := range []int{1 << 10, 128 << 10} {
		block := make([]byte, size)
		b.Run(fmt.Sprintf("bytes=%d/postgres", size), func(b *testing.B) { commits(b, pgtest.Start(b), block) })
		b.Run(fmt.Sprintf("bytes=%d/standby", size), func(b *testing.B) {
			server := pgtest.Start(b)
			server.Standby(b)
			commits(b, server, block)
		})
		b.Run(fmt.Sprintf("bytes=%d/bbolt", size), func(b *testing.B) {
			db, err := bbolt.Open(filepath.Join(b.TempDir(), "db"), 0o600, &bbolt.Options{NoFreelistSync: true})
			require.NoError(b, err)
			defer db.Close()
			key := func(i int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(i)) }
			timed(b, size, func(i int) error {
				return db.Update(func(tx *bbolt.Tx) error {
					log, err := tx.CreateBucketIfNotExists([]byte("log"))
					if err == nil && i >= kept {
						err = log.Delete(key(i - kept))
					}
					if err == nil {
						err = log.Put(key(i), block)
					}
					return err
				})
			})
		})
	}
}

func commits(b *testing.B, server *pgtest.Server, block []byte) {
	r := newRig(b, server.URL(), 1)
	s := r.own(b, r.pool, 0)
	timed(b, len(block), func(i int) error {
		t := &store.Transaction{Seq: uint64(i + 1), Block: block}
		if i >= kept {
			t.Drop = []store.Dropped{{Seq: uint64(i + 1 - kept)}}
		}
		return s.Commit(t)
	})
}

// BenchmarkExecutor is an executor over a partition, beside one over a directory: a job in a
// call, with one caller and with many, and a thousand in a call, run to their end. Payloads and
// workers are those of bench/peers, where River is.
func BenchmarkExecutor(b *testing.B) {
	kinds := map[string]func(b *testing.B, cfg executor.Config) (*executor.Executor, error){
		"bbolt": func(b *testing.B, cfg executor.Config) (*executor.Executor, error) {
			return executor.Open(filepath.Join(b.TempDir(), "jobs"), cfg)
		},
		"postgres": func(b *testing.B, cfg executor.Config) (*executor.Executor, error) {
			return newRig(b, pgtest.Start(b).URL(), 1).executor(b, cfg)
		},
		"standby": func(b *testing.B, cfg executor.Config) (*executor.Executor, error) {
			server := pgtest.Start(b)
			server.Standby(b)
			return newRig(b, server.URL(), 1).executor(b, cfg)
		},
	}
	payload := make([]byte, 100)
	for _, kind := range []string{"bbolt", "postgres", "standby"} {
		open := func(b *testing.B) (*executor.Queue[[]byte], *executor.Executor, chan struct{}) {
			x, err := kinds[kind](b, executor.Config{Workers: 5, MaxBacklog: executor.BacklogLimit{Payloads: 1 << 20}, Logger: slog.New(slog.DiscardHandler)})
			require.NoError(b, err)
			ran := make(chan struct{}, 1<<20)
			q, err := executor.Handle(x, "q", func(context.Context, executor.Job[[]byte]) error { ran <- struct{}{}; return nil }, executor.QueueConfig[[]byte]{})
			require.NoError(b, err)
			require.NoError(b, x.Start(b.Context()))
			return q, x, ran
		}
		for _, callers := range []int{1, 256} {
			b.Run(fmt.Sprintf("one/callers=%d/%s", callers, kind), func(b *testing.B) {
				q, x, ran := open(b)
				var next atomic.Int64
				var group sync.WaitGroup
				b.ResetTimer() // without the start of a server
				began := time.Now()
				for range callers {
					group.Go(func() {
						for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
							if _, err := q.Enqueue(b.Context(), fmt.Sprint(i%1000), payload); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				group.Wait()
				require.False(b, b.Failed())
				for range b.N {
					<-ran
				}
				b.ReportMetric(float64(b.N)/time.Since(began).Seconds(), "jobs/s")
				require.NoError(b, x.Stop(context.Background()))
			})
		}
		b.Run("bulk/"+kind, func(b *testing.B) {
			q, x, ran := open(b)
			const callers, call = 2, 1000
			rounds, began := 0, time.Now()
			for b.Loop() {
				rounds++
				ended := make(chan error)
				for c := range callers {
					go func() {
						items := make([]executor.Item[[]byte], call)
						for i := range items {
							items[i] = executor.Item[[]byte]{ID: fmt.Sprint(c, i), Payload: payload}
						}
						_, err := q.EnqueueMany(b.Context(), items)
						ended <- err
					}()
				}
				for range callers {
					require.NoError(b, <-ended)
				}
			}
			for range rounds * callers * call {
				<-ran
			}
			b.ReportMetric(float64(rounds*callers*call)/time.Since(began).Seconds(), "jobs/s")
			require.NoError(b, x.Stop(context.Background()))
		})
	}
}
