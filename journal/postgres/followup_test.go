//go:build unix

package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/strandjobs/strand/journal/internal/store"
	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

// chain opens a node whose queue "q" passes on what it has: from the id "a 1" to "b 1", and from there to "c 1".
func (c *nodes) chain(url string, elsewhere *atomic.Int64) *testNode {
	c.t.Helper()
	cfg := c.config()
	cfg.Executor.Middleware = []executor.Middleware{{Enqueue: func(ctx context.Context, call *executor.EnqueueCall, next func(context.Context) error) error {
		for _, it := range call.Items {
			if !strings.HasPrefix(it.ID, "a ") {
				return fmt.Errorf("a middleware was called for the follow-up %q", it.ID)
			}
		}
		return next(ctx)
	}}}
	n, err := openNode(c.t.Context(), url, cfg)
	require.NoError(c.t, err)
	c.t.Cleanup(func() { n.kill() })
	var q *executor.Queue[int]
	q, err = executor.Handle(n.front, "q", func(_ context.Context, job executor.Job[int]) error {
		c.note(job.ID, job.Payload, job.Position)
		step, rest, _ := strings.Cut(job.ID, " ")
		next := map[string]string{"a": "b ", "b": "c "}[step] + rest
		if next == rest {
			return nil
		}
		from, _ := n.PartitionOf(job.ID)
		if to, _ := n.PartitionOf(next); to != from {
			elsewhere.Add(1)
		}
		return q.FollowUp(job, next, job.Payload)
	}, executor.QueueConfig[int]{RetryIn: func(int) time.Duration { return time.Millisecond }})
	require.NoError(c.t, err)
	return &testNode{n, q}
}

// A chain over partitions has each step once, and in order, when owners die at random moments and partitions move.
func TestAChainOverPartitionsIsThereOnceWhoeverDies(t *testing.T) {
	third(t, 0)
	t.Parallel()
	const ids = 20
	each, wanted := times(300, 10_000)/ids, times(4, 100) // deaths
	s := pgtest.Shared(t)
	c := newCluster(t, s.URL(), 5, 300*time.Millisecond)
	var elsewhere, deaths atomic.Int64
	producer := c.chain(c.url, &elsewhere) // it owns nothing
	over := make(chan struct{})
	var dying sync.WaitGroup
	for range 2 {
		dying.Go(func() {
			for {
				proxy := NewProxy(t, s.Addr())
				n := c.chain(proxy.URL(c.url), &elsewhere)
				if n.front.Start(context.Background()) != nil {
					continue
				}
				life := time.Duration(100+rand.IntN(700)) * time.Millisecond
				life *= time.Duration(1 + int(deaths.Load())/(2*wanted)) // or a busy machine gets nothing done
				select {
				case <-over:
					_ = n.front.Stop(context.Background())
					return
				case <-time.After(life):
				}
				deaths.Add(1)
				switch rand.IntN(4) {
				case 0: // its partitions move
					_ = n.front.Stop(context.Background())
					continue
				case 1: // in the middle of something
					proxy.CutAfter(int64(rand.IntN(5000)))
					time.Sleep(time.Duration(rand.IntN(50)) * time.Millisecond)
				case 2: // after it
					proxy.CutAnswer()
					time.Sleep(time.Duration(rand.IntN(50)) * time.Millisecond)
				}
				proxy.Refuse()
				proxy.Cut()
				dying.Go(n.kill)
			}
		})
	}
	want := make(map[string]int)
	var calling sync.WaitGroup
	for i := range ids {
		for _, step := range []string{"a", "b", "c"} {
			want[fmt.Sprint(step, " ", i)] = each
		}
		calling.Go(func() {
			for k := 1; k <= each; k++ {
				for int(deaths.Load())*each < (k-1)*wanted { // so that there is something under way
					time.Sleep(time.Millisecond)
				}
				_, _ = producer.q.Enqueue(context.Background(), fmt.Sprint("a ", i), k)
			}
		})
	}
	calling.Wait()
	c.await(want)
	close(over)
	dying.Wait()
	last := c.chain(c.url, &elsewhere)
	require.NoError(t, last.front.Start(context.Background()))
	require.Eventually(t, func() bool { return c.rows(last) == 0 }, time.Minute, 10*time.Millisecond)
	c.mu.Lock()
	defer c.mu.Unlock()
	require.Empty(t, c.wrong[:min(len(c.wrong), 5)])
	require.Len(t, c.positions, 3*ids*each)
	require.Greater(t, elsewhere.Load(), int64(ids*each/2))
	t.Logf("%d jobs, %d deaths, %d repeats", 3*ids*each, deaths.Load(), c.repeats)
}

