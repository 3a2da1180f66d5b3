package executor_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
)

type valueKey struct{}

// Each call of a handler has a context of its own. It ends when the handler has
// returned, and says so to what the handler has left behind.
func TestContextOfAnAttempt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 2})
		var all []context.Context
		over := make(chan error, 3)
		q, err := executor.Handle(x, "q", func(ctx context.Context, job executor.Job[string]) error {
			assert.NoError(t, ctx.Err())
			assert.NoError(t, context.Cause(ctx))
			assert.Equal(t, "of Start", ctx.Value(valueKey{}))
			_, limited := ctx.Deadline()
			assert.False(t, limited)
			all = append(all, ctx)
			go func() {
				<-ctx.Done()
				over <- context.Cause(ctx)
			}()
			time.Sleep(time.Second)
			if job.Payload == "fails" && job.Attempt == 1 {
				return executor.RetryAfter(0, errBoom)
			}
			return nil
		}, executor.QueueConfig[string]{})
		require.NoError(t, err)
		startCtx, end := context.WithCancel(context.WithValue(t.Context(), valueKey{}, "of Start"))
		require.NoError(t, x.Start(startCtx))
		end() // which means nothing
		enqueue(t, q, "a", "fails")
		enqueue(t, q, "a", "good")
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Len(t, all, 3, "a retry is an attempt of its own")
		for i, ctx := range all {
			require.ErrorIs(t, <-over, executor.ErrReturned)
			require.ErrorIs(t, ctx.Err(), context.Canceled)
			require.ErrorIs(t, context.Cause(ctx), executor.ErrReturned)
			for _, other := range all[:i] {
				require.NotSame(t, other, ctx)
			}
		}
	})
}

// A context that the handler has not asked while it lasted has ended all the same.
func TestContextThatIsLookedAtLate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		var kept context.Context
		q, err := executor.Handle(x, "q", func(ctx context.Context, _ executor.Job[string]) error { kept = ctx; return nil }, executor.QueueConfig[string]{})
		require.NoError(t, err)
		start(t, x)
		enqueue(t, q, "a", "")
		synctest.Wait()
		require.ErrorIs(t, context.Cause(kept), executor.ErrReturned)
		<-kept.Done()
		below, cancel := context.WithTimeout(kept, time.Hour)
		defer cancel()
		require.ErrorIs(t, context.Cause(below), executor.ErrReturned)
	})
}

// With a Timeout the context has that deadline, for each payload anew, and what is
// made from it ends then, too.
func TestDeadlineOfAnAttempt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 1})
		waits := 0
		q, err := executor.Handle(x, "q", func(ctx context.Context, job executor.Job[string]) error {
			begin := time.Now()
			deadline, limited := ctx.Deadline()
			assert.True(t, limited)
			assert.Equal(t, begin.Add(10*time.Second), deadline)
			if job.Payload == "fast" {
				time.Sleep(9 * time.Second)
				return ctx.Err()
			}
			below, cancel := context.WithTimeout(ctx, time.Hour)
			defer cancel()
			<-below.Done()
			assert.Equal(t, 10*time.Second, time.Since(begin))
			assert.ErrorIs(t, ctx.Err(), context.DeadlineExceeded)
			assert.ErrorIs(t, context.Cause(below), executor.ErrTimeout)
			waits++
			return errors.New("too slow")
		}, executor.QueueConfig[string]{Timeout: 10 * time.Second, MaxRetries: -1})
		require.NoError(t, err)
		start(t, x)
		for _, payload := range []string{"fast", "slow", "fast", "slow", "fast"} {
			enqueue(t, q, "a", payload)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(t, 2, waits)
		dead := morgue(t, q)
		require.Len(t, dead, 2)
		require.Contains(t, dead[0].Error, "timed out after 10s: too slow")
		require.EqualValues(t, 3, stats(t, q).Done)
	})
}
