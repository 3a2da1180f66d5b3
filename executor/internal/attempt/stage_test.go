package attempt

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/shard"
)

// named has an item for each name of a job.
var named = map[string]*shard.Item{}

func item(name string) *shard.Item {
	if named[name] == nil {
		named[name] = &shard.Item{ID: name}
	}
	return named[name]
}

// What is staged belongs to its job, in order, and only to the call that counts.
func TestStage(t *testing.T) {
	var s Attempt
	require.NoError(t, s.Stage(item("a"), 0, 1, 10))
	require.NoError(t, s.Stage(item("b"), 0, 2, 10))
	require.NoError(t, s.Stage(item("a"), 0, 3, 10))
	all, bytes := s.more.staged.Of(item("a"))
	require.Equal(t, []any{1, 3}, all)
	require.Equal(t, 20, bytes)

	s.Again(1) // the batch is halved
	require.ErrorIs(t, s.Stage(item("a"), 0, 4, 10), ErrReturned, "what is left of the first call")
	require.NoError(t, s.Stage(item("a"), 1, 5, 10))
	s.Begin(2)
	require.ErrorIs(t, s.Stage(item("a"), 1, 6, 10), ErrReturned)
	require.NoError(t, s.Stage(item("b"), 2, 7, 10))
	staged := s.Over()
	require.ErrorIs(t, s.Stage(item("b"), 2, 8, 10), ErrReturned)
	all, _ = staged.Of(item("a"))
	require.Equal(t, []any{5}, all, "the first half counted")
	all, _ = staged.Of(item("b"))
	require.Equal(t, []any{7}, all)
	all, bytes = staged.Of(item("c"))
	require.Empty(t, all)
	require.Zero(t, bytes)
}

// Attempts that are over share a stage: a middleware that calls again late changes nothing of it.
func TestAgainAfterTheEnd(t *testing.T) {
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			var a Attempt
			a.Over()
			a.Again(1)
			assert.ErrorIs(t, a.Stage(nil, 1, 1, 10), ErrReturned)
		})
	}
	both.Wait()
}

func TestLimitsAreEachJobsOwn(t *testing.T) {
	var s Attempt
	require.NoError(t, s.Stage(item("large"), 0, 0, 10*MaxBytes), "one of any size")
	require.ErrorIs(t, s.Stage(item("large"), 0, 0, 1), ErrTooLarge)
	require.NoError(t, s.Stage(item("full"), 0, 0, MaxBytes-1))
	require.NoError(t, s.Stage(item("full"), 0, 0, 1))
	require.ErrorIs(t, s.Stage(item("full"), 0, 0, 1), ErrTooLarge)
	for range MaxCount {
		require.NoError(t, s.Stage(item("many"), 0, 0, 1))
	}
	require.ErrorIs(t, s.Stage(item("many"), 0, 0, 1), ErrTooMany)
	require.NoError(t, s.Stage(item("other"), 0, 0, 1))
}

func TestManyJobs(t *testing.T) {
	var s Attempt
	items := make([]*shard.Item, 24)
	for i := range items {
		items[i] = new(shard.Item)
	}
	for round := range 3 {
		for job := range 24 {
			require.NoError(t, s.Stage(items[job], 0, 10*job+round, 1))
		}
	}
	for job := range 24 {
		all, bytes := s.more.staged.Of(items[job])
		require.Equal(t, []any{10 * job, 10*job + 1, 10*job + 2}, all)
		require.Equal(t, 3, bytes)
	}
}
