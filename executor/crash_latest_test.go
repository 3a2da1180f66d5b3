//go:build unix

package executor_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
)

// life is one life of a process whose row "bad" ends it. In each life the row changes, at
// a moment: before Start, after it, or while the row is in its handler.
func life(t *testing.T, dir, moment string, n int, reports, fixed bool) {
	x := open(t, dir, executor.Config{Crash: executor.Crash{Reports: reports}})
	var q *executor.Queue[int]
	change := func() { enqueue(t, q, "bad", n) }
	q, err := executor.HandleLatest(x, "rows", func(_ context.Context, job executor.Job[int]) error {
		if job.ID != "bad" || fixed {
			return nil
		}
		if moment == "inside" {
			change()
		}
		if reports {
			go panic("poison")
			select {}
		}
		os.Exit(3)
		return nil
	}, executor.QueueConfig[int]{})
	require.NoError(t, err)
	if moment == "before" || n == 1 {
		change()
	}
	start(t, x)
	if moment == "after" || moment == "inside" && n > 6 {
		change()
	}
	enqueue(t, q, "good", n)
	drained(t, q)
	enqueue(t, q, "good", n) // a commit behind what has ended
	drained(t, q)
	dead := morgue(t, q)
	require.Len(t, dead, 1)
	require.Contains(t, dead[0].Error, "crashed the process")
	if moment != "inside" || n > 6 {
		require.Equal(t, fmt.Sprint(n), string(dead[0].Raw))
	}
	if fixed {
		sum, err := x.Inspect().Requeue(t.Context(), inspect.SelectIDs("rows", "bad"))
		require.NoError(t, err)
		require.Equal(t, 1, sum.Back)
		drained(t, q)
		require.Empty(t, morgue(t, q))
	}
	stop(t, x)
}

// TestAStateThatKillsTheProcessAndKeepsChanging: what is said against a row is said
// against the newer one that takes its place, so that the row is given up, and stays so
// however often it changes, until a person puts it back.
func TestAStateThatKillsTheProcessAndKeepsChanging(t *testing.T) {
	const variable = "STRAND_TEST_LIFE"
	if what := os.Getenv(variable); what != "" {
		var dir, moment string
		var n int
		var reports, fixed bool
		_, err := fmt.Sscanf(what, "%q %q %d %t %t", &dir, &moment, &n, &reports, &fixed)
		require.NoError(t, err)
		life(t, dir, moment, n, reports, fixed)
		return
	}
	t.Parallel() // it waits more than it computes
	for _, moment := range []string{"before", "after", "inside"} {
		for _, reports := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s,reports=%t", moment, reports), func(t *testing.T) {
				if reports == (moment == "before") && !pushed() {
					t.Skip("each moment once, with a report or without: STRAND_PUSH=1 does both")
				}
				t.Parallel()
				dir := filepath.Join(t.TempDir(), "journal")
				lives := func(n int, fixed bool) error {
					child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAStateThatKillsTheProcessAndKeepsChanging$")
					child.Env = append(os.Environ(), fmt.Sprintf("%s=%q %q %d %t %t", variable, dir, moment, n, reports, fixed))
					out, err := child.CombinedOutput()
					require.NotContains(t, string(out), "--- FAIL", "%s", out)
					return err
				}
				n := 1
				for lives(n, false) != nil {
					n++
					require.Less(t, n, 12, "it is never given up")
				}
				for range 3 {
					n++
					require.NoError(t, lives(n, false), "it was given up, and has run again")
				}
				require.NoError(t, lives(n+1, true))
			})
		}
	}
}

// TestAMergedPayloadThatKillsTheProcess: what is said against a payload is said against the equal
// one that stands for it from the next start on, where one fails, retries and waits alone.
func TestAMergedPayloadThatKillsTheProcess(t *testing.T) {
	slow(t)
	const variable = "STRAND_TEST_MERGED_LIFE"
	if dir := os.Getenv(variable); dir != "" {
		x := open(t, dir, executor.Config{})
		var q *executor.Queue[int]
		q, err := executor.Handle(x, "q", func(_ context.Context, job executor.Job[int]) error {
			enqueue(t, q, job.ID, job.Payload)
			os.Exit(3)
			return nil
		}, executor.QueueConfig[int]{Merge: executor.MergeKeepLast})
		require.NoError(t, err)
		if waiting, err := q.Stats(t.Context()); err == nil && waiting.Dead+waiting.Jobs == 0 {
			enqueue(t, q, "bad", 1)
		}
		start(t, x)
		drained(t, q)
		require.Contains(t, morgue(t, q)[0].Error, "crashed the process")
		stop(t, x)
		return
	}
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "journal")
	for lives := 1; ; lives++ {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAMergedPayloadThatKillsTheProcess$")
		child.Env = append(os.Environ(), variable+"="+dir)
		out, err := child.CombinedOutput()
		require.NotContains(t, string(out), "--- FAIL", "%s", out)
		if err == nil {
			return
		}
		require.Less(t, lives, 12, "it is never given up")
	}
}
