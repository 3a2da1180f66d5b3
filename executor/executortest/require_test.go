package executortest_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/events"
	"github.com/strandjobs/strand/executor/executortest"
)

// Each assertion holds where it should, and fails where it should not, with what there
// was instead.
func TestAssertions(t *testing.T) {
	var orders, mails *executor.Queue[string]
	setup := func(x *executor.Executor) (err error) {
		if mails, err = executor.Handle(x, "mails", done, executor.QueueConfig[string]{Merge: executor.MergeKeepFirst}); err != nil {
			return err
		}
		orders, err = executor.Handle(x, "orders", func(_ context.Context, job executor.Job[string]) error {
			switch {
			case job.ID == "fails" && job.Attempt < 3, job.ID == "dies":
				return errBoom
			}
			return mails.FollowUp(job, job.ID, "about "+job.Payload, executor.In(time.Minute))
		}, executor.QueueConfig[string]{RetryIn: func(n int) time.Duration { return time.Duration(n+1) * time.Second }, MaxRetries: 2, Share: executor.Share{Shards: 1}})
		return err
	}
	failing(t, executortest.Config{Executor: executor.Config{Workers: 1}}, setup, func(t *testing.T, f *fake, x *executortest.Executor) {
		put := func(q *executor.Queue[string], id, payload string) executor.Receipt {
			r, err := q.Enqueue(t.Context(), id, payload)
			require.NoError(t, err)
			time.Sleep(time.Millisecond) // so that it is older than the next
			return r
		}
		put(orders, "ok", "a")
		x.UntilIdle()
		put(orders, "ok", "b")
		put(orders, "fails", "c")
		put(orders, "dies", "d")
		x.UntilIdle()
		one, other := put(mails, "twice", "e"), put(mails, "twice", "e")
		x.UntilIdle()
		holds := func(assertion func()) {
			t.Helper()
			require.Empty(t, f.of(assertion))
		}
		fails := func(assertion func(), says ...string) {
			t.Helper()
			told := f.of(assertion)
			require.Len(t, told, 1, "it should have failed")
			for _, words := range says {
				assert.Contains(t, told[0], words)
			}
		}
		holds(func() { executortest.RequireEnqueued(x, orders, "ok", "a", "b") })
		holds(func() { executortest.RequireEnqueued(x, orders, "ok") })
		fails(func() { executortest.RequireEnqueued(x, orders, "ok", "b", "a") }, "orders/ok: a\n", "orders/ok: b\n", "orders/dies: d")
		fails(func() { executortest.RequireEnqueued(x, orders, "ok", "a") }, "orders/ok: b\n")
		fails(func() { executortest.RequireEnqueued(x, orders, "no") }, "anything", "nothing", "orders/ok: a")
		fails(func() { executortest.RequireEnqueued(x, mails, "ok", "about a") }, "mails/ok: about b, due in 1m0s")

		holds(func() { executortest.RequireNotEnqueued(x, orders, "no", "nobody") })
		fails(func() { executortest.RequireNotEnqueued(x, orders, "no", "ok") }, "orders/ok: a")
		fails(func() { executortest.RequireNotEnqueued(x, mails) }, "mails/twice: e")
		for _, none := range []executortest.Named{nil, (*executor.Queue[string])(nil), &executor.Queue[string]{}} {
			fails(func() { executortest.RequireNotEnqueued(x, none) }, "the queue is nil")
			fails(func() { executortest.RequireOutcomes(x, none, "ok") }, "the queue is nil")
			fails(func() { executortest.RequireRetries(x, none, "ok") }, "the queue is nil")
			fails(func() { executortest.RequireBuried(x, none, "dies", "") }, "the queue is nil")
		}
		fails(func() { executortest.RequireRan(x, (*executor.Queue[string])(nil), "ok") }, "the queue is nil")

		holds(func() { executortest.RequireRan(x, orders, "ok", "a", "b") })
		fails(func() { executortest.RequireRan(x, orders, "ok", "a") }, "orders/ok: b, attempt 1: done", "no job")
		fails(func() { executortest.RequireRan(x, orders, "ok", "a", "c") })
		fails(func() { executortest.RequireRan(x, mails, "ok", "about a", "about b") }, "nothing", "scheduled")

		holds(func() { executortest.RequireMerged(x, other, one) })
		fails(func() { executortest.RequireMerged(x, one, other) }, "merged were\n\tmails/twice: ")

		holds(func() {
			executortest.RequireOrder(x, "orders/ok", "orders/ok", "orders/fails", "orders/dies", "mails/twice")
		})
		fails(func() {
			executortest.RequireOrder(x, "orders/ok", "orders/ok", "orders/dies", "orders/fails", "mails/twice")
		})
		fails(func() { executortest.RequireOrder(x, "orders/ok") }, "orders/fails: c, attempt 1: failed: boom, again in 1s")

		holds(func() { executortest.RequireFailed(x, orders, "fails", "boom") })
		fails(func() { executortest.RequireFailed(x, orders, "fails", "bang") }, "boom", "retrying")
		fails(func() { executortest.RequireFailed(x, orders, "ok", "") })
		holds(func() { executortest.RequireDue(x, orders, "fails", 998*time.Millisecond) })
		fails(func() { executortest.RequireDue(x, orders, "fails", 2*time.Second) }, "due in 998ms")
		fails(func() { executortest.RequireDue(x, orders, "ok", 0) }, "no job")
		fails(func() { executortest.RequireDone(x, orders, "ok", "fails") }, "orders/fails")
		fails(func() { executortest.RequireDone(x, mails, "ok") })
		holds(func() { executortest.RequireDone(x, orders, "ok") })
		fails(func() { executortest.RequireEmpty(x) }, "orders/fails is retrying")
		fails(func() { executortest.RequireBuried(x, orders, "dies", "boom") }, "failed 1 time: boom")

		x.UntilEmpty()
		holds(func() { executortest.RequireEmpty(x) })
		holds(func() { executortest.RequireDone(x, orders, "fails") })
		holds(func() { executortest.RequireBuried(x, orders, "dies", "boom") })
		fails(func() { executortest.RequireBuried(x, orders, "dies", "bang") }, "orders/dies: \"d\": attempt 3: boom")
		fails(func() { executortest.RequireFailed(x, orders, "dies", "boom") }, "for the last time")
		holds(func() { executortest.RequireRetries(x, orders, "dies", time.Second, 2*time.Second) })
		fails(func() { executortest.RequireRetries(x, orders, "dies", time.Second) }, "[1s 2s]")
		kinds := []events.Kind{events.Failed, events.Failed, events.Done}
		holds(func() { executortest.RequireOutcomes(x, orders, "fails", kinds...) })
		fails(func() { executortest.RequireOutcomes(x, orders, "fails", kinds[1:]...) }, "[failed done]", "attempt 3: done")
		holds(func() { executortest.RequireDone(x, mails, "ok", "fails", "twice") })

		x.Forget()
		holds(func() { executortest.RequireOrder(x) })
		holds(func() { executortest.RequireNotEnqueued(x, orders) })
	})
}

