package executor_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/lock"
)

// answers registers a queue whose handler returns what f does.
func answers[T, R any](t testing.TB, x *executor.Executor, name string, f func(context.Context, executor.Job[T]) (R, error), cfg executor.QueueConfig[T]) *executor.Caller[T, R] {
	t.Helper()
	c, err := executor.HandleResult(x, name, f, cfg)
	require.NoError(t, err)
	return c
}

// endings gathers what several callers were told.
type endings struct {
	mu sync.Mutex
	of map[string]error
}

func (e *endings) add(name string, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.of == nil {
		e.of = map[string]error{}
	}
	e.of[name] = err
}

func twice(_ context.Context, job executor.Job[int]) (int, error) { return 2 * job.Payload, nil }

// Each call of Do gets the result of its own payload, in the order of its id; nothing
// is left of the wait.
func TestDo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 2})
		order := make(chan int, 200)
		c := answers(t, x, "double", func(ctx context.Context, job executor.Job[int]) (int, error) {
			order <- job.Payload
			return twice(ctx, job)
		}, executor.QueueConfig[int]{})
		_, err := c.Do(t.Context(), "a", 1)
		require.ErrorIs(t, err, executor.ErrState, "nothing runs before Start")
		require.Zero(t, stats(t, c.Queue).Payloads, "and nothing is accepted")
		start(t, x)
		results := make(chan error, 100)
		for i := range 100 {
			go func() {
				got, err := c.Do(t.Context(), fmt.Sprint(i%7), i)
				if err == nil && got != 2*i {
					err = fmt.Errorf("%d instead of %d", got, 2*i)
				}
				results <- err
			}()
			synctest.Wait()
		}
		for range 100 {
			require.NoError(t, <-results)
		}
		for i := range 100 {
			require.Equal(t, i, <-order)
		}
		require.Zero(t, executor.Awaited(c.Queue))
		stop(t, x)
		_, err = c.Do(t.Context(), "a", 1)
		require.ErrorIs(t, err, executor.ErrClosed)
		var none *executor.Caller[int, int]
		_, err = none.Do(t.Context(), "a", 1)
		require.ErrorIs(t, err, executor.ErrState)
		require.ErrorIs(t, (&executor.Caller[int, int]{}).Wait(t.Context(), executor.Receipt{}), executor.ErrState)
	})
}

// Nothing runs in OnStart, nor when that has failed: Do does not wait for it.
func TestDoInOnStart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var c *executor.Caller[int, int]
		do := func(ctx context.Context) error {
			_, err := c.Do(ctx, "a", 1)
			return err
		}
		var inside error
		x := open(t, "", executor.Config{OnStart: func(context.Context) error {
			inside = within(time.Minute, do)
			return errBoom
		}})
		c = answers(t, x, "q", twice, executor.QueueConfig[int]{})
		require.ErrorIs(t, x.Start(t.Context()), errBoom)
		require.ErrorIs(t, inside, executor.ErrState)
		require.ErrorIs(t, within(time.Minute, do), executor.ErrState)
		require.Zero(t, stats(t, c.Queue).Payloads, "nothing is accepted")
	})
}

// Callers whose payloads were merged into the one that runs share its result, whichever
// stays.
func TestDoShares(t *testing.T) {
	for _, merge := range []executor.Merge{executor.MergeMinScore, executor.MergeKeepFirst, executor.MergeKeepLast} {
		bubble(t, func(t *testing.T) {
			x := open(t, "", executor.Config{})
			runs := 0
			c, err := executor.HandleResult(x, "sum", func(context.Context, executor.Job[int]) (*int, error) {
				runs++
				return new(runs), nil
			}, executor.QueueConfig[int]{Merge: merge})
			require.NoError(t, err)
			start(t, x)
			results := make(chan *int, 3)
			for i, payload := range []int{7, 7, 7} {
				go func() {
					r, err := c.Do(t.Context(), "a", payload, executor.In(time.Minute), executor.Score(float64(-i)))
					require.NoError(t, err)
					results <- r
				}()
				synctest.Wait()
			}
			time.Sleep(time.Hour)
			first := <-results
			require.Equal(t, 1, *first)
			require.Same(t, first, <-results)
			require.Same(t, first, <-results)
			stop(t, x)
		})
	}
}

