package executor_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
)

// traceLines are a trace that goroutines write together.
type traceLines struct {
	mu  sync.Mutex
	all []string
}

func (l *traceLines) add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, fmt.Sprintf(format, args...))
}

// take returns what was added since the last call.
func (l *traceLines) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.all
	l.all = nil
	return all
}

// named writes down when it is called and what comes of it.
func named(l *traceLines, name string) executor.Middleware {
	return executor.Middleware{
		Run: func(ctx context.Context, run *executor.Run, next func(context.Context) error) error {
			l.add("%s(", name)
			err := next(ctx)
			l.add("%s %v)", name, executor.OutcomeOf(err))
			return err
		},
		Enqueue: func(ctx context.Context, call *executor.EnqueueCall, next func(context.Context) error) error {
			l.add("%s<", name)
			err := next(ctx)
			l.add("%s %v>", name, err)
			return err
		},
	}
}

// Lowkiq: server middlewares stand around the handler with (worker, batch), client
// middlewares around the enqueue; both in the order of their list.
func TestLowkiq_L16_Middlewares(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var l traceLines
		type key struct{}
		began := time.Now()
		look := executor.Middleware{
			Run: func(ctx context.Context, run *executor.Run, next func(context.Context) error) error {
				for _, job := range run.Jobs {
					for _, p := range job.Payloads {
						l.add("run %s/%s attempt %d last %v: %v at %d %v age %v", run.Queue, job.ID, job.Attempt, job.LastTry, p.Value, p.Position, p.Metadata, time.Since(p.EnqueuedAt))
					}
				}
				err := next(context.WithValue(ctx, key{}, "value"))
				for job, err := range run.Outcomes(err) {
					l.add("%s is %s", job.ID, executor.OutcomeOf(err))
				}
				return err
			},
			Enqueue: func(ctx context.Context, call *executor.EnqueueCall, next func(context.Context) error) error {
				for i := range call.Items {
					it := &call.Items[i]
					l.add("enqueue %s/%s %s", call.Queue, it.ID, it.Payload)
					it.Metadata["trace"] = ctx.Value(key{}).(string)
				}
				err := next(ctx)
				for _, r := range call.Receipts {
					l.add("accepted %d", r.Position)
				}
				return err
			},
		}
		x := open(t, "", executor.Config{Workers: 1, Middleware: []executor.Middleware{named(&l, "a"), named(&l, "b")}})
		q, err := executor.HandleBatch(x, "q", func(ctx context.Context, jobs []executor.Merged[int]) error {
			l.add("handler has %v of %d", ctx.Value(key{}), len(jobs))
			return executor.BatchErrors{"2": executor.Snooze(time.Hour), "3": executor.Cancel(errBoom), "4": errBoom}
		}, executor.QueueConfig[int]{BatchSize: 4, Share: executor.Share{Shards: 1}, MaxRetries: 1, Middleware: []executor.Middleware{named(&l, "c"), look}})
		require.NoError(t, err)

		ctx := context.WithValue(t.Context(), key{}, "t-7")
		var items []executor.Item[int]
		for i := range 4 {
			items = append(items, executor.Item[int]{ID: fmt.Sprint(i + 1), Payload: i})
		}
		receipts, err := q.EnqueueMany(ctx, items)
		require.NoError(t, err)
		p := receipts[0].Position
		require.Equal(t, []string{
			"a<", "b<", "c<", "enqueue q/1 0", "enqueue q/2 1", "enqueue q/3 2", "enqueue q/4 3",
			fmt.Sprint("accepted ", p), fmt.Sprint("accepted ", p+1), fmt.Sprint("accepted ", p+2), fmt.Sprint("accepted ", p+3),
			"c <nil>>", "b <nil>>", "a <nil>>",
		}, l.take())

		time.Sleep(time.Second - time.Since(began))
		start(t, x)
		synctest.Wait()
		want := []string{"a(", "b(", "c("}
		for i := range 4 {
			want = append(want, fmt.Sprintf("run q/%d attempt 1 last false: %d at %d map[trace:t-7] age 1s", i+1, i, p+uint64(i)))
		}
		require.Equal(t, append(want, "handler has value of 4", "1 is done", "2 is snoozed", "3 is cancelled", "4 is failed",
			"c mixed)", "b mixed)", "a mixed)"), l.take())
		stop(t, x)
	})
}

