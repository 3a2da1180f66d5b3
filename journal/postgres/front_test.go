//go:build unix

package postgres

import (
	"context"
	"errors"
	"fmt"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/cron"
	"github.com/strandjobs/strand/executor/events"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/metrics"
	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

// sum is a queue whose handler returns twice its payload.
func sum(t *testing.T, n *testNode, handler func(context.Context, executor.Job[int]) (int, error)) *executor.Caller[int, int] {
	t.Helper()
	q, err := executor.HandleResult(n.front, "sum", handler, executor.QueueConfig[int]{MaxRetries: -1})
	require.NoError(t, err)
	return q
}

// Do returns what the handler has returned, on whichever node it ran, in the order of the id.
func TestDoOnAnyNode(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 4, 30*time.Second)
	var mu sync.Mutex
	ran := make(map[string][]int)
	handler := func(_ context.Context, job executor.Job[int]) (int, error) {
		if job.Payload < -1 {
			return 0, fmt.Errorf("what it needs is %w", executor.ErrClosed)
		}
		if job.Payload < 0 {
			return 0, errors.New("below zero")
		}
		mu.Lock()
		defer mu.Unlock()
		ran[job.ID] = append(ran[job.ID], job.Payload)
		return 2 * job.Payload, nil
	}
	owner, other := c.node(c.url), c.node(c.url)
	callers := []*executor.Caller[int, int]{sum(t, owner, handler), sum(t, other, handler)}
	require.NoError(t, owner.front.Start(t.Context()))
	c.serving(owner)
	ctx := within(t, time.Minute)
	for i := range 40 {
		result, err := callers[i%2].Do(ctx, fmt.Sprint(i%5), i)
		require.NoError(t, err)
		require.Equal(t, 2*i, result)
	}
	for id, payloads := range ran {
		require.True(t, slices.IsSorted(payloads), "%s: %v", id, payloads)
	}
	for _, q := range callers {
		_, err := q.Do(ctx, "a", -1)
		buried, ok := errors.AsType[*executor.BuriedError](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, "below zero", buried.Reason)
		_, err = q.Do(ctx, "closed", -2)
		require.ErrorAs(t, err, new(*executor.BuriedError), "and the partition is here")
		_, err = q.Do(ctx, "\xff", -1)
		buried, ok = errors.AsType[*executor.BuriedError](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, "\xff", buried.ID)
		_, err = q.Do(ctx, "", 1)
		require.ErrorIs(t, err, executor.ErrInvalidID)
		_, err = q.Do(ctx, "b", 1, executor.IdempotencyKey("once"))
		if q == callers[0] {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, executor.ErrNoResult, "it has ended before")
		}
	}
	figures, err := callers[1].Stats(ctx)
	require.NoError(t, err)
	require.Equal(t, 6, figures.Dead, "each once")
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = callers[1].Do(short, "c", 1, executor.In(time.Hour))
	require.ErrorIs(t, err, executor.ErrUnknown)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = callers[0].Do(short, "c", 1, executor.In(time.Hour))
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// A call with a key is asked again at the next owner, and its payload is accepted once.
func TestDoOverAMove(t *testing.T) { // not beside others: it looks for goroutines
	c := newCluster(t, pgtest.Shared(t).URL(), 1, 30*time.Second)
	began, let := make(chan struct{}, 10), make(chan struct{})
	var runs atomic.Int32
	handler := func(ctx context.Context, job executor.Job[int]) (int, error) {
		runs.Add(1)
		began <- struct{}{}
		select {
		case <-let:
			return 2 * job.Payload, nil
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
	first, second, other := c.node(c.url), c.node(c.url), c.node(c.url)
	sum(t, first, handler)
	sum(t, second, handler)
	q := sum(t, other, handler)
	require.NoError(t, first.front.Start(t.Context()))
	c.serving(first)
	type end struct {
		result int
		err    error
	}
	done := make(chan end, 1)
	go func() {
		result, err := q.Do(t.Context(), "a", 21, executor.IdempotencyKey("k"))
		done <- end{result, err}
	}()
	<-began
	require.NoError(t, second.front.Start(t.Context()))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_ = first.front.Stop(ended) // its handlers are cancelled
	<-began
	require.Eventually(t, func() bool { // the second owner has somebody who waits
		var all strings.Builder
		require.NoError(t, pprof.Lookup("goroutine").WriteTo(&all, 2))
		return strings.Contains(all.String(), "await.(*Call).wait")
	}, time.Minute, time.Millisecond)
	close(let)
	require.Equal(t, end{42, nil}, <-done)
	require.EqualValues(t, 2, runs.Load())
}

// What is shown of all partitions is what there is, on any node, page by page.
func TestListsOnAnyNode(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 4, 30*time.Second)
	handler := func(_ context.Context, job executor.Job[int]) error {
		if job.Payload%2 == 1 {
			return executor.Cancel(errors.New("odd"))
		}
		return executor.Snooze(time.Hour)
	}
	owner, other := c.with(handler, executor.QueueConfig[int]{}), c.with(handler, executor.QueueConfig[int]{})
	require.NoError(t, owner.front.Start(t.Context()))
	c.serving(owner)
	ctx := within(t, time.Minute)
	const ids = 60
	for i := range ids {
		_, err := other.q.Enqueue(ctx, fmt.Sprintf("%02d", i), i)
		require.NoError(t, err)
	}
	for _, n := range []*testNode{owner, other} {
		in := n.front.Inspect()
		require.Eventually(t, func() bool {
			s, err := n.front.Stats(ctx)
			require.NoError(t, err)
			p, err := in.Dead(ctx, inspect.JobQuery{Queue: "q", Limit: ids}) // those on disk
			require.NoError(t, err)
			return len(p.Dead) == ids/2 && s.Total().Dead == ids/2 && s.Total().Snoozed == ids/2
		}, time.Minute, 10*time.Millisecond)
		for _, order := range []inspect.Order{inspect.OrderNone, inspect.OrderID, inspect.OrderDue, inspect.OrderAttempt, inspect.OrderPayloads} {
			for _, descending := range []bool{false, true} {
				if order == inspect.OrderNone && descending {
					continue
				}
				var all []string
				var last inspect.JobInfo
				query := inspect.JobQuery{Queue: "q", Order: order, Descending: descending, Limit: 7}
				for more := true; more; more = query.Cursor != "" {
					p, err := in.Jobs(ctx, query)
					require.NoError(t, err)
					require.LessOrEqual(t, len(p.Jobs), 7)
					for _, j := range p.Jobs {
						if order == inspect.OrderDue && len(all) > 0 {
							require.True(t, j.Due.Equal(last.Due) || descending == j.Due.Before(last.Due))
						}
						all, last = append(all, j.ID), j
					}
					query.Cursor = p.Next
				}
				require.Len(t, all, ids/2, "%s", order)
				if order == inspect.OrderID && descending {
					slices.Reverse(all)
				}
				if order != inspect.OrderID {
					slices.Sort(all)
				}
				require.True(t, slices.IsSorted(all))
				require.Len(t, slices.Compact(all), ids/2)
			}
		}
		for _, order := range []inspect.Order{inspect.OrderNone, inspect.OrderID, inspect.OrderDied} {
			seen := make(map[string]bool)
			query := inspect.JobQuery{Queue: "q", Order: order, Limit: 7}
			for more := true; more; more = query.Cursor != "" {
				p, err := in.Dead(ctx, query)
				require.NoError(t, err)
				for _, d := range p.Dead {
					require.Contains(t, d.Error, "odd")
					seen[d.ID] = true
				}
				query.Cursor = p.Next
			}
			require.Len(t, seen, ids/2, "%s", order)
		}
		letters := 0
		for d, err := range n.q.Morgue() {
			require.NoError(t, err)
			require.NoError(t, d.Decode)
			require.Equal(t, fmt.Sprintf("%02d", d.Payload), d.ID)
			letters++
		}
		require.Equal(t, ids/2, letters)
		d, err := in.Job(ctx, "q", "04")
		require.NoError(t, err)
		require.Equal(t, 4, d.Waiting[0].Value)
		require.Equal(t, inspect.JobScheduled, d.Explanation.State)
		details, err := in.JobsByID(ctx, "q", "05", "nobody", "04", "05")
		require.NoError(t, err)
		require.Len(t, details, 2)
		require.Equal(t, "05", details[0].ID)
		require.Equal(t, 5, details[0].Dead[0].Value)
		_, err = in.Job(ctx, "q", "nobody")
		require.ErrorIs(t, err, inspect.ErrUnknownJob)
		_, err = in.Jobs(ctx, inspect.JobQuery{Queue: "q", Cursor: "x"})
		require.ErrorIs(t, err, inspect.ErrInvalidCursor)
		_, err = in.Jobs(ctx, inspect.JobQuery{Queue: "unheard of"})
		require.ErrorIs(t, err, executor.ErrUnknownQueue)
		pending, err := n.q.Pending(ctx, "04")
		require.NoError(t, err)
		require.True(t, pending)
		pending, err = n.q.Pending(ctx, "05")
		require.NoError(t, err)
		require.False(t, pending)
		figures, err := n.q.Stats(ctx)
		require.NoError(t, err)
		require.Equal(t, ids/2, figures.Dead)
	}

	var want []string
	for i := range ids {
		want = append(want, fmt.Sprintf("%02d", i))
	}
	in := other.front.Inspect()
	is(t, ids)(in.Act(ctx, "pause", inspect.SelectIDs("q", want...), ""))
	var paused []string
	for id, err := range in.PausedIDs("q") {
		require.NoError(t, err)
		paused = append(paused, id)
	}
	require.Equal(t, want, paused)
	_, err := in.Pause(ctx, inspect.SelectQueue("q"))
	require.NoError(t, err)
	_, queues := in.Paused()
	require.Equal(t, []string{"q"}, queues)
	is(t, 1)(in.Act(ctx, "pause", inspect.SelectPrefix("q", "0"), ""))
	figures, err := other.q.Stats(ctx)
	require.NoError(t, err)
	require.Equal(t, []int{1, ids}, []int{figures.PausedPrefixes, figures.PausedIDs})
	_, found, err := other.front.SourceOffset("here")
	require.NoError(t, err)
	require.False(t, found)
	require.NoError(t, other.front.SetSourceOffset(ctx, "here", 7))
	offset, found, err := owner.front.SourceOffset("here")
	require.NoError(t, err)
	require.True(t, found)
	require.EqualValues(t, 7, offset)
}

// raise keeps the highest of what it is given.
func raise(most *atomic.Int32, at int32) {
	for old := most.Load(); at > old && !most.CompareAndSwap(old, at); old = most.Load() {
	}
}

// A limit that is made of the cluster's executor holds for all partitions of a node together.
func TestLimitOfANode(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 4, 30*time.Second)
	n := c.node(c.url)
	limit, err := executor.NewLimit(n.front, "two", executor.LimitConfig{Concurrent: 2})
	require.NoError(t, err)
	var now, most atomic.Int32
	var done sync.WaitGroup
	q, err := executor.Handle(n.front, "limited", func(context.Context, executor.Job[int]) error {
		defer done.Done()
		at := now.Add(1)
		raise(&most, at)
		time.Sleep(time.Millisecond)
		now.Add(-1)
		return nil
	}, executor.QueueConfig[int]{Conditions: executor.Conditions[int]{Limits: []executor.LimitOf[int]{{Limit: limit}}}})
	require.NoError(t, err)
	require.NoError(t, n.front.Start(t.Context()))
	c.serving(n)
	for i := range 100 {
		done.Add(1)
		_, err := q.Enqueue(t.Context(), fmt.Sprint(i), i)
		require.NoError(t, err)
	}
	done.Wait()
	require.EqualValues(t, 2, most.Load())
	_, err = executor.NewSlots(n.front, "numbers", executor.SlotsConfig[int]{Next: func(n int) int { return n + 1 }})
	require.ErrorIs(t, err, executor.ErrConfig)
	_, err = cron.New(n.front, cron.Config{})
	require.ErrorIs(t, err, executor.ErrConfig)
	m, err := metrics.New(metrics.Config{})
	require.NoError(t, err)
	require.ErrorIs(t, m.Observe(n.front), executor.ErrState)
	require.ErrorIs(t, n.front.KeyLocks().Lock(t.Context(), "k"), executor.ErrState)
	for _, err := range n.front.Events(t.Context(), events.Filter{}) {
		require.ErrorIs(t, err, executor.ErrConfig)
	}
}

