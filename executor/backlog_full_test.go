package executor_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
)

// fullError expects an error that says what was full.
func fullError(t *testing.T, err error) executor.FullError {
	t.Helper()
	require.ErrorIs(t, err, executor.ErrFull)
	full, ok := errors.AsType[*executor.FullError](err)
	require.True(t, ok, "%v", err)
	require.NotContains(t, full.Unwrap(), error(nil), "who walks through what is wrapped meets no nil")
	return *full
}

// Each limit is told by its name, and holds for what it is about.
func TestBacklogLimits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x, small, other := kept(t, executor.Config{MaxBacklog: executor.BacklogLimit{Payloads: 5}}, executor.QueueConfig[int]{MaxBacklog: executor.BacklogLimit{Payloads: 2, Bytes: 400}})
		enqueue(t, small, "1", 1)
		_, err := small.EnqueueMany(t.Context(), []executor.Item[int]{{ID: "2"}, {ID: "3"}})
		require.EqualError(t, err, `executor: full: 1 payload is waiting, QueueConfig.MaxBacklog.Payloads of queue "small" is 2; try again in 1s`)
		full := fullError(t, err)
		require.Equal(t, []any{"small", 1, 2, false, false}, []any{full.Queue, full.Waiting, full.Limit, full.Bytes, full.Disk})
		enqueue(t, small, "2", 2)

		_, err = small.EnqueueMany(t.Context(), make([]executor.Item[int], 0))
		require.NoError(t, err)
		for i := range 3 {
			enqueue(t, other, fmt.Sprint(i), i)
		}
		_, err = other.Enqueue(t.Context(), "4", 4)
		full = fullError(t, err)
		require.Equal(t, []any{"", 5, 5}, []any{full.Queue, full.Waiting, full.Limit})
		s := must(x.Stats(t.Context()))
		require.EqualValues(t, 1, s.Backlog.Refused)
		require.EqualValues(t, 1, stats(t, small).Backlog.Refused)
		require.Zero(t, stats(t, other).Backlog)
		stop(t, x)
	})
}

func TestBacklogBytes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{MaxBacklog: executor.BacklogLimit{Bytes: 1000}})
		q := handle(t, x, "q", (&probe{}).handle, executor.QueueConfig[string]{MaxBacklog: executor.BacklogLimit{Bytes: 500}})
		_, err := q.Enqueue(t.Context(), "a", string(make([]byte, 600)))
		require.ErrorIs(t, err, executor.ErrTooLarge)
		require.ErrorContains(t, err, `QueueConfig.MaxBacklog.Bytes of queue "q" is 500`)
		var n int
		for {
			if _, err = q.Enqueue(t.Context(), fmt.Sprint(n), "a payload of thirty bytes or so"); err != nil {
				break
			}
			n++
			s := must(x.Stats(t.Context())).Backlog
			require.Equal(t, n, s.Payloads)
			require.LessOrEqual(t, s.Bytes, 500)
		}
		full := fullError(t, err)
		require.Equal(t, []any{"q", true, 500}, []any{full.Queue, full.Bytes, full.Limit})
		require.Greater(t, full.Waiting, 350)
		start(t, x)
		synctest.Wait()
		require.Zero(t, must(x.Stats(t.Context())).Backlog.Bytes)
		stop(t, x)
	})
}

func TestFullDiskIsToldByType(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		x := openOn(t, disk, executor.Config{MaxBacklog: executor.BacklogLimit{Payloads: 5}})
		q := handle(t, x, "q", (&probe{}).handle, executor.QueueConfig[string]{})
		disk.FailNext(journal.ErrFull)
		_, err := q.Enqueue(t.Context(), "a", "x")
		full := fullError(t, err)
		require.True(t, full.Disk)
		require.Equal(t, time.Second, full.RetryAfter)
		require.ErrorIs(t, err, journal.ErrFull)
		require.Zero(t, must(x.Stats(t.Context())).Backlog.Payloads)
		time.Sleep(time.Second)
		require.NoError(t, x.Err())
		stop(t, x)
	})
}

// The hint is what the formula says.
func TestRetryAfter(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{MaxBacklog: executor.BacklogLimit{Payloads: 80}, Workers: 1})
		q := handle(t, x, "q", func(context.Context, executor.Merged[int]) error { time.Sleep(500 * time.Millisecond); return nil }, executor.QueueConfig[int]{})
		hint := func(n int) time.Duration {
			items := make([]executor.Item[int], n)
			for i := range items {
				items[i].ID = fmt.Sprint(time.Now().UnixNano(), i)
			}
			_, err := q.EnqueueMany(t.Context(), items)
			return fullError(t, err).RetryAfter
		}
		for i := range 80 {
			enqueue(t, q, fmt.Sprint(i), i)
		}
		require.Equal(t, time.Second, hint(1), "nothing is known")
		time.Sleep(20 * time.Second)
		require.Equal(t, 20*time.Second, hint(1).Round(time.Second), "as long as nothing has ended")
		time.Sleep(time.Hour)
		require.Equal(t, time.Minute, hint(1))
		start(t, x)
		fill := func() {
			for n := stats(t, q).Payloads; n < 80; n++ {
				enqueue(t, q, fmt.Sprint("more ", n, time.Now().UnixNano()), n)
			}
		}
		for range 30 {
			time.Sleep(time.Second)
			synctest.Wait()
			fill()
		}
		require.InDelta(t, 5, hint(1).Seconds(), 0.6, "2 a second, and 10 of 80 have to be free")
		require.InDelta(t, 20, hint(40).Seconds(), 2)
		require.NoError(t, x.Err())
		require.NoError(t, x.Stop(t.Context()))
	})
}

