package executor_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/journal"
)

// What is said of exported identifiers, and was held by no other test; see
// bench/PROOFS.md.

// After each error but ErrUnknown nothing of the call was accepted: neither the one
// payload of it, nor those beside a bad one.
func TestErrorsAcceptNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		codec := &hooks{encode: says[error](nil, errBoom), decode: says[error](nil, nil)}
		p := &probe{}
		next := func() (*executor.Executor, *executor.Queue[string]) {
			x := openOn(t, disk, executor.Config{Advanced: executor.Advanced{MaxPayloadBytes: 100}, MaxBacklog: executor.BacklogLimit{Payloads: 2}})
			return x, handle(t, x, "q", p.handle, executor.QueueConfig[string]{Codec: codec})
		}
		x, q := next()
		refused := func(want error, ctx context.Context, id, payload string, options ...executor.Option) {
			t.Helper()
			_, err := q.Enqueue(ctx, id, payload, options...)
			require.ErrorIs(t, err, want)
			require.NotErrorIs(t, err, executor.ErrUnknown)
			items := []executor.Item[string]{{ID: "beside", Payload: "refused"}, {ID: id, Payload: payload}}
			_, err = q.EnqueueMany(ctx, items, options...)
			require.ErrorIs(t, err, want)
			require.NotErrorIs(t, err, executor.ErrUnknown)
		}
		ctx := t.Context()
		enqueue(t, q, "a", "1", executor.FromSource("m", 1))
		refused(executor.ErrInvalidID, ctx, "", "refused")
		refused(executor.ErrInvalidID, ctx, strings.Repeat("x", executor.MaxIDBytes+1), "refused")
		refused(executor.ErrInvalidItem, ctx, "a", "refused", executor.Score(math.NaN()))
		refused(executor.ErrTooLarge, ctx, "a", strings.Repeat("refused", 20))
		refused(executor.ErrInvalidKey, ctx, "a", "refused", executor.IdempotencyKey(""))
		_, err := q.Enqueue(ctx, "a", "refused", executor.FromSource("m", 1))
		require.ErrorAs(t, err, new(*executor.StaleError))
		refused(executor.ErrEncode, ctx, "a", "bad")
		refused(executor.ErrContext, nil, "a", "refused")
		ended, cancel := context.WithCancelCause(ctx)
		cancel(errBoom)
		refused(errBoom, ended, "a", "refused")
		_, err = enqueueRaw(ctx, x, "another", "a", []byte("refused"))
		require.ErrorIs(t, err, executor.ErrUnknownQueue)
		disk.FailNext(journal.ErrFull)
		refused(executor.ErrFull, ctx, "a", "refused")
		time.Sleep(time.Hour) // until there is room
		enqueue(t, q, "a", "2")
		refused(executor.ErrFull, ctx, "a", "refused") // the backlog is
		require.Equal(t, 2, stats(t, q).Payloads)
		stop(t, x)
		refused(executor.ErrClosed, ctx, "a", "refused")

		x, q = next()
		disk.FailNext(errBoom)
		require.ErrorIs(t, x.SetSourceOffset(ctx, "m", 2), executor.ErrUnknown)
		synctest.Wait()
		refused(executor.ErrFailed, ctx, "a", "refused")

		x, _ = next()
		start(t, x)
		synctest.Wait()
		require.Equal(t, []string{"a[1 2]"}, p.log())
		stop(t, x)
	})
}

// Async does not wait for the disk, until that is megabytes behind. Key and
// FromSource wait for the commit all the same, and their receipts are those of
// DurabilitySync.
func TestAsyncReturnsAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		x := openOn(t, disk, executor.Config{Durability: executor.DurabilityAsync})
		q := handle(t, x, "q", (&probe{}).handle, executor.QueueConfig[string]{Merge: executor.MergeKeepFirst})
		brake := hang(disk)
		defer brake.release()
		begin := time.Now()
		first := enqueue(t, q, "a", "same")
		require.Equal(t, executor.Receipt{ID: "a", Position: first.Position}, first)
		again := enqueue(t, q, "a", "same")
		require.Equal(t, executor.Receipt{ID: "a", Position: first.Position + 1}, again)
		_, err := q.EnqueueMany(t.Context(), []executor.Item[string]{{ID: "b"}, {ID: "c"}})
		require.NoError(t, err)
		require.Zero(t, time.Since(begin))
		keyed := func(ctx context.Context) error {
			_, err := q.Enqueue(ctx, "a", "same", executor.IdempotencyKey("k"))
			return err
		}
		require.ErrorIs(t, within(time.Second, keyed), executor.ErrUnknown)

		behind := 0
		for err = nil; err == nil && behind < 100; behind++ {
			err = within(time.Second, func(ctx context.Context) error {
				_, err := q.Enqueue(ctx, "large", strings.Repeat("x", 1<<19))
				return err
			})
		}
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.GreaterOrEqual(t, behind, 8)
		brake.release()
		require.NoError(t, keyed(t.Context()))
		third := enqueue(t, q, "a", "same", executor.FromSource("m", 1))
		require.Equal(t, executor.Receipt{ID: "a", Position: third.Position, MergedInto: first.Position, Durable: true}, third)
	})
}