// What a job has staged is ahead of what its caller enqueues for the same id once it has its result, whoever owns what.
func TestFollowUpsAndTheirCallersKeepTheirOrder(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 3, 30*time.Second)
	var all []*testNode
	var first []*executor.Caller[int, int]
	for range 2 {
		n := c.node(c.url)
		q, err := executor.HandleResult(n.front, "first", func(_ context.Context, job executor.Job[int]) (int, error) {
			return job.Payload, n.q.FollowUp(job, n.elsewhere(job.ID, job.ID), job.Payload)
		}, executor.QueueConfig[int]{})
		require.NoError(t, err)
		require.NoError(t, n.front.Start(context.Background()))
		all, first = append(all, n), append(first, q)
	}
	c.serving(all...)
	over := make(chan struct{})
	var calling, moving sync.WaitGroup
	moving.Go(func() {
		for {
			select {
			case <-over:
				return
			case <-time.After(200 * time.Millisecond):
			}
			n := all[rand.IntN(len(all))]
			n.mu.Lock()
			for _, p := range n.held {
				p.giveAway()
				break
			}
			n.mu.Unlock()
		}
	})
	want := make(map[string]int)
	for i := range 8 {
		id := fmt.Sprint("id ", i)
		calls := times(25, 600)
		next := all[0].elsewhere(id, id)
		want[next] = 2 * calls
		calling.Go(func() {
			for k := range calls {
				for again := 0; ; again++ { // whoever goes away before he answers has one
					_, err := first[rand.IntN(2)].Do(context.Background(), id, 2*k+1, executor.IdempotencyKey(fmt.Sprint(id, k)))
					if err == nil || errors.Is(err, executor.ErrNoResult) {
						break
					}
				}
				_, _ = all[rand.IntN(2)].q.Enqueue(context.Background(), next, 2*k+2)
			}
		})
	}
	calling.Wait()
	close(over)
	moving.Wait()
	c.await(want)
	c.mu.Lock()
	defer c.mu.Unlock()
	require.Empty(t, c.wrong[:min(len(c.wrong), 5)])
}

// A follow-up of another partition has all that it was staged with, and refuses what any other would.
func TestAFollowUpOfAnotherPartitionIsLikeAnyOther(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 16, 30*time.Second)
	n := c.node(c.url)
	ran, said := make(chan executor.Job[int], 10), make(chan error, 10)
	next, err := executor.Handle(n.front, "next", func(_ context.Context, job executor.Job[int]) error { ran <- job; return nil },
		executor.QueueConfig[int]{MaxBacklog: executor.BacklogLimit{Payloads: 1}})
	require.NoError(t, err)
	first, err := executor.Handle(n.front, "first", func(_ context.Context, job executor.Job[int]) error {
		if job.Attempt == 1 {
			said <- next.FollowUp(job, "a", -1) // is dropped
			return errors.New("once more")
		}
		said <- next.FollowUp(job, "", 1)
		said <- next.FollowUp(job, "a", 1, executor.IfAbsent())
		return errors.Join(
			next.FollowUp(job, "a", 1, executor.Score(3), executor.Metadata(map[string]string{"k": "v"})),
			next.FollowUp(job, "a", 2, executor.Score(2)),
			next.FollowUp(job, "late", 3, executor.In(500*time.Millisecond)))
	}, executor.QueueConfig[int]{RetryIn: func(int) time.Duration { return 0 }})
	require.NoError(t, err)
	require.NoError(t, n.front.Start(context.Background()))
	c.serving(n)
	began := time.Now()
	_, err = first.Enqueue(t.Context(), n.elsewhere("id", "a", "late"), 1, executor.Metadata(map[string]string{"trace": "t"}))
	require.NoError(t, err)
	require.NoError(t, <-said)
	require.ErrorIs(t, <-said, executor.ErrInvalidID)
	require.ErrorIs(t, <-said, executor.ErrState)
	got := make(map[string][]string)
	for range 3 {
		job := <-ran
		got[job.ID] = append(got[job.ID], fmt.Sprint(job.Payload, job.Metadata, job.Score < 10))
		require.False(t, job.EnqueuedAt.IsZero())
		if job.ID == "late" {
			require.GreaterOrEqual(t, time.Since(began), 500*time.Millisecond)
		}
	}
	require.Equal(t, map[string][]string{"a": {"1 map[k:v trace:t] true", "2 map[trace:t] true"}, "late": {"3 map[trace:t] false"}}, got,
		"where the backlog has room for one, they come one by one")
	require.Empty(t, ran)
	_, err = n.outbox.followUp("\xff", item{ID: "a"}) // of Setup: the server would refuse the commit
	require.ErrorIs(t, err, executor.ErrState)
}

