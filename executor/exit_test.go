package executor_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
)

// culprit is a codec that ends the goroutine of a worker that decodes "exit", once it is armed.
type culprit struct{ armed bool }

func (c *culprit) Encode(v string) ([]byte, error) { return []byte(v), nil }

func (c *culprit) Decode(b []byte) (string, error) {
	if c.armed && string(b) == "exit" {
		runtime.Goexit()
	}
	return string(b), nil
}

// A job that ends the worker's goroutine hurts only itself: the halves of its batch
// that were done stay done, with their follow-ups, and the others are tried.
func TestGoexitOfOneJobOfABatch(t *testing.T) {
	pass := executor.Middleware{Run: func(ctx context.Context, _ *executor.Run, next inward) error { return next(ctx) }}
	for name, queue := range map[string]executor.QueueConfig[string]{
		"plain":      {},
		"middleware": {Middleware: []executor.Middleware{pass}},
		"leases":     {Conditions: executor.Conditions[string]{Unique: executor.Unique[string]{Key: func(id, _ string) string { return id }, TTL: time.Hour}}},
		"codec":      {},
		"service":    {}, // which unlocks what is done
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := openOn(t, new(journal.Memory), executor.Config{Workers: 1})
				next := newTail(t, x, "next", executor.QueueConfig[string]{})
				codec := new(culprit)
				var calls []string
				queue.BatchSize, queue.Share.Shards, queue.MaxRetries, queue.RetryIn = 8, 1, 2, always(time.Hour)
				if name == "codec" {
					queue.Codec = codec
				}
				if name == "service" {
					own := func(id, _ string) []string { return []string{id} }
					queue.Conditions.Locks = executor.Locks[string]{OnRun: own, Unlock: own, Service: x.KeyLocks()}
				}
				jobs, err := executor.HandleBatch(x, "jobs", func(_ context.Context, jobs []executor.Merged[string]) (err error) {
					var ids strings.Builder
					for _, job := range jobs {
						ids.WriteString(job.ID)
						require.NoError(t, next.FollowUp(job, job.ID, fmt.Sprint("attempt ", job.Attempt)))
						if name == "leases" {
							require.True(t, job.Lease().Held(), "%s in %s", job.ID, ids.String())
						}
					}
					calls = append(calls, ids.String())
					if strings.Contains(ids.String(), "b") && len(jobs) > 2 {
						return errors.New("does not say which")
					}
					if strings.Contains(ids.String(), "b") {
						runtime.Goexit()
					}
					return nil
				}, queue)
				require.NoError(t, err)
				for _, id := range []string{"a", "b", "c", "d", "e"} {
					enqueue(t, jobs, id, map[bool]string{true: "exit"}[id == "b"])
				}
				codec.armed = true
				start(t, x)
				time.Sleep(time.Minute)
				synctest.Wait()
				if name == "codec" {
					require.Equal(t, []string{"a", "cde"}, calls)
				} else {
					require.Equal(t, []string{"abcde", "ab", "a", "b", "cde"}, calls)
				}
				s := stats(t, jobs)
				require.EqualValues(t, 4, s.Done)
				require.EqualValues(t, 1, s.Failed)
				others := []string{"a=attempt 1", "c=attempt 1", "d=attempt 1", "e=attempt 1"}
				require.Equal(t, others, next.all())
				if name == "service" {
					require.Len(t, lockedKeys(x), 1, "that of b")
				}
				time.Sleep(10 * time.Hour)
				synctest.Wait()
				require.EqualValues(t, 1, stats(t, jobs).Dead)
				codec.armed = false // the morgue decodes on this goroutine
				for dead, err := range jobs.Morgue() {
					require.NoError(t, err)
					require.Equal(t, "b", dead.ID)
					require.Equal(t, executor.ErrHandlerExited.Error(), dead.Error)
				}
				require.Equal(t, others, next.all())
			})
		})
	}
}

// exits is a codec and a service of locks that call it with what they get.
type exits struct {
	flags
	exit func(string)
}

func (e *exits) Encode(v string) ([]byte, error) { return []byte(v), nil }

func (e *exits) Decode(b []byte) (string, error) {
	e.exit(string(b))
	return string(b), nil
}

func (e *exits) Unlock(ctx context.Context, key string) error {
	e.exit(key)
	return e.flags.Unlock(ctx, key)
}

