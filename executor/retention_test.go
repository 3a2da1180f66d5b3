package executor_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
)

func bury(context.Context, executor.Merged[string]) error { return executor.Cancel(errBoom) }

// The dead go when they are too old, at most a 64th later, and no look at the morgue is
// taken before.
func TestRetentionByAge(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var lines strings.Builder
		x := open(t, "", executor.Config{Logger: slog.New(slog.NewTextHandler(&lines, nil))})
		q := handle(t, x, "q", bury, executor.QueueConfig[string]{DeadLetters: executor.DeadLetters[string]{Retention: executor.Retention{Age: 64 * time.Hour}}})
		keeps := handle(t, x, "keeps", bury, executor.QueueConfig[string]{})
		start(t, x)
		dead := func() int {
			t.Helper()
			synctest.Wait()
			s, err := q.Stats(t.Context())
			require.NoError(t, err)
			return s.Dead
		}
		for hour := range 100 {
			enqueue(t, q, fmt.Sprint(hour), "")
			enqueue(t, keeps, fmt.Sprint(hour), "")
			time.Sleep(time.Hour)
			want := min(hour+1, 64)
			require.InDelta(t, want, dead(), 1.01)
			require.GreaterOrEqual(t, dead(), min(hour, 63))
		}
		time.Sleep(65 * time.Hour)
		require.Zero(t, dead())
		s, err := q.Stats(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 100, s.Expired)
		s, err = keeps.Stats(t.Context())
		require.NoError(t, err)
		require.Equal(t, 100, s.Dead)
		assert.Contains(t, lines.String(), "dead payloads were deleted")
		enqueue(t, q, "one more", "")
		require.Equal(t, 1, dead())
		time.Sleep(66 * time.Hour)
		require.Zero(t, dead())
	})
}

// A clock that is set forward, for good or for a moment, makes nothing older that was dead.
func TestRetentionWhenTheClockIsSet(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := openOn(t, new(journal.Memory), executor.Config{})
		clock := new(skewed)
		x.SetClocks(clock.now)
		clock.set(-40 * 24 * time.Hour) // until a server has told it the time
		q := handle(t, x, "q", bury, executor.QueueConfig[string]{DeadLetters: executor.DeadLetters[string]{Retention: executor.Retention{Age: 64 * time.Hour}}})
		start(t, x)
		began := time.Now()
		at := func(hour int) {
			time.Sleep(time.Until(began.Add(time.Duration(hour)*time.Hour + time.Minute)))
			synctest.Wait()
		}
		dies := func(id string) {
			enqueue(t, q, id, "")
			synctest.Wait()
		}
		dies("1")
		at(40)
		dies("2")
		clock.set(0)
		at(50)
		dies("3")
		require.Equal(t, []string{"1", "2", "3"}, deadOf(t, q))
		at(66)
		require.Equal(t, []string{"2", "3"}, deadOf(t, q))
		at(100)
		clock.set(10 * 365 * 24 * time.Hour)
		at(106)
		require.Equal(t, []string{"3"}, deadOf(t, q))
		clock.set(0)
		dies("4")
		at(116)
		require.Equal(t, []string{"4"}, deadOf(t, q))
		at(169)
		require.Equal(t, []string{"4"}, deadOf(t, q))
		at(172)
		require.Empty(t, deadOf(t, q))
	})
}

// Of too many, those go that were accepted first, also at a restart; and with a timer of
// an age after it.
func TestRetentionByCount(t *testing.T) {
	t.Parallel()
	slow(t)
	disk := new(journal.Memory)
	x := openOn(t, disk, executor.Config{})
	q := handle(t, x, "q", bury, executor.QueueConfig[string]{DeadLetters: executor.DeadLetters[string]{Retention: executor.Retention{Count: 3}}})
	start(t, x)
	for n := range 10 {
		enqueue(t, q, fmt.Sprint(n), "")
	}
	holds := func(want ...string) {
		t.Helper()
		require.EventuallyWithT(t, func(c *assert.CollectT) { assert.Equal(c, want, deadOf(t, q)) }, time.Minute, time.Millisecond)
	}
	holds("7", "8", "9")
	require.Eventually(t, func() bool { return stats(t, q).Expired == 7 }, time.Minute, time.Millisecond, "counted after they have gone")
	stop(t, x)
	x = openOn(t, disk, executor.Config{})
	q = handle(t, x, "q", bury, executor.QueueConfig[string]{DeadLetters: executor.DeadLetters[string]{Retention: executor.Retention{Age: time.Second, Count: 2}}})
	holds("8", "9")
	holds() // two seconds later at most
}

