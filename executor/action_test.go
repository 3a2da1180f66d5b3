package executor_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/journal"
)

// did expects how many an action affects.
func did(t testing.TB, want int) func(int, error) {
	return func(n int, err error) {
		t.Helper()
		require.NoError(t, err)
		require.Equal(t, want, n)
	}
}

// deadOf lists the morgue as id and value.
func deadOf(t testing.TB, q *executor.Queue[string]) (lines []string) {
	t.Helper()
	for d, err := range q.Morgue() {
		require.NoError(t, err)
		lines = append(lines, d.ID+d.Payload)
	}
	return lines
}

// TestLowkiq_L20_Actions: perform all now; kill all failed; delete all failed; delete by
// id; of the morgue: requeue ids and all, delete ids and all. Each says how many.
func TestLowkiq_L20_Actions(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		fails := true
		p := probe{decide: func(context.Context, seen) error {
			if fails {
				return errBoom
			}
			return nil
		}}
		q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{RetryIn: func(int) time.Duration { return time.Hour }})
		i, ctx, all := x.Inspect(), t.Context(), inspect.SelectQueue("q")
		start(t, x)
		fail := func(ids ...string) {
			for _, id := range ids {
				enqueue(t, q, id, "")
			}
			synctest.Wait()
		}
		pending := func() (ids []string) {
			for _, id := range []string{"a", "b", "c", "later"} {
				if is, err := q.Pending(ctx, id); is {
					require.NoError(t, err)
					ids = append(ids, id)
				}
			}
			return ids
		}
		fail("a", "b", "c")
		enqueue(t, q, "later", "", executor.In(24*time.Hour))

		did(t, 3)(i.KillFailed(ctx, all))
		require.Equal(t, []string{"a", "b", "c"}, deadOf(t, q))
		require.Equal(t, []string{"later"}, pending())
		for d := range q.Morgue() {
			require.Equal(t, 2, d.Attempt)
			require.Len(t, d.Failures, 2)
			require.Equal(t, "boom", d.Failures[0].Error)
		}
		did(t, 2)(backOf(i.Requeue(ctx, inspect.SelectIDs("q", "a", "c", "nobody"))))
		synctest.Wait()
		require.Equal(t, []string{"b"}, deadOf(t, q))
		require.Equal(t, []string{"a", "c", "later"}, pending())
		did(t, 2)(i.DeleteFailed(ctx, all))
		require.Equal(t, []string{"later"}, pending())

		fail("a", "b", "c")
		did(t, 1)(i.Delete(ctx, inspect.SelectIDs("q", "a")))
		did(t, 0)(i.Delete(ctx, inspect.SelectIDs("q", "a", "nobody")))
		require.Equal(t, []string{"b", "c", "later"}, pending())
		did(t, 2)(i.KillFailed(ctx, inspect.SelectIDs("q", "b", "c", "later")))
		require.Equal(t, []string{"b", "b", "c"}, slices.Sorted(slices.Values(deadOf(t, q))))
		did(t, 1)(i.DeleteDead(ctx, inspect.SelectIDs("q", "c")))
		require.Equal(t, []string{"b", "b"}, deadOf(t, q))
		did(t, 2)(backOf(i.Requeue(ctx, all)))
		synctest.Wait()
		did(t, 2)(i.KillFailed(ctx, all))
		did(t, 2)(i.DeleteDead(ctx, all))
		did(t, 0)(i.DeleteDead(ctx, all))
		require.Empty(t, deadOf(t, q))

		fails = false
		enqueue(t, q, "c", "", executor.In(time.Hour))
		did(t, 2)(i.RunNow(ctx, all))
		synctest.Wait()
		require.Empty(t, pending())
		s, err := q.Stats(ctx)
		require.NoError(t, err)
		require.Equal(t, []uint64{2, 6, 7}, []uint64{s.Done, s.Deleted, s.Buried})
		require.Zero(t, s.Payloads+s.Jobs+s.Dead+s.Retrying)
	})
}