// elsewhere returns an id that begins so, and is of another partition than others.
func (n *Node) elsewhere(begins string, others ...string) (id string) {
	for i := 0; ; i++ {
		id = fmt.Sprint(begins, " ", i)
		own, _ := n.PartitionOf(id)
		if !slices.ContainsFunc(others, func(other string) bool { of, _ := n.PartitionOf(other); return of == own }) {
			return id
		}
	}
}

// Rows for follow-ups are there if and only if the commit is that they are in: all of them, however many there are,
// in their order, and once, also when the answer is lost.
func TestFollowUpsAreInTheCommitOfTheirJobs(t *testing.T) {
	t.Parallel()
	server := pgtest.Shared(t)
	r := newRig(t, server.URL(), 2)
	proxy := NewProxy(t, server.Addr())
	s := r.own(t, r.newPool(t, proxy.URL(server.URL())), 0)
	s.part = 10
	hinted := 0
	s.hint = func(partitions []int) { hinted += len(partitions) }
	n := &Node{divide: Config{}.divide(2)}
	n.outbox.n = n
	staged := func(count, size int) (all []format.Edit) {
		for i := range count {
			set, err := n.outbox.followUp("q", item{ID: fmt.Sprintf("%06d", i), Payload: bytes.Repeat([]byte("x"), size)})
			require.NoError(t, err)
			e := set.Edit()
			all = append(all, e)
		}
		return all
	}
	rows := func() (ids []string, rows int) {
		rows, last := 0, map[int]string{}
		list, err := r.pool.Query(t.Context(), in(r.schema, "SELECT partition, queue, calls FROM {schema}.inbox ORDER BY number"))
		require.NoError(t, err)
		defer list.Close()
		for list.Next() {
			var at int
			var queue string
			var b []byte
			require.NoError(t, list.Scan(&at, &queue, &b))
			g, err := inRow{queue: queue, calls: b}.read()
			require.NoError(t, err)
			require.True(t, g.staged)
			for _, it := range g.items {
				number, _ := n.PartitionOf(it.ID)
				require.Equal(t, number, at)
				require.Less(t, last[at], it.ID)
				last[at] = it.ID
				ids = append(ids, it.ID)
			}
			rows++
		}
		require.NoError(t, list.Err())
		return ids, rows
	}
	seq := uint64(0)
	commit := func(block string, changes []format.Edit) error {
		seq++
		return s.Commit(&store.Transaction{Seq: seq, Block: []byte(block), Changes: changes})
	}
	for _, way := range []string{"heard", "unheard"} {
		for _, of := range []struct{ count, bytes, rows int }{{3, 1, 2}, {rowCalls + 5, 1, 4}, {5, flushBytes/2 + 1, 5}} {
			for _, block := range []string{"block", "a block of several parts"} {
				r.exec(t, "DELETE FROM {schema}.inbox")
				require.NoError(t, commit("x", nil))
				if way == "unheard" {
					proxy.CutAnswer()
				}
				hinted = 0
				require.NoError(t, commit(block, staged(of.count, of.bytes)), way)
				ids, count := rows()
				require.Len(t, ids, of.count, way)
				require.LessOrEqual(t, count, of.rows)
				require.Equal(t, count, hinted)
			}
		}
	}
	r.exec(t, "DELETE FROM {schema}.inbox")
	var kept int
	require.NoError(t, r.pool.QueryRow(t.Context(), in(r.schema, "SELECT count(*) FROM {schema}.side")).Scan(&kept))
	require.Zero(t, kept, "no key is written")
	_, err := take(t.Context(), r.pool, r.schema, 0)
	require.NoError(t, err)
	require.ErrorIs(t, commit("late", staged(rowCalls+5, 1)), errFenced)
	ids, _ := rows()
	require.Empty(t, ids)
}
