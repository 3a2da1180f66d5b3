package executor_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/cluster"
	"github.com/strandjobs/strand/journal"
)

// An executor over a log that somebody else opens does what any other does, over
// restarts, too.
func TestOpenLog(t *testing.T) {
	disk := new(journal.Memory)
	over := func(cfg journal.Config) (*journal.Log, error) { return journal.OpenMemory(disk, cfg) }
	x, err := executor.OpenLog("elsewhere", over, executor.Config{})
	require.NoError(t, err)
	q, err := executor.Handle(x, "q", func(context.Context, executor.Job[string]) error { return nil }, executor.QueueConfig[string]{})
	require.NoError(t, err)
	r, err := q.Enqueue(t.Context(), "a", "kept")
	require.NoError(t, err)
	require.True(t, r.Durable, "it is no executor in memory")
	require.NoError(t, x.Stop(t.Context()))

	x, err = executor.OpenLog("elsewhere", over, executor.Config{})
	require.NoError(t, err)
	stopAtEnd(t, x)
	ran := make(chan string, 1)
	_, err = executor.Handle(x, "q", func(_ context.Context, job executor.Job[string]) error {
		ran <- job.Payload
		return nil
	}, executor.QueueConfig[string]{})
	require.NoError(t, err)
	require.NoError(t, x.Start(t.Context()))
	require.Equal(t, "kept", <-ran)
	require.NoError(t, x.Stop(t.Context()))
}

func TestOpenLogRefuses(t *testing.T) {
	over := func(cfg journal.Config) (*journal.Log, error) { return journal.OpenMemory(nil, cfg) }
	for says, open := range map[string]func() (*executor.Executor, error){
		"needs a name": func() (*executor.Executor, error) { return executor.OpenLog("", over, executor.Config{}) },
		"no function":  func() (*executor.Executor, error) { return executor.OpenLog("x", nil, executor.Config{}) },
		"ControlSocket": func() (*executor.Executor, error) {
			return executor.OpenLog("x", over, executor.Config{ControlSocket: true})
		},
		"Workers is -1":   func() (*executor.Executor, error) { return executor.OpenLog("x", over, executor.Config{Workers: -1}) },
		"hostile":         opening(func(journal.Config) (*journal.Log, error) { panic("hostile") }),
		"returned none":   opening(func(journal.Config) (*journal.Log, error) { return nil, nil }),
		errBoom.Error():   opening(func(journal.Config) (*journal.Log, error) { return nil, errBoom }),
		"not even errors": opening(func(journal.Config) (*journal.Log, error) { return nil, errors.New("not even errors") }),
	} {
		x, err := open()
		require.Nil(t, x, says)
		require.ErrorContains(t, err, says)
		if says != errBoom.Error() && says != "not even errors" {
			require.ErrorIs(t, err, executor.ErrConfig, says)
		}
	}
}

func opening(open func(journal.Config) (*journal.Log, error)) func() (*executor.Executor, error) {
	return func() (*executor.Executor, error) { return executor.OpenLog("x", open, executor.Config{}) }
}

