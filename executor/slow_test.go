package executor_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
)

// A disk that hangs holds no call longer than its context, can be seen, and goes on
// where it was when it answers again.
func TestSlowDisk(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		x := openOn(t, disk, executor.Config{})
		var p probe
		q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{})
		start(t, x)
		enqueue(t, q, "before", "1")
		synctest.Wait()
		brake := hang(disk)
		began := time.Now()
		err := within(2*time.Second, func(ctx context.Context) error {
			_, err := q.Enqueue(ctx, "a", "1")
			return err
		})
		require.ErrorIs(t, err, executor.ErrUnknown)
		require.Equal(t, 2*time.Second, time.Since(began))
		require.NoError(t, x.Err())
		time.Sleep(4 * time.Second)
		require.ErrorIs(t, x.Err(), executor.ErrSlowDisk)
		s, err := x.Stats(t.Context())
		require.NoError(t, err)
		require.Equal(t, 6*time.Second, s.Journal.CommitAge)

		brake.release()
		time.Sleep(time.Minute)
		require.NoError(t, x.Err())
		s, err = x.Stats(t.Context())
		require.NoError(t, err)
		require.Zero(t, s.Journal.CommitAge)
		require.Len(t, p.seen(), 2, "what was unknown was accepted")
	})
}

// Stop does not wait for a disk that hangs; what was accepted is written when it
// answers.
func TestSlowDiskAtStop(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		x := openOn(t, disk, executor.Config{})
		q := handle(t, x, "q", (&probe{}).handle, executor.QueueConfig[string]{Defaults: executor.Defaults[string]{Durability: executor.DurabilityAsync}})
		brake := hang(disk)
		enqueue(t, q, "a", "1")
		began := time.Now()
		err := within(2*time.Second, x.Stop)
		require.ErrorIs(t, err, executor.ErrStuck)
		require.LessOrEqual(t, time.Since(began), 3100*time.Millisecond)
		brake.release()
		require.NoError(t, x.Stop(context.Background()))

		var p probe
		x = openOn(t, disk, executor.Config{})
		handle(t, x, "q", p.handle, executor.QueueConfig[string]{})
		start(t, x)
		synctest.Wait()
		require.Len(t, p.seen(), 1)
	})
}
