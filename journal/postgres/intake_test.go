//go:build unix

package postgres

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

// enqueues is a middleware for calls that enqueue.
func enqueues(f func(ctx context.Context, call *executor.EnqueueCall, next func(context.Context) error) error) func(*Config) {
	return func(cfg *Config) { cfg.Executor.Middleware = []executor.Middleware{{Enqueue: f}} }
}

// A row whose middleware has said ErrUnknown, and has accepted nothing, does not go with the commit of another one: it
// is taken in after that.
func TestWhatWasNotAcceptedGoesWithNoOtherRow(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 1, 10*time.Second)
	inside, goOn := make(chan struct{}), make(chan struct{})
	producer, owner := c.node(c.url), c.node(c.url, enqueues(func(ctx context.Context, call *executor.EnqueueCall, next func(context.Context) error) error {
		select {
		case <-inside:
		default:
			close(inside)
			<-goOn
			return fmt.Errorf("audit: %w", executor.ErrUnknown)
		}
		return next(ctx)
	}))
	var other *executor.Queue[int]
	for _, n := range []*testNode{owner, producer} {
		var err error
		other, err = executor.Handle(n.Node.front, "other", func(_ context.Context, job executor.Job[int]) error {
			c.note(job.ID, job.Payload, job.Position)
			return nil
		}, executor.QueueConfig[int]{})
		require.NoError(t, err)
	}
	tx, err := producer.pool.Begin(t.Context())
	require.NoError(t, err)
	require.NoError(t, EnqueueTx(t.Context(), tx, producer.q, "a", 1)) // its number is the lower one
	_, err = other.Enqueue(t.Context(), "b", 1)
	require.NoError(t, err)
	require.NoError(t, owner.front.Start(t.Context()))
	<-inside
	require.NoError(t, tx.Commit(t.Context()))
	close(goOn)
	c.await(map[string]int{"a": 1, "b": 1})
	c.well(owner)
}

// A commit that a middleware has not waited for takes the row in that it is of, and none that has come since.
func TestACommitThatIsLateTakesInItsOwnRow(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 1, 30*time.Second)
	producer := c.node(c.url)
	var part atomic.Pointer[partition]
	turns := func(f func(chan struct{})) {
		for turns, n := part.Load().n.turns, 0; n < cap(turns); n++ {
			f(turns)
		}
	}
	calls := 0
	owner := c.start(c.url, enqueues(func(ctx context.Context, _ *executor.EnqueueCall, next func(context.Context) error) error {
		if calls++; calls > 1 {
			return next(ctx)
		}
		p := part.Load()
		ctx, cancel := context.WithCancel(ctx)
		before := p.log.Stats().Next
		go func() {
			for p.log.Stats().Next == before { // it is under way
				time.Sleep(time.Millisecond)
			}
			_, _ = producer.q.Enqueue(context.Background(), "a", 2)
			cancel()
		}()
		return next(ctx)
	}))
	c.serving(owner)
	part.Store(owner.owned(0))
	turns(func(turns chan struct{}) { turns <- struct{}{} }) // nothing is committed
	_, err := producer.q.Enqueue(t.Context(), "a", 1)
	require.NoError(t, err)
	noted := func() bool {
		i := &part.Load().store.intake
		i.mu.Lock()
		defer i.mu.Unlock()
		return len(i.rows) > 1
	}
	require.Eventually(t, func() bool { return c.rows(producer) == 2 }, time.Minute, time.Millisecond)
	require.Never(t, noted, 300*time.Millisecond, time.Millisecond)
	turns(func(turns chan struct{}) { <-turns })
	c.await(map[string]int{"a": 2})
	c.mu.Lock()
	defer c.mu.Unlock()
	require.Zero(t, c.repeats)
}

// Under WaitForRoom, too, rows that find no room hold up no handler and nobody who looks or acts. Callers on the owner's
// node wait for them.
func TestRowsThatWaitForRoomHoldUpNobody(t *testing.T) {
	third(t, 0)
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 1, 10*time.Second)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	goOn, said := make(chan struct{}), make(chan error, 2)
	var owner *testNode
	owner = c.node(c.url, func(cfg *Config) {
		cfg.Executor.MaxBacklog.Payloads, cfg.Executor.WaitForRoom = 1, true
		cfg.Executor.Middleware = []executor.Middleware{{Run: func(ctx context.Context, run *executor.Run, next func(context.Context) error) error {
			if run.Jobs[0].ID == "first" {
				<-goOn
				_, err := owner.q.Enqueue(ctx, "of a handler", 1)
				said <- err
			}
			return next(ctx)
		}}}
	})
	require.NoError(t, owner.front.Start(ctx))
	c.serving(owner)
	_, err := owner.q.Enqueue(ctx, "first", 1)
	require.NoError(t, err)
	producer := c.node(c.url)
	_, err = producer.q.Enqueue(ctx, "b", 1)
	require.NoError(t, err)
	for _, n := range []*testNode{owner, producer} {
		_, err = n.front.Stats(ctx)
		require.NoError(t, err)
	}
	short, end := context.WithTimeout(ctx, 2*time.Second)
	defer end()
	_, err = owner.q.Enqueue(short, "c", 1)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, executor.ErrFull)
	require.Equal(t, 1, c.rows(owner))
	waited := make(chan executor.Receipt, 1)
	go func() {
		r, err := owner.q.Enqueue(ctx, "c", 1)
		said <- err
		waited <- r
	}()
	close(goOn)
	require.NoError(t, <-said)
	require.NoError(t, <-said)
	require.NotZero(t, (<-waited).Position)
	c.await(map[string]int{"first": 1, "b": 1, "of a handler": 1, "c": 1})
}

// A row that waits for room which all queues share gets it, also where callers of another queue on the owner's node take
// whatever becomes free.
func TestRowsGetRoomBesideCallersOfOtherQueues(t *testing.T) {
	third(t, 2)
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 1, 10*time.Second)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	owner := c.node(c.url, func(cfg *Config) { cfg.Executor.MaxBacklog.Payloads, cfg.Executor.WaitForRoom = 1, true })
	busy, err := executor.Handle(owner.front, "busy", func(context.Context, executor.Job[int]) error {
		time.Sleep(10 * time.Millisecond) // so that the next one waits
		return nil
	}, executor.QueueConfig[int]{})
	require.NoError(t, err)
	require.NoError(t, owner.front.Start(ctx))
	c.serving(owner)
	calling, over := context.WithCancel(ctx)
	var callers sync.WaitGroup
	for range 100 {
		callers.Go(func() {
			for calling.Err() == nil {
				_, _ = busy.Enqueue(calling, "x", 1)
			}
		})
	}
	_, err = c.node(c.url).q.Enqueue(ctx, "a", 1)
	require.NoError(t, err)
	c.await(map[string]int{"a": 1})
	over()
	callers.Wait()
}