// Each shape of a queue has its runs wrapped, and each half of a batch is a run.
func TestMiddlewareOfEachShape(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var l traceLines
		x := open(t, "", executor.Config{Middleware: []executor.Middleware{{
			Run: func(ctx context.Context, run *executor.Run, next func(context.Context) error) error {
				var values []any
				for _, job := range run.Jobs {
					for _, p := range job.Payloads {
						values = append(values, p.Value)
					}
				}
				l.add("%s %v", run.Queue, values)
				return next(ctx)
			},
		}}})
		one, err := executor.Handle(x, "events", func(context.Context, executor.Job[string]) error { return nil }, executor.QueueConfig[string]{})
		require.NoError(t, err)
		all := handle(t, x, "state", (&probe{}).handle, executor.QueueConfig[string]{})
		batch, err := executor.HandleBatch(x, "batch", func(context.Context, []executor.Merged[string]) error { return errBoom },
			executor.QueueConfig[string]{BatchSize: 2, Share: executor.Share{Shards: 1}, MaxRetries: -1})
		require.NoError(t, err)
		for _, q := range []*executor.Queue[string]{one, all} {
			enqueue(t, q, "id", "x")
			enqueue(t, q, "id", "y")
		}
		enqueue(t, batch, "1", "x")
		enqueue(t, batch, "2", "y")
		_, err = enqueueRaw(t.Context(), x, "state", "id", []byte("no JSON"))
		require.NoError(t, err)
		start(t, x)
		synctest.Wait()
		require.ElementsMatch(t, []string{"events [x]", "events [y]", "state [x y]", "batch [x y]", "batch [x]", "batch [y]"}, l.take())
		stop(t, x)
	})
}

// What a middleware of a run returns is what the handler is taken to have returned.
// Whatever it does, it hurts the job at hand only, and never runs two at a time.
func TestHostileMiddlewareOfARun(t *testing.T) {
	var kept func(context.Context) error // next of a run that is over
	for name, c := range map[string]struct {
		run   aroundRun
		calls int // of the handler, in one attempt
		want  string
	}{
		"panics before": {func(context.Context, inward) error { panic("boom") }, 0, "panic: boom"},
		"panics after": {func(ctx context.Context, next inward) error {
			_ = next(ctx)
			panic("boom")
		}, 1, "panic: boom"},
		"exits before": {func(context.Context, inward) error { runtime.Goexit(); return nil }, 0, executor.ErrHandlerExited.Error()},
		"exits after": {func(ctx context.Context, next inward) error {
			_ = next(ctx)
			runtime.Goexit()
			return nil
		}, 1, executor.ErrHandlerExited.Error()},
		"never calls next":     {func(context.Context, inward) error { return nil }, 0, ""},
		"calls next twice":     {func(ctx context.Context, next inward) error { return errors.Join(next(ctx), next(ctx)) }, 2, ""},
		"gives no context":     {func(_ context.Context, next inward) error { return next(nil) }, 0, executor.ErrContext.Error() + ": it is nil; context.Background() is one that never ends"}, //nolint:staticcheck // on purpose
		"fails what succeeded": {func(ctx context.Context, next inward) error { return errors.Join(next(ctx), errBoom) }, 1, "boom"},
		"discards":             {func(context.Context, inward) error { return executor.Discard() }, 0, ""},
		"calls next of the last run": {func(ctx context.Context, next inward) error {
			if kept != nil {
				return kept(ctx)
			}
			kept = next
			return errBoom
		}, 0, "executor: middleware: next was called while an earlier call went on, or after the middleware had returned"},
		"calls next from everywhere": {func(ctx context.Context, next inward) error {
			var g sync.WaitGroup
			for range 5 {
				g.Go(func() { _ = next(ctx) })
			}
			g.Wait()
			return nil
		}, 1, ""},
		"leaves next behind": {func(ctx context.Context, next inward) error {
			go func() { _ = next(ctx) }()
			time.Sleep(time.Millisecond) // the handler is at it
			return nil
		}, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			kept = nil
			bubble(t, func(t *testing.T) {
				var mu sync.Mutex
				calls, active := 0, 0
				x := open(t, "", executor.Config{Workers: 2})
				q := handle(t, x, "q", func(ctx context.Context, job executor.Merged[string]) error {
					if job.ID == "other" {
						return nil
					}
					mu.Lock()
					calls++
					active++
					assert.Equal(t, 1, active, "two runs of one id")
					mu.Unlock()
					time.Sleep(40 * time.Second)
					mu.Lock()
					active--
					mu.Unlock()
					return nil
				}, executor.QueueConfig[string]{MaxRetries: 1, RetryIn: always(time.Minute), Middleware: []executor.Middleware{{
					Run: func(ctx context.Context, run *executor.Run, next func(context.Context) error) error {
						if run.Jobs[0].ID == "other" {
							return next(ctx)
						}
						return c.run(ctx, next)
					},
				}}})
				start(t, x)
				enqueue(t, q, "id", "x")
				synctest.Wait()
				enqueue(t, q, "id", "y", executor.In(30*time.Second))
				time.Sleep(10 * time.Second)
				enqueue(t, q, "other", "x")
				synctest.Wait()
				require.Empty(t, pendingOf(t, q, "other"), "another job waits for it")
				time.Sleep(time.Hour)
				synctest.Wait()
				require.Empty(t, pendingOf(t, q, "id"))
				dead := morgue(t, q)
				if c.want == "" {
					require.Empty(t, dead)
				} else {
					require.NotEmpty(t, dead)
					require.Equal(t, c.want, dead[0].Error)
				}
				runs := int(stats(t, q).Failed)
				if c.want == "" {
					runs = 2 // x, and y when it comes
				}
				if kept == nil {
					require.Equal(t, c.calls*runs, calls)
				}
				stop(t, x)
			})
		})
	}
}

