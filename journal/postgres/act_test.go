//go:build unix

package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

// is returns a function that wants a call to have counted so many.
func is(t *testing.T, want int) func(inspect.Requeued, error) {
	return func(did inspect.Requeued, err error) {
		t.Helper()
		require.NoError(t, err)
		require.Equal(t, want, did.Back)
	}
}

// What a person does on a node that owns nothing, and on one that owns a part, is done in all partitions that are meant,
// and counted.
func TestActionsOnAnyNode(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 4, 30*time.Second)
	var fails atomic.Bool
	var ran atomic.Int32
	handler := func(context.Context, executor.Job[int]) error {
		defer ran.Add(1)
		if fails.Load() {
			return errors.New("no luck")
		}
		return nil
	}
	cfg := executor.QueueConfig[int]{MaxRetries: 1, RetryIn: func(int) time.Duration { return time.Hour }}
	one, two, other := c.with(handler, cfg), c.with(handler, cfg), c.with(handler, cfg)
	require.NoError(t, one.front.Start(context.Background()))
	require.NoError(t, two.front.Start(context.Background()))
	c.serving(one, two)
	for at, n := range []*testNode{other, one} {
		const ids = 24
		ctx, want := within(t, time.Minute), ran.Load()
		id := func(i int) string { return fmt.Sprintf("%d-\xff%d", at, i) }
		all := inspect.SelectPrefix("q", fmt.Sprint(at))
		put := func(options ...executor.Option) (receipts []executor.Receipt) {
			for i := range ids {
				receipts = append(receipts, n.put(t, id(i), int(want)+i, options...))
			}
			return receipts
		}
		runs := func(more int32) {
			t.Helper()
			want += more
			require.Eventually(t, func() bool { return ran.Load() == want }, time.Minute, time.Millisecond)
		}
		receipts := put(executor.In(time.Hour))
		is(t, 3)(n.front.Inspect().Act(ctx, "delete", inspect.SelectIDs("q", id(1), id(2), id(3)), ""))
		is(t, 1)(n.front.Inspect().Act(ctx, "cancel", inspect.SelectIDs("q", id(4)), "enough"))
		is(t, 1)(n.front.Inspect().Act(ctx, "cancel", inspect.SelectIDs("q", id(5)).At(receipts[5].Position), ""))
		is(t, 0)(n.front.Inspect().Act(ctx, "cancel", inspect.SelectIDs("q", id(6)).At(), ""))
		err := n.q.Wait(ctx, receipts[4])
		require.ErrorIs(t, err, executor.ErrCanceledByOperator)
		require.ErrorContains(t, err, "enough")
		is(t, 1)(n.front.Inspect().Act(ctx, "pause", all, ""))
		is(t, 0)(n.front.Inspect().Act(ctx, "pause", all, ""))
		is(t, ids-5)(n.front.Inspect().Act(ctx, "run", all, ""))
		is(t, 2)(n.front.Inspect().Act(ctx, "pause", inspect.SelectIDs("q", id(6), id(7)), ""))
		is(t, 1)(n.front.Inspect().Act(ctx, "resume", all, ""))
		is(t, 0)(n.front.Inspect().Act(ctx, "resume", all, ""))
		runs(ids - 7)
		is(t, 2)(n.front.Inspect().Act(ctx, "resume", inspect.SelectIDs("q", id(6), id(7)), ""))
		runs(2)
		is(t, 2)(n.front.Inspect().Act(ctx, "delete-dead", all, ""))

		fails.Store(true)
		put()
		runs(ids)
		failed := inspect.SelectJobs("q", inspect.JobFilter{IDPrefix: fmt.Sprint(at), ErrorContains: "no luck"}, inspect.JobRetrying)
		var count int
		require.Eventually(t, func() bool { // a run is over a moment after its handler
			did, err := n.front.Inspect().Act(ctx, "retry", failed, "")
			require.NoError(t, err)
			count += did.Back
			return count == ids
		}, time.Minute, time.Millisecond)
		runs(ids)
		fails.Store(false)
		var back inspect.Requeued
		require.Eventually(t, func() bool {
			more, err := n.front.Inspect().Act(ctx, "requeue", all, "")
			require.NoError(t, err)
			back.Back += more.Back
			return back.Back == ids
		}, time.Minute, time.Millisecond)
		runs(ids)

		is(t, 1)(n.front.Inspect().Act(ctx, "pause", inspect.SelectExecutor(), ""))
		put()
		is(t, 1)(n.front.Inspect().Act(ctx, "resume", inspect.SelectExecutor(), ""))
		runs(ids)

		_, err = n.front.Inspect().Act(ctx, "delete", inspect.SelectQueue("nothing"), "")
		require.ErrorIs(t, err, executor.ErrUnknownQueue)
		_, err = n.front.Inspect().Act(ctx, "delete", inspect.SelectQueue("q").At(7), "")
		require.ErrorIs(t, err, inspect.ErrInvalidQuery)
		_, err = n.front.Inspect().Act(ctx, "requeue", failed, "")
		require.ErrorIs(t, err, inspect.ErrInvalidQuery)
		_, err = n.front.Inspect().Act(ctx, "dance", all, "")
		require.ErrorIs(t, err, inspect.ErrInvalidQuery)
		for _, none := range []context.Context{nil, (*struct{ context.Context })(nil)} {
			_, err = n.front.Inspect().Act(none, "delete", all, "") //nolint:staticcheck // that is the test
			require.ErrorIs(t, err, executor.ErrContext)
		}
		for _, which := range []inspect.Selection{inspect.SelectIDs("q", id(1), id(2), id(3), ""), inspect.SelectIDs("q").At(), failed} {
			did, err := n.front.Inspect().Act(ctx, "pause", which, "")
			require.True(t, errors.Is(err, executor.ErrInvalidID) || errors.Is(err, inspect.ErrInvalidQuery), err)
			require.Zero(t, did)
			is(t, 0)(n.front.Inspect().Act(ctx, "resume", inspect.SelectIDs("q", id(1), id(2), id(3)), "nothing was paused"))
		}
	}
	require.Zero(t, c.rows(one))
}