// What a handler ends, it ends for its node, and Run says so.
func TestFatalEndsTheNode(t *testing.T) {
	third(t, 1)
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 2, 30*time.Second)
	broken := errors.New("no licence")
	var told atomic.Int32
	n := c.node(c.url, func(cfg *Config) { cfg.Executor.OnFatal = func(error) { told.Add(1) } })
	q, err := executor.Handle(n.front, "fatal", func(context.Context, executor.Job[int]) error { return executor.Fatal(broken) }, executor.QueueConfig[int]{})
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- n.front.Run(t.Context()) }()
	_, err = q.Enqueue(t.Context(), "a", 1)
	require.NoError(t, err)
	require.ErrorIs(t, <-ended, broken)
	require.EqualValues(t, 1, told.Load())
	require.ErrorIs(t, n.front.Err(), executor.ErrClosed)

	next := c.node(c.url)
	done := make(chan struct{})
	_, err = executor.Handle(next.front, "fatal", func(context.Context, executor.Job[int]) error { close(done); return nil }, executor.QueueConfig[int]{})
	require.NoError(t, err)
	require.NoError(t, next.front.Start(t.Context()))
	<-done
}

// A handler may stop its node: the call returns at once, and the stop waits for the handler.
func TestStopByAHandler(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 1, 30*time.Second)
	n := c.node(c.url)
	var its context.Context
	q, err := executor.Handle(n.front, "last", func(ctx context.Context, _ executor.Job[int]) error {
		its = ctx
		return n.front.Stop(ctx)
	}, executor.QueueConfig[int]{})
	require.NoError(t, err)
	_, err = q.Enqueue(t.Context(), "a", 1)
	require.NoError(t, err)
	require.NoError(t, n.front.Run(t.Context()))
	require.Zero(t, c.rows(c.node(c.url)))
	require.ErrorIs(t, context.Cause(its), executor.ErrReturned)
}

