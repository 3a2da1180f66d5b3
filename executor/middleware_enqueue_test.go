package executor_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/events"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/journal"
)

// Around an enqueue the caller gets what is true, whatever a middleware does.
func TestHostileMiddlewareOfAnEnqueue(t *testing.T) {
	for name, c := range map[string]struct {
		f        func(context.Context, *executor.EnqueueCall, inward) error
		accepted int
		want     []error
	}{
		"panics before": {func(context.Context, *executor.EnqueueCall, inward) error { panic(errBoom) }, 0, []error{executor.ErrMiddleware, errBoom}},
		"panics after": {func(ctx context.Context, _ *executor.EnqueueCall, next inward) error {
			_ = next(ctx)
			panic("boom")
		}, 1, nil},
		"fails after": {func(ctx context.Context, _ *executor.EnqueueCall, next inward) error {
			return errors.Join(next(ctx), errBoom)
		}, 1, nil},
		"refuses":          {func(context.Context, *executor.EnqueueCall, inward) error { return errBoom }, 0, []error{errBoom}},
		"never calls next": {func(context.Context, *executor.EnqueueCall, inward) error { return nil }, 0, []error{executor.ErrMiddleware}},
		"calls next twice": {func(ctx context.Context, _ *executor.EnqueueCall, next inward) error {
			return errors.Join(next(ctx), next(ctx))
		}, 1, nil},
		"swallows an error": {func(ctx context.Context, call *executor.EnqueueCall, next inward) error {
			call.Items[0].Metadata[""] = "x"
			_ = next(ctx)
			return nil
		}, 0, []error{executor.ErrMiddleware}},
		"swallows a refusal": {func(_ context.Context, _ *executor.EnqueueCall, next inward) error {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			_ = next(ctx)
			return nil
		}, 0, []error{executor.ErrMiddleware, context.Canceled}},
		"tries again": {func(ctx context.Context, call *executor.EnqueueCall, next inward) error {
			call.Items[0].Metadata[""] = "x"
			if err := next(ctx); !errors.Is(err, executor.ErrInvalidItem) {
				return fmt.Errorf("next returned %w", err)
			}
			delete(call.Items[0].Metadata, "")
			return next(ctx)
		}, 1, nil},
		"changes the id": {func(ctx context.Context, call *executor.EnqueueCall, next inward) error {
			call.Items[0].ID = "another"
			return next(ctx)
		}, 0, []error{executor.ErrMiddleware}},
		"adds an item": {func(ctx context.Context, call *executor.EnqueueCall, next inward) error {
			call.Items = append(call.Items, executor.Item[[]byte]{})
			return next(ctx)
		}, 0, []error{executor.ErrMiddleware}},
		"changes the bytes": {func(ctx context.Context, call *executor.EnqueueCall, next inward) error {
			clear(call.Items[0].Payload)
			return next(ctx)
		}, 1, nil},
		"changes the receipt": {func(ctx context.Context, call *executor.EnqueueCall, next inward) error {
			err := next(ctx)
			clear(call.Receipts)
			return err
		}, 1, nil},
		"leaves next behind": {func(ctx context.Context, _ *executor.EnqueueCall, next inward) error {
			go func() { _ = next(ctx) }()
			runtime.Gosched()
			return errBoom
		}, -1, nil},
		"gives no context": {func(_ context.Context, _ *executor.EnqueueCall, next inward) error { return next(nil) }, 0, []error{executor.ErrContext}}, //nolint:staticcheck // on purpose
	} {
		t.Run(name, func(t *testing.T) {
			x := open(t, "", executor.Config{Middleware: []executor.Middleware{{Enqueue: c.f}}})
			q := handle(t, x, "q", (&probe{}).handle, executor.QueueConfig[string]{})
			r, err := q.Enqueue(t.Context(), "id", "x")
			n := stats(t, q).Payloads
			require.Equal(t, err == nil, n == 1, "the caller was told %v, and there are %d", err, n)
			require.Equal(t, err == nil, r.Position > 0)
			if c.accepted >= 0 {
				require.Equal(t, c.accepted, n)
				require.Equal(t, c.accepted == 0, err != nil)
			}
			for _, want := range c.want {
				require.ErrorIs(t, err, want)
			}
		})
	}
}

// What was accepted or not is unknown: no middleware makes that a yes or a no.
func TestMiddlewareKeepsTheUnknown(t *testing.T) {
	for _, f := range []func(context.Context, *executor.EnqueueCall, inward) error{
		func(ctx context.Context, _ *executor.EnqueueCall, next inward) error { _ = next(ctx); return nil },
		func(ctx context.Context, _ *executor.EnqueueCall, next inward) error { _ = next(ctx); return errBoom },
		func(ctx context.Context, _ *executor.EnqueueCall, next inward) error { _ = next(ctx); return next(ctx) },
	} {
		bubble(t, func(t *testing.T) {
			x := open(t, "", executor.Config{Middleware: []executor.Middleware{{Enqueue: f}}})
			q := handle(t, x, "q", (&probe{}).handle, executor.QueueConfig[string]{})
			release := x.HoldShards("q")
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := q.Enqueue(ctx, "id", "x")
			require.ErrorIs(t, err, executor.ErrUnknown)
			release()
			require.Equal(t, 1, stats(t, q).Payloads, "once, however often next was called")
			stop(t, x)
		})
	}
}