// Performing now gives the retries back, or keeps them, as one likes: also over a
// crash, and of halted jobs.
func TestLowkiq_L20_PerformNowAndTheRetries(t *testing.T) {
	for name, keep := range map[string]bool{"given back": false, "kept": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				disk := new(journal.Memory)
				x := openOn(t, disk, executor.Config{})
				p := probe{decide: func(context.Context, seen) error { return errBoom }}
				cfg := executor.QueueConfig[string]{MaxRetries: 2, RetryIn: always(time.Hour), DeadLetters: executor.DeadLetters[string]{OnExhausted: executor.OnExhaustedHalt}}
				q := handle(t, x, "q", p.handle, cfg)
				start(t, x)
				enqueue(t, q, "failed", "")
				time.Sleep(90 * time.Minute) // it has made its first retry, and waits for the second
				enqueue(t, q, "new", "", executor.In(24*time.Hour))
				now := func(x *executor.Executor) (int, error) {
					if keep {
						return x.Inspect().RetryNow(t.Context(), inspect.SelectQueue("q"))
					}
					return x.Inspect().RunNow(t.Context(), inspect.SelectQueue("q"))
				}
				require.NoError(t, pauseAll(t.Context(), x))
				did(t, 2)(now(x))

				y := openOn(t, disk.Crash(), executor.Config{})
				again := probe{decide: func(context.Context, seen) error { return errBoom }}
				handle(t, y, "q", again.handle, cfg)
				require.NoError(t, resumeAll(t.Context(), y))
				start(t, y)
				synctest.Wait()
				runs := map[string]int{}
				for _, s := range again.seen() {
					runs[s.id] = s.retry
				}
				if !keep {
					require.Equal(t, map[string]int{"failed": -1, "new": -1}, runs)
					return
				}
				require.Equal(t, map[string]int{"failed": 1, "new": -1}, runs, "the second retry")
				require.Equal(t, inspect.JobHalted, explain(t, y, "q", "failed").State)
				did(t, 2)(now(y))
				synctest.Wait()
				require.Equal(t, inspect.JobHalted, explain(t, y, "q", "failed").State, "once more, and not all over")
			})
		})
	}
}

// Cancel and Delete of what waits: of an id, of payloads, by filter and state; with
// Handle what is behind goes on.
func TestRemoveWhatWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		var p probe
		q, err := executor.Handle(x, "q", func(ctx context.Context, job executor.Job[string]) error {
			if job.Payload == "bad" {
				return errBoom
			}
			return p.handle(ctx, executor.Merged[string]{ID: job.ID, Payloads: []executor.Payload[string]{{Value: job.Payload}}})
		}, executor.QueueConfig[string]{RetryIn: func(int) time.Duration { return time.Hour }})
		require.NoError(t, err)
		i, ctx := x.Inspect(), t.Context()
		start(t, x)
		for _, payload := range []string{"bad", "2", "3", "4"} {
			enqueue(t, q, "order-1", payload)
		}
		synctest.Wait()
		var at []uint64
		at = append(at, enqueue(t, q, "order-1", "5").Position, enqueue(t, q, "order-1", "6").Position)
		later := enqueue(t, q, "order-2", "later", executor.In(2*time.Hour))
		did(t, 0)(i.Cancel(ctx, inspect.SelectIDs("q", "order-1").At(), ""))
		did(t, 1)(i.Cancel(ctx, inspect.SelectIDs("q", "order-1").At(at[1], later.Position), "a duplicate"))
		did(t, 1)(i.Delete(ctx, inspect.SelectIDs("q", "order-1").At(at[0])))
		require.Equal(t, []string{"order-16"}, deadOf(t, q))
		for d := range q.Morgue() {
			require.Equal(t, "executor: canceled by an operator: a duplicate", d.Error)
			require.Equal(t, 1, d.Attempt, "it has not failed")
		}
		did(t, 0)(i.Delete(ctx, inspect.SelectJobs("q", inspect.JobFilter{IDPrefix: "order-3"})))
		did(t, 0)(i.Delete(ctx, inspect.SelectJobs("q", inspect.JobFilter{OlderThan: time.Hour})))
		did(t, 0)(i.DeleteFailed(ctx, inspect.SelectJobs("q", inspect.JobFilter{ErrorContains: "bang"}, inspect.JobRetrying)))
		did(t, 1)(i.DeleteFailed(ctx, inspect.SelectJobs("q", inspect.JobFilter{ErrorContains: "boom", Failed: true, IDPrefix: "order-"}, inspect.JobRetrying)))
		synctest.Wait()
		require.Equal(t, []string{"order-1[2]", "order-1[3]", "order-1[4]"}, p.log(), "what was behind goes on")
		did(t, 1)(i.Cancel(ctx, inspect.SelectJobs("q", inspect.JobFilter{}, inspect.JobScheduled), ""))
		did(t, 1)(backOf(i.Requeue(ctx, inspect.SelectIDs("q", "order-2").At(later.Position))))
		did(t, 0)(backOf(i.Requeue(ctx, inspect.SelectIDs("q", "order-2").At(at[1]))))
		did(t, 1)(i.DeleteDead(ctx, inspect.SelectJobs("q", inspect.JobFilter{ErrorContains: "duplicate"})))
		synctest.Wait()
		require.Equal(t, "order-2[later]", p.log()[3])
	})
}