// A job whose conditions end the worker's goroutine fails alone, and has locked nothing: the others of its batch run,
// and stay done.
func TestGoexitOfOneJobThatIsAsked(t *testing.T) {
	own := func(id, _ string) []string { return []string{id} }
	type conditions = executor.Conditions[string]
	for name, row := range map[string]struct {
		calls []string
		of    func(x *executor.Executor, e *exits) conditions
	}{
		"codec": {[]string{"acde", "b"}, func(*executor.Executor, *exits) conditions {
			return conditions{Unique: executor.Unique[string]{Key: func(id, _ string) string { return id }}}
		}},
		"key": {[]string{"acde", "b"}, func(_ *executor.Executor, e *exits) conditions {
			key := func(id, _ string) string { e.exit(id); return id }
			return conditions{Locks: executor.Locks[string]{OnRun: own}, Unique: executor.Unique[string]{Key: key}}
		}},
		"key, when the disk has the slots": {[]string{"acde", "b"}, func(x *executor.Executor, e *exits) conditions {
			key := func(id, _ string) string { e.exit(id); return id }
			return conditions{
				Locks: executor.Locks[string]{OnRun: own}, Slots: []executor.SlotSource{must(executor.NewSlots(x, "s", executor.SlotsConfig[int]{Next: next}))},
				Limits: []executor.LimitOf[string]{{Limit: must(executor.NewLimit(x, "l", executor.LimitConfig{})), Key: key}},
			}
		}},
		"unlock": {[]string{"abcde", "b"}, func(_ *executor.Executor, e *exits) conditions {
			return conditions{Locks: executor.Locks[string]{OnEnqueue: own, Unlock: own, Service: e}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := openOn(t, new(journal.Memory), executor.Config{Workers: 1})
				var armed atomic.Bool
				e := &exits{exit: func(of string) {
					if armed.Load() && of == "b" {
						runtime.Goexit()
					}
				}}
				cfg := executor.QueueConfig[string]{Conditions: row.of(x, e), BatchSize: 8, Share: executor.Share{Shards: 1}, RetryIn: always(time.Hour)}
				if name == "codec" {
					cfg.Codec = e
				}
				var calls []string
				jobs, err := executor.HandleBatch(x, "jobs", func(_ context.Context, jobs []executor.Merged[string]) error {
					var ids strings.Builder
					for _, job := range jobs {
						ids.WriteString(job.ID)
					}
					calls = append(calls, ids.String())
					return nil
				}, cfg)
				require.NoError(t, err)
				for _, id := range []string{"a", "b", "c", "d", "e"} {
					enqueue(t, jobs, id, id)
				}
				armed.Store(true)
				start(t, x)
				time.Sleep(time.Minute)
				synctest.Wait()
				require.Equal(t, row.calls[:1], calls)
				require.EqualValues(t, 4, stats(t, jobs).Done)
				require.EqualValues(t, 1, stats(t, jobs).Failed)
				require.NotContains(t, locked(x), "b 1")
				armed.Store(false)
				time.Sleep(time.Hour)
				synctest.Wait()
				require.Equal(t, row.calls, calls)
				require.EqualValues(t, 5, stats(t, jobs).Done)
				stop(t, x)
			})
		})
	}
}

// exiting is a service whose Lock ends the goroutine at one key.
type exiting struct{ flags }

func (e *exiting) Lock(ctx context.Context, key string) error {
	if key == "exit" {
		runtime.Goexit()
	}
	return e.flags.Lock(ctx, key)
}

// A service that ends the goroutine in the middle of several keys leaves none of them locked: neither that of the worker
// that comes to the job, nor that of the caller of Enqueue.
func TestGoexitOfAServiceThatLocksSeveralKeys(t *testing.T) {
	keys := func(string, string) []string { return []string{"first", "exit"} }
	for name, locks := range map[string]executor.Locks[string]{"OnRun": {OnRun: keys}, "OnEnqueue": {OnEnqueue: keys}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := new(exiting)
				locks.Service, locks.Unlock = s, keys
				x := open(t, "", executor.Config{})
				q := handle(t, x, "q", (&probe{}).handle, executor.QueueConfig[string]{
					MaxRetries: -1, Conditions: executor.Conditions[string]{Locks: locks},
				})
				start(t, x)
				go func() { _, _ = q.Enqueue(context.Background(), "id", "x") }()
				synctest.Wait()
				require.Zero(t, stats(t, q).Done)
				require.Equal(t, name == "OnRun", stats(t, q).Buried == 1)
				is, err := s.Locked(t.Context(), "first")
				require.NoError(t, err)
				require.False(t, is, "nothing unlocks it any more")
				stop(t, x)
			})
		})
	}
}

