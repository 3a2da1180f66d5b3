package executor_test

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/journal"
)

// How old an idempotency key is, is by the clock that all owners of a journal have.
func TestKeysAgeByTheClockOfTheJournal(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := openOn(t, new(journal.Memory), executor.Config{})
		q := handle(t, x, "q", new(probe).handle, executor.QueueConfig[string]{})
		again := func(ahead time.Duration) bool {
			x.SetKeyClock(func() time.Time { return time.Now().Add(ahead) })
			r, err := q.Enqueue(t.Context(), "a", "x", executor.IdempotencyKey("k"))
			require.NoError(t, err)
			return r.Duplicate
		}
		require.False(t, again(-48*time.Hour))
		require.True(t, again(-47*time.Hour))
		require.False(t, again(0), "a day is over")
		stop(t, x)
	})
}

// The clock was wrong when the jobs were enqueued, or is wrong now. What should
// have been done long ago is done at once; what is due in an absurd future is
// reported, and a person can run it.
func TestClockJumpedBetweenRuns(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		x := openOn(t, disk, executor.Config{})
		p := &probe{}
		q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{})
		const century = 100 * 365 * 24 * time.Hour
		enqueue(t, q, "past", "x", executor.At(time.Now().Add(-20*365*24*time.Hour)))
		enqueue(t, q, "future", "x", executor.At(time.Now().Add(century)))
		enqueue(t, q, "next month", "x", executor.In(30*24*time.Hour))
		stop(t, x)

		var log logs
		x = openOn(t, disk, executor.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		q = handle(t, x, "q", p.handle, executor.QueueConfig[string]{})
		require.Contains(t, log.String(), "payloads=1")
		start(t, x)
		synctest.Wait()
		require.Equal(t, []string{"past[x]"}, p.log())
		n, err := x.Inspect().RunNow(t.Context(), inspect.SelectIDs(q.Name(), "future"))
		require.NoError(t, err)
		require.Equal(t, 1, n)
		time.Sleep(31 * 24 * time.Hour)
		require.Equal(t, []string{"past[x]", "future[x]", "next month[x]"}, p.log())
		stop(t, x)
	})
}