// shy is a cause of a context that can't be asked what it is.
type shy struct{ asked func() }

func (*shy) Error() string { return "shy" }

func (m *shy) Is(error) bool {
	m.asked()
	return false
}

// What was accepted or not stays unknown while the disk hangs, if the cause of the caller's context can't be asked what it
// is: with a middleware and without one, and also when it ends the goroutine that asks.
func TestEnqueueWithACauseThatCantBeAsked(t *testing.T) {
	boom := func() { panic("boom") }
	for name, c := range map[string]struct {
		asked func()
		f     func(context.Context, *executor.EnqueueCall, inward) error // nil: no middleware
	}{
		"panics": {boom, nil},
		"panics in a middleware": {boom, func(ctx context.Context, _ *executor.EnqueueCall, next inward) error {
			return next(ctx)
		}},
		"exits in a middleware": {runtime.Goexit, func(ctx context.Context, _ *executor.EnqueueCall, next inward) error {
			var g sync.WaitGroup
			g.Go(func() { _ = next(ctx) })
			g.Wait()
			return nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				disk := new(journal.Memory)
				cfg := executor.QueueConfig[string]{}
				if c.f != nil {
					cfg.Middleware = []executor.Middleware{{Enqueue: c.f}}
				}
				x := openOn(t, disk, executor.Config{})
				q := handle(t, x, "q", (&probe{}).handle, cfg)
				brake := hang(disk)
				defer brake.release()
				ctx, cancel := context.WithCancelCause(t.Context())
				enqueue := func(options ...executor.Option) (err error) {
					assert.NotPanics(t, func() { _, err = q.Enqueue(ctx, "id", "x", options...) })
					return err
				}
				said := make(chan error, 1)
				go func() { said <- enqueue() }()
				synctest.Wait()
				cancel(&shy{c.asked})
				require.ErrorIs(t, <-said, executor.ErrUnknown)
				for range 10 { // the ways of a call whose context has ended are several
					if name == "exits in a middleware" {
						break
					}
					_, paused := x.Inspect().Pause(ctx, inspect.SelectQueue("q"))
					for _, err := range []error{enqueue(), enqueue(executor.IfAbsent()), paused} {
						require.NotPanics(t, func() { require.ErrorIs(t, err, executor.ErrContext, "it has ended before") })
					}
				}
				brake.release()
				synctest.Wait()
				require.Equal(t, 1, stats(t, q).Payloads)
				stop(t, x)
			})
		})
	}
}

// What a middleware says of due time and score counts.
func TestMiddlewareMayChangeWhenAndInWhichOrder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := &probe{}
		x := open(t, "", executor.Config{})
		q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{Middleware: []executor.Middleware{{
			Enqueue: func(ctx context.Context, call *executor.EnqueueCall, next func(context.Context) error) error {
				for i := range call.Items {
					call.Items[i].Due = call.Items[i].Due.Add(time.Minute)
					*call.Items[i].Score *= -1
				}
				return next(ctx)
			},
		}}})
		start(t, x)
		began := time.Now()
		enqueue(t, q, "id", "a", executor.Score(1))
		enqueue(t, q, "id", "b", executor.Score(2))
		time.Sleep(time.Hour)
		require.Equal(t, []string{"id[b a]"}, p.log())
		require.Equal(t, time.Minute, p.seen()[0].at.Sub(began))
		stop(t, x)
	})
}

func TestMiddlewareThatDoesNothingIsRefused(t *testing.T) {
	_, err := executor.Open("", executor.Config{Middleware: []executor.Middleware{{}}})
	require.ErrorIs(t, err, executor.ErrConfig)
	x := open(t, "", executor.Config{})
	_, err = executor.Handle(x, "q", func(context.Context, executor.Job[int]) error { return nil },
		executor.QueueConfig[int]{Middleware: []executor.Middleware{{}}})
	require.ErrorIs(t, err, executor.ErrConfig)
}

func TestOutcomeOf(t *testing.T) {
	for want, errs := range map[events.Kind][]error{
		events.Done:      {nil},
		events.Failed:    {errBoom, executor.RetryAfter(0, errBoom), rude{}},
		"panicked":       {&executor.PanicError{Value: 1}},
		events.Snoozed:   {executor.Snooze(1), executor.Throttled(1, errBoom)},
		events.Discarded: {executor.Discard()},
		events.Cancelled: {executor.Cancel(errBoom)},
		"mixed":          {executor.PayloadErrors{}, executor.BatchErrors{}},
	} {
		for _, err := range errs {
			assert.Equal(t, want, executor.OutcomeOf(err))
			if err != nil && !slices.Contains(errs, error(rude{})) {
				assert.Equal(t, want, executor.OutcomeOf(fmt.Errorf("wrapped: %w", err)))
			}
		}
	}
}