// A handler whose job is canceled or deleted hears of it. Its payload goes the person's
// way whatever error it returns, and is done if it says so.
func TestRemoveWhatRuns(t *testing.T) {
	for name, c := range map[string]struct {
		act    func(inspect.Inspector, inspect.Selection) (int, error)
		cause  error
		result error
		counts []uint64 // done, deleted, buried
	}{
		"cancel":            {cancel, executor.ErrCanceledByOperator, errBoom, []uint64{0, 0, 1}},
		"cancel, snoozes":   {cancel, executor.ErrCanceledByOperator, executor.Snooze(time.Hour), []uint64{0, 0, 1}},
		"cancel, last try":  {cancel, executor.ErrCanceledByOperator, executor.RetryAfter(0, errBoom), []uint64{0, 0, 1}},
		"cancel, but done":  {cancel, executor.ErrCanceledByOperator, nil, []uint64{1, 0, 0}},
		"delete":            {remove, executor.ErrDeletedByOperator, context.Canceled, []uint64{0, 1, 0}},
		"delete, cancels":   {remove, executor.ErrDeletedByOperator, executor.Cancel(errBoom), []uint64{0, 1, 0}},
		"delete, but done":  {remove, executor.ErrDeletedByOperator, nil, []uint64{1, 0, 0}},
		"delete, discarded": {remove, executor.ErrDeletedByOperator, executor.Discard(), []uint64{0, 0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := open(t, "", executor.Config{})
				var causes []error
				block := func(ctx context.Context) error {
					<-ctx.Done()
					causes = append(causes, context.Cause(ctx))
					return c.result
				}
				single, err := executor.Handle(x, "single", func(ctx context.Context, _ executor.Job[string]) error { return block(ctx) }, executor.QueueConfig[string]{MaxRetries: 1})
				require.NoError(t, err)
				merged := handle(t, x, "merged", func(ctx context.Context, _ executor.Merged[string]) error { return block(ctx) }, executor.QueueConfig[string]{MaxRetries: 1})
				start(t, x)
				for _, q := range []*executor.Queue[string]{single, merged} {
					first := enqueue(t, q, "a", "1")
					synctest.Wait()
					did(t, 0)(x.Inspect().KillFailed(t.Context(), inspect.SelectQueue(q.Name())))
					did(t, 1)(c.act(x.Inspect(), inspect.SelectIDs(q.Name(), "a").At(first.Position)))
					synctest.Wait()
					require.Len(t, causes, 1)
					require.ErrorIs(t, causes[0], c.cause)
					s, err := q.Stats(t.Context())
					require.NoError(t, err)
					require.Equal(t, c.counts, []uint64{s.Done, s.Deleted, s.Buried})
					require.Zero(t, s.Jobs+s.Payloads)
					causes = nil
				}
			})
		})
	}
}

func cancel(i inspect.Inspector, s inspect.Selection) (int, error) {
	return i.Cancel(context.Background(), s, "")
}

func remove(i inspect.Inspector, s inspect.Selection) (int, error) {
	return i.Delete(context.Background(), s)
}

