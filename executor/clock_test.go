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

// common is a disk that several processes have, and the clock that they share: it is ahead of that
// of the process which has the disk now.
type common struct {
	*journal.Memory
	ahead time.Duration
}

func (common) Turn() (over func()) { return func() {} }

func (c common) Now() time.Time { return time.Now().Add(c.ahead) }

// When the time of a key-lock is over is by the clock that all owners of a journal have: a node
// whose own is hours ahead does not unlock it, and one whose own is behind does.
func TestLockTTLsAreByTheClockOfTheJournal(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		opened := func(ahead time.Duration) (*executor.Executor, *executor.Queue[string]) {
			x, err := executor.OpenLog("common", func(c journal.Config) (*journal.Log, error) {
				return journal.OpenStore(common{disk, ahead}, c)
			}, executor.Config{Logger: slog.New(slog.DiscardHandler)})
			require.NoError(t, err)
			stopAtEnd(t, x)
			return x, handle(t, x, "q", new(probe).handle, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{
				Locks: executor.Locks[string]{OnEnqueue: words, TTL: time.Hour},
			}})
		}
		x, q := opened(0)
		enqueue(t, q, "1", "key", executor.In(1000*time.Hour))
		until := lockedKeys(x)[0].Locks[0].Until
		time.Sleep(20 * time.Minute)
		stop(t, x)

		time.Sleep(2 * time.Hour) // that is how far the clock of the next node is ahead
		x, q = opened(-2 * time.Hour)
		require.Equal(t, []string{"key 1"}, locked(x))
		require.True(t, until.Equal(lockedKeys(x)[0].Locks[0].Until))
		requireLockedFor(t, x, 40*time.Minute)
		enqueue(t, q, "2", "key", executor.In(1000*time.Hour))
		stop(t, x)

		x, _ = opened(-time.Hour) // its own clock is an hour behind the last one's
		require.Empty(t, locked(x))
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