// A queue that is known by its name takes encoded payloads: all of them or none, in their order, with
// what options and items say.
func TestLookup(t *testing.T) {
	x := open(t, "", executor.Config{})
	ran := make(chan executor.Job[string], 3)
	_, err := executor.Handle(x, "q", func(_ context.Context, job executor.Job[string]) error {
		ran <- job
		return nil
	}, executor.QueueConfig[string]{Defaults: executor.Defaults[string]{ID: func(string) string { return "computed" }}})
	require.NoError(t, err)

	item := func(id, payload string) executor.Item[[]byte] {
		return executor.Item[[]byte]{ID: id, Payload: []byte(`"` + payload + `"`)}
	}
	last := item("a", "last")
	last.Score = new(1e12)
	last.Metadata = map[string]string{"k": "of the item"}
	q, err := x.Lookup("q")
	require.NoError(t, err)
	receipts, err := q.EnqueueMany(t.Context(), []executor.Item[[]byte]{last, item("a", "first"), item("a", "second")},
		executor.Metadata(map[string]string{"k": "of all"}), executor.FromSource("s", 7))
	require.NoError(t, err)
	require.Len(t, receipts, 3)

	_, err = q.EnqueueMany(t.Context(), []executor.Item[[]byte]{item("a", "again")}, executor.FromSource("s", 7))
	require.ErrorAs(t, err, new(*executor.StaleError))
	_, err = q.EnqueueMany(t.Context(), []executor.Item[[]byte]{item("a", "refused"), item("", "no id")})
	require.ErrorIs(t, err, executor.ErrInvalidID)
	require.ErrorContains(t, err, "item 1")
	_, err = x.Lookup("none")
	require.ErrorIs(t, err, executor.ErrUnknownQueue)
	_, err = (*executor.Executor)(nil).Lookup("q")
	require.ErrorIs(t, err, executor.ErrState)

	require.NoError(t, x.Start(t.Context()))
	for _, want := range []string{"first", "second", "last"} {
		job := <-ran
		require.Equal(t, want, job.Payload)
		require.Equal(t, want == "last", job.Metadata["k"] == "of the item")
	}
	require.NoError(t, x.Stop(t.Context()))
	require.Empty(t, ran)
}

// What Carry hands back is what the queue of another executor takes: it has what options and functions
// say, and errors come before anything is carried.
func TestCarry(t *testing.T) {
	due := time.Unix(1e9, 5)
	config := executor.QueueConfig[int]{Defaults: executor.Defaults[int]{
		ID:    func(payload int) string { return fmt.Sprint("id ", payload) },
		Score: func(payload int) float64 { return float64(payload) },
	}}
	handler := func(context.Context, executor.Job[int]) error { return nil }
	q, err := executor.Handle(open(t, "", executor.Config{Advanced: executor.Advanced{MaxPayloadBytes: 3}}), "q", handler, config)
	require.NoError(t, err)
	items, rest, err := cluster.Carry(q, []executor.Item[int]{{ID: "a", Payload: 1, Score: new(1.5)}, {Payload: 2}}, executor.At(time.Now()), executor.At(due),
		executor.Metadata(map[string]string{"k": "v"}), executor.IfAbsent(), executor.FromSource("s", 1))
	require.NoError(t, err)
	pairs := map[string]string{"k": "v"}
	require.Equal(t, []executor.Item[[]byte]{{"a", []byte("1"), new(1.5), due, pairs}, {"id 2", []byte("2"), new(2.0), due, pairs}}, items)
	options, err := cluster.Carried(rest)
	require.NoError(t, err)
	require.Equal(t, []executor.Option{executor.IfAbsent(), executor.FromSource("s", 1)}, options)
	_, rest, err = cluster.Carry(q, nil, executor.Score(3))
	require.NoError(t, err)
	require.Nil(t, rest)

	for want, call := range map[error]func() error{
		executor.ErrTooLarge: func() error {
			_, _, err := cluster.Carry(q, []executor.Item[int]{{Payload: 1}, {Payload: 1000}})
			return err
		},
		executor.ErrInvalidItem: func() error {
			_, _, err := cluster.Carry(q, []executor.Item[int]{{Payload: 1}}, executor.Score(math.NaN()))
			return err
		},
		executor.ErrInvalidKey: func() error { _, _, err := cluster.Carry(q, nil, executor.IdempotencyKey("")); return err },
		executor.ErrState:      func() error { _, _, err := cluster.Carry[int](nil, nil); return err },
	} {
		require.ErrorIs(t, call(), want)
	}
	for _, bad := range []string{"x", `[{"Kind":1}]`, `[{"Kind":99}]`, `[{"Kind":5},{"Kind":5}]`} {
		_, err := cluster.Carried([]byte(bad))
		require.ErrorIs(t, err, executor.ErrInvalidKey, bad)
	}
}