// The workers are those of the node: its partitions share them, and so are the handlers that wait.
func TestWorkersOfANode(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 8, 30*time.Second)
	n := c.node(c.url)
	var now, most atomic.Int32
	var done sync.WaitGroup
	var inner *executor.Caller[int, int]
	inner, err := executor.HandleResult(n.front, "inner", func(context.Context, executor.Job[int]) (int, error) { return 1, nil }, executor.QueueConfig[int]{})
	require.NoError(t, err)
	q, err := executor.Handle(n.front, "outer", func(ctx context.Context, job executor.Job[int]) error {
		defer done.Done()
		at := now.Add(1)
		defer now.Add(-1)
		raise(&most, at)
		if job.Payload%3 > 0 {
			time.Sleep(time.Millisecond)
			return nil
		}
		if _, err := inner.Do(ctx, fmt.Sprint("inner ", job.ID), 1); err != nil && !errors.Is(err, executor.ErrDeadlock) {
			t.Error(err)
		}
		return nil
	}, executor.QueueConfig[int]{})
	require.NoError(t, err)
	require.NoError(t, n.front.Start(t.Context()))
	c.serving(n)
	s, err := n.front.Stats(within(t, time.Minute))
	require.NoError(t, err)
	require.Equal(t, 2, s.Workers)
	for i := range 200 {
		done.Add(1)
		_, err := q.Enqueue(t.Context(), fmt.Sprint(i), i)
		require.NoError(t, err)
	}
	done.Wait()
	require.EqualValues(t, 2, most.Load())
}