// An id that runs goes with what is behind the payload in hand; one behind it alone
// leaves the handler be.
func TestRemoveBehindWhatRuns(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 1})
		goOn := make(chan error)
		var ran []string
		q, err := executor.Handle(x, "q", func(ctx context.Context, job executor.Job[string]) error {
			ran = append(ran, job.ID+job.Payload)
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case err := <-goOn:
				return err
			}
		}, executor.QueueConfig[string]{Share: executor.Share{Shards: 1}})
		require.NoError(t, err)
		var at []uint64
		for _, payload := range []string{"1", "2", "3", "4"} {
			at = append(at, enqueue(t, q, "a", payload).Position)
		}
		start(t, x)
		synctest.Wait()
		did(t, 1)(x.Inspect().Delete(t.Context(), inspect.SelectIDs("q", "a").At(at[1])))
		synctest.Wait()
		require.Equal(t, []string{"a1"}, ran)
		goOn <- nil
		synctest.Wait()
		require.Equal(t, []string{"a1", "a3"}, ran)
		did(t, 2)(x.Inspect().Cancel(t.Context(), inspect.SelectIDs("q", "a"), ""))
		synctest.Wait()
		require.Equal(t, []string{"a1", "a3"}, ran)
		require.Equal(t, []string{"a3", "a4"}, deadOf(t, q))
		s, err := q.Stats(t.Context())
		require.NoError(t, err)
		require.Equal(t, []uint64{1, 1, 2}, []uint64{s.Done, s.Deleted, s.Buried})
	})
}

// The others of a batch run again, and spend no retry.
func TestRemoveOneOfABatch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 1})
		var runs [][]string
		q, err := executor.HandleBatch(x, "q", func(ctx context.Context, jobs []executor.Merged[string]) error {
			var ids []string
			for _, job := range jobs {
				require.Equal(t, 1, job.Attempt)
				ids = append(ids, job.ID)
			}
			slices.Sort(ids)
			if runs = append(runs, ids); len(runs) == 1 {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}, executor.QueueConfig[string]{Share: executor.Share{Shards: 1}, BatchSize: 3})
		require.NoError(t, err)
		for _, id := range []string{"a", "b", "c"} {
			enqueue(t, q, id, "")
		}
		start(t, x)
		synctest.Wait()
		did(t, 1)(x.Inspect().Cancel(t.Context(), inspect.SelectIDs("q", "b"), ""))
		synctest.Wait()
		require.Equal(t, [][]string{{"a", "b", "c"}, {"a", "c"}}, runs)
		require.Equal(t, []string{"b"}, deadOf(t, q))
	})
}

// What a worker has taken and not come to when a person deletes it does not run.
func TestDeletedBeforeTheirHandler(t *testing.T) {
	for _, shape := range []string{"events", "merged"} {
		t.Run(shape, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := open(t, "", executor.Config{Workers: 1})
				deleted, ran := -1, 0
				handler := func(ctx context.Context) (err error) {
					if ran++; ran == 3 {
						deleted, err = x.Inspect().Delete(ctx, inspect.SelectQueue("q"))
					}
					return err
				}
				var q *executor.Queue[string]
				if shape == "merged" {
					q = handle(t, x, "q", func(ctx context.Context, _ executor.Merged[string]) error { return handler(ctx) }, executor.QueueConfig[string]{})
				} else {
					var err error
					q, err = executor.Handle(x, "q", func(ctx context.Context, _ executor.Job[string]) error { return handler(ctx) }, executor.QueueConfig[string]{})
					require.NoError(t, err)
				}
				for i := range 1000 {
					enqueue(t, q, fmt.Sprint(i), "x")
				}
				start(t, x)
				synctest.Wait()
				require.Equal(t, 3, ran)
				require.Equal(t, 998, deleted, "with the one that deletes")
				stop(t, x)
			})
		})
	}
}

// Nor does one that is deleted while its keys are computed.
func TestDeletedWhileItsKeysAreComputed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		var p probe
		accepted, deleted := false, -1
		q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{
			Locks: executor.Locks[string]{OnRun: func(id, _ string) []string {
				if accepted && deleted < 0 {
					var err error
					deleted, err = x.Inspect().Delete(context.Background(), inspect.SelectIDs("q", id))
					require.NoError(t, err)
				}
				return []string{"k"}
			}, Unlock: func(string, string) []string { return []string{"k"} }},
		}})
		enqueue(t, q, "a", "x")
		accepted = true
		start(t, x)
		synctest.Wait()
		require.Equal(t, 1, deleted)
		require.Empty(t, p.log())
		require.Zero(t, stats(t, q).Payloads)
		stop(t, x)
	})
}

