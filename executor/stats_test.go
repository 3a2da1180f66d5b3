package executor_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
)

func TestStatsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	x := open(t, "", executor.Config{Workers: 1})
	q := handle(t, x, "q", (&probe{}).handle, executor.QueueConfig[string]{})
	for range 100 {
		if _, err := q.Stats(ctx); err != nil {
			require.True(t, errors.Is(err, context.Canceled), err)
		}
	}
}