// What is open runs no job until Start is called. The end of Start's context, once
// it has returned, ends none.
func TestNothingRunsBeforeStart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		p := &probe{}
		next := func() (*executor.Executor, *executor.Queue[string]) {
			x := openOn(t, disk, executor.Config{})
			q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{})
			enqueue(t, q, "a", "x")
			time.Sleep(time.Hour)
			require.Empty(t, p.seen())
			return x, q
		}
		x, _ := next()
		stop(t, x)
		x, q := next()
		ctx, cancel := context.WithCancel(t.Context())
		require.NoError(t, x.Start(ctx))
		cancel()
		synctest.Wait()
		enqueue(t, q, "b", "x")
		synctest.Wait()
		require.Equal(t, []string{"a[x x]", "b[x]"}, p.log())
		require.NoError(t, x.Err())
		stop(t, x)
	})
}

// Whatever a handler does that Stop has left behind, the next start finds the
// journal as Stop left it: its job has not run, and its calls are refused.
func TestLeftBehindChangesNothing(t *testing.T) {
	ends := map[string]func() error{
		"nil": func() error { return nil }, "error": func() error { return errBoom },
		"cancel": func() error { return executor.Cancel(errBoom) }, "discard": executor.Discard,
		"snooze": func() error { return executor.Snooze(time.Hour) }, "panic": func() error { panic("left behind") },
	}
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		x := openOn(t, disk, executor.Config{Workers: len(ends)})
		release := make(chan struct{})
		var q *executor.Queue[string]
		q = handle(t, x, "q", func(ctx context.Context, job executor.Merged[string]) error {
			end := ends[job.ID]
			if end == nil {
				return executor.Cancel(errBoom)
			}
			<-release
			for name, call := range calls(x, q) {
				if name != "Keys.Locked" { // it tells what was locked
					assert.Error(t, call(context.WithoutCancel(ctx)), name)
				}
				assert.Error(t, call(context.Background()), name)
			}
			return end()
		}, executor.QueueConfig[string]{MaxRetries: -1, DeadLetters: executor.DeadLetters[string]{
			RetriesExhausted: func(_ context.Context, jobs []executor.Merged[string]) {
				assert.Nil(t, ends[jobs[0].ID], "%s: it runs again", jobs[0].ID)
			},
		}})
		require.NoError(t, x.SetSourceOffset(t.Context(), "m", 1))
		require.NoError(t, x.KeyLocks().Lock(t.Context(), "held"))
		start(t, x)
		enqueue(t, q, "dead", "x")
		synctest.Wait()
		for id := range ends {
			enqueue(t, q, id, "x")
		}
		synctest.Wait()
		require.ErrorIs(t, x.Stop(expired(t)), executor.ErrStuck)
		close(release)
		synctest.Wait()

		y, p := openOn(t, disk.Crash(), executor.Config{}), &probe{}
		q = handle(t, y, "q", p.handle, executor.QueueConfig[string]{})
		requireMark(t, y, "m", 1)
		require.Equal(t, []string{"held 1"}, locked(y))
		require.Len(t, morgue(t, q), 1)
		start(t, y)
		synctest.Wait()
		require.Len(t, p.seen(), len(ends))
		for _, s := range p.seen() {
			require.Equal(t, -1, s.retry, "%s: no retry is spent", s.id)
		}
		stop(t, y)
	})
}

// A handler gets at most MaxPayloads in one call, oldest first; with Handle one.
func TestMaxPayloads(t *testing.T) {
	for limit, want := range map[int][]int{3: {3, 3, 1}, 0: {7}, -1: {7}} {
		bubble(t, func(t *testing.T) {
			x, p := open(t, "", executor.Config{}), &probe{}
			q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{Gather: executor.Gather[string]{MaxPayloads: limit}})
			for i := range 7 {
				enqueue(t, q, "a", strconv.Itoa(i))
			}
			start(t, x)
			synctest.Wait()
			var got []int
			for _, s := range p.seen() {
				got = append(got, len(s.values))
			}
			require.Equal(t, want, got, "MaxPayloads %d", limit)
			require.Equal(t, strings.Fields("0 1 2 3 4 5 6"), p.of("a"))
			stop(t, x)
		})
	}
}

