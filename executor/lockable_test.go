package executor

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// record is what handlers did, in order.
type record struct {
	mu    sync.Mutex
	lines []string
}

func (r *record) add(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, line)
}

func (r *record) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.lines...)
}

func TestLockable_S07_ShippedBeforeCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, err := Open("", Config{})
		require.NoError(t, err)
		var did record
		shipped, err := Handle(x, "shipped", func(context.Context, Job[string]) error {
			time.Sleep(time.Second) // virtual
			did.add("shipped")
			return nil
		}, QueueConfig[string]{Locks: Locks[string]{
			OnEnqueue: func(_, order string) []string { return []string{order} },
			Unlock:    func(_, order string) []string { return []string{order} },
		}})
		require.NoError(t, err)
		cancel, err := Handle(x, "cancel", func(context.Context, Job[string]) error {
			did.add("cancelled")
			return nil
		}, QueueConfig[string]{Locks: Locks[string]{
			BlockedBy: func(_, order string) []string { return []string{order} },
		}})
		require.NoError(t, err)
		_, err = shipped.Enqueue(t.Context(), "webhook 1", "order 7")
		require.NoError(t, err)
		_, err = cancel.Enqueue(t.Context(), "webhook 2", "order 7")
		require.NoError(t, err)
		require.NoError(t, x.Start(t.Context()))
		synctest.Wait()
		e, err := x.Explain(t.Context(), "cancel", "webhook 2")
		require.NoError(t, err)
		require.Equal(t, JobBlocked, e.State)
		require.Equal(t, `cancel/webhook 2 is blocked; "order 7" locked by shipped/webhook 1; waiting: cancel/webhook 2`, e.String())
		time.Sleep(2 * time.Second)
		require.Equal(t, []string{"shipped", "cancelled"}, did.all())
		require.Empty(t, x.Keys().List())
		require.NoError(t, x.Stop(t.Context()))
	})
}

func TestLocket_R05_BlockedJobsArePutBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, err := Open("", Config{Unique: UniqueWhileRunning})
		require.NoError(t, err)
		var running, most, total int
		var mu sync.Mutex
		q, err := Handle(x, "q", func(_ context.Context, job Job[string]) error {
			mu.Lock()
			running++
			most = max(most, running)
			mu.Unlock()
			time.Sleep(time.Minute)
			mu.Lock()
			running--
			total++
			mu.Unlock()
			if !job.Lease().Held() {
				t.Error("the lease is lost")
			}
			return nil
		}, QueueConfig[string]{})
		require.NoError(t, err)
		for _, id := range []string{"a", "b", "c", "d", "e", "f", "g"} {
			_, err = q.Enqueue(t.Context(), id, "same")
			require.NoError(t, err)
		}
		require.NoError(t, x.Start(t.Context()))
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(t, []int{1, 7}, []int{most, total})
		require.NoError(t, x.Stop(t.Context()))
	})
}
