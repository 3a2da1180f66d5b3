//go:build unix

package postgres

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

// Why a job does not run is told on the owner's node, and on one that owns nothing, alike: by what was enqueued before
// the call, for ids of any bytes, and for a queue that only the owner has.
func TestExplainOnAnyNode(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 2, 30*time.Second)
	running := make(chan struct{})
	handler := func(ctx context.Context, job executor.Job[int]) error {
		if job.Payload == 1 {
			return executor.RetryAfter(time.Hour, errors.New("no luck"))
		}
		close(running)
		<-ctx.Done()
		return nil
	}
	owner, other := c.with(handler, executor.QueueConfig[int]{}), c.with(handler, executor.QueueConfig[int]{})
	stranger, err := openNode(t.Context(), c.url, c.config())
	require.NoError(t, err)
	t.Cleanup(stranger.kill)
	require.NoError(t, owner.front.Start(context.Background()))
	c.serving(owner)
	const failing, busy = "a\xff/1", "b"
	for id, payload := range map[string]int{failing: 1, busy: 2} {
		_, err := other.q.Enqueue(t.Context(), id, payload)
		require.NoError(t, err)
		why, err := other.front.Inspect().Explain(within(t, time.Minute), "q", id)
		require.NoError(t, err)
		require.NotEqual(t, inspect.JobUnknown, why.State, "it is in the log by then")
	}
	<-running
	for _, n := range []*Node{owner.Node, other.Node, stranger} {
		explain := func(id string) inspect.Explanation {
			t.Helper()
			why, err := n.front.Inspect().Explain(within(t, time.Minute), "q", id)
			require.NoError(t, err)
			require.Equal(t, id, why.ID)
			require.Equal(t, why.String(), why.Text)
			return why
		}
		require.Eventually(t, func() bool {
			why := explain(failing)
			return why.State == inspect.JobRetrying && why.Attempt == 2 && why.LastError == "no luck" && time.Until(why.Due) > 50*time.Minute
		}, time.Minute, time.Millisecond)
		require.Equal(t, inspect.JobRunning, explain(busy).State)
		require.Equal(t, inspect.JobUnknown, explain("nobody").State)

		for _, none := range []context.Context{nil, (*struct{ context.Context })(nil)} {
			_, err := n.front.Inspect().Explain(none, "q", busy) //nolint:staticcheck // that is the test
			require.ErrorIs(t, err, executor.ErrContext)
		}
		for queue, want := range map[string]error{"q": executor.ErrInvalidID, "nothing": executor.ErrUnknownQueue} {
			id := map[string]string{"nothing": busy}[queue]
			_, err := n.front.Inspect().Explain(within(t, time.Minute), queue, id)
			require.ErrorIs(t, err, want)
		}
	}
	owner.kill()
	_, err = other.front.Inspect().Explain(within(t, 100*time.Millisecond), "q", busy)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, executor.ErrUnknown, "nobody has it, and nobody will do it")
}