// Do is over when the payload is: retries are no end, and what the last one said
// comes with it.
func TestDoWaitsForTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		c := answers(t, x, "q", func(_ context.Context, job executor.Job[string]) (string, error) {
			switch {
			case job.Payload == "discard":
				return "", executor.Discard()
			case job.Payload == "cancel":
				return "", executor.Cancel(errBoom)
			case job.Payload == "panic":
				panic(errBoom)
			case job.Attempt < 3 || job.Payload == "fail":
				return "of a failure", fmt.Errorf("attempt %d: %w", job.Attempt, errBoom)
			}
			return job.Payload + "!", nil
		}, executor.QueueConfig[string]{MaxRetries: 3, RetryIn: always(time.Hour)})
		start(t, x)
		begin := time.Now()
		got, err := c.Do(t.Context(), "a", "later")
		require.NoError(t, err)
		require.Equal(t, "later!", got)
		require.Equal(t, 2*time.Hour, time.Since(begin))

		_, err = c.Do(t.Context(), "a", "fail")
		require.ErrorAs(t, err, new(*executor.BuriedError))
		require.ErrorIs(t, err, errBoom)
		buried, _ := errors.AsType[*executor.BuriedError](err)
		dead := morgue(t, c.Queue)[0]
		require.Equal(t, executor.BuriedError{ID: "a", Position: dead.Position, Attempt: dead.Attempt, Reason: dead.Error, Err: buried.Err}, *buried)
		require.Equal(t, "attempt 4: boom", buried.Reason)

		_, err = c.Do(t.Context(), "a", "discard")
		require.ErrorIs(t, err, executor.ErrDiscarded)
		_, err = c.Do(t.Context(), "a", "cancel")
		require.ErrorAs(t, err, new(*executor.BuriedError))
		require.ErrorIs(t, err, errBoom)
		_, err = c.Do(t.Context(), "a", "panic")
		require.ErrorAs(t, err, new(*executor.BuriedError))

		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Minute)
		defer cancel()
		_, err = c.Do(ctx, "a", "fail")
		require.ErrorAs(t, err, new(*executor.PendingError))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		pending, _ := errors.AsType[*executor.PendingError](err)
		require.EqualError(t, pending.Failure, "attempt 2: boom")
		require.Equal(t, 1, stats(t, c.Queue).Payloads, "it goes on")
		require.ErrorAs(t, c.Wait(t.Context(), pending.Receipt), new(*executor.BuriedError))
		require.Zero(t, executor.Awaited(c.Queue))
		stop(t, x)
	})
}

// What the handler returned in an attempt that came to nothing is not the result of a later one without it.
func TestDoAfterAnAttemptThatIsUndone(t *testing.T) {
	for name, undone := range map[string]error{"failed": errBoom, "snoozed": executor.Snooze(0)} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := open(t, "", executor.Config{})
				attempts := 0
				c := answers(t, x, "double", twice, executor.QueueConfig[int]{RetryIn: always(0), Middleware: []executor.Middleware{{
					Run: func(ctx context.Context, _ *executor.Run, next inward) error {
						if attempts++; attempts > 1 {
							return nil
						}
						require.NoError(t, next(ctx))
						return undone
					},
				}}})
				start(t, x)
				_, err := c.Do(t.Context(), "a", 1)
				require.ErrorIs(t, err, executor.ErrNoResult)
				require.Equal(t, 2, attempts)
				stop(t, x)
			})
		})
	}
}

// Some payloads of a run may be done and others not: each caller hears of its own.
func TestWaitTellsPayloadsApart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		q, err := executor.HandleMerged(x, "q", func(_ context.Context, job executor.Merged[string]) error {
			errs := executor.PayloadErrors{}
			for _, p := range job.Payloads {
				switch p.Value {
				case "bury":
					errs[p.Position] = executor.Cancel(errBoom)
				case "discard":
					errs[p.Position] = executor.Discard()
				}
			}
			return errs
		}, executor.QueueConfig[string]{})
		require.NoError(t, err)
		start(t, x)
		var outcomes endings
		for _, payload := range []string{"done", "bury", "discard"} {
			go func() {
				r := enqueue(t, q, "a", payload, executor.In(time.Second))
				outcomes.add(payload, q.Wait(t.Context(), r))
			}()
			synctest.Wait()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Len(t, outcomes.of, 3)
		require.NoError(t, outcomes.of["done"])
		require.ErrorAs(t, outcomes.of["bury"], new(*executor.BuriedError))
		require.ErrorIs(t, outcomes.of["bury"], errBoom)
		require.ErrorIs(t, outcomes.of["discard"], executor.ErrDiscarded)
		stop(t, x)
	})
}

