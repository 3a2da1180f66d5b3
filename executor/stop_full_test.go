package executor_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
)

// TestStopWaitsForRoom: what is done on a full disk is written if room comes while a Stop
// may wait for it, and else its jobs run again; Stop returns when its time is over, and
// without a time after StopTimeout.
func TestStopWaitsForRoom(t *testing.T) {
	const jobs = 20
	for _, c := range []struct {
		name          string
		room, patient time.Duration // 0: none
		posts         bool
		took          time.Duration
	}{
		{"room comes", 2 * time.Second, 20 * time.Second, false, 2 * time.Second},
		{"room comes for what was posted", 2 * time.Second, 20 * time.Second, true, 2 * time.Second},
		{"room comes, no deadline", 2 * time.Second, 0, false, 2 * time.Second},
		{"room comes too late", 20 * time.Second, 5 * time.Second, false, 5 * time.Second},
		{"no room", 0, 5 * time.Second, false, 5 * time.Second},
		{"no room, no deadline", 0, 0, false, 30 * time.Second},
		{"there is room", 0, 20 * time.Second, false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				disk := new(journal.Memory)
				var log records
				x := openOn(t, disk, executor.Config{Logger: log.logger(slog.LevelInfo)})
				var p probe
				q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{Defaults: executor.Defaults[string]{Durability: executor.DurabilityAsync}})
				waits := 0
				for i := range jobs {
					enqueue(t, q, fmt.Sprint(i), "x")
				}
				if c.posts { // and nothing else waits
					start(t, x)
					synctest.Wait()
				}
				synctest.Wait()
				disk.Limit(1)
				if c.posts {
					enqueue(t, q, "posted", "x", executor.In(time.Hour))
					waits = 1
				} else {
					start(t, x)
				}
				time.Sleep(10 * time.Second)
				if c.took == 0 {
					disk.Limit(0)
					time.Sleep(time.Second)
				} else if c.room > 0 {
					time.AfterFunc(c.room, func() { disk.Limit(0) })
				}
				began := time.Now()
				ctx := context.Background()
				if c.patient > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.patient)
					defer cancel()
				}
				err := x.Stop(ctx)
				took := time.Since(began)
				require.GreaterOrEqual(t, took, c.took)
				require.Less(t, took, c.took+time.Second)
				lines := log.take()
				stopped := lines[len(lines)-1]
				for _, l := range lines { // that it has failed may be told after it
					if l.msg == "executor stopped" {
						stopped = l
					}
				}
				require.Equal(t, "executor stopped", stopped.msg)
				if c.took > 0 && c.room != c.took {
					require.ErrorIs(t, err, executor.ErrFailed)
					require.ErrorContains(t, err, "the last results, whose jobs run again")
					require.Contains(t, fmt.Sprint(stopped.attrs["error"]), "run again")
					waits = jobs
				} else {
					require.NoError(t, err)
					require.NotContains(t, stopped.attrs, "error")
				}
				disk.Limit(0)
				x = openOn(t, disk, executor.Config{})
				handle(t, x, "q", (&probe{}).handle, executor.QueueConfig[string]{})
				s, err := x.Stats(t.Context())
				require.NoError(t, err)
				require.Equal(t, waits, s.Total().Payloads)
				stop(t, x)
			})
		})
	}
}