// Nothing ends for a minute while calls are refused, or wait: Err, Stats and one
// line in the log say so, until something ends.
func TestBacklogStandsStill(t *testing.T) {
	for name, waits := range map[string]bool{"refuse": false, "wait": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var d diary
				x, q, _ := kept(t, executor.Config{MaxBacklog: executor.BacklogLimit{Payloads: 2}, WaitForRoom: waits, Logger: d.logger()}, executor.QueueConfig[int]{})
				call := func() {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					_, err := q.Enqueue(ctx, "one more", 1)
					require.ErrorIs(t, err, executor.ErrFull)
				}
				start(t, x)
				for _, due := range []time.Duration{10 * time.Minute, 20 * time.Minute} {
					enqueue(t, q, due.String(), 1, executor.In(due))
				}
				time.Sleep(5 * time.Minute)
				require.NoError(t, x.Err(), "it is full, but nothing stands still")
				for range 20 {
					call()
					time.Sleep(time.Second)
				}
				require.NoError(t, x.Err(), "not for long")
				require.Equal(t, []string{""}, d.take())
				for range 60 {
					call()
					time.Sleep(time.Second)
				}
				err := x.Err()
				require.ErrorIs(t, err, executor.ErrStalled)
				require.Equal(t, 2, fullError(t, err).Limit)
				require.Greater(t, must(x.Stats(t.Context())).Backlog.Stalled, time.Minute)
				lines := d.take()
				require.Len(t, lines, 1)
				require.Contains(t, lines[0], "2 payloads are waiting, Config.MaxBacklog.Payloads is 2")

				time.Sleep(5 * time.Minute) // the first is over
				require.NoError(t, x.Err())
				require.Zero(t, must(x.Stats(t.Context())).Backlog.Stalled)
				enqueue(t, q, "another", 1, executor.In(time.Hour))
				call()
				time.Sleep(2 * time.Minute)
				require.ErrorIs(t, x.Err(), executor.ErrStalled)
				require.Len(t, d.take(), 1)
				stop(t, x)
			})
		})
	}
}

// A handler whose follow-up finds no room on the disk is tried again until there is
// some, whatever retries it has; a batch of them is not halved for it.
func TestFullDiskSpendsNoRetry(t *testing.T) {
	for name, batch := range map[string]int{"events": 0, "batch": 8} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				disk := new(journal.Memory)
				x := openOn(t, disk, executor.Config{})
				next := handle(t, x, "next", (&probe{}).handle, executor.QueueConfig[string]{})
				cfg := executor.QueueConfig[string]{MaxRetries: 2, RetryIn: always(0), BatchSize: batch, Share: executor.Share{Shards: 1}}
				var calls atomic.Int64
				follow := func(ctx context.Context, id string, attempt int) error {
					assert.Equal(t, 1, attempt)
					_, err := next.Enqueue(ctx, id, "follow-up")
					return err
				}
				var q *executor.Queue[string]
				var err error
				if batch == 0 {
					q, err = executor.Handle(x, "q", func(ctx context.Context, job executor.Job[string]) error {
						calls.Add(1)
						return follow(ctx, job.ID, job.Attempt)
					}, cfg)
					require.NoError(t, err)
				} else {
					q, err = executor.HandleBatch(x, "q", func(ctx context.Context, jobs []executor.Merged[string]) error {
						calls.Add(1)
						for _, job := range jobs {
							if err := follow(ctx, job.ID, job.Attempt); err != nil {
								return fmt.Errorf("follow-up: %w", err)
							}
						}
						return nil
					}, cfg)
					require.NoError(t, err)
				}
				const jobs = 8
				for i := range jobs {
					enqueue(t, q, fmt.Sprint(i), "x")
				}
				disk.Limit(1)
				start(t, x)
				time.Sleep(time.Minute)
				require.Zero(t, stats(t, next).Done)
				most := int64(62) // one of all a second
				if batch == 0 {
					most *= jobs
				}
				require.LessOrEqual(t, calls.Load(), most)
				disk.Limit(0)
				time.Sleep(10 * time.Second)
				require.EqualValues(t, jobs, stats(t, q).Done)
				require.EqualValues(t, jobs, stats(t, next).Done)
				require.Zero(t, stats(t, q).Failed)
				stop(t, x)
			})
		})
	}
}
