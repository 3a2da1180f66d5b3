package executor_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/events"
	"github.com/strandjobs/strand/executor/inspect"
)

// What the Inspector shows is readable as JSON: why a payload does not decode in words,
// durations in nanoseconds, states and kinds as words.
func TestInspectorTypesAsJSON(t *testing.T) {
	x := open(t, "", executor.Config{})
	handle(t, x, "q", func(context.Context, executor.Merged[int]) error { return nil }, executor.QueueConfig[int]{})
	_, err := enqueueRaw(t.Context(), x, "q", "a", []byte(`"no number"`))
	require.NoError(t, err)
	d, err := x.Inspect().Job(t.Context(), "q", "a")
	require.NoError(t, err)
	var typeError *json.UnmarshalTypeError
	require.ErrorAs(t, d.Waiting[0].Decode, &typeError, "it is the codec's own error")
	text, err := json.Marshal(d)
	require.NoError(t, err)
	var back struct {
		State, EnqueuedAt string
		Waiting           []struct {
			Decode string
			Value  any
			Raw    []byte
		}
	}
	require.NoError(t, json.Unmarshal(text, &back))
	assert.Equal(t, "ready", back.State)
	assert.Equal(t, d.Waiting[0].Decode.Error(), back.Waiting[0].Decode)
	assert.Equal(t, `"no number"`, string(back.Waiting[0].Raw))
	assert.Nil(t, back.Waiting[0].Value)
	at, err := time.Parse(time.RFC3339Nano, back.EnqueuedAt)
	require.NoError(t, err)
	assert.True(t, at.Equal(d.EnqueuedAt))

	text, err = json.Marshal(inspect.JobQuery{Queue: "q", Order: inspect.OrderDue, Filter: inspect.JobFilter{OlderThan: time.Second}})
	require.NoError(t, err)
	assert.Contains(t, string(text), `"Order":"due"`)
	assert.Contains(t, string(text), `"OlderThan":1000000000`)
	var query inspect.JobQuery
	require.NoError(t, json.Unmarshal(text, &query))
	assert.Equal(t, inspect.OrderDue, query.Order)
	assert.Equal(t, time.Second, query.Filter.OlderThan)
	for _, v := range []any{events.Event{}, events.Filter{}, inspect.Explanation{}, inspect.JobPage{}, inspect.Running{}, inspect.QueueStats{}} {
		_, err := json.Marshal(v)
		require.NoError(t, err)
	}
}