// Where nobody owns a partition the call waits, and when its caller has gone it will not be done.
func TestActionsWithoutAnOwner(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 2, 30*time.Second)
	var ran atomic.Int32
	handler := func(context.Context, executor.Job[int]) error { ran.Add(1); return nil }
	caller, owner := c.with(handler, executor.QueueConfig[int]{}), c.with(handler, executor.QueueConfig[int]{})
	_, err := caller.q.Enqueue(t.Context(), "a", 1)
	require.NoError(t, err)
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		did, err := caller.front.Inspect().Act(ctx, "delete", inspect.SelectQueue("q"), "")
		assert.Zero(t, did)
		done <- err
	}()
	requireAsked(t, caller.Node, 2)
	cancel()
	err = <-done
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, executor.ErrUnknown)
	require.Equal(t, 1, c.rows(caller), "the payload")

	go func() {
		_, err := caller.front.Inspect().Act(context.Background(), "pause", inspect.SelectQueue("q"), "")
		done <- err
	}()
	require.Eventually(t, func() bool { return c.rows(caller) == 3 }, time.Minute, time.Millisecond)
	require.NoError(t, owner.front.Start(context.Background()))
	require.NoError(t, <-done)
	is(t, 1)(caller.front.Inspect().Act(within(t, time.Minute), "resume", inspect.SelectQueue("q"), ""))
	require.Eventually(t, func() bool { return ran.Load() == 1 }, time.Minute, time.Millisecond)
}

// What an action finds in the inbox before it is in the log when the owner acts: behind actions of others, too, and in a
// row of which something is refused.
func TestActionsComeInTheirOrder(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 1, 30*time.Second)
	handler := func(context.Context, executor.Job[int]) error { return nil }
	caller, owner := c.with(handler, executor.QueueConfig[int]{}), c.with(handler, executor.QueueConfig[int]{})
	var acts []chan int
	act := func(which inspect.Selection) {
		done, rows := make(chan int, 1), c.rows(caller)
		acts = append(acts, done)
		go func() {
			did, err := caller.front.Inspect().Act(within(t, time.Minute), "delete", which, "")
			assert.NoError(t, err)
			done <- did.Back
		}()
		require.Eventually(t, func() bool { return c.rows(caller) == rows+1 }, time.Minute, time.Millisecond)
	}
	act(inspect.SelectIDs("q", "nothing"))
	for i, id := range []string{"a", "b"} {
		_, err := caller.q.Enqueue(t.Context(), id, i, executor.In(time.Hour))
		require.NoError(t, err)
		act(inspect.SelectIDs("q", id))
	}
	later := item{ID: "c", Payload: []byte("1"), Due: time.Now().Add(time.Hour)}
	_, err := caller.pool.Exec(t.Context(), caller.texts["insert"], 0, "q", row(encodeCall([]item{{ID: strings.Repeat("x", 1000)}}), encodeCall([]item{later})))
	require.NoError(t, err)
	act(inspect.SelectIDs("q", "c"))
	require.NoError(t, owner.front.Start(context.Background()))
	for i, done := range acts[1:] {
		require.Equal(t, 1, <-done, "act %d", i)
	}
	<-acts[0]
}

