//go:build unix

package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

// The owner decides what a call with conditions comes to, and the caller hears of it on any node.
func TestConditionsOfAnyNode(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 2, 30*time.Second)
	owner, other := c.start(c.url), c.node(c.url)
	c.serving(owner)
	before := cmpStats(t, owner.Node).Partitions
	ctx := t.Context()

	first, err := other.q.Enqueue(ctx, "a", 1, executor.IdempotencyKey("one"))
	require.NoError(t, err)
	require.NotZero(t, first.Position)
	require.True(t, first.Durable)
	require.False(t, first.Duplicate)
	for _, n := range []*testNode{other, owner} {
		again, err := n.q.Enqueue(ctx, "a", 1, executor.IdempotencyKey("one"))
		require.NoError(t, err)
		require.True(t, again.Duplicate)
		require.Equal(t, first.Position, again.Position)
	}
	_, err = other.q.EnqueueMany(ctx, []executor.Item[int]{{ID: "a", Payload: 2}, {ID: "a", Payload: 3}}, executor.IdempotencyKey("one"))
	require.ErrorIs(t, err, executor.ErrInvalidKey)
	require.ErrorContains(t, err, "came with 1 items before")
	_, err = other.q.Enqueue(ctx, "a", 2, executor.IdempotencyKey(""))
	require.ErrorIs(t, err, executor.ErrInvalidKey)

	both, err := other.q.EnqueueMany(ctx, []executor.Item[int]{{ID: "a", Payload: 2}, {ID: "a", Payload: 3}}, executor.FromSource("s", 5), executor.IdempotencyKey("two"))
	require.NoError(t, err)
	require.Equal(t, both[0].Position+1, both[1].Position)
	for _, n := range []*testNode{other, owner} {
		_, err = n.q.Enqueue(ctx, "a", 4, executor.FromSource("s", 5))
		stale, ok := errors.AsType[*executor.StaleError](err)
		require.True(t, ok, err)
		require.Equal(t, executor.StaleError{Source: "s", Offset: 5, Last: 5}, *stale)
	}
	_, err = other.q.Enqueue(ctx, "a", 4, executor.FromSource(inboxSource, 1))
	require.ErrorIs(t, err, executor.ErrInvalidKey)
	c.await(map[string]int{"a": 3})

	_, err = other.q.Enqueue(ctx, "b", 1, executor.In(time.Hour), executor.IfAbsent())
	require.NoError(t, err)
	for _, n := range []*testNode{other, owner} {
		_, err = n.q.Enqueue(ctx, "b", 2, executor.IfAbsent())
		waiting, ok := errors.AsType[*executor.WaitingError](err)
		require.True(t, ok, err)
		require.Equal(t, "b", waiting.ID)
		require.WithinDuration(t, time.Now().Add(time.Hour), waiting.Due, 10*time.Minute)
	}
	require.Zero(t, c.rows(owner))
	_, err = other.q.Enqueue(ctx, "a", 4)
	require.NoError(t, err, "what was refused holds nothing up")
	c.await(map[string]int{"a": 4})
	require.Len(t, c.ran["a"], 4)
	for i, p := range cmpStats(t, owner.Node).Partitions {
		require.Equal(t, before[i].Epoch, p.Epoch, "nothing of that has made the owner begin anew")
	}
}

// What a transaction brings with a key is there once, and what is not about its conditions is kept
// for a person to see: nobody waits for the answer.
func TestConditionsOfTransactions(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 1, 2*time.Second)
	owner := c.start(c.url)
	c.serving(owner)
	put := func(payload int, options ...executor.Option) error {
		tx, err := owner.pool.Begin(t.Context())
		require.NoError(t, err)
		defer func() { _ = tx.Rollback(context.Background()) }()
		if err := EnqueueTx(t.Context(), tx, owner.q, "a", payload, options...); err != nil {
			return err
		}
		return tx.Commit(t.Context())
	}
	for range 3 {
		require.NoError(t, put(1, executor.IdempotencyKey("one")))
	}
	for range 2 {
		require.NoError(t, put(2, executor.FromSource("s", 7)))
	}
	require.ErrorIs(t, put(3, executor.IdempotencyKey("")), executor.ErrInvalidKey)
	require.NoError(t, put(3, executor.FromSource(inboxSource, 1)), "which only the owner can tell")
	require.NoError(t, put(3))
	c.await(map[string]int{"a": 3})
	require.Len(t, c.ran["a"], 3)
	require.Eventually(t, func() bool { return c.rows(owner) == 1 }, time.Minute, 5*time.Millisecond)
	require.Equal(t, 1, cmpStats(t, owner.Node).Partitions[0].Refused)
}

