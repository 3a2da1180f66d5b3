package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The test binary is also its own child: see replay.
func TestMain(m *testing.M) {
	if !childMain() {
		os.Exit(m.Run())
	}
}

// Every workload works, and finds its own result right. The figures mean
// nothing at this size.
func TestWorkloads(t *testing.T) {
	for _, w := range workloads() {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			var out, progress bytes.Buffer
			dir := t.TempDir()
			code := run(t.Context(), []string{"-run", "^" + w.name + "$", "-n", "30", "-rounds", "1", "-workers", "2", "-dir", dir, "-json"}, &out, &progress)
			require.Zero(t, code, progress.String())
			decoder := json.NewDecoder(&out)
			for _, f := range w.figures(30) {
				var r result
				require.NoError(t, decoder.Decode(&r))
				assert.Equal(t, w.name+f.suffix, r.Name)
				assert.NotEmpty(t, r.Durability)
				assert.NotEmpty(t, r.Baseline)
				assert.Equal(t, 30, r.N)
				assert.Equal(t, 1, r.Rounds)
				assert.Positive(t, r.Seconds)
				if !f.lower { // bytes may be too few to be seen
					assert.Positive(t, r.Value)
					assert.Positive(t, r.BaselineValue)
					assert.Positive(t, r.Ratio)
				}
				assert.LessOrEqual(t, r.Min, r.Value)
				assert.LessOrEqual(t, r.Value, r.Max)
			}
			assert.False(t, decoder.More())
			assertEmpty(t, dir)
		})
	}
}

func assertEmpty(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, left, "journals are removed")
}

func TestQuick(t *testing.T) {
	var out, progress bytes.Buffer
	require.Zero(t, run(t.Context(), []string{"-quick", "-json", "-run", "^(memory/bulk|startup)$", "-dir", t.TempDir()}, &out, &progress), progress.String())
	var r result
	require.NoError(t, json.NewDecoder(&out).Decode(&r))
	assert.Equal(t, []int{quickMost, 1}, []int{r.N, r.Rounds})
}

func TestOddNumbers(t *testing.T) {
	t.Parallel()
	slow(t)
	for _, n := range []string{"1", "7", "1001"} {
		var out, progress bytes.Buffer
		code := run(t.Context(), []string{"-run", "bulk|lowkiq|hotid|backlog", "-n", n, "-rounds", "1", "-dir", t.TempDir()}, &out, &progress)
		assert.Zero(t, code, "n=%s: %s", n, progress.String())
	}
}

func TestFlagErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for args, want := range map[string]string{
		"-n -1":           "-n is -1",
		"-rounds -2":      "-rounds is -2",
		"-workers -3":     "-workers is -3",
		"-shards -4":      "-shards is -4",
		"-n many":         "invalid value",
		"-report x -n 5":  "leave out -n",
		"-nonsense":       "flag provided but not defined",
		"-run (":          "missing closing )",
		"-run nothing":    "there are durable/bulk, durable/single",
		"bulk":            `unexpected argument "bulk"`,
		"-dir /not/there": "no such file",
		"-dir " + file:    "not a directory",
	} {
		var out, errOut bytes.Buffer
		assert.Equal(t, exitUsage, run(t.Context(), strings.Fields(args), &out, &errOut), args)
		assert.Contains(t, errOut.String(), want, args)
		assert.Empty(t, out.String(), args)
	}
	var errOut bytes.Buffer
	assert.Zero(t, run(t.Context(), []string{"-h"}, &errOut, &errOut))
	_, err := parse([]string{"-h"}, &errOut)
	assert.ErrorIs(t, err, flag.ErrHelp)
}

func TestReportNeedsItsModule(t *testing.T) {
	dir, err := peersDir(t.Context())
	require.NoError(t, err)
	assert.FileExists(t, filepath.Join(dir, "go.mod"))
	t.Chdir(t.TempDir())
	t.Setenv("GOWORK", "off") // with one above that directory it is a checkout, and measures for minutes
	var out, errOut bytes.Buffer
	assert.Equal(t, exitFailed, run(t.Context(), []string{"-report", "x"}, &out, &errOut))
	assert.Contains(t, errOut.String(), "in a checkout of Strand")
}

func TestInterrupted(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	var out, errOut bytes.Buffer
	assert.Equal(t, exitFailed, run(ctx, []string{"-dir", dir, "-n", "10"}, &out, &errOut))
	assert.Contains(t, errOut.String(), "enough")
	assertEmpty(t, dir)
}

// What is not steady is measured again, as long as there is patience, and what
// is short as long as it takes.
func TestRounds(t *testing.T) {
	t.Parallel()
	slow(t)
	synctest.Test(t, func(t *testing.T) {
		calls, value := 0, 0.0
		w := &workload{
			figures: one(figure{}),
			subject: func(context.Context, *lab) (measured, error) {
				calls++
				value = 3 - value // 3, 0, 3, 0, ...
				time.Sleep(time.Millisecond)
				return measured{[]float64{value}, 1}, nil
			},
			baseline: func(context.Context, *lab) (measured, error) { return measured{[]float64{1}, 1}, nil },
		}
		measure := func(l *lab) result {
			calls = 0
			results, err := w.measure(t.Context(), l, 3, t.TempDir())
			require.NoError(t, err)
			return results[0]
		}
		assert.Equal(t, 3, measure(&lab{}).Rounds)
		assert.Greater(t, measure(&lab{patience: 50 * time.Millisecond}).Rounds, 3)
		again := measure(&lab{enough: time.Hour})
		assert.Equal(t, []float64{3 * againAtMost, 1.5, againAtMost}, []float64{float64(calls), again.Value, again.Seconds})
		w.subject = w.baseline
		assert.Equal(t, 3, measure(&lab{patience: time.Hour}).Rounds, "it is steady")
	})
}

func TestList(t *testing.T) {
	var out, errOut bytes.Buffer
	assert.Zero(t, run(t.Context(), []string{"-list", "-run", "bulk$"}, &out, &errOut))
	assert.Equal(t, "durable/bulk\nmemory/bulk\nwritten/bulk\n", out.String())
	out.Reset()
	assert.Zero(t, run(t.Context(), []string{"-list", "-quick"}, &out, &errOut))
	assert.Contains(t, out.String(), "durable/bulk\n")
	assert.NotContains(t, out.String(), "beyond-memory", "it takes its time")
}

// slow leaves a test that takes seconds to .ci/run, which sets CI, and to those who name tests.
func slow(t *testing.T) {
	t.Helper()
	if flag.Lookup("test.run").Value.String() == "" && os.Getenv("CI") == "" && os.Getenv("STRAND_LONG") == "" {
		t.Skip("takes seconds: CI=1 makes it")
	}
}
