package executor_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
)

// A payload that can't be read is not over with those that it was to be folded into.
func TestFoldWhatCantBeRead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		broken := errors.New("the disk does not answer")
		cfg := executor.Config{Advanced: executor.Advanced{MemoryBudget: 1}}
		folds := executor.QueueConfig[string]{Gather: executor.Gather[string]{Fold: join}, Defaults: executor.Defaults[string]{Durability: executor.DurabilityAsync}}
		p := &probe{}
		x := openOn(t, disk, cfg)
		q := handle(t, x, "q", p.handle, folds)
		var last executor.Receipt
		for _, payload := range []string{"1", "2", "3"} { // the key waits for the disk: each is in a block of its own
			last = enqueue(t, q, "a", payload, executor.IdempotencyKey(payload))
		}
		over := make(chan error, 1)
		go func() { over <- q.Wait(t.Context(), last) }()
		synctest.Wait()
		pending, err := q.Pending(t.Context(), "a") // what was read last stays: the first
		require.NoError(t, err)
		require.True(t, pending)
		disk.FailReads(broken)
		start(t, x)
		require.ErrorAs(t, <-over, new(*executor.PendingError))
		require.ErrorIs(t, x.Stop(t.Context()), broken)
		ran := len(p.of("a"))

		disk.FailReads(nil)
		x = openOn(t, disk, cfg)
		q = handle(t, x, "q", p.handle, folds)
		start(t, x)
		drained(t, q)
		stop(t, x)
		require.Equal(t, "1+2+3", strings.Join(p.of("a")[ran:], " "))
	})
}
