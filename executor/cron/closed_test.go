package cron_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/cron"
	"github.com/strandjobs/strand/lock"
)

// Once a Cron or its executor has stopped, every call says so and changes nothing.
func TestClosed(t *testing.T) {
	for name, stop := range map[string]func(s side) error{
		"the Cron has stopped":     func(s side) error { return s.c.Stop(context.Background()) },
		"the executor has stopped": func(s side) error { return s.x.Stop(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			s := rig{idle: true}.open(t)
			s.add(t, "a", "@hourly")
			require.NoError(t, stop(s))
			for call, err := range map[string]error{
				"Start":      s.c.Start(),
				"Pause":      s.c.Pause(t.Context(), "a"),
				"Resume":     s.c.Resume(t.Context(), "a"),
				"Add":        cron.Add(t.Context(), s.c, s.schedule("b", "@hourly")),
				"TriggerNow": func() error { _, err := s.c.TriggerNow(t.Context(), "a"); return err }(),
			} {
				assert.ErrorIs(t, err, executor.ErrClosed, call)
			}
			assert.False(t, s.c.Leads())
			require.Len(t, s.c.List(), 1, "what there was at the end")
			assert.False(t, s.c.List()[0].Paused)
			assert.ErrorIs(t, s.c.Remove(t.Context(), "a"), executor.ErrClosed)
		})
	}
}

// A member that does not lead ends with its executor, too, and keeps nobody from pausing meanwhile.
func TestFollowerEndsWithItsExecutor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		election, err := new(lock.Table).NewElection("cron", lock.ElectionConfig{AutoExtend: true})
		require.NoError(t, err)
		group, err := cron.NewGroup(election)
		require.NoError(t, err)
		member := func(name string) side {
			s := rig{cron: cron.Config{Group: group, Member: name}}.open(t)
			s.add(t, "report", "* * * * *")
			s.start(t)
			synctest.Wait()
			return s
		}
		leader, follower := member("a"), member("b")
		require.NoError(t, follower.x.Stop(t.Context()))
		require.NoError(t, leader.c.Pause(t.Context(), "report"))
		time.Sleep(2 * time.Minute)
		require.Empty(t, leader.r.take())
		member("b") // whose name is free
		require.NoError(t, leader.c.Resume(t.Context(), "report"))
		time.Sleep(time.Minute)
		require.Len(t, leader.r.take(), 1)
	})
}

// What a middleware says of another executor that has stopped costs a tick, and ends nothing.
func TestAnotherExecutorIsClosed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		calls := 0
		enqueue := func(ctx context.Context, _ *executor.EnqueueCall, next func(context.Context) error) error {
			if calls++; calls == 1 {
				return fmt.Errorf("the audit: %w", executor.ErrClosed)
			}
			return next(ctx)
		}
		s := rig{queue: executor.QueueConfig[string]{Middleware: []executor.Middleware{{Enqueue: enqueue}}}}.open(t)
		s.add(t, "report", "* * * * *")
		s.start(t)
		time.Sleep(3 * time.Minute)
		require.Len(t, s.r.take(), 2)
		s.stop(t)
	})
}