// A batch of which each call ends the goroutine fails as one that returns errors does.
func TestGoexitOfAllJobsOfABatch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := openOn(t, new(journal.Memory), executor.Config{Workers: 1})
		calls := 0
		jobs, err := executor.HandleBatch(x, "jobs", func(context.Context, []executor.Merged[int]) error {
			calls++
			runtime.Goexit()
			return nil
		}, executor.QueueConfig[int]{BatchSize: 8, Share: executor.Share{Shards: 1}, RetryIn: always(time.Hour)})
		require.NoError(t, err)
		for i := range 8 {
			enqueue(t, jobs, fmt.Sprint(i), 0)
		}
		start(t, x)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.EqualValues(t, 8, stats(t, jobs).Failed)
		require.LessOrEqual(t, calls, 1+4*3, "of a batch of eight")
	})
}

// A payload that was done when a later one of its id ended the goroutine stays done,
// with its follow-up.
func TestGoexitOfALaterPayload(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := openOn(t, new(journal.Memory), executor.Config{Workers: 1})
		next := newTail(t, x, "next", executor.QueueConfig[string]{})
		var calls []string
		jobs, err := executor.Handle(x, "jobs", func(_ context.Context, job executor.Job[string]) error {
			calls = append(calls, job.Payload)
			require.NoError(t, next.FollowUp(job, job.ID, job.Payload))
			if job.Payload == "two" && job.Attempt == 1 {
				runtime.Goexit()
			}
			return nil
		}, executor.QueueConfig[string]{RetryIn: always(time.Hour)})
		require.NoError(t, err)
		for _, payload := range []string{"one", "two", "three"} {
			enqueue(t, jobs, "a", payload)
		}
		start(t, x)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, []string{"one", "two"}, calls)
		require.Equal(t, []string{"a=one"}, next.all())
		require.EqualValues(t, 1, stats(t, jobs).Done)
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		require.Equal(t, []string{"one", "two", "two", "three"}, calls)
		require.Equal(t, []string{"a=one", "a=two", "a=three"}, next.all())
	})
}

// A middleware that calls next again does not double follow-ups, whatever came of the
// call before: those of the last one land.
func TestFollowUpsOfACallOnTheSpot(t *testing.T) {
	shapes := map[string]func(x *executor.Executor, body func(executor.Parent) error) (*executor.Queue[int], error){
		"Handle": func(x *executor.Executor, body func(executor.Parent) error) (*executor.Queue[int], error) {
			return executor.Handle(x, "jobs", func(_ context.Context, job executor.Job[int]) error { return body(job) }, executor.QueueConfig[int]{})
		},
		"HandleMerged": func(x *executor.Executor, body func(executor.Parent) error) (*executor.Queue[int], error) {
			return executor.HandleMerged(x, "jobs", func(_ context.Context, job executor.Merged[int]) error { return body(job) }, executor.QueueConfig[int]{})
		},
		"HandleBatch": func(x *executor.Executor, body func(executor.Parent) error) (*executor.Queue[int], error) {
			return executor.HandleBatch(x, "jobs", func(_ context.Context, jobs []executor.Merged[int]) error { return body(jobs[0]) },
				executor.QueueConfig[int]{})
		},
	}
	for shape, register := range shapes {
		for _, first := range []error{nil, errBoom} {
			t.Run(fmt.Sprint(shape, " ", first), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					x := openOn(t, new(journal.Memory), executor.Config{Middleware: []executor.Middleware{{
						Run: func(ctx context.Context, run *executor.Run, next inward) error {
							if err := next(ctx); run.Queue != "jobs" {
								return err
							}
							return errors.Join(next(ctx), next(ctx))
						},
					}}})
					next := newTail(t, x, "next", executor.QueueConfig[string]{})
					calls := 0
					var before executor.Parent
					jobs, err := register(x, func(job executor.Parent) error {
						if calls++; calls == 2 {
							require.ErrorIs(t, next.FollowUp(before, "a", "late"), executor.ErrReturned, "a job of a former call")
						}
						before = job
						for range calls {
							require.NoError(t, next.FollowUp(job, "a", fmt.Sprint("call ", calls)))
						}
						if calls == 1 {
							return first
						}
						return nil
					})
					require.NoError(t, err)
					start(t, x)
					enqueue(t, jobs, "a", 1)
					synctest.Wait()
					require.Equal(t, 3, calls)
					require.Equal(t, []string{"a=call 3", "a=call 3", "a=call 3"}, next.all())
				})
			})
		}
	}
}
