//go:build unix

package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

// Merged and batched payloads are in order over a takeover in the middle of a run: what was
// not settled comes again, with what has come since, from old to new.
func TestMergedRunsAreInOrderOverATakeover(t *testing.T) {
	third(t, 2)
	t.Parallel()
	s := pgtest.Shared(t)
	c := newCluster(t, s.URL(), 1, 600*time.Millisecond)
	proxy := NewProxy(t, s.Addr())
	var mu sync.Mutex
	merged := make(map[string][][]int) // what each run got
	seen := func(m executor.Merged[int]) {
		mu.Lock()
		defer mu.Unlock()
		var run []int
		for _, p := range m.Payloads {
			run = append(run, p.Value)
		}
		merged[m.Queue] = append(merged[m.Queue], run)
	}
	last := func(queue string) int {
		mu.Lock()
		defer mu.Unlock()
		runs := merged[queue]
		if len(runs) == 0 {
			return 0
		}
		return slices.Max(runs[len(runs)-1])
	}
	began := make(chan struct{}, 2)
	open := func(url string, block bool) (*Node, []*executor.Queue[int]) {
		n, err := openNode(t.Context(), url, c.config())
		require.NoError(t, err)
		t.Cleanup(n.kill)
		m, err := executor.HandleMerged(n.front, "merged", func(ctx context.Context, job executor.Merged[int]) error {
			seen(job)
			if block {
				began <- struct{}{}
				<-ctx.Done()
			}
			return nil
		}, executor.QueueConfig[int]{})
		require.NoError(t, err)
		b, err := executor.HandleBatch(n.front, "batch", func(ctx context.Context, jobs []executor.Merged[int]) error {
			for _, job := range jobs {
				seen(job)
			}
			if block {
				began <- struct{}{}
				<-ctx.Done()
			}
			return nil
		}, executor.QueueConfig[int]{BatchSize: 10})
		require.NoError(t, err)
		return n, []*executor.Queue[int]{m, b}
	}
	old, _ := open(proxy.URL(c.url), true)
	next, queues := open(c.url, false)
	put := func(from, to int) {
		for _, q := range queues {
			for k := from; k <= to; k++ {
				_, err := q.Enqueue(t.Context(), "a", k)
				require.NoError(t, err)
			}
		}
	}
	put(1, 3)
	require.NoError(t, old.front.Start(t.Context()))
	<-began
	<-began
	put(4, 6)
	proxy.Refuse()
	proxy.Cut()
	require.NoError(t, next.front.Start(t.Context()))
	put(7, 8)
	require.Eventually(t, func() bool { return last("merged") == 8 && last("batch") == 8 }, time.Minute, 10*time.Millisecond)
	mu.Lock()
	defer mu.Unlock()
	for queue, runs := range merged {
		require.Equal(t, 1, runs[1][0], "%s: %v: what was not settled comes again", queue, runs)
		var all []int
		for _, run := range runs[1:] {
			all = append(all, run...)
		}
		require.Equal(t, []int{1, 2, 3, 4, 5, 6, 7, 8}, all, queue)
	}
}

// Items of several partitions are accepted together, and a follow-up of the same partition with
// its job.
func TestManyPartitionsAndFollowUps(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 5, time.Second)
	tenant := func(id string) string { before, _, _ := strings.Cut(id, "/"); return before }
	n, err := openNode(t.Context(), c.url, func() Config { cfg := c.config(); cfg.Partition = tenant; return cfg }())
	require.NoError(t, err)
	t.Cleanup(n.kill)
	ran := make(chan string, 100)
	var second *executor.Queue[string]
	first, err := executor.Handle(n.front, "first", func(_ context.Context, job executor.Job[string]) error {
		return second.FollowUp(job, tenant(job.ID)+"/second", job.Payload+" followed")
	}, executor.QueueConfig[string]{})
	require.NoError(t, err)
	second, err = executor.Handle(n.front, "second", func(_ context.Context, job executor.Job[string]) error { ran <- job.Payload; return nil }, executor.QueueConfig[string]{})
	require.NoError(t, err)
	var items []executor.Item[string]
	var want []string
	for i := range 20 {
		items = append(items, executor.Item[string]{ID: fmt.Sprintf("%d/x", i), Payload: fmt.Sprint(i)})
		want = append(want, fmt.Sprint(i, " followed"))
	}
	bad := append(slices.Clone(items), executor.Item[string]{})
	_, err = first.EnqueueMany(t.Context(), bad)
	require.ErrorIs(t, err, executor.ErrInvalidID)
	require.ErrorContains(t, err, "item 20")
	receipts, err := first.EnqueueMany(t.Context(), items)
	require.NoError(t, err)
	require.Len(t, receipts, 20)
	require.NoError(t, n.front.Start(t.Context()))
	var got []string
	for range want {
		got = append(got, <-ran)
	}
	require.ElementsMatch(t, want, got)
}

func FuzzCalls(f *testing.F) {
	f.Add(row(encodeCall([]item{{ID: "a", Payload: []byte("x"), Score: new(1.5), Due: time.Unix(5, 6), Metadata: map[string]string{"k": "v"}}, {ID: "b"}}), encodeCall(nil)))
	f.Add(rowOf([]byte{txVersion}, []byte(`[{"Kind":7}]`), encodeCall([]item{{ID: "a"}})))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		calls, _, err := callsOf(b)
		if err != nil {
			// What is inside is read, too, as if the sum were right.
			if _, _, err := itemsOf(b); err != nil {
				return
			}
			calls = [][]byte{b}
		}
		for _, c := range calls {
			items, _, err := itemsOf(c)
			if err != nil {
				continue
			}
			again, _, err := itemsOf(encodeCall(items))
			require.NoError(t, err)
			require.Len(t, again, len(items))
			for i := range items {
				require.Equal(t, items[i].ID, again[i].ID)
				require.Equal(t, items[i].Due.IsZero(), again[i].Due.IsZero())
				require.True(t, items[i].Due.Equal(again[i].Due))
			}
		}
	})
}