// A payload is equal when its bytes are: what a codec leaves out does not count.
func TestPayloadsAreComparedAsTheyAreWritten(t *testing.T) {
	type visit struct{ At time.Time }
	var visits *executor.Queue[visit]
	executortest.Run(t, executortest.Config{}, func(x *executor.Executor) (err error) {
		visits, err = executor.Handle(x, "visits", func(context.Context, executor.Job[visit]) error { return nil }, executor.QueueConfig[visit]{})
		return err
	}, func(t *testing.T, x *executortest.Executor) {
		now := time.Now() // it has a monotonic part
		_, err := visits.Enqueue(t.Context(), "1", visit{now}, executor.Metadata(map[string]string{"trace": "7"}))
		require.NoError(t, err)
		all := executortest.RequireEnqueued(x, visits, "1", visit{now})
		require.Equal(t, map[string]string{"trace": "7"}, all[0].Metadata)
		require.IsType(t, visit{}, all[0].Payload)
		x.UntilIdle()
		executortest.RequireRan(x, visits, "1", visit{now})
	})
}

// Between two steps nothing runs: what is enqueued gathers, whenever it is due.
func TestWhatWaitsGathers(t *testing.T) {
	var states *executor.Queue[int]
	var calls [][]int
	executortest.Run(t, executortest.Config{}, func(x *executor.Executor) (err error) {
		states, err = executor.HandleMerged(x, "states", func(_ context.Context, job executor.Merged[int]) error {
			var values []int
			for _, p := range job.Payloads {
				values = append(values, p.Value)
			}
			calls = append(calls, values)
			return nil
		}, executor.QueueConfig[int]{})
		return err
	}, func(t *testing.T, x *executortest.Executor) {
		for round := range 3 {
			for i := range 4 {
				_, err := states.Enqueue(t.Context(), "1", i+round)
				require.NoError(t, err)
				time.Sleep(time.Minute)
			}
			require.Len(t, calls, round)
			x.UntilIdle()
			require.Equal(t, []int{round, round + 1, round + 2, round + 3}, calls[round])
		}
		executortest.RequireRan(x, states, "1", 0, 1, 2, 3, 1, 2, 3, 4, 2, 3, 4, 5)
		require.Len(t, x.Runs("states"), 3)
	})
}
