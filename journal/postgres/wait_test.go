//go:build unix

package postgres

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

// with opens a node whose queue "q" has a handler.
func (c *nodes) with(handler func(context.Context, executor.Job[int]) error, cfg executor.QueueConfig[int]) *testNode {
	c.t.Helper()
	n, err := openNode(c.t.Context(), c.url, c.config())
	require.NoError(c.t, err)
	q, err := executor.Handle(n.front, "q", handler, cfg)
	require.NoError(c.t, err)
	c.t.Cleanup(func() { n.kill() })
	return &testNode{n, q}
}

// put enqueues a payload from any node, with its position in the receipt.
func (n *testNode) put(t testing.TB, id string, payload int, options ...executor.Option) executor.Receipt {
	t.Helper()
	r, err := n.q.Enqueue(t.Context(), id, payload, append(options, executor.IdempotencyKey(fmt.Sprint(id, payload)))...)
	require.NoError(t, err)
	require.NotZero(t, r.Position)
	return r
}

// within is a context for what has no answer.
func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// heard waits until owners are at so many questions.
func (c *nodes) heard(count int) {
	c.t.Helper()
	conn, err := pgx.Connect(c.t.Context(), c.url)
	require.NoError(c.t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	require.Eventually(c.t, func() bool {
		var heard int
		require.NoError(c.t, conn.QueryRow(c.t.Context(), in(c.schema,
			`SELECT count(*) FROM {schema}.taken WHERE answer LIKE '{"Epoch"%' AND NOT {schema}.lost(answer)`)).Scan(&heard))
		return heard == count
	}, time.Minute, time.Millisecond)
}

// A caller on a node that owns nothing hears how its payload has ended as one on the owner does.
func TestWaitOfAnyNode(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 2, 30*time.Second)
	cause, began := errors.New("no luck"), make(chan struct{}, 1)
	handler := func(ctx context.Context, job executor.Job[int]) error {
		switch job.Payload {
		case 1:
			return executor.Cancel(cause)
		case 2:
			return executor.Discard()
		case 3:
			began <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}
	cfg := executor.QueueConfig[int]{Merge: executor.MergeKeepLast}
	owner, other := c.with(handler, cfg), c.with(handler, cfg)
	require.NoError(t, owner.front.Start(context.Background()))
	c.serving(owner)
	of := func(id string) inspect.Inspector {
		number, err := owner.PartitionOf(id)
		require.NoError(t, err)
		return owner.Partitions()[number].Inspect()
	}
	for i, n := range []*testNode{other, owner} {
		id := func(what string) string { return fmt.Sprint(what, i) }
		require.NoError(t, n.q.Wait(t.Context(), n.put(t, id("done"), 0)))
		r := n.put(t, id("dead"), 1)
		err := n.q.Wait(t.Context(), r)
		require.ErrorAs(t, err, new(*executor.BuriedError))
		buried, _ := errors.AsType[*executor.BuriedError](err)
		require.Equal(t, []any{r.ID, r.Position, 1}, []any{buried.ID, buried.Position, buried.Attempt})
		require.Contains(t, buried.Reason, "no luck")
		require.ErrorAs(t, n.q.Wait(t.Context(), r), new(*executor.BuriedError), "again, later")

		later := executor.In(time.Hour)
		wait := func(r executor.Receipt) chan error {
			done := make(chan error, 1)
			go func() { done <- n.q.Wait(t.Context(), r) }()
			if n == other {
				c.heard(1)
			}
			return done
		}
		done := wait(n.put(t, id("discarded"), 2, executor.In(300*time.Millisecond)))
		require.ErrorIs(t, <-done, executor.ErrDiscarded)
		done = wait(n.put(t, id("canceled"), 4, later))
		count, err := of(id("canceled")).Cancel(t.Context(), inspect.SelectIDs("q", id("canceled")), "enough")
		require.NoError(t, err)
		require.Equal(t, 1, count)
		err = <-done
		require.ErrorAs(t, err, new(*executor.BuriedError))
		require.ErrorIs(t, err, executor.ErrCanceledByOperator)
		require.ErrorContains(t, err, "enough")
		done = wait(n.put(t, id("runs"), 3))
		<-began
		_, err = of(id("runs")).Cancel(t.Context(), inspect.SelectIDs("q", id("runs")), "")
		require.NoError(t, err)
		require.ErrorIs(t, <-done, executor.ErrCanceledByOperator)
		if n == other {
			err = nil
			for i := 0; err == nil && i < 100; i++ { // an owner that looks when it has gone takes it for done
				done = wait(n.put(t, id("deleted"), 5+i, later))
				_, err = of(id("deleted")).Delete(t.Context(), inspect.SelectIDs("q", id("deleted")))
				require.NoError(t, err)
				err = <-done
			}
			require.ErrorIs(t, err, executor.ErrDeleted)
		}
		done = wait(n.put(t, id("replaced"), 6, later)) // by an equal one, which runs in its stead
		_, err = n.q.Enqueue(t.Context(), id("replaced"), 6)
		require.NoError(t, err)
		_, err = of(id("replaced")).RunNow(t.Context(), inspect.SelectIDs("q", id("replaced")))
		require.NoError(t, err)
		require.NoError(t, <-done)

		require.ErrorIs(t, n.q.Wait(t.Context(), executor.Receipt{ID: "x"}), executor.ErrInvalidID)
		require.ErrorIs(t, n.q.Wait(t.Context(), executor.Receipt{ID: "x", Position: 1 << 40}), executor.ErrInvalidID)
	}
	require.Zero(t, c.rows(owner))
}

// The owner dies, or gives the partition away, while others wait: they hear of the end from the next one.
func TestWaitOverOwners(t *testing.T) {
	for _, way := range []string{"dies", "stops"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, pgtest.Shared(t).URL(), 1, time.Second)
			other := c.with(func(context.Context, executor.Job[int]) error { return nil }, executor.QueueConfig[int]{})
			first := c.with(func(ctx context.Context, _ executor.Job[int]) error { <-ctx.Done(); return ctx.Err() }, executor.QueueConfig[int]{})
			require.NoError(t, first.front.Start(context.Background()))
			c.serving(first)
			r := other.put(t, "a", 1)
			late := other.put(t, "b", 1, executor.In(time.Hour))
			done := make(chan error, 2)
			for range 2 {
				go func() { done <- other.q.Wait(t.Context(), r) }()
			}
			go func() { _ = other.q.Wait(within(t, time.Minute), late) }()
			c.heard(3)
			if way == "dies" {
				first.kill()
			} else {
				go func() { _ = first.front.Stop(within(t, 200*time.Millisecond)) }()
			}
			next := c.with(func(context.Context, executor.Job[int]) error { return executor.Cancel(errors.New("of the next")) }, executor.QueueConfig[int]{})
			require.NoError(t, next.front.Start(context.Background()))
			for range 2 {
				err := <-done
				require.ErrorAs(t, err, new(*executor.BuriedError))
				require.ErrorContains(t, err, "of the next")
			}
			c.heard(1)
		})
	}
}