// Wait knows of a payload that ended before the call, of one that this process has
// not accepted, and of one whose outcome is still open.
func TestWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		life := func() (*executor.Executor, *executor.Queue[string]) {
			x := openOn(t, disk, executor.Config{})
			return x, handle(t, x, "q", func(_ context.Context, job executor.Merged[string]) error {
				switch job.ID {
				case "bury":
					return executor.Cancel(errBoom)
				case "discard":
					return executor.Discard()
				}
				return nil
			}, executor.QueueConfig[string]{Merge: executor.MergeKeepLast})
		}
		x, q := life()
		receipts := map[string]executor.Receipt{}
		for _, id := range []string{"done", "bury", "discard", "late"} {
			receipts[id] = enqueue(t, q, id, "x", executor.In(time.Minute))
		}
		replaced := receipts["late"]
		receipts["late"] = enqueue(t, q, "late", "x")
		for _, r := range []executor.Receipt{{}, {ID: "done"}, {Position: 1}, {ID: "done", Position: 99}} {
			require.ErrorIs(t, q.Wait(t.Context(), r), executor.ErrInvalidID)
		}
		err := within(time.Second, func(ctx context.Context) error { return q.Wait(ctx, receipts["done"]) })
		require.ErrorAs(t, err, new(*executor.PendingError))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		stop(t, x)
		require.ErrorIs(t, q.Wait(t.Context(), receipts["done"]), executor.ErrClosed)

		x, q = life()
		var ends endings
		for id, r := range receipts {
			go func() { ends.add(id, q.Wait(t.Context(), r)) }()
			synctest.Wait()
		}
		start(t, x)
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Len(t, ends.of, 4)
		require.NoError(t, ends.of["done"])
		require.NoError(t, ends.of["late"])
		require.ErrorAs(t, ends.of["bury"], new(*executor.BuriedError))
		require.ErrorIs(t, ends.of["discard"], executor.ErrDiscarded)
		require.NoError(t, q.Wait(t.Context(), receipts["done"]), "it has ended")
		require.NoError(t, q.Wait(t.Context(), replaced))
		require.ErrorAs(t, q.Wait(t.Context(), receipts["bury"]), new(*executor.BuriedError))
		require.Zero(t, executor.Awaited(q))
		stop(t, x)
	})
}

// Under DurabilityAsync a payload may not have reached its shard when its receipt is
// there.
func TestWaitForWhatWasPosted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		x := openOn(t, disk, executor.Config{Durability: executor.DurabilityAsync})
		q := handle(t, x, "q", func(context.Context, executor.Merged[string]) error { return executor.Cancel(errBoom) }, executor.QueueConfig[string]{})
		c := answers(t, x, "c", twice, executor.QueueConfig[int]{})
		start(t, x)
		brake := hang(disk)
		defer brake.release()
		r := enqueue(t, q, "a", "x")
		end := make(chan error, 1)
		go func() { end <- q.Wait(t.Context(), r) }()
		synctest.Wait()
		require.Empty(t, end)
		brake.release()
		require.ErrorAs(t, <-end, new(*executor.BuriedError))
		got, err := c.Do(t.Context(), "a", 21)
		require.NoError(t, err)
		require.Equal(t, 42, got)
		stop(t, x)
	})
}

// What Do has returned is not run again after a crash: it waits for the commit.
func TestDoIsDurable(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		x := openOn(t, disk, executor.Config{})
		var brake *brake
		ran := make(chan struct{}, 2)
		c := answers(t, x, "q", func(ctx context.Context, job executor.Job[int]) (int, error) {
			brake = hang(disk) // the commit of its result
			ran <- struct{}{}
			return twice(ctx, job)
		}, executor.QueueConfig[int]{})
		start(t, x)
		end := make(chan error, 1)
		go func() {
			_, err := c.Do(t.Context(), "a", 1)
			end <- err
		}()
		synctest.Wait()
		require.Len(t, ran, 1)
		require.Empty(t, end, "a crash now would have it run again")
		brake.release()
		require.NoError(t, <-end)
		after := disk.Crash()
		stop(t, x)
		x = openOn(t, after, executor.Config{})
		require.Zero(t, stats(t, answers(t, x, "q", twice, executor.QueueConfig[int]{}).Queue).Payloads)
		stop(t, x)
	})
}

