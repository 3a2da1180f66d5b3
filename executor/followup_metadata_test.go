package executor_test

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
)

// A follow-up has the metadata of its job, with its own before them, over a restart, too;
// one that says it has none, has none.
func TestFollowUpsInheritMetadata(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 1})
		got := make(map[string]map[string]string)
		last, err := executor.Handle(x, "last", func(_ context.Context, j executor.Job[string]) error {
			got[j.ID] = j.Metadata
			return nil
		}, executor.QueueConfig[string]{})
		require.NoError(t, err)
		trace := executor.Metadata(map[string]string{"trace": "7", "step": "2"})
		bare := executor.Metadata(nil)
		middle, err := executor.Handle(x, "middle", func(_ context.Context, j executor.Job[string]) error {
			got["middle"] = maps.Clone(j.Metadata)
			require.NoError(t, last.FollowUp(j, "plain", ""))
			require.NoError(t, last.FollowUp(j, "own", "", executor.Metadata(map[string]string{"step": "mine", "more": "yes"})))
			require.NoError(t, last.FollowUp(j, "bare", "", trace, bare))
			require.NoError(t, last.FollowUp(j, "not bare", "", bare, executor.Metadata(map[string]string{"more": "yes"})))
			j.Metadata["late"] = "by the handler"
			require.NoError(t, last.FollowUp(j, "changed", ""))
			clear(j.Metadata)
			require.NoError(t, last.FollowUp(j, "cleared", ""))
			return nil
		}, executor.QueueConfig[string]{})
		require.NoError(t, err)
		first := handle(t, x, "first", func(_ context.Context, j executor.Merged[string]) error {
			return middle.FollowUp(j, j.ID, j.Latest())
		}, executor.QueueConfig[string]{})
		enqueue(t, first, "a", "1", executor.Metadata(map[string]string{"trace": "0", "old": "x"}))
		enqueue(t, first, "a", "2", trace)
		start(t, x)
		synctest.Wait()
		require.Equal(t, map[string]map[string]string{
			"middle":   {"trace": "7", "step": "2"},
			"plain":    {"trace": "7", "step": "2"},
			"own":      {"trace": "7", "step": "mine", "more": "yes"},
			"bare":     nil,
			"not bare": {"trace": "7", "step": "2", "more": "yes"},
			"changed":  {"trace": "7", "step": "2", "late": "by the handler"},
			"cleared":  nil,
		}, got)
		stop(t, x)
	})
}

// What a follow-up has, with what it inherits, has the bounds of metadata.
func TestInheritedMetadataHasBounds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		pairs := make(map[string]string)
		for i := range 16 {
			pairs[fmt.Sprint("key ", i)] = "v"
		}
		errs := make(map[string]error)
		q := handle(t, x, "q", (&probe{}).handle, executor.QueueConfig[string]{})
		parent, err := executor.Handle(x, "parent", func(_ context.Context, j executor.Job[string]) error {
			errs["17"] = q.FollowUp(j, "a", "", executor.Metadata(map[string]string{"one more": "v"}))
			errs["16"] = q.FollowUp(j, "a", "", executor.Metadata(map[string]string{"key 3": "mine"}))
			return nil
		}, executor.QueueConfig[string]{})
		require.NoError(t, err)
		enqueue(t, parent, "a", "", executor.Metadata(pairs))
		start(t, x)
		synctest.Wait()
		require.NoError(t, errs["16"])
		require.ErrorIs(t, errs["17"], executor.ErrInvalidItem)
		require.ErrorContains(t, errs["17"], "17 pairs for id \"a\", the limit is 16, together with what it inherits from its job")
		stop(t, x)
	})
}