// Without an owner a wait ends with its context, and so does what a person wants, which is not done later.
func TestWaitWithoutAnOwner(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 2, time.Second)
	n := c.node(c.url)
	_, err := n.q.Enqueue(t.Context(), "a", 1, executor.In(time.Hour))
	require.NoError(t, err)
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { done <- n.q.Wait(ctx, executor.Receipt{ID: "a", Position: 1}) }()
	requireAsked(t, n.Node, 1)
	cancel()
	err = <-done
	require.ErrorAs(t, err, new(*executor.PendingError))
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, executor.ErrUnknown)
	require.Equal(t, 1, c.rows(n), "the question is taken back")
	go func() { done <- n.q.Wait(t.Context(), executor.Receipt{ID: "a", Position: 1}) }()
	require.Eventually(t, func() bool { return c.rows(n) == 2 }, time.Minute, time.Millisecond)
	require.NoError(t, n.front.Stop(t.Context()))
	err = <-done
	require.ErrorAs(t, err, new(*executor.PendingError))
	require.ErrorIs(t, err, executor.ErrClosed)
}

// An owner does not wait for ever for those who may have gone: those who have not ask again.
func TestAWaitIsAskedForAgain(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 1, 30*time.Second)
	owner, other := c.node(c.url), c.node(c.url)
	owner.longestWait = 20 * time.Millisecond
	require.NoError(t, owner.front.Start(context.Background()))
	c.serving(owner)
	r := other.put(t, "a", 1, executor.In(time.Hour))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- other.q.Wait(ctx, r) }()
	asked := func() (count int) {
		require.NoError(t, owner.pool.QueryRow(t.Context(), in(c.schema, `SELECT count(*) FROM {schema}.taken WHERE answer LIKE '%"Lost":true%'`)).Scan(&count))
		return count
	}
	require.Eventually(t, func() bool { return asked() > 3 }, time.Minute, time.Millisecond)
	cancel()
	require.ErrorAs(t, <-done, new(*executor.PendingError))
	c.heard(0)
	go func() { done <- other.q.Wait(t.Context(), r) }()
	before := asked()
	require.Eventually(t, func() bool { return asked() > before+3 }, time.Minute, time.Millisecond)
	_, err := owner.Partitions()[0].Inspect().RunNow(t.Context(), inspect.SelectIDs("q", "a"))
	require.NoError(t, err)
	require.NoError(t, <-done)
}

// An owner is at a question for no longer than its caller waits: what people look at again and again, and give up, does
// not add up there.
func TestAnOwnerLeavesThoseWhoseTimeIsOver(t *testing.T) {
	third(t, 1)
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 1, 30*time.Second)
	owner, other := c.node(c.url), c.node(c.url)
	handler := func(context.Context, executor.Job[int]) (int, error) { return 1, nil }
	sum(t, owner, handler)
	q := sum(t, other, handler)
	require.NoError(t, owner.front.Start(context.Background()))
	c.serving(owner)
	r := other.put(t, "a", 1, executor.In(time.Hour))
	for name, call := range map[string]func(context.Context) error{
		"Wait": func(ctx context.Context) error { return other.q.Wait(ctx, r) },
		"Do":   func(ctx context.Context) error { _, err := q.Do(ctx, "b", 1, executor.In(time.Hour)); return err },
		"Do with a key": func(ctx context.Context) error {
			_, err := q.Do(ctx, "c", 1, executor.In(time.Hour), executor.IdempotencyKey("c"))
			return err
		},
	} {
		heard := func() (count int) {
			require.NoError(t, owner.pool.QueryRow(t.Context(), in(c.schema, `SELECT count(*) FROM {schema}.taken WHERE answer LIKE '{"Epoch"%'`)).Scan(&count))
			return count
		}
		for wait, seen := time.Second, false; !seen; wait *= 2 { // until its owner has begun before it is over
			done := make(chan error, 1)
			go func() { done <- call(within(t, wait)) }()
			for len(done) == 0 {
				seen = seen || heard() == 1
				time.Sleep(time.Millisecond)
			}
			require.ErrorIs(t, <-done, context.DeadlineExceeded, name)
		}
		require.Eventually(t, func() bool { return heard() == 0 }, 10*time.Second, time.Millisecond, name)
	}
	require.NoError(t, owner.front.Stop(within(t, time.Minute)))
}