// With the key of an earlier call Do waits for that payload, as long as it is there.
func TestDoWithAKey(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		c := answers(t, x, "q", twice, executor.QueueConfig[int]{})
		start(t, x)
		results := make(chan int, 2)
		for range 2 {
			go func() {
				got, err := c.Do(t.Context(), "a", 21, executor.IdempotencyKey("k"), executor.In(time.Minute))
				require.NoError(t, err)
				results <- got
			}()
			synctest.Wait()
		}
		require.Equal(t, 1, stats(t, c.Queue).Payloads)
		require.Equal(t, 42, <-results)
		require.Equal(t, 42, <-results)
		_, err := c.Do(t.Context(), "a", 21, executor.IdempotencyKey("k"))
		require.ErrorIs(t, err, executor.ErrNoResult)
		require.ErrorContains(t, err, `id "a", position 1`)
		stop(t, x)
	})
}

// A handler waits for the payload of an earlier call, although its own call names the id that it runs for. One of
// its own that it calls for is not accepted.
func TestDoOfAHandlerWithAKeyOfAnotherID(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 2})
		var c *executor.Caller[int, int]
		c = answers(t, x, "q", func(ctx context.Context, job executor.Job[int]) (int, error) {
			if job.ID == "b" {
				return twice(ctx, job)
			}
			_, err := c.Do(ctx, "a", 7, executor.IdempotencyKey("new"))
			assert.ErrorIs(t, err, executor.ErrDeadlock)
			return c.Do(ctx, "a", 7, executor.IdempotencyKey("k"))
		}, executor.QueueConfig[int]{MaxRetries: -1})
		start(t, x)
		enqueue(t, c.Queue, "b", 7, executor.IdempotencyKey("k"), executor.In(time.Minute))
		got, err := c.Do(t.Context(), "a", 1)
		require.NoError(t, err)
		require.Equal(t, 14, got)
		require.Zero(t, drained(t, c.Queue).Jobs)
		stop(t, x)
	})
}

// A key belongs to its queue: a call with another id waits for the payload of the first one, whatever that is at and
// however many jobs there are beside it.
func TestDoWithAKeyOfAnotherID(t *testing.T) {
	key := executor.IdempotencyKey("k")
	for name, test := range map[string]struct {
		payload, behind int // so many others of its id
		after           time.Duration
		result          int
		ends            error
	}{
		"waits":             {payload: 7, result: 14},
		"waits with others": {payload: 7, behind: 3, result: 14},
		"runs":              {payload: 1, after: 2 * time.Second, result: 2},
		"is to be retried":  {payload: 2, after: 2 * time.Second, result: 4},
		"was retried":       {payload: 2, after: time.Hour, ends: executor.ErrNoResult},
		"is to be buried":   {payload: 3, ends: errBoom},
		"is dead":           {payload: 3, after: time.Hour, ends: new(executor.BuriedError)},
		"calls itself":      {payload: 4, ends: executor.ErrDeadlock},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := open(t, "", executor.Config{Workers: 4})
				var c *executor.Caller[int, int]
				c = answers(t, x, "q", func(ctx context.Context, job executor.Job[int]) (int, error) {
					switch job.Payload {
					case 1:
						time.Sleep(time.Minute)
					case 2:
						if job.Attempt == 1 {
							return 0, errBoom
						}
					case 3:
						return 0, executor.Cancel(errBoom)
					case 4:
						if _, err := c.Do(ctx, "b", 4, key); err != nil {
							return 0, executor.Cancel(err)
						}
					}
					return twice(ctx, job)
				}, executor.QueueConfig[int]{RetryIn: always(time.Minute)})
				start(t, x)
				for i := range 3000 {
					enqueue(t, c.Queue, fmt.Sprint("other ", i), 0, executor.In(1000*time.Hour))
				}
				for range test.behind {
					enqueue(t, c.Queue, "a", 0, executor.In(time.Second))
				}
				first := enqueue(t, c.Queue, "a", test.payload, key, executor.In(time.Second))
				time.Sleep(test.after)
				again := enqueue(t, c.Queue, "b", test.payload, key)
				require.Equal(t, executor.Receipt{ID: "b", Position: first.Position, Duplicate: true}, again)
				waits := make(chan error, 1)
				go func() { waits <- c.Wait(t.Context(), again) }()
				got, err := c.Do(t.Context(), "b", test.payload, key)
				require.Equal(t, test.result, got)
				waited := <-waits
				if _, dies := test.ends.(*executor.BuriedError); !dies {
					require.ErrorIs(t, err, test.ends)
				}
				if test.ends == nil || errors.Is(test.ends, executor.ErrNoResult) {
					require.NoError(t, waited)
				} else {
					for _, err := range []error{err, waited} {
						buried, ok := errors.AsType[*executor.BuriedError](err)
						require.True(t, ok, err)
						require.Equal(t, []any{"a", first.Position}, []any{buried.ID, buried.Position})
					}
				}
				require.Zero(t, executor.Awaited(c.Queue))
				stop(t, x)
			})
		})
	}
}