// Of those kept by their number none was accepted before one that is deleted, though it dies
// later: while the others are counted, the commit in which it died is under way.
func TestRetentionCountsWhatIsOnDisk(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		x := openOn(t, disk, executor.Config{})
		late, over := make(chan struct{}), make(chan struct{})
		q := handle(t, x, "q", func(ctx context.Context, job executor.Merged[string]) error {
			if job.ID == "late" {
				<-late
			}
			return bury(ctx, job)
		}, executor.QueueConfig[string]{DeadLetters: executor.DeadLetters[string]{Retention: executor.Retention{Count: 1}}})
		_, err := q.EnqueueMany(t.Context(), []executor.Item[string]{{ID: "late"}, {ID: "a", Payload: "1"}, {ID: "a", Payload: "2"}})
		require.NoError(t, err)
		disk.OnCommit(func() {
			if len(deadOf(t, q)) < 2 {
				return
			}
			disk.OnCommit(nil)
			synctest.Wait() // who deletes waits for this commit
			close(late)
			synctest.Wait()
			assert.Equal(t, 3, x.DeadOnDisk())
			disk.BeforeCommit(func() {
				disk.BeforeCommit(nil)
				synctest.Wait() // who deletes waits for the next one
				close(over)
			})
		})
		start(t, x)
		<-over
		synctest.Wait()
		require.Equal(t, []string{"a2"}, deadOf(t, q))
		require.Equal(t, 1, x.DeadOnDisk())
		stop(t, x)
	})
}

// What dies while others are being deleted is too old an age after its own death, though
// the look at the morgue has not seen it.
func TestRetentionTimesWhatDiesMeanwhile(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		x := openOn(t, disk, executor.Config{})
		late := make(chan struct{})
		q := handle(t, x, "q", func(ctx context.Context, job executor.Merged[string]) error {
			if job.ID == "late" {
				<-late
			}
			return bury(ctx, job)
		}, executor.QueueConfig[string]{DeadLetters: executor.DeadLetters[string]{Retention: executor.Retention{Age: time.Hour}}})
		start(t, x)
		enqueue(t, q, "late", "")
		enqueue(t, q, "early", "")
		synctest.Wait()
		require.Equal(t, []string{"early"}, deadOf(t, q))
		deleting, goOn := make(chan struct{}), make(chan struct{})
		disk.BeforeCommit(func() {
			disk.BeforeCommit(nil)
			close(deleting)
			<-goOn
		})
		<-deleting
		close(late) // it dies while the first one is on its way out
		synctest.Wait()
		close(goOn)
		synctest.Wait()
		require.Equal(t, []string{"late"}, deadOf(t, q))
		time.Sleep(time.Hour + time.Hour/64)
		synctest.Wait()
		require.Empty(t, deadOf(t, q))
		stop(t, x)
	})
}

func TestRetentionIsChecked(t *testing.T) {
	x := open(t, "", executor.Config{})
	_, err := executor.HandleMerged(x, "q", bury, executor.QueueConfig[string]{DeadLetters: executor.DeadLetters[string]{Retention: executor.Retention{Age: time.Millisecond}}})
	require.ErrorIs(t, err, executor.ErrConfig)
	require.ErrorContains(t, err, "1ms")
	handle(t, x, "q", bury, executor.QueueConfig[string]{DeadLetters: executor.DeadLetters[string]{Retention: executor.Retention{Age: -1, Count: -1}}})
}

// What a Count leaves becomes too old like all else, also where the count was over before a look was due.
func TestRetentionTimesWhatACountLeaves(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		q := handle(t, x, "q", bury, executor.QueueConfig[string]{DeadLetters: executor.DeadLetters[string]{Retention: executor.Retention{Age: time.Hour, Count: 1}}})
		_, err := q.EnqueueMany(t.Context(), []executor.Item[string]{{ID: "a", Payload: "1"}, {ID: "a", Payload: "2"}, {ID: "a", Payload: "3"}})
		require.NoError(t, err)
		start(t, x)
		synctest.Wait()
		require.Len(t, deadOf(t, q), 1)
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		require.Empty(t, deadOf(t, q))
		stop(t, x)
	})
}
