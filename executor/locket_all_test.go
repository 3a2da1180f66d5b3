package executor_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
)

// R02: one key function is for all queues, whatever their payloads are. A queue may have
// one of its own, or take no part.
func TestLocket_R02_OneKeyForAll(t *testing.T) {
	type order struct{ Customer, Item string }
	customer := func(_ string, payload any) string {
		switch p := payload.(type) {
		case order:
			return p.Customer
		case string:
			return strings.Fields(p)[0]
		default:
			return fmt.Sprintf("%T", p)
		}
	}
	item := func(_ string, o order) string { return o.Item }
	for name, test := range map[string]struct {
		all    executor.Unique[any]
		orders executor.Unique[order]
		mails  executor.Unique[string]
		want   int // at a time, of two orders and two mails of one customer
	}{
		"all":               {executor.Unique[any]{Key: customer}, executor.Unique[order]{}, executor.Unique[string]{}, 1},
		"one has its own":   {executor.Unique[any]{Key: customer}, executor.Unique[order]{Key: item}, executor.Unique[string]{}, 3},
		"one takes no part": {executor.Unique[any]{Key: customer}, executor.Unique[order]{}, executor.Unique[string]{While: executor.UniqueNever}, 3},
		"who wants to": {executor.Unique[any]{Key: customer, While: executor.UniqueNever}, executor.Unique[order]{While: executor.UniqueWhileRunning},
			executor.Unique[string]{}, 3},
		"nobody": {executor.Unique[any]{Key: customer, While: executor.UniqueNever}, executor.Unique[order]{}, executor.Unique[string]{}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := open(t, "", executor.Config{Unique: test.all})
				var together most
				work := func() error { together.do(func() { time.Sleep(time.Second) }); return nil }
				orders := handle(t, x, "orders", func(context.Context, executor.Merged[order]) error { return work() }, executor.QueueConfig[order]{Conditions: executor.Conditions[order]{Unique: test.orders}})
				mails := handle(t, x, "mails", func(context.Context, executor.Merged[string]) error { return work() }, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Unique: test.mails}})
				enqueue(t, orders, "1", order{"ann", "tea"})
				enqueue(t, orders, "2", order{"ann", "milk"})
				enqueue(t, mails, "1", "ann hello")
				enqueue(t, mails, "2", "ann again")
				start(t, x)
				time.Sleep(time.Minute)
				require.Equal(t, test.want, together.peak())
				require.EqualValues(t, 4, stats(t, orders).Done+stats(t, mails).Done)
				stop(t, x)
			})
		})
	}
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Unique: executor.Unique[any]{Key: func(_ string, payload any) string { return payload.(order).Item }}})
		mails := handle(t, x, "mails", (&probe{}).handle, executor.QueueConfig[string]{})
		_, err := mails.Enqueue(t.Context(), "1", "hello")
		require.ErrorIs(t, err, executor.ErrInvalidKey, "it panics")
	})
}

// R02: TTL and heartbeat are for all queues, too; a queue may have its own.
func TestLocket_R02_OneHeartbeatForAll(t *testing.T) {
	type unique = executor.Unique[string]
	for name, test := range map[string]struct {
		all       executor.Unique[any]
		own       unique
		ttl, beat time.Duration
	}{
		"both":              {executor.Unique[any]{TTL: time.Minute, Heartbeat: 10 * time.Second}, unique{}, time.Minute, 10 * time.Second},
		"TTL":               {executor.Unique[any]{TTL: 7 * time.Minute}, unique{}, 7 * time.Minute, 6 * time.Minute},
		"heartbeat":         {executor.Unique[any]{Heartbeat: time.Second}, unique{}, 35 * time.Second, time.Second},
		"own heartbeat":     {executor.Unique[any]{TTL: time.Minute, Heartbeat: 10 * time.Second}, unique{Heartbeat: 50 * time.Second}, time.Minute, 50 * time.Second},
		"own TTL":           {executor.Unique[any]{TTL: time.Minute, Heartbeat: 10 * time.Second}, unique{TTL: 7 * time.Second}, 7 * time.Second, 6 * time.Second},
		"own both":          {executor.Unique[any]{TTL: time.Minute, Heartbeat: 10 * time.Second}, unique{TTL: 2 * time.Second, Heartbeat: time.Second}, 2 * time.Second, time.Second},
		"of those that do":  {executor.Unique[any]{TTL: time.Minute, While: executor.UniqueNever}, unique{While: executor.UniqueWhileRunning}, time.Minute, time.Minute / 7 * 6},
		"beside an own key": {executor.Unique[any]{TTL: time.Minute}, unique{Key: func(string, string) string { return "k" }}, time.Minute, time.Minute / 7 * 6},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := open(t, "", executor.Config{Unique: test.all})
				q := handle(t, x, "q", func(_ context.Context, job executor.Merged[string]) error {
					watchBeats(t, job, test.ttl, test.beat)
					return nil
				}, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Unique: test.own}})
				enqueue(t, q, "1", "same")
				start(t, x)
				time.Sleep(2 * time.Hour)
				synctest.Wait()
				require.EqualValues(t, 1, stats(t, q).Done)
				stop(t, x)
			})
		})
	}
	for says, unique := range map[string]executor.Unique[any]{
		"Unique.Heartbeat is -1ns": {Heartbeat: -1},
		"below the TTL of 35s":     {Heartbeat: 35 * time.Second},
		"below the TTL of 1s":      {TTL: time.Second, Heartbeat: time.Second},
		"Unique.TTL is -1s":        {TTL: -time.Second},
		`Unique.While is "x"`:      {While: "x"},
	} {
		_, err := executor.Open("", executor.Config{Unique: unique})
		require.ErrorIs(t, err, executor.ErrConfig)
		require.ErrorContains(t, err, says)
	}
	x := open(t, "", executor.Config{Unique: executor.Unique[any]{TTL: time.Second}})
	_, err := executor.HandleMerged(x, "q", (&probe{}).handle, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Unique: unique{Heartbeat: time.Second}}})
	require.ErrorIs(t, err, executor.ErrConfig)
	require.ErrorContains(t, err, "below the TTL of 1s")
}