// A handler that would wait for itself is told so: over its own id, over others, and
// for want of a worker. What it may wait for it gets.
func TestDoFromAHandler(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 3})
		var c *executor.Caller[string, string]
		c = answers(t, x, "q", func(ctx context.Context, job executor.Job[string]) (string, error) {
			if job.Payload == "" {
				return job.ID, nil
			}
			next, rest := job.Payload[:1], job.Payload[1:]
			time.Sleep(time.Second)
			got, err := c.Do(ctx, next, rest)
			if err != nil {
				return "", executor.Cancel(err)
			}
			return job.ID + got, nil
		}, executor.QueueConfig[string]{})
		start(t, x)
		got, err := c.Do(t.Context(), "a", "bc")
		require.NoError(t, err)
		require.Equal(t, "abc", got)
		for want, path := range map[string]string{
			"a waits for the end of q/a":         "a",
			"c waits for the end of q/a waits":   "bca",
			"of all 3 workers":                   "bcd",
			"b waits for the end of q/a waits f": "ba",
		} {
			_, err = c.Do(t.Context(), "a", path)
			require.ErrorIs(t, err, executor.ErrDeadlock, path)
			require.ErrorContains(t, err, want)
			require.NotErrorAs(t, err, new(*executor.PendingError))
		}
		require.Zero(t, stats(t, c.Queue).Payloads, "what is refused is not accepted")
		stop(t, x)
	})
}

// A hook that a worker calls may not wait with its context: nobody knows for which job it stands, and its worker may be
// the one that is needed.
func TestDoFromAHook(t *testing.T) {
	for name, hook := range map[string]func(x *executor.Executor, cfg *executor.QueueConfig[string], f func(context.Context)){
		"RetriesExhausted": func(_ *executor.Executor, cfg *executor.QueueConfig[string], f func(context.Context)) {
			cfg.DeadLetters.RetriesExhausted = func(ctx context.Context, _ []executor.Merged[string]) { f(ctx) }
		},
		"StartFrom": func(x *executor.Executor, cfg *executor.QueueConfig[string], f func(context.Context)) {
			from := func(ctx context.Context) (int, error) { f(ctx); return 0, nil }
			cfg.Conditions.Slots = []executor.SlotSource{must(executor.NewSlots(x, "s", executor.SlotsConfig[int]{Next: next, StartFrom: from}))}
		},
		"HandleLockedBy": func(_ *executor.Executor, cfg *executor.QueueConfig[string], f func(context.Context)) {
			s := asking{new(counters), func(ctx context.Context, _ lock.Job, _ []string) lock.Decision {
				f(ctx)
				return lock.Decision{Skip: true}
			}}
			_ = s.Lock(context.Background(), "key")
			cfg.Conditions.Locks = executor.Locks[string]{BlockedBy: keys("key"), Service: s}
		},
	} {
		for _, nested := range []bool{false, true} { // a handler of another executor starts it
			t.Run(fmt.Sprint(name, " nested ", nested), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					x := open(t, "", executor.Config{Workers: 2})
					c := answers(t, x, "c", twice, executor.QueueConfig[int]{})
					later := enqueue(t, c.Queue, "later", 1, executor.In(time.Hour))
					var errs []error
					cfg := executor.QueueConfig[string]{MaxRetries: -1}
					hook(x, &cfg, func(ctx context.Context) {
						_, err := c.Do(ctx, "a", 1)
						errs = append(errs, err)
						errs = append(errs, c.Wait(ctx, later))
					})
					q := handle(t, x, "q", func(context.Context, executor.Merged[string]) error { return errBoom }, cfg)
					if nested {
						outer := open(t, "", executor.Config{})
						over := make(chan struct{})
						defer close(over)
						nest := handle(t, outer, "q", func(ctx context.Context, _ executor.Merged[string]) error {
							defer func() { <-over }()
							return x.Start(ctx)
						}, executor.QueueConfig[string]{})
						start(t, outer)
						enqueue(t, nest, "id", "x")
					} else {
						start(t, x)
					}
					enqueue(t, q, "id", "x")
					time.Sleep(time.Minute)
					synctest.Wait()
					require.Len(t, errs, 2)
					for _, err := range errs {
						require.ErrorIs(t, err, executor.ErrDeadlock)
					}
					require.Equal(t, 1, stats(t, c.Queue).Payloads, "what is refused is not accepted")
					stop(t, x)
				})
			})
		}
	}
}

