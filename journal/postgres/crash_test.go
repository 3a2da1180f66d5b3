//go:build unix

package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

// life is an executor over a partition, and what its handler has been given.
type life struct {
	*executor.Executor
	q   *executor.Queue[int]
	mu  sync.Mutex
	ran map[string][]int
}

func (d *disk) live(t *testing.T) *life {
	t.Helper()
	x := &life{ran: make(map[string][]int)}
	var err error
	x.Executor, err = executor.OpenLog(fmt.Sprint("partition ", d.partition), d.Open,
		executor.Config{Workers: 2, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { _ = x.Stop(context.Background()) })
	x.q, err = executor.Handle(x.Executor, "q", func(_ context.Context, job executor.Job[int]) error {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.ran[job.ID] = append(x.ran[job.ID], job.Payload)
		if job.Attempt == 1 && job.Payload%5 == 0 {
			return errors.New("once more")
		}
		return nil
	}, executor.QueueConfig[int]{RetryIn: func(int) time.Duration { return time.Millisecond }})
	require.NoError(t, err)
	return x
}

// empty waits until all jobs have run.
func (x *life) empty(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		s, err := x.q.Stats(t.Context())
		return err == nil && s.Payloads == 0
	}, time.Minute, time.Millisecond)
}

// After a crash at any commit an executor goes on where it was: all that was acknowledged runs,
// in order, and again at most what had run and was not settled.
func TestCrashAtEveryCommit(t *testing.T) {
	t.Parallel()
	r := newRig(t, pgtest.Shared(t).URL(), 4096)
	d := r.disk(nil)
	type moment struct {
		disk  *disk
		acked map[string]int // the last one of each id
		began map[string]int
	}
	var moments []moment
	var mu sync.Mutex
	acked := make(map[string]int)
	x := d.live(t)
	began := func() map[string]int {
		x.mu.Lock()
		defer x.mu.Unlock()
		last := make(map[string]int)
		for id, list := range x.ran {
			last[id] = list[len(list)-1]
		}
		return last
	}
	d.OnCommit(func() {
		mu.Lock()
		defer mu.Unlock()
		known := maps.Clone(acked)
		if len(moments) < times(40, 1000) {
			moments = append(moments, moment{d.Crash(t).(*disk), known, began()})
		}
	})
	require.NoError(t, x.Start(t.Context()))
	const ids = 3
	for n := 1; n <= times(15, 300); n++ {
		var items []executor.Item[int]
		for i := range ids {
			items = append(items, executor.Item[int]{ID: fmt.Sprint("id", i), Payload: n})
		}
		_, err := x.q.EnqueueMany(t.Context(), items)
		require.NoError(t, err)
		mu.Lock()
		for i := range ids {
			acked[fmt.Sprint("id", i)] = n
		}
		mu.Unlock()
	}
	x.empty(t)
	d.OnCommit(nil)
	require.NoError(t, x.Stop(t.Context()))
	require.Greater(t, len(moments), 10)
	for at, m := range moments {
		y := m.disk.live(t)
		require.NoError(t, y.Start(t.Context()))
		y.empty(t)
		require.NoError(t, y.Stop(t.Context()))
		for i := range ids {
			id := fmt.Sprint("id", i)
			last := m.began[id] // the next one, or the same again
			for k, n := range y.ran[id] {
				if k == 0 && n <= last {
					last = n
					continue
				}
				again := k > 0 && y.ran[id][k-1] == n && n%5 == 0
				require.True(t, n == last+1 || again, "%s: %v after %d", id, y.ran[id], m.began[id])
				last = n
			}
			require.GreaterOrEqual(t, last, m.acked[id], "moment %d: %s was acknowledged", at, id)
		}
	}
}

// The tokens that handlers fence with grow from owner to owner: the epoch of the log does.
func TestEpochGrowsWithEachOwner(t *testing.T) {
	r := newRig(t, pgtest.Shared(t).URL(), 1)
	for epoch := range uint64(4) {
		l, err := journal.OpenStore(r.own(t, r.pool, 0), journal.Config{})
		require.NoError(t, err)
		require.Equal(t, epoch+1, l.Stats().Epoch)
		if epoch%2 == 0 {
			require.NoError(t, l.Close())
		}
	}
}

// A copy is a journal on a disk, with all that is beside the log, and the same UUID.
func TestCopyIsAJournal(t *testing.T) {
	t.Parallel()
	r := newRig(t, pgtest.Shared(t).URL(), 1)
	l, err := journal.OpenStore(r.own(t, r.pool, 0), journal.Config{})
	require.NoError(t, err)
	q, err := l.Queue(t.Context(), "q")
	require.NoError(t, err)
	keys := 1010 // more than one step of store.Copy
	for i := range keys {
		l.Record(&journal.Change{Sets: []journal.Set{{Key: fmt.Sprintf("k/%05d", i), Value: fmt.Append(nil, i)}}})
	}
	ticket, err := l.Append(t.Context(), []journal.Entry{{Queue: q, ID: []byte("a"), Payload: []byte("p")}}, nil)
	require.NoError(t, err)
	require.NoError(t, ticket.Wait(t.Context()))
	dir := filepath.Join(t.TempDir(), "copy")
	require.NoError(t, l.Copy(t.Context(), dir))
	copied, err := journal.Open(dir, journal.Config{})
	require.NoError(t, err)
	require.NotEmpty(t, l.Stats().UUID)
	require.Equal(t, l.Stats().UUID, copied.Stats().UUID)
	require.Len(t, slices.Concat(copied.PendingPages(q)...), 1)
	n := 0
	for kv, err := range copied.Keys("k/", "") {
		require.NoError(t, err)
		require.Equal(t, []string{fmt.Sprintf("k/%05d", n), fmt.Sprint(n)}, []string{kv.Key, string(kv.Value)})
		n++
	}
	require.Equal(t, keys, n)
	require.NoError(t, copied.Close())
	require.NoError(t, l.Close())
}
