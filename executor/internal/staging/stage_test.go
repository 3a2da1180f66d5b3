package staging

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What is staged belongs to its job, in order, and only to the call that counts.
func TestStage(t *testing.T) {
	var s Stage[string, int]
	require.NoError(t, s.Add("a", 0, 1, 10))
	require.NoError(t, s.Add("b", 0, 2, 10))
	require.NoError(t, s.Add("a", 0, 3, 10))
	all, bytes := s.Of("a")
	require.Equal(t, []int{1, 3}, all)
	require.Equal(t, 20, bytes)

	s.Forget(0) // the batch is halved
	s.Begin(1)
	require.ErrorIs(t, s.Add("a", 0, 4, 10), ErrOver, "what is left of the first call")
	require.NoError(t, s.Add("a", 1, 5, 10))
	s.Begin(2)
	require.ErrorIs(t, s.Add("a", 1, 6, 10), ErrOver)
	require.NoError(t, s.Add("b", 2, 7, 10))
	s.Begin(Over)
	require.ErrorIs(t, s.Add("b", 2, 8, 10), ErrOver)
	all, _ = s.Of("a")
	require.Equal(t, []int{5}, all, "the first half counted")
	all, _ = s.Of("b")
	require.Equal(t, []int{7}, all)
	all, bytes = s.Of("c")
	require.Empty(t, all)
	require.Zero(t, bytes)
}

func TestLimitsAreEachJobsOwn(t *testing.T) {
	var s Stage[string, int]
	require.NoError(t, s.Add("large", 0, 0, 10*MaxBytes), "one of any size")
	require.ErrorIs(t, s.Add("large", 0, 0, 1), ErrTooLarge)
	require.NoError(t, s.Add("full", 0, 0, MaxBytes-1))
	require.NoError(t, s.Add("full", 0, 0, 1))
	require.ErrorIs(t, s.Add("full", 0, 0, 1), ErrTooLarge)
	for range MaxCount {
		require.NoError(t, s.Add("many", 0, 0, 1))
	}
	require.ErrorIs(t, s.Add("many", 0, 0, 1), ErrTooMany)
	require.NoError(t, s.Add("other", 0, 0, 1))
}

func TestManyJobs(t *testing.T) {
	var s Stage[int, int]
	for round := range 3 {
		for job := range 3 * few {
			require.NoError(t, s.Add(job, 0, 10*job+round, 1))
		}
	}
	for job := range 3 * few {
		all, bytes := s.Of(job)
		require.Equal(t, []int{10 * job, 10*job + 1, 10*job + 2}, all)
		require.Equal(t, 3, bytes)
	}
}