// A call whose owner does not answer is ErrUnknown when its context ends. Made again with its key it
// is known to be a duplicate of itself.
func TestConditionsWithoutAnOwner(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 1, 2*time.Second)
	n := c.node(c.url)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := n.q.Enqueue(ctx, "a", 1, executor.IdempotencyKey("one"))
	require.ErrorIs(t, err, executor.ErrUnknown)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	var calls sync.WaitGroup
	for range 20 { // some look, the others are told
		calls.Go(func() {
			r, err := n.q.Enqueue(t.Context(), "a", 1, executor.IdempotencyKey("one"))
			if err != nil || !r.Duplicate {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
	owner := c.start(c.url)
	calls.Wait()
	_, err = owner.q.Enqueue(t.Context(), "a", 2)
	require.NoError(t, err)
	c.await(map[string]int{"a": 2})
	require.Len(t, c.ran["a"], 2)
}

// An owner may die between a commit and its answer: the call is known to be accepted all the same.
func TestAnOwnerThatCanNotAnswer(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	c := newCluster(t, server.URL(), 1, 2*time.Second)
	server.Exec(t, in(c.schema, `CREATE OR REPLACE FUNCTION {schema}.answer(p integer, e bigint, numbers bigint[], tokens uuid[], answers text[])
		RETURNS void LANGUAGE sql AS ''`))
	owner, other := c.start(c.url), c.node(c.url)
	c.serving(owner)
	r, err := other.q.Enqueue(t.Context(), "a", 1, executor.IdempotencyKey("one"))
	require.NoError(t, err)
	require.Equal(t, executor.Receipt{ID: "a", Durable: true}, r)
	c.await(map[string]int{"a": 1})
}

// Nodes die and come while another one makes calls with keys, each until it knows: each is accepted
// once, in order.
func TestConditionsWhileOwnersDie(t *testing.T) {
	third(t, 1)
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 2, 500*time.Millisecond)
	caller := c.node(c.url)
	over := make(chan struct{})
	var owners sync.WaitGroup
	owners.Go(func() {
		for i := 0; ; i++ {
			n := c.start(c.url)
			select {
			case <-over:
				return // the last one serves what is left
			case <-time.After(time.Duration(200+150*(i%4)) * time.Millisecond):
			}
			if i%2 == 0 {
				n.kill()
			} else {
				_ = n.front.Stop(t.Context())
			}
		}
	})
	want := make(map[string]int)
	var mu sync.Mutex
	var callers sync.WaitGroup
	for id := range 4 {
		callers.Go(func() {
			id := fmt.Sprint("id ", id)
			for payload := 1; payload <= 25; payload++ {
				for {
					ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
					r, err := caller.q.Enqueue(ctx, id, payload, executor.IdempotencyKey(fmt.Sprint(id, payload)), executor.FromSource(id, int64(payload)))
					cancel()
					if err == nil || errors.As(err, new(*executor.StaleError)) && r.Position == 0 {
						break
					}
					if !errors.Is(err, executor.ErrUnknown) && !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("%s %d: %v", id, payload, err)
						return
					}
				}
			}
			mu.Lock()
			want[id] = 25
			mu.Unlock()
		})
	}
	callers.Wait()
	close(over)
	owners.Wait()
	c.await(want)
}

// Who asks hears of it when what answers him ends its goroutine.
func TestAnAnswerThatExits(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 1, 30*time.Second)
	owner, other := c.node(c.url, enqueues(func(ctx context.Context, call *executor.EnqueueCall, next func(context.Context) error) (err error) {
		if call.Items[0].ID == "late" {
			err = next(ctx)
		}
		runtime.Goexit()
		return err
	})), c.node(c.url)
	handler := func(context.Context, executor.Job[int]) (int, error) { return 1, nil }
	sum(t, owner, handler)
	q := sum(t, other, handler)
	require.NoError(t, owner.front.Start(t.Context()))
	c.serving(owner)
	for _, id := range []string{"a", "late"} {
		_, err := q.Do(within(t, 20*time.Second), id, 1)
		require.ErrorContains(t, err, "called runtime.Goexit")
		require.ErrorIs(t, err, executor.ErrUnknown)
	}
}

// After a look for many a hint that comes soon waits for more; one who waits alone waits for nothing else.
func TestALookForManyRests(t *testing.T) {
	for name, c := range map[string]struct {
		hint, most time.Duration
		count      int
		rests      time.Duration
	}{
		"nothing comes":            {0, 100 * time.Millisecond, 1, 100 * time.Millisecond},
		"a hint for one":           {time.Millisecond, 100 * time.Millisecond, 1, time.Millisecond},
		"a hint for many":          {time.Millisecond, 100 * time.Millisecond, 1000, 20 * time.Millisecond},
		"a late hint for many":     {30 * time.Millisecond, 100 * time.Millisecond, 1000, 30 * time.Millisecond},
		"a hint for very many":     {time.Millisecond, 100 * time.Millisecond, 1_000_000, hintEvery},
		"nothing for very many":    {0, firstLook, 1_000_000, hintEvery},
		"the node ends while they": {-1, 100 * time.Millisecond, 1_000_000, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				s := asking{n: &Node{base: ctx}, wake: make(chan struct{}, 1)}
				if c.hint > 0 {
					time.AfterFunc(c.hint, func() { poke(s.wake) })
				} else if c.hint < 0 {
					cancel()
				}
				began := time.Now()
				require.Equal(t, c.hint > 0, s.rest(c.most, c.count))
				require.Equal(t, c.rests, time.Since(began))
			})
		})
	}
}