// A person ends what keeps the backlog full, also where rows of the inbox wait for it.
func TestActionsOnAFullBacklog(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 1, 30*time.Second)
	handler := func(context.Context, executor.Job[int]) error { return nil }
	full := func() *testNode {
		return c.with(handler, executor.QueueConfig[int]{MaxBacklog: executor.BacklogLimit{Payloads: 3}})
	}
	owner, other := full(), full()
	require.NoError(t, owner.front.Start(context.Background()))
	c.serving(owner)
	for i := range 3 {
		other.put(t, fmt.Sprint(i), i, executor.In(time.Hour))
	}
	_, err := other.q.Enqueue(t.Context(), "waits", 3)
	require.NoError(t, err)
	is(t, 3)(other.front.Inspect().Act(within(t, time.Minute), "delete", inspect.SelectQueue("q"), ""))
	require.Eventually(t, func() bool { return c.rows(owner) == 0 }, time.Minute, time.Millisecond)
}

// What an owner has begun and not finished may be done.
func TestActionsThatAreNotFinished(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 1, 30*time.Second)
	handler := func(context.Context, executor.Job[int]) error { return nil }
	owner, other := c.with(handler, executor.QueueConfig[int]{}), c.with(handler, executor.QueueConfig[int]{})
	owner.longestWait = 0
	require.NoError(t, owner.front.Start(context.Background()))
	c.serving(owner)
	_, err := other.front.Inspect().Act(within(t, time.Minute), "delete", inspect.SelectQueue("q"), "")
	require.ErrorIs(t, err, executor.ErrUnknown)

	_, err = owner.pool.Exec(t.Context(), in(c.schema, `CREATE OR REPLACE FUNCTION {schema}.answer(p integer, e bigint, numbers bigint[], tokens uuid[], answers text[])
		RETURNS void LANGUAGE sql AS ''`))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := other.front.Inspect().Act(ctx, "delete", inspect.SelectQueue("q"), "")
		done <- err
	}()
	c.heard(1)
	cancel()
	require.ErrorIs(t, <-done, executor.ErrUnknown, "its caller has gone")
}

// Rows that somebody else has written, with no items or no question, are refused, and hold nothing up.
func TestRowsWithoutItems(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 1, 30*time.Second)
	handler := func(context.Context, executor.Job[int]) error { return nil }
	owner, other := c.with(handler, executor.QueueConfig[int]{}), c.with(handler, executor.QueueConfig[int]{})
	bad := 0
	put := func(queue string, calls []byte) {
		_, err := other.pool.Exec(t.Context(), other.texts["insert"], 0, queue, calls)
		require.NoError(t, err)
		bad++
	}
	for _, version := range []byte{4, 5, questionVersion} {
		put("q", rowOf([]byte{version}, nil, encodeCall(make([]item, 2))))
		strange := rowOf([]byte{version}, nil, encodeCall([]item{{Payload: []byte("?")}}))
		_, err := other.pool.Exec(t.Context(), other.texts["insert"], 0, "", strange)
		require.NoError(t, err, "it is answered, if anybody asks")
	}
	for version := byte(callsVersion); version <= questionVersion; version++ {
		none := rowOf([]byte{version}, nil)
		if version == callsVersion {
			none = rowOf([]byte{version})
		}
		put("q", none)
		put("q", rowOf(none[:len(none)-4], encodeCall(nil)))
	}
	require.NoError(t, owner.front.Start(context.Background()))
	c.serving(owner)
	_, err := other.asking.ask(within(t, time.Minute), 0, "", []byte("?"), true)
	require.ErrorIs(t, err, inspect.ErrInvalidQuery)
	require.NoError(t, other.q.Wait(within(t, time.Minute), other.put(t, "a", 1)))
	is(t, 1)(other.front.Inspect().Act(within(t, time.Minute), "pause", inspect.SelectQueue("q"), ""))
	require.Equal(t, bad, cmpStats(t, owner.Node).Partitions[0].Refused)
}

// An owner that does not have the queue says so.
func TestActionsOnAQueueOfOthers(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 1, 30*time.Second)
	handler := func(context.Context, executor.Job[int]) error { return nil }
	owner, other := c.with(handler, executor.QueueConfig[int]{}), c.with(handler, executor.QueueConfig[int]{})
	_, err := executor.Handle(other.Node.front, "other", handler, executor.QueueConfig[int]{})
	require.NoError(t, err)
	require.NoError(t, owner.front.Start(context.Background()))
	c.serving(owner)
	_, err = other.front.Inspect().Act(within(t, time.Minute), "delete", inspect.SelectQueue("other"), "")
	require.ErrorIs(t, err, executor.ErrUnknownQueue)
}