// What waited for a limit in a partition that has moved keeps nobody's turn.
func TestLimitOfANodeThatGivesPartitionsAway(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 4, 30*time.Second)
	began, let := make(chan struct{}, 1000), make(chan struct{})
	var done sync.WaitGroup
	var queues []*executor.Queue[int]
	var nodes []*testNode
	for range 2 {
		n := c.node(c.url)
		limit, err := executor.NewLimit(n.front, "one", executor.LimitConfig{Concurrent: 1})
		require.NoError(t, err)
		q, err := executor.Handle(n.front, "limited", func(context.Context, executor.Job[int]) error {
			began <- struct{}{}
			<-let
			done.Done()
			return nil
		}, executor.QueueConfig[int]{Conditions: executor.Conditions[int]{Limits: []executor.LimitOf[int]{{Limit: limit}}}})
		require.NoError(t, err)
		queues, nodes = append(queues, q), append(nodes, n)
	}
	require.NoError(t, nodes[0].front.Start(t.Context()))
	c.serving(nodes[0])
	const jobs = 600
	for i := range jobs {
		done.Add(1)
		_, err := queues[0].Enqueue(t.Context(), fmt.Sprint(i), i)
		require.NoError(t, err)
	}
	<-began
	require.Eventually(t, func() bool { s, err := queues[0].Stats(t.Context()); return err == nil && s.Parked == jobs-1 }, time.Minute, 10*time.Millisecond)
	require.NoError(t, nodes[1].front.Start(t.Context()))
	require.Eventually(t, func() bool { return len(nodes[1].Partitions()) > 0 }, time.Minute, time.Millisecond)
	require.Eventually(t, func() bool {
		parked := 0
		for _, part := range nodes[0].Partitions() {
			s, err := part.Stats(t.Context())
			if err != nil {
				return false
			}
			parked += s.Total().Parked
		}
		return nodes[0].front.Inspect().Limits()[0].Waiting == parked && parked < jobs-1
	}, 30*time.Second, 10*time.Millisecond, "the others wait elsewhere")
	close(let)
	over := make(chan struct{})
	go func() { done.Wait(); close(over) }()
	select {
	case <-over:
	case <-time.After(time.Minute):
		t.Fatal("some wait for those who have gone")
	}
}

