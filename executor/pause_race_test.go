package executor_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
)

// Ids are paused and go on by the hundred while workers are in the middle of their
// payloads, which are over before it is on record.
func TestPausedWhilePayloadsEnd(t *testing.T) {
	x := open(t, "", executor.Config{Workers: 4})
	q, err := executor.Handle(x, "q", func(context.Context, executor.Job[string]) error { return nil }, executor.QueueConfig[string]{})
	require.NoError(t, err)
	start(t, x)
	const ids, each, rounds = 500, 10, 5
	names := make([]string, ids)
	items := make([]executor.Item[string], ids*each)
	for i := range items {
		names[i%ids] = fmt.Sprint(i % ids)
		items[i] = executor.Item[string]{ID: names[i%ids], Payload: "p"}
	}
	for range rounds {
		_, err := q.EnqueueMany(t.Context(), items)
		require.NoError(t, err)
		_, err = x.Inspect().Pause(t.Context(), inspect.SelectIDs(q.Name(), names...))
		require.NoError(t, err)
		_, err = x.Inspect().Resume(t.Context(), inspect.SelectIDs(q.Name(), names...))
		require.NoError(t, err)
	}
	require.Equal(t, uint64(ids*each*rounds), drained(t, q).Done)
	stop(t, x)
}