// What an earlier job of an id has left locked blocks other ids, and not its own,
// after a restart, too.
func TestNotBlockedByItsOwnID(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk, p := new(journal.Memory), &probe{}
		for range 2 {
			x := openOn(t, disk, executor.Config{})
			locks := executor.Locks[string]{OnEnqueue: words, BlockedBy: keys("k")}
			q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Locks: locks}})
			start(t, x)
			enqueue(t, q, "a", "k")
			synctest.Wait()
			enqueue(t, q, "b", "")
			synctest.Wait()
			require.Equal(t, inspect.JobBlocked, explain(t, x, "q", "b").State)
			stop(t, x)
		}
		require.Equal(t, []string{"a[k]", "a[k]"}, p.log())
	})
}

// Each call of a batch, halves included, has a context that ends with it, and none
// is called with one that has ended.
func TestHalvesHaveContextsOfTheirOwn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 1})
		var seen []context.Context
		q, err := executor.HandleBatch(x, "q", func(ctx context.Context, jobs []executor.Merged[string]) error {
			for _, former := range seen {
				assert.ErrorIs(t, context.Cause(former), executor.ErrReturned)
			}
			assert.NoError(t, ctx.Err())
			seen = append(seen, ctx)
			if len(seen) == 3 {
				<-ctx.Done() // for the timeout
			}
			return errBoom
		}, executor.QueueConfig[string]{BatchSize: 8, Share: executor.Share{Shards: 1}, MaxRetries: -1, Timeout: time.Second})
		require.NoError(t, err)
		for i := range 8 {
			enqueue(t, q, fmt.Sprint(i), "x")
		}
		start(t, x)
		time.Sleep(time.Hour)
		settled(t, q)
		require.Len(t, seen, 3)
		require.Len(t, morgue(t, q), 8)
		stop(t, x)
	})
}

// An error whose methods panic names no job: the batch is halved like any other.
func TestErrorThatCannotBeAskedNamesNoJob(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 1})
		q, err := executor.HandleBatch(x, "q", func(_ context.Context, jobs []executor.Merged[string]) error {
			if slices.ContainsFunc(jobs, func(j executor.Merged[string]) bool { return j.ID == "3" }) {
				var none *fragile
				return none
			}
			return nil
		}, executor.QueueConfig[string]{BatchSize: 8, Share: executor.Share{Shards: 1}, MaxRetries: -1})
		require.NoError(t, err)
		for i := range 8 {
			enqueue(t, q, fmt.Sprint(i), "x")
		}
		start(t, x)
		time.Sleep(time.Hour)
		settled(t, q)
		require.Len(t, morgue(t, q), 1)
		stop(t, x)
	})
}

// fragile is an error as people write them, and return as a nil pointer.
type fragile struct{ err error }

func (f *fragile) Error() string { return f.err.Error() }
func (f *fragile) Unwrap() error { return f.err }

// What a handler may do, what it has left behind may not, whatever it has made of
// its context.
func TestAContextEndsItsPrivileges(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{MaxBacklog: executor.BacklogLimit{Payloads: 1}})
		var left context.Context
		q := handle(t, x, "q", func(ctx context.Context, _ executor.Merged[string]) error {
			if left == nil {
				left = context.WithoutCancel(ctx)
				return nil
			}
			<-ctx.Done()
			return nil
		}, executor.QueueConfig[string]{})
		start(t, x)
		enqueue(t, q, "a", "x")
		synctest.Wait()
		settled(t, q)
		enqueue(t, q, "b", "x")
		_, err := q.Enqueue(left, "c", "x")
		require.ErrorIs(t, err, executor.ErrFull)
		go func() { _ = x.Stop(expired(t)) }()
		synctest.Wait()
		_, err = q.Enqueue(left, "c", "x")
		require.ErrorIs(t, err, executor.ErrClosed)
		require.ErrorIs(t, x.Err(), executor.ErrClosed)
	})
}

// RetryIn is asked about retries that come.
func TestRetryInOfEachRetry(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		pauses := []time.Duration{time.Second, time.Minute}
		var asked []int
		q := handle(t, x, "q", func(context.Context, executor.Merged[string]) error { return errors.New("") }, executor.QueueConfig[string]{
			MaxRetries: len(pauses), RetryIn: func(n int) time.Duration { asked = append(asked, n); return pauses[n] },
		})
		start(t, x)
		enqueue(t, q, "a", "x")
		time.Sleep(time.Hour)
		settled(t, q)
		require.Equal(t, []int{0, 1}, asked)
		require.Equal(t, "an error without text", morgue(t, q)[0].Error)
		stop(t, x)
	})
}