// A handler of the only worker may wait for what another node runs.
func TestDoOnAnotherNode(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 2, 30*time.Second)
	var here, there *testNode
	var inner [2]*executor.Caller[int, int]
	ended := make(chan error, 1)
	var outer *executor.Queue[string]
	for i, n := range []**testNode{&here, &there} {
		*n = c.node(c.url, func(cfg *Config) { cfg.Executor.Workers = 1 })
		var err error
		inner[i], err = executor.HandleResult((*n).front, "inner", func(context.Context, executor.Job[int]) (int, error) { return 7, nil }, executor.QueueConfig[int]{})
		require.NoError(t, err)
		outer, err = executor.Handle((*n).front, "outer", func(ctx context.Context, job executor.Job[string]) error {
			result, err := inner[i].Do(ctx, job.Payload, 1)
			if err == nil && result != 7 {
				err = errors.New("another result")
			}
			ended <- err
			return nil
		}, executor.QueueConfig[string]{})
		require.NoError(t, err)
		require.NoError(t, (*n).front.Start(t.Context()))
	}
	require.Eventually(t, func() bool { return len(here.Partitions()) == 1 && len(there.Partitions()) == 1 }, time.Minute, time.Millisecond)
	of := func(n *testNode) (id string) {
		for i := 0; ; i++ {
			id = fmt.Sprint(i)
			number, err := n.PartitionOf(id)
			require.NoError(t, err)
			if n.Partitions()[number] != nil {
				return id
			}
		}
	}
	_, err := outer.Enqueue(t.Context(), of(here), of(there))
	require.NoError(t, err)
	require.NoError(t, <-ended)
	_, err = outer.Enqueue(t.Context(), of(here), of(here))
	require.NoError(t, err)
	require.ErrorIs(t, <-ended, executor.ErrDeadlock)
}