// What is deleted leaves no key locked, no line, no lease, no slot and no weight in the
// backlog.
func TestDeletedJobsLetGo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		key := func(string, string) []string { return []string{"k"} }
		slots, err := executor.NewSlots(x, "s", executor.SlotsConfig[int]{Next: func(n int) int { return n + 1 }, MaxSteps: 1, KeepOnFailure: true, TTL: 1000 * time.Hour})
		require.NoError(t, err)
		var p probe
		p.decide = func(_ context.Context, s seen) error {
			if s.values[0] == "fails" {
				return errBoom
			}
			return nil
		}
		ctx, i := t.Context(), x.Inspect()
		locker := handle(t, x, "locker", p.handle, executor.QueueConfig[string]{
			MaxBacklog: executor.BacklogLimit{Payloads: 1}, Conditions: executor.Conditions[string]{
				Locks: executor.Locks[string]{OnEnqueue: key, OnRun: func(string, string) []string { return []string{"run"} }, Unlock: key, UnlockOnBurial: false},
			},
		})
		waiter := handle(t, x, "waiter", p.handle, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Locks: executor.Locks[string]{BlockedBy: key, OnRun: key, Unlock: key}}})
		slotted := handle(t, x, "slotted", p.handle, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Slots: []executor.SlotSource{slots}}})
		start(t, x)
		free := func() {
			t.Helper()
			synctest.Wait()
			require.Empty(t, lockedKeys(x))
		}
		enqueue(t, locker, "a", "fails", executor.In(time.Hour))
		enqueue(t, waiter, "w", "1")
		synctest.Wait()
		require.Empty(t, p.log())
		did(t, 1)(i.Delete(ctx, inspect.SelectIDs("locker", "a")))
		free()
		require.Equal(t, []string{"w[1]"}, p.log())

		enqueue(t, locker, "a", "fails") // there is room again; it locks "run", too
		enqueue(t, waiter, "w", "2")
		enqueue(t, waiter, "w2", "2")
		synctest.Wait()
		did(t, 1)(i.Delete(ctx, inspect.SelectIDs("waiter", "w")))
		did(t, 1)(i.DeleteFailed(ctx, inspect.SelectQueue("locker")))
		free()
		require.Equal(t, []string{"w[1]", "a[fails]", "w2[2]"}, p.log())

		enqueue(t, locker, "a", "fails")
		synctest.Wait()
		did(t, 1)(i.Cancel(ctx, inspect.SelectQueue("locker"), ""))
		synctest.Wait()
		require.Len(t, lockedKeys(x), 2, "as after any burial")
		did(t, 1)(i.DeleteDead(ctx, inspect.SelectQueue("locker")))
		free()

		enqueue(t, slotted, "x", "fails")
		synctest.Wait()
		require.Len(t, slots.Snapshot().Open, 1)
		did(t, 1)(i.Delete(ctx, inspect.SelectIDs("slotted", "x")))
		require.Empty(t, slots.Snapshot().Open)
		b, err := locker.Stats(ctx)
		require.NoError(t, err)
		require.Zero(t, b.Backlog.Payloads)
	})
}

