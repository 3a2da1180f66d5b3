package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/bench/peers/peer"
)

func TestSteady(t *testing.T) {
	for _, c := range []struct {
		values      []float64
		median, low float64
		high, apart float64
		steady      bool
	}{
		{nil, 0, 0, 0, 0, true},
		{[]float64{7}, 7, 7, 7, 0, true},
		{[]float64{3, 1}, 2, 1, 3, 1, false},
		{[]float64{100, 105, 95}, 100, 95, 105, 5, true},
		{[]float64{100, 106, 94}, 100, 94, 106, 6, false},
		{[]float64{100, 300, 106, 94, 101}, 101, 94, 300, 6, true},
	} {
		s := spreadOf(c.values)
		assert.Equal(t, spread{c.median, c.low, c.high, len(c.values), c.apart}, s, c.values)
		assert.Equal(t, c.steady, s.steady(), c.values)
	}
}

// rates is a series whose rounds had these rates; 0 is a round that failed.
func rates(name string, promise peer.Promise, values ...float64) *series {
	s := &series{task: task{Peer: name, Shape: together, IDs: 1000}, promise: promise}
	for round, v := range values {
		o := outcome{task: s.task, Promise: promise, Round: round, Rate: v, Jobs: 100 + round, Total: 10, Violations: 1}
		if v == 0 {
			o.Failed = "no"
		}
		s.rounds = append(s.rounds, o)
	}
	return s
}

func TestMerge(t *testing.T) {
	got := merge([]*series{rates("a", peer.Synced, 3, 0, 9, 5), rates("b", peer.Synced), rates("c", peer.Synced, 0)})
	require.Len(t, got, 2, "what has not begun is left out")
	a := got[0]
	assert.Equal(t, []float64{5, 3, 9}, []float64{a.Rate, a.RateMin, a.RateMax}, "of those that worked")
	assert.Equal(t, []int64{3, 1, 30, 3}, []int64{int64(a.Rounds), int64(a.Broken), a.Total, a.Violations}, "what was counted is added up")
	assert.Equal(t, "no", got[1].Failed)

	s := rates("d", peer.Synced, 0, 0)
	for i := range s.rounds {
		s.rounds[i].Failed, s.rounds[i].Latency = "", newLatency([]float64{float64(10 * (i + 1))})
		s.rounds[i].Latency.Raw = []float64{10, 10 * float64(i+1)}
	}
	l := s.merged().Latency
	assert.Equal(t, 4, l.Samples)
	assert.Nil(t, l.Raw)
	assert.InDelta(t, 10, l.P50, 0.1)
	assert.InDelta(t, 20, l.P50Max, 0.1)
}

func TestRatiosOfRounds(t *testing.T) {
	mine, theirs := rates("Strand", peer.Synced, 10, 40, 90, 7), rates("b", peer.Synced, 10, 0, 30)
	assert.Equal(t, []float64{1, 3}, mine.over(theirs), "of the rounds that both have")
}

// Who is steady is not measured again, and who is not takes Strand along.
func TestDue(t *testing.T) {
	c := &campaign{budget: budget{rounds: 3, limit: time.Hour}, begun: time.Now()}
	own := rates("Strand", peer.Synced, 100, 100, 100)
	memory := rates("Strand, in memory", peer.Memory, 100, 100, 100)
	steady, unsteady := rates("bbolt by hand", peer.Synced, 50, 51, 50), rates("asynq, appendfsync always", peer.Synced, 1, 2, 3)
	broken, second := rates("backlite, FULL", peer.Synced, 0, 1, 0), rates("asynq, appendfsync everysec", peer.Second, 1, 2, 3)
	pond := rates("pond", peer.Memory, 10, 10, 10)
	all := []*series{own, memory, steady, unsteady, broken, second, pond}
	assert.Equal(t, all, c.due(2, all))
	assert.Equal(t, []*series{own, unsteady}, c.due(3, all))
	c.begun = time.Now().Add(-2 * time.Hour)
	assert.Empty(t, c.due(3, all), "time is up")
}

// What hangs is given up, and the rest goes on.
func TestPeerThatHangs(t *testing.T) {
	c := &campaign{hung: map[string]int{"Strand": hungAtMost}}
	s := &series{task: task{Peer: "Strand", Shape: together}}
	assert.Equal(t, errGivenUp.Error(), c.carryOut(t.Context(), s).Failed)
}

// Who ends it gets what there was.
func TestInterrupted(t *testing.T) {
	o, err := parse([]string{"-quick", "-run", "channels|pond", "-dir", t.TempDir()}, io.Discard)
	require.NoError(t, err)
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	dir := filepath.Join(t.TempDir(), "report")
	assert.ErrorIs(t, o.write(ctx, dir, io.Discard), enough)
	r, err := readReport(dir)
	require.NoError(t, err)
	assert.Contains(t, r.Problems, "enough")
	page, err := os.ReadFile(filepath.Join(dir, "index.html"))
	require.NoError(t, err)
	assert.Contains(t, string(page), "enough")
}

func TestGist(t *testing.T) {
	assert.Equal(t, "short", string(gist([]byte(" short\n"))))
	long := "panic: why" + strings.Repeat("x", 5000) + "the end"
	assert.Regexp(t, `^panic: whyx+ … x+the end$`, string(gist([]byte(long))))
	assert.Less(t, len(gist([]byte(long))), 700)
}

// A workload that fails, or does not answer, costs its own figures only.
func TestOwnRun(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	require.NoError(t, os.WriteFile(program, []byte(`#!/bin/sh
echo '{"name":"'$2'","value":7}'
[ $2 = good ] || { echo "FAILED: why" >&2; exit 1; }
`), 0o700))
	figures, err := ownRun(t.Context(), program, []string{"-json", "good"})
	require.NoError(t, err)
	assert.Equal(t, []figure{{Name: "good", Value: 7}}, figures)
	figures, err = ownRun(t.Context(), program, []string{"-json", "bad"})
	assert.ErrorContains(t, err, "FAILED: why")
	assert.Len(t, figures, 1, "what was measured is kept")
}