// What is decided by an owner that gives its partition away is heard: a result, and a position.
func TestDoOverMoves(t *testing.T) {
	third(t, 0)
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 1, 30*time.Second)
	other := c.node(c.url)
	handler := func(_ context.Context, job executor.Job[int]) (int, error) {
		time.Sleep(5 * time.Millisecond)
		return 2 * job.Payload, nil
	}
	q := sum(t, other, handler)
	over := make(chan struct{})
	var calling sync.WaitGroup
	var unsaid atomic.Int32
	for i := range 4 {
		calling.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-over:
					return
				default:
				}
				result, err := q.Do(t.Context(), fmt.Sprint(i), n)
				if err == nil && result != 2*n {
					t.Errorf("%d of %d", result, n)
				}
				r, failed := other.q.Enqueue(t.Context(), fmt.Sprint(i), n, executor.IdempotencyKey(fmt.Sprint(i, n)))
				if err != nil && !errors.Is(err, executor.ErrNoResult) || failed != nil || r.Position == 0 { // the next owner may have run it before it was asked
					t.Log(err, failed, r)
					unsaid.Add(1)
				}
			}
		})
	}
	for range 10 {
		owner := c.node(c.url)
		sum(t, owner, handler)
		require.NoError(t, owner.front.Start(t.Context()))
		c.serving(owner)
		time.Sleep(50 * time.Millisecond)
		require.NoError(t, owner.front.Stop(t.Context()))
	}
	last := c.node(c.url)
	sum(t, last, handler)
	require.NoError(t, last.front.Start(t.Context()))
	close(over)
	calling.Wait()
	require.LessOrEqual(t, unsaid.Load(), int32(8), "of 80 calls that an owner had as it went")
}

// Contexts that are nil, or whose methods panic, end a call, and nothing else.
func TestHostileContexts(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 2, 30*time.Second)
	owner, other := c.start(c.url), c.node(c.url)
	c.serving(owner)
	var none context.Context
	for _, n := range []*testNode{owner, other} {
		for _, ctx := range []context.Context{none, (*panics)(nil), &panics{t.Context()}} {
			calls := map[string]func() error{
				"Stats":   func() error { _, err := n.front.Stats(ctx); return err },
				"Jobs":    func() error { _, err := n.front.Inspect().Jobs(ctx, inspect.JobQuery{Queue: "q"}); return err },
				"Explain": func() error { _, err := n.front.Inspect().Explain(ctx, "q", "a"); return err },
				"Delete":  func() error { _, err := n.front.Inspect().Delete(ctx, inspect.SelectQueue("q")); return err },
				"Running": func() error { _, err := n.front.Inspect().Running(ctx, inspect.RunningQuery{}); return err },
				"Enqueue": func() error { _, err := n.q.Enqueue(ctx, "a", 1); return err },
				"Wait":    func() error { return n.q.Wait(ctx, executor.Receipt{ID: "a", Position: 1}) },
				"Pending": func() error { _, err := n.q.Pending(ctx, "a"); return err },
				"Offset":  func() error { return n.front.SetSourceOffset(ctx, "s", 1) },
			}
			for name, call := range calls {
				require.ErrorIs(t, call(), executor.ErrContext, "%s of %T", name, ctx)
			}
		}
	}
}

// panics is a context whose methods panic.
type panics struct{ context.Context }

func (h *panics) Done() <-chan struct{}       { panic("Done") }
func (h *panics) Err() error                  { panic("Err") }
func (h *panics) Value(any) any               { panic("Value") }
func (h *panics) Deadline() (time.Time, bool) { panic("Deadline") }