// A stop starts nothing any more, so handlers that wait are told at once, and spend
// no retry; callers from outside wait for what still runs.
func TestDoAndStop(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		x := openOn(t, disk, executor.Config{Workers: 3})
		slow := answers(t, x, "slow", func(_ context.Context, job executor.Job[int]) (int, error) {
			time.Sleep(time.Minute)
			return job.Payload, nil
		}, executor.QueueConfig[int]{})
		outer := answers(t, x, "outer", func(ctx context.Context, job executor.Job[int]) (int, error) {
			return slow.Do(ctx, "x", job.Payload)
		}, executor.QueueConfig[int]{})
		start(t, x)
		var ends endings
		do := func(name string, f func() (int, error)) {
			go func() {
				_, err := f()
				ends.add(name, err)
			}()
			synctest.Wait()
		}
		do("runs", func() (int, error) { return slow.Do(t.Context(), "x", 1) })
		do("waits", func() (int, error) { return slow.Do(t.Context(), "y", 2, executor.In(time.Hour)) })
		do("handler", func() (int, error) { return outer.Do(t.Context(), "o", 3) })
		begin := time.Now()
		stop(t, x)
		synctest.Wait()
		require.Less(t, time.Since(begin), 3*time.Minute)
		require.Len(t, ends.of, 3)
		require.NoError(t, ends.of["runs"])
		for _, name := range []string{"waits", "handler"} {
			require.ErrorAs(t, ends.of[name], new(*executor.PendingError), name)
			require.ErrorIs(t, ends.of[name], executor.ErrClosed, name)
		}
		x = openOn(t, disk, executor.Config{})
		q := handle(t, x, "outer", (&probe{}).handle, executor.QueueConfig[string]{})
		require.Equal(t, 1, stats(t, q).Payloads)
		require.Zero(t, stats(t, q).Retrying, "the handler that waited spent no retry")
		stop(t, x)
	})
}

// A journal that fails ends every wait.
func TestDoAndAFailedJournal(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		x := openOn(t, disk, executor.Config{})
		c := answers(t, x, "q", func(ctx context.Context, job executor.Job[int]) (int, error) {
			disk.FailNext(errBoom)
			return twice(ctx, job)
		}, executor.QueueConfig[int]{})
		start(t, x)
		_, err := c.Do(t.Context(), "a", 1)
		require.ErrorAs(t, err, new(*executor.PendingError))
		require.ErrorIs(t, err, executor.ErrFailed)
	})
}

// A call that was refused and is repeated by a middleware waits for what was accepted at last, and leaves nothing behind.
func TestDoThatAMiddlewareRepeats(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		again := executor.Middleware{Enqueue: func(ctx context.Context, _ *executor.EnqueueCall, next func(context.Context) error) error {
			err := next(ctx)
			if errors.As(err, new(*executor.FullError)) {
				disk.Limit(0)
				time.Sleep(2 * time.Second)
				err = next(ctx)
			}
			return err
		}}
		x := openOn(t, disk, executor.Config{Middleware: []executor.Middleware{again}})
		c, err := executor.HandleResult(x, "q", func(_ context.Context, job executor.Job[int]) (int, error) { return job.Payload, nil }, executor.QueueConfig[int]{})
		require.NoError(t, err)
		start(t, x)
		disk.Limit(1)
		got, err := c.Do(t.Context(), "a", 7)
		require.NoError(t, err)
		require.Equal(t, 7, got)
		require.Zero(t, executor.Awaited(c.Queue))
		stop(t, x)
	})
}
