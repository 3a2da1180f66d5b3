package executor_test

import (
	"context"
	"fmt"
	"iter"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
)

// Zero is the default of every number, and below zero it is off, or refused with
// its name and value: the rule of Config, for all of them. A new field has to be
// listed.
func TestZeroAndBelowMeanTheSameEverywhere(t *testing.T) {
	const refused, off = false, true
	below := map[string]bool{
		"Config.Workers": refused, "Config.Advanced.MaxPayloadBytes": refused, "Config.Advanced.IdempotencyTTL": refused, "Config.Stuck.After": refused, "Config.Advanced.SlotTTL": refused,
		"Config.MaxBacklog.Payloads": off, "Config.MaxBacklog.Bytes": off, "Config.Advanced.MemoryBudget": off, "Config.Crash.Limit": off,
		"Config.Advanced.TimerSlack": off, "Config.Stuck.SpareWorkers": off, "Config.StopTimeout": off, "Config.Advanced.EventBuffer": off,
		"QueueConfig.Share.Shards": refused, "QueueConfig.BatchSize": refused, "QueueConfig.Share.Weight": refused,
		"QueueConfig.Share.Concurrency": off, "QueueConfig.MaxConcurrent": off, "QueueConfig.MaxBacklog.Payloads": off, "QueueConfig.MaxBacklog.Bytes": off,
		"QueueConfig.Gather.MaxPayloads": off, "QueueConfig.MaxRetries": off, "QueueConfig.Timeout": off, "QueueConfig.Gather.Throttle": off,
		"QueueConfig.HeartbeatTimeout": off, "QueueConfig.Gather.Debounce.Quiet": off, "QueueConfig.Gather.Debounce.MaxWait": off,
		"QueueConfig.DeadLetters.Retention.Age": off, "QueueConfig.DeadLetters.Retention.Count": off,
		"Locks.TTL": off, "Unique.TTL": refused, "Unique.Heartbeat": refused,
		"SlotsConfig.TTL": refused, "SlotsConfig.MaxSteps": refused,
		"LimitSetting.Concurrent": refused, "LimitSetting.Rate": refused, "LimitSetting.Per": refused, "LimitSetting.Burst": refused,
	}
	keys := func(string, string) []string { return []string{"key"} }
	queues := 0
	handled := func(cfg executor.QueueConfig[string]) error {
		queues++
		_, err := executor.HandleBatch(open(t, "", executor.Config{}), fmt.Sprint(queues),
			func(context.Context, []executor.Merged[string]) error { return nil }, cfg)
		return err
	}
	for _, room := range []struct {
		config any // a pointer
		use    func(any) error
	}{
		{&executor.Config{}, func(c any) error {
			x, err := executor.Open("", *c.(*executor.Config))
			if err == nil {
				stop(t, x)
			}
			return err
		}},
		{&executor.QueueConfig[string]{}, func(c any) error { return handled(*c.(*executor.QueueConfig[string])) }},
		{&executor.Locks[string]{OnEnqueue: keys, Unlock: keys}, func(c any) error {
			return handled(executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Locks: *c.(*executor.Locks[string])}})
		}},
		{&executor.Unique[string]{}, func(c any) error {
			return handled(executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Unique: *c.(*executor.Unique[string])}})
		}},
		{&executor.SlotsConfig[int]{Next: next}, func(c any) error {
			_, err := executor.NewSlots(open(t, "", executor.Config{}), "slots", *c.(*executor.SlotsConfig[int]))
			return err
		}},
		{&executor.LimitConfig{}, func(c any) error {
			_, err := executor.NewLimit(open(t, "", executor.Config{}), "limit", *c.(*executor.LimitConfig))
			return err
		}},
	} {
		v := reflect.ValueOf(room.config).Elem()
		kind, _, _ := strings.Cut(v.Type().Name(), "[")
		require.NoError(t, room.use(room.config), "zero")
		for path, field := range numbers(kind, v) {
			if path == "QueueConfig.Share.Priority" {
				continue // below zero is a low one; TestTuningsThatMakeNoSense knows its bounds
			}
			isOff, known := below[path]
			require.True(t, known, "%s: what does a number below zero mean?", path)
			delete(below, path)
			for _, n := range []int64{-1, -1 << 40} {
				field.SetInt(n)
				err := room.use(room.config)
				if field.SetInt(0); isOff {
					require.NoError(t, err, path)
					continue
				}
				require.ErrorIs(t, err, executor.ErrConfig, path)
				var value any = n
				if field.Type() == reflect.TypeFor[time.Duration]() {
					value = time.Duration(n)
				}
				_, name, _ := strings.Cut(path, ".")
				require.ErrorContains(t, err, fmt.Sprintf("%s is %v", name, value))
			}
		}
	}
	require.Empty(t, below, "no such fields")
}

// numbers are the fields of a configuration that may be below zero, and those of its
// groups. Locks and Unique have rooms of their own.
func numbers(path string, v reflect.Value) iter.Seq2[string, reflect.Value] {
	return func(yield func(string, reflect.Value) bool) {
		for i := range v.NumField() {
			field, of := v.Field(i), path+"."+v.Type().Field(i).Name
			switch {
			case field.CanInt():
				if !yield(of, field) {
					return
				}
			case field.Kind() == reflect.Struct && path != "QueueConfig.Conditions" && of != "Config.Unique" && of != "Config.Splitter" && of != "Locks.WhenBlocked":
				for name, number := range numbers(of, field) {
					if !yield(name, number) {
						return
					}
				}
			}
		}
	}
}

// Of several options of one kind the last one counts, for one payload as for many.
func TestTheLastOptionCounts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		var scores []float64
		q, err := executor.Handle(x, "q", func(_ context.Context, j executor.Job[string]) error {
			scores = append(scores, j.Score)
			return nil
		}, executor.QueueConfig[string]{MaxConcurrent: 1})
		require.NoError(t, err)
		_, err = q.Enqueue(t.Context(), "id", "one", executor.Score(1), executor.Score(2))
		require.NoError(t, err)
		_, err = q.EnqueueMany(t.Context(), []executor.Item[string]{{ID: "id", Payload: "many"}}, executor.Score(1), executor.Score(3))
		require.NoError(t, err)
		start(t, x)
		time.Sleep(time.Second)
		stop(t, x)
		require.Equal(t, []float64{2, 3}, scores)
	})
}