// What a call has made of its jobs is that call's: when a middleware calls next again, the handler gets all of them as they
// were. Nothing ends as done that the last call has not seen.
func TestACallOnTheSpotGetsItsJobsAnew(t *testing.T) {
	type merged = executor.Merged[[]string]
	type config = executor.QueueConfig[[]string]
	shapes := map[string]struct {
		calls    int
		register func(x *executor.Executor, does func([]merged) error, cfg config) (*executor.Queue[[]string], error)
	}{
		"Handle": {6, func(x *executor.Executor, does func([]merged) error, cfg config) (*executor.Queue[[]string], error) {
			return executor.Handle(x, "q", func(_ context.Context, job executor.Job[[]string]) error {
				payloads := []executor.Payload[[]string]{{Value: job.Payload, Position: job.Position, Metadata: job.Metadata}}
				return does([]merged{{ID: job.ID, Payloads: payloads, Attempt: job.Attempt, Failures: job.Failures}})
			}, cfg)
		}},
		"HandleMerged": {4, func(x *executor.Executor, does func([]merged) error, cfg config) (*executor.Queue[[]string], error) {
			return executor.HandleMerged(x, "q", func(_ context.Context, job merged) error { return does([]merged{job}) }, cfg)
		}},
		"HandleBatch": {2, func(x *executor.Executor, does func([]merged) error, cfg config) (*executor.Queue[[]string], error) {
			cfg.BatchSize, cfg.Share.Shards = 2, 1
			return executor.HandleBatch(x, "q", func(_ context.Context, jobs []merged) error { return does(jobs) }, cfg)
		}},
	}
	for name, shape := range shapes {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var calls []string
				x := open(t, "", executor.Config{Workers: 1})
				q, err := shape.register(x, func(jobs []merged) error {
					if jobs[0].Attempt == 1 {
						return errBoom // so that there are Failures
					}
					var l strings.Builder
					for _, job := range jobs {
						for _, p := range job.Payloads {
							fmt.Fprintln(&l, job.ID, p.Position, p.Value, p.Metadata, job.Failures)
							p.Value[0], p.Metadata["k"], job.Failures[0].Error = "spoilt", "spoilt", "spoilt"
						}
						clear(job.Payloads)
					}
					_ = slices.DeleteFunc(jobs, func(job merged) bool { return job.ID == "a" })
					if calls = append(calls, l.String()); len(calls)%2 == 1 {
						return errBoom
					}
					return nil
				}, config{RetryIn: always(time.Minute), Middleware: []executor.Middleware{{
					Run: func(ctx context.Context, run *executor.Run, next func(context.Context) error) error {
						err := next(ctx)
						if run.Jobs[0].Attempt > 1 && err != nil {
							err = next(ctx)
						}
						return err
					},
				}}})
				require.NoError(t, err)
				for _, id := range []string{"a", "a", "b"} {
					enqueue(t, q, id, []string{"x", "y"}, executor.Metadata(map[string]string{"k": "v"}))
				}
				start(t, x)
				time.Sleep(time.Hour)
				synctest.Wait()
				require.Len(t, calls, shape.calls)
				for i := 0; i < len(calls); i += 2 {
					require.Equal(t, calls[i], calls[i+1])
				}
				require.Zero(t, stats(t, q).Payloads)
				require.Empty(t, morgue(t, q))
				stop(t, x)
			})
		})
	}
}

type (
	inward    = func(context.Context) error
	aroundRun func(context.Context, inward) error
)

func pendingOf[T any](t testing.TB, q *executor.Queue[T], id string) (waits []string) {
	t.Helper()
	pending, err := q.Pending(t.Context(), id)
	require.NoError(t, err)
	if pending {
		waits = append(waits, id)
	}
	return waits
}

// A middleware that blocks is under Timeout and Stuck.After like a handler, and only
// its id waits for it.
func TestBlockedMiddleware(t *testing.T) {
	bubble(t, func(t *testing.T) {
		free := make(chan struct{})
		x := open(t, "", executor.Config{Workers: 1, Stuck: executor.Stuck{SpareWorkers: 1, After: time.Second}})
		p := &probe{}
		q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{Timeout: time.Second, Middleware: []executor.Middleware{{
			Run: func(ctx context.Context, run *executor.Run, next func(context.Context) error) error {
				if run.Jobs[0].ID == "bad" {
					<-free
					return context.Cause(ctx)
				}
				return next(ctx)
			},
		}}})
		start(t, x)
		enqueue(t, q, "bad", "x")
		synctest.Wait()
		enqueue(t, q, "good", "x")
		time.Sleep(5 * time.Second)
		require.Equal(t, []string{"good[x]"}, p.log())
		s, err := x.Stats(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, s.Stuck)
		close(free)
		synctest.Wait()
		require.Equal(t, uint64(1), stats(t, q).Failed)
		stop(t, x)
	})
}