// Each error that a call may return is one of kinds: what an owner says matches the same where it is heard. ErrClosed and ErrFailed
// are left out, which are of the executor that was called.
func TestDocumentedErrorsTravel(t *testing.T) {
	for _, documented := range []error{
		executor.ErrConfig, executor.ErrContext, executor.ErrState,
		executor.ErrInvalidID, executor.ErrInvalidItem, executor.ErrInvalidKey, executor.ErrTooLarge, executor.ErrEncode, executor.ErrUnknownQueue,
		executor.ErrNotOwned, executor.ErrMiddleware, executor.ErrFull, executor.ErrUnknown,
		executor.ErrDiscarded, executor.ErrDeleted, executor.ErrNoResult, executor.ErrDeadlock,
		inspect.ErrInvalidQuery, inspect.ErrInvalidCursor, inspect.ErrUnknownJob, inspect.ErrTooManyPaused,
	} {
		require.ErrorIs(t, answerOf(nil, fmt.Errorf("%w: x", documented)).err(), documented)
	}
	for _, more := range append(kinds, &executor.FullError{Disk: true}, &executor.StaleError{Source: "s"}, &executor.WaitingError{ID: "a"}) {
		said := fmt.Errorf("%w: %w", executor.ErrUnknown, more) // it may be accepted, whatever else is said
		require.ErrorIs(t, answerOf(nil, said).err(), executor.ErrUnknown)
		require.EqualError(t, answerOf(nil, said).err(), said.Error())
	}
}

// An error that an owner answers with is the same where it is heard, and one of an owner of an earlier
// version, which had two for what ErrInvalidItem is now, is that one.
func TestErrorsOfAnswers(t *testing.T) {
	for _, kind := range kinds {
		for _, said := range []error{kind, fmt.Errorf("%w: the reason", kind)} {
			heard := answerOf(nil, said).err()
			require.ErrorIs(t, heard, kind)
			require.Equal(t, said.Error(), heard.Error())
		}
	}
	require.ErrorIs(t, answer{Kind: 4, Refused: "executor: invalid metadata: a key is empty"}.err(), executor.ErrInvalidItem)
	require.ErrorIs(t, answer{Kind: 5, Refused: executor.ErrTooLarge.Error()}.err(), executor.ErrTooLarge)
}

// What was full goes with the answer, also as bytes that are no text; an owner of before says only that something was.
func TestFullErrorsTravel(t *testing.T) {
	for _, said := range []executor.FullError{
		{Disk: true, RetryAfter: time.Second},
		{Queue: "\xff", Bytes: true, Waiting: 7, Limit: 8, RetryAfter: time.Minute},
		{Waiting: 7, Limit: 8, RetryAfter: 10 * time.Millisecond},
	} {
		for _, err := range []error{&said, fmt.Errorf("%w: the reason", &said)} {
			text, failed := json.Marshal(answerOf(nil, err))
			require.NoError(t, failed)
			var heard answer
			require.NoError(t, json.Unmarshal(text, &heard))
			require.EqualError(t, heard.err(), err.Error())
			full, ok := errors.AsType[*executor.FullError](heard.err())
			require.True(t, ok)
			require.Equal(t, said, *full)
			heard.Full = nil
			require.ErrorIs(t, heard.err(), executor.ErrFull)
		}
	}
}

// A disk of the server that is full is one for who enqueues, too: a handler that passes that on spends no retry.
func TestTheInboxIsOnAFullDisk(t *testing.T) {
	third(t, 2)
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 1, 2*time.Second)
	n := c.node(c.url)
	(&rig{pool: n.pool, schema: c.schema}).noRoom(t, "inbox")
	_, err := n.q.Enqueue(t.Context(), "a", 1)
	full, ok := errors.AsType[*executor.FullError](err)
	require.True(t, ok, err)
	require.Equal(t, executor.FullError{Disk: true, RetryAfter: time.Second}, *full)
	require.ErrorContains(t, err, "No space left on device")
	require.NotContains(t, err.Error(), "nil")

	x, failed := executor.Open("", executor.Config{})
	require.NoError(t, failed)
	attempts := make(chan int, 2)
	q, failed := executor.Handle(x, "q", func(_ context.Context, job executor.Job[int]) error {
		if attempts <- job.Attempt; len(attempts) == 1 {
			return err
		}
		return nil
	}, executor.QueueConfig[int]{})
	require.NoError(t, failed)
	require.NoError(t, x.Start(t.Context()))
	receipt, failed := q.Enqueue(t.Context(), "a", 1)
	require.NoError(t, failed)
	require.NoError(t, q.Wait(t.Context(), receipt))
	require.Equal(t, []int{1, 1}, []int{<-attempts, <-attempts})
	require.NoError(t, x.Stop(context.Background()))
}
