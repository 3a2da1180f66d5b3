package executor_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/events"
	"github.com/strandjobs/strand/executor/inspect"
)

// A caller who waits hears that a person has canceled the payload, and so does one who
// asks later.
func TestCanceledByOperatorIsSaidToWhoWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		c, err := executor.HandleResult(x, "q", func(ctx context.Context, _ executor.Job[string]) (int, error) {
			<-ctx.Done()
			return 0, context.Cause(ctx)
		}, executor.QueueConfig[string]{})
		require.NoError(t, err)
		start(t, x)
		said := make(chan error, 1)
		go func() {
			_, err := c.Do(t.Context(), "a", "x")
			said <- err
		}()
		synctest.Wait()
		_, err = x.Inspect().Cancel(t.Context(), inspect.SelectIDs("q", "a"), "why")
		require.NoError(t, err)
		err = <-said
		require.ErrorIs(t, err, executor.ErrCanceledByOperator)
		buried, ok := errors.AsType[*executor.BuriedError](err)
		require.True(t, ok)
		require.EqualError(t, buried.Err, buried.Reason)
		require.ErrorIs(t, c.Wait(t.Context(), executor.Receipt{ID: "a", Position: buried.Position}), executor.ErrCanceledByOperator)
		stop(t, x)
	})
}

// What a person kills after its failure keeps that failure, by which it is found again.
func TestKillFailedKeepsTheFailure(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		single, err := executor.Handle(x, "single", func(context.Context, executor.Job[string]) error { return errBoom }, executor.QueueConfig[string]{})
		require.NoError(t, err)
		merged := handle(t, x, "merged", func(context.Context, executor.Merged[string]) error { return errBoom }, executor.QueueConfig[string]{})
		start(t, x)
		for _, q := range []*executor.Queue[string]{single, merged} {
			enqueue(t, q, "a", "x")
			synctest.Wait()
			_, err := x.Inspect().KillFailed(t.Context(), inspect.SelectQueue(stats(t, q).Name))
			require.NoError(t, err)
			dead := morgue(t, q)
			require.Len(t, dead, 1)
			require.Equal(t, executor.ErrCanceledByOperator.Error()+": after its failure: boom", dead[0].Error)
		}
		stop(t, x)
	})
}

// A handler that returns the cause of its context is told once why that has ended.
func TestTheCauseOfATimeoutIsSaidOnce(t *testing.T) {
	for _, cfg := range []executor.QueueConfig[string]{{Timeout: time.Minute}, {HeartbeatTimeout: time.Minute}} {
		bubble(t, func(t *testing.T) {
			x := open(t, "", executor.Config{})
			cfg.MaxRetries = -1
			q := handle(t, x, "q", func(ctx context.Context, _ executor.Merged[string]) error {
				<-ctx.Done()
				return context.Cause(ctx)
			}, cfg)
			start(t, x)
			enqueue(t, q, "a", "x")
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			dead := morgue(t, q)
			require.Len(t, dead, 1)
			require.Equal(t, 1, strings.Count(dead[0].Error, "executor:"), dead[0].Error)
			require.Contains(t, dead[0].Error, "1m0s")
			stop(t, x)
		})
	}
}

// Events say why a job was put off, and Running how far it is.
func TestWhyItIsSnoozedAndHowFarItIs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		wishes := []error{executor.Throttled(time.Hour, errBoom), fmt.Errorf("not yet: %w", executor.Snooze(time.Hour)), executor.Snooze(time.Hour), nil}
		q := handle(t, x, "q", func(ctx context.Context, _ executor.Merged[string]) error {
			wish := wishes[0]
			if wishes = wishes[1:]; wish == nil {
				executor.Progress(ctx, 3, 10, "mailing")
				<-ctx.Done()
			}
			return wish
		}, executor.QueueConfig[string]{})
		var why []string
		feed := x.Events(t.Context(), events.Filter{Kinds: []events.Kind{events.Snoozed}})
		start(t, x)
		enqueue(t, q, "a", "x")
		time.Sleep(4 * time.Hour)
		synctest.Wait()
		running, err := x.Inspect().Running(t.Context(), inspect.RunningQuery{})
		require.NoError(t, err)
		require.Len(t, running.Running, 1)
		require.Contains(t, running.Running[0].String(), "progress 3 of 10: mailing")
		over, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, x.Stop(over))
		for e, err := range feed {
			require.NoError(t, err)
			why = append(why, e.Error)
		}
		require.Equal(t, []string{"throttled for 1h0m0s: boom", "not yet: snoozed for 1h0m0s", ""}, why)
	})
}

// Whose an id is, is what a process says that refuses it.
func TestOwnerOf(t *testing.T) {
	for _, s := range []executor.Splitter{{}, executor.Splitter{Nodes: 3, Self: 1}, {Nodes: 3, Self: 1, Owner: func(id string) int { return len(id) % 3 }}} {
		x := open(t, "", executor.Config{Splitter: s})
		q := handle(t, x, "q", (&probe{}).handle, executor.QueueConfig[string]{})
		for i := range 200 {
			id := strings.Repeat("x", i%7) + fmt.Sprint(i)
			owner, err := s.OwnerOf(id)
			require.NoError(t, err)
			_, err = q.Enqueue(t.Context(), id, "x")
			if owner == s.Self {
				require.NoError(t, err)
				continue
			}
			require.ErrorIs(t, err, executor.ErrNotOwned)
			require.ErrorContains(t, err, fmt.Sprint("belongs to ", owner))
		}
	}
	_, err := executor.Splitter{Nodes: 2, Owner: func(string) int { return 2 }}.OwnerOf("a")
	require.ErrorIs(t, err, executor.ErrConfig)
	_, err = executor.Splitter{Nodes: 2, Owner: func(string) int { panic("planted") }}.OwnerOf("a")
	require.ErrorIs(t, err, executor.ErrConfig)
}