func TestBadSelections(t *testing.T) {
	x := open(t, "", executor.Config{})
	q := handle(t, x, "q", func(context.Context, executor.Merged[string]) error { return nil }, executor.QueueConfig[string]{})
	i, ctx := x.Inspect(), t.Context()
	enqueue(t, q, "a", "1")
	ended, cancel := context.WithCancel(ctx)
	cancel()
	for name, c := range map[string]struct {
		s    inspect.Selection
		ctx  context.Context
		want error
	}{
		"none":         {inspect.Selection{}, ctx, executor.ErrUnknownQueue},
		"no queue":     {inspect.SelectQueue("nobody's"), ctx, executor.ErrUnknownQueue},
		"empty id":     {inspect.SelectIDs("q", "a", ""), ctx, executor.ErrInvalidID},
		"state":        {inspect.SelectJobs("q", inspect.JobFilter{}, "sleepy"), ctx, inspect.ErrInvalidQuery},
		"not listed":   {inspect.SelectJobs("q", inspect.JobFilter{}, inspect.JobBlocked), ctx, inspect.ErrInvalidQuery},
		"negative age": {inspect.SelectJobs("q", inspect.JobFilter{OlderThan: -1}), ctx, inspect.ErrInvalidQuery},
		"ended":        {inspect.SelectQueue("q"), ended, context.Canceled},
		"no context":   {inspect.SelectQueue("q"), nil, executor.ErrContext},
	} {
		for act, f := range map[string]func(context.Context, inspect.Selection) (int, error){
			"run now": i.RunNow, "delete": i.Delete, "kill": i.KillFailed, "delete failed": i.DeleteFailed,
			"cancel":  func(ctx context.Context, s inspect.Selection) (int, error) { return i.Cancel(ctx, s, "") },
			"requeue": requeueOf(i), "delete dead": i.DeleteDead,
		} {
			n, err := f(c.ctx, c.s)
			require.ErrorIs(t, err, c.want, "%s: %s", name, act)
			require.Zero(t, n)
		}
	}
	_, err := i.Requeue(ctx, inspect.SelectJobs("q", inspect.JobFilter{}, inspect.JobRetrying))
	require.ErrorIs(t, err, inspect.ErrInvalidQuery)
	is, err := q.Pending(ctx, "a")
	require.NoError(t, err)
	require.True(t, is)
}

// What an action has said is on disk, and selections of many jobs go through all of
// them.
func TestActionsSurviveACrash(t *testing.T) {
	disk := new(journal.Memory)
	x := openOn(t, disk, executor.Config{})
	q := handle(t, x, "q", func(context.Context, executor.Merged[string]) error { return nil }, executor.QueueConfig[string]{})
	var items []executor.Item[string]
	for n := range 2000 {
		items = append(items, executor.Item[string]{ID: fmt.Sprint(n), Payload: fmt.Sprint(n), Due: time.Now().Add(time.Hour)})
	}
	_, err := q.EnqueueMany(t.Context(), items)
	require.NoError(t, err)
	i := x.Inspect()
	did(t, 1111)(i.Delete(t.Context(), inspect.SelectJobs("q", inspect.JobFilter{IDPrefix: "1"})))
	did(t, 889)(i.Cancel(t.Context(), inspect.SelectQueue("q"), ""))
	did(t, 111)(i.DeleteDead(t.Context(), inspect.SelectJobs("q", inspect.JobFilter{IDPrefix: "2"})))
	x = openOn(t, disk.Crash(), executor.Config{})
	q = handle(t, x, "q", func(context.Context, executor.Merged[string]) error { return errors.New("it ran") }, executor.QueueConfig[string]{})
	start(t, x)
	s, err := q.Stats(t.Context())
	require.NoError(t, err)
	require.Equal(t, []int{0, 0, 778}, []int{s.Jobs, s.Payloads, s.Dead})
}

// A selection is narrowed to payloads by their positions, whatever it was before.
func TestSelectionAtPositions(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		q := handle(t, x, "q", func(context.Context, executor.Merged[string]) error { return executor.Cancel(errBoom) }, executor.QueueConfig[string]{})
		start(t, x)
		var at []uint64
		for _, id := range []string{"a1", "a2", "b1", "b2"} {
			at = append(at, enqueue(t, q, id, id).Position)
		}
		synctest.Wait()
		i, ctx := x.Inspect(), t.Context()
		for _, c := range []struct {
			which inspect.Selection
			dead  int
		}{
			{inspect.SelectQueue("q").At(), 0},
			{inspect.SelectIDs("q", "a1").At(at[1]), 0},
			{inspect.SelectPrefix("q", "b").At(at[0], at[1]), 0},
			{inspect.SelectQueue("q").At(at[2], at[0]), 2}, // and not what is between them
			{inspect.SelectIDs("q", "a1", "a2").At(at...), 1},
		} {
			n, err := i.DeleteDead(ctx, c.which)
			require.NoError(t, err)
			require.Equal(t, c.dead, n)
		}
	})
}
