package executor_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
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
