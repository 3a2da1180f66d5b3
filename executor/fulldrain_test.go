package executor_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/journal"
)

// fillUp enqueues until the disk is full, and returns how much that was.
func fillUp(t *testing.T, q *executor.Queue[string], size int) (n int) {
	for ; ; n++ {
		_, err := q.Enqueue(t.Context(), fmt.Sprint("id ", n%50), string(make([]byte, size)))
		if err == nil {
			continue
		}
		require.ErrorIs(t, err, executor.ErrFull)
		return n
	}
}

// On a full disk many payloads go to the morgue, which takes room before their
// blocks give it back: handlers don't get so far ahead of the disk that it has no
// room left for what came first.
func TestAFullDiskDrainsIntoTheMorgue(t *testing.T) {
	t.Parallel()
	for _, size := range []int{100, 400, 2000} {
		bubble(t, func(t *testing.T) {
			disk := new(journal.Memory)
			disk.Limit(1 << 20)
			x := openOn(t, disk, executor.Config{})
			q, err := executor.Handle(x, "q", func(_ context.Context, j executor.Job[string]) error {
				if j.Position%2 == 0 {
					return executor.Cancel(errors.New("no"))
				}
				return nil
			}, executor.QueueConfig[string]{})
			require.NoError(t, err)
			n := fillUp(t, q, size)
			start(t, x)
			time.Sleep(time.Minute)
			synctest.Wait()
			require.NoError(t, x.Err(), "there is room again")
			s, err := q.Stats(t.Context())
			require.NoError(t, err)
			require.Zero(t, s.Jobs)
			require.InDelta(t, n/2, s.Dead, 1)
			stop(t, x)
		})
	}
}

// A slot is written down before its job runs, and uses the room that is kept for
// results: a queue with slots gives room back as any other does.
func TestSlotsOnAFullDisk(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		disk.Limit(1 << 20)
		x := openOn(t, disk, executor.Config{})
		serials, err := executor.NewSlots(x, "serials", executor.SlotsConfig[int]{Next: func(v int) int { return v + 1 }})
		require.NoError(t, err)
		q, err := executor.Handle(x, "q", func(context.Context, executor.Job[string]) error { return nil },
			executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Slots: []executor.SlotSource{serials}}})
		require.NoError(t, err)
		n := fillUp(t, q, 2000)
		start(t, x)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.NoError(t, x.Err())
		s, err := q.Stats(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, n, s.Done)
		stop(t, x)
	})
}

// A job that waits for its slot on a disk without room has not begun: a Stop without a deadline does
// not wait for it.
func TestStopBesideASlotOnAFullDisk(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		x := openOn(t, disk, executor.Config{StopTimeout: 2 * time.Second})
		serials, err := executor.NewSlots(x, "serials", executor.SlotsConfig[int]{Next: func(v int) int { return v + 1 }})
		require.NoError(t, err)
		q, err := executor.Handle(x, "q", func(context.Context, executor.Job[string]) error { t.Error("it has no slot"); return nil },
			executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Slots: []executor.SlotSource{serials}}})
		require.NoError(t, err)
		enqueue(t, q, "a", "x")
		disk.Limit(1)
		start(t, x)
		time.Sleep(time.Second)
		began := time.Now()
		require.ErrorIs(t, x.Stop(context.Background()), executor.ErrFailed)
		require.LessOrEqual(t, time.Since(began), 3*time.Second)
	})
}

// What a person cancels as a whole, and what a handler gives up of a job of many payloads, goes
// to the morgue of a full disk as far as that has room: what ends afterwards can be written down.
func TestBurialsAtOnceOnAFullDisk(t *testing.T) {
	t.Parallel()
	slow(t)
	const size = 12_000
	for name, ids := range map[string]int{"canceled": 60, "payload errors": 3} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				disk := new(journal.Memory)
				disk.Limit(2 << 20)
				x := openOn(t, disk, executor.Config{})
				var healed atomic.Bool
				q := handle(t, x, "q", func(_ context.Context, job executor.Merged[string]) error {
					if healed.Load() {
						return nil
					}
					errs := make(executor.PayloadErrors)
					for _, p := range job.Payloads {
						errs[p.Position] = executor.Cancel(errBoom)
					}
					return errs
				}, executor.QueueConfig[string]{})
				n := 0
				for ; ; n++ {
					if _, err := q.Enqueue(t.Context(), fmt.Sprint(n%ids), strings.Repeat("x", size)); err != nil {
						require.ErrorIs(t, err, executor.ErrFull)
						break
					}
				}
				if name == "canceled" {
					did, err := x.Inspect().Cancel(t.Context(), inspect.SelectQueue("q"), "")
					require.ErrorIs(t, err, executor.ErrFull)
					require.Equal(t, did, stats(t, q).Dead)
				}
				start(t, x)
				time.Sleep(time.Minute)
				synctest.Wait()
				now := stats(t, q)
				require.Equal(t, n, now.Dead+now.Payloads)
				healed.Store(true)
				time.Sleep(time.Minute)
				synctest.Wait()
				require.Zero(t, stats(t, q).Payloads)
				healed.Store(false)
				for range 50 { // what burials have taken comes back
					_, err := x.Inspect().DeleteDead(t.Context(), inspect.SelectQueue("q"))
					require.NoError(t, err)
					time.Sleep(time.Second)
					require.NoError(t, x.Err())
					for range 5 {
						enqueue(t, q, "a", strings.Repeat("x", size), executor.In(time.Hour))
					}
					_, err = map[string]func(context.Context, inspect.Selection) (int, error){
						"canceled":       func(ctx context.Context, s inspect.Selection) (int, error) { return x.Inspect().Cancel(ctx, s, "") },
						"payload errors": x.Inspect().RunNow,
					}[name](t.Context(), inspect.SelectQueue("q"))
					require.NoError(t, err)
					drained(t, q)
				}
				stop(t, x)
			})
		})
	}
}
