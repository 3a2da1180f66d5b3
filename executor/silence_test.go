package executor_test

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
)

// TestADiscardedLogIsSilence: a program that throws its log away prints nothing,
// not even what the libraries below have to say of a start, a stop and handlers
// that fail and panic.
func TestADiscardedLogIsSilence(t *testing.T) {
	const child = "STRAND_TEST_SILENCE"
	if os.Getenv(child) == "" {
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestADiscardedLogIsSilence$")
		c.Env = append(os.Environ(), child+"=1")
		output, err := c.CombinedOutput()
		require.NoError(t, err, string(output))
		require.Regexp(t, `\APASS\n(coverage: .*\n)?\z`, string(output))
		return
	}
	x, err := executor.Open(t.TempDir()+"/journal", executor.Config{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	ran := make(chan struct{})
	q, err := executor.Handle(x, "q", func(_ context.Context, job executor.Job[string]) error {
		if job.ID == "panic" {
			panic("at the disco")
		}
		close(ran)
		return executor.Cancel(context.Canceled)
	}, executor.QueueConfig[string]{Share: executor.Share{Shards: 1}, MaxConcurrent: 1})
	require.NoError(t, err)
	require.NoError(t, x.Start(t.Context()))
	for _, id := range []string{"panic", "cancel"} {
		_, err := q.Enqueue(t.Context(), id, "x")
		require.NoError(t, err)
	}
	<-ran
	require.NoError(t, x.Stop(t.Context()))
}
