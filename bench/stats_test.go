package main

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSpread(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   spread
	}{
		{nil, spread{}},
		{[]float64{7}, spread{7, 7, 7, 0}},
		{[]float64{3, 1}, spread{2, 1, 3, 1}},
		{[]float64{9, 1, 2}, spread{2, 1, 9, 4}},
		{[]float64{4, 1, 101, 2, 5}, spread{4, 1, 101, 3}},
	} {
		assert.Equal(t, c.want, spreadOf(c.values), c.values)
	}
	values := []float64{3, 1, 2}
	spreadOf(values)
	assert.Equal(t, []float64{3, 1, 2}, values, "the order of rounds is kept")
}

func TestPercentile(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(100 - i)
	}
	for p, want := range map[float64]time.Duration{0.001: 1, 0.01: 1, 0.5: 50, 0.501: 51, 0.99: 99, 1: 100} {
		assert.Equal(t, want, percentile(hundred, p), p)
	}
	assert.Equal(t, time.Duration(7), percentile([]time.Duration{7}, 0.99))
	assert.Zero(t, percentile(nil, 0.5))
}

func TestShort(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 0.00427: "0.00427", 1.5: "1.5", 12.34: "12.3", 321.4: "321", 9999: "9999",
		12_345: "12.3K", 789_000: "789K", 1_234_567: "1.23M", -2: "-2",
	} {
		assert.Equal(t, want, short(v))
	}
}

func TestRatioIsHigherIsBetter(t *testing.T) {
	assert.Equal(t, 2.0, figure{}.ratio(10, 5))
	assert.Equal(t, 0.5, figure{lower: true}.ratio(10, 5))
	assert.Zero(t, figure{}.ratio(10, 0), "JSON has no infinity")
	assert.Zero(t, figure{lower: true}.ratio(0, 5))
}

func TestSteady(t *testing.T) {
	w := &workload{figures: func(int) []figure { return []figure{{}, {lower: true}, {slack: 1}} }}
	rounds := func(values ...float64) (all []measured) {
		for _, v := range values {
			all = append(all, measured{[]float64{100, v, v}, 1})
		}
		return all
	}
	same := rounds(100, 100, 100)
	assert.True(t, w.steady(1, rounds(100, 105, 95), same))
	assert.False(t, w.steady(1, rounds(100, 107, 93), same))
	assert.True(t, w.steady(1, rounds(100, 107, 93, 100, 99, 98), rounds(100, 100, 100, 100, 100, 100)), "one round that is far away says little")
	assert.True(t, w.steady(1, rounds(50, 107, 31), rounds(50, 107, 31)), "it is the ratio of the rounds that counts")
	w.figures = one(figure{slack: 1})
	assert.True(t, w.steady(1, rounds(1, 2, 3), same), "what is near zero has no ratio")
}

func TestResults(t *testing.T) {
	w := &workload{
		name: "w", durability: "memory",
		figures: func(int) []figure {
			return []figure{
				{unit: "jobs/s", baseline: "b", goal: goal{ratio: 0.5}},
				{suffix: "/p50", unit: "µs", baseline: "b", lower: true, goal: goal{value: 20}},
				{suffix: "/more", unit: "jobs/s", baseline: "b", goal: goal{value: 100}},
				{suffix: "/free", unit: "B", baseline: "b", lower: true},
			}
		},
	}
	mine := []measured{{[]float64{100, 30, 90, 1}, 2}, {[]float64{300, 10, 80, 1}, 1}, {[]float64{200, 20, 99, 1}, 3}}
	theirs := []measured{{[]float64{400, 10, 1, 2}, 9}, {[]float64{500, 5, 1, 2}, 9}, {[]float64{600, 1, 1, 2}, 9}}
	got := w.results(&lab{n: 7, workers: 3}, mine, theirs)
	require.Len(t, got, 4)
	assert.Equal(t, result{
		Name: "w", Durability: "memory", Value: 200, Min: 100, Max: 300, Unit: "jobs/s",
		Baseline: "b", BaselineValue: 500, BaselineMin: 400, BaselineMax: 600,
		Ratio: 200.0 / 600, RatioMin: 0.25, RatioMax: 0.6, N: 7, Seconds: 2, Rounds: 3, Workers: 3,
		Goal: "ratio ≥ 0.5", Met: new(false),
	}, got[0])
	assert.Equal(t, "w/p50", got[1].Name)
	assert.Equal(t, 10.0/30, got[1].Ratio)
	assert.Equal(t, "≤ 20", got[1].Goal)
	assert.True(t, *got[1].Met)
	assert.Equal(t, "≥ 100", got[2].Goal)
	assert.False(t, *got[2].Met)
	assert.Nil(t, got[3].Met)
	w.n = 8
	assert.Nil(t, w.results(&lab{n: 7}, mine, theirs)[0].Met, "the goal is for more jobs")
}

// What a table says of a goal is what README says of it, under "What is not reached".
func TestGoalsAreThoseOfTheReadme(t *testing.T) {
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	goals := make(map[string]goal)
	for _, w := range workloads() {
		goals[w.name] = w.figures(w.n)[0].goal
	}
	for row, goal := range map[string]string{
		"durable, 1000 per call, over raw bbolt":               short(goals["durable/bulk"].ratio),
		"durable, Enqueue to handler, idle, p50, in commits":   short(1 / goals["durable/latency"].ratio),
		"idle latency in memory, p50":                          short(goals["memory/latency"].value) + " µs",
		"start with 10⁶ jobs":                                  short(goals["replay"].value/1e6) + " M/s",
		"bytes written of a job, one per call; 1000 per call":  short(goals["written/single"].value) + "; " + short(goals["written/bulk"].value),
		"a million timers on disk":                             short(goals["delayed/durable"].value) + " %",
		"a lock, taken and released, over a map under a mutex": short(goals["lock/uncontended"].ratio),
	} {
		assert.Regexp(t, `(?m)^\| `+regexp.QuoteMeta(row)+` \| [^|]* \| `+regexp.QuoteMeta(goal)+` \|`, string(text), row)
	}
}

func TestJSON(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, jsonWriter(&out)([]result{{Name: "a", Goal: "≤ 20", Met: new(true)}, {Name: "b"}}))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, lines, 2)
	var first, second map[string]any
	require.NoError(t, json.Unmarshal([]byte(lines[0]), &first))
	require.NoError(t, json.Unmarshal([]byte(lines[1]), &second))
	for _, key := range []string{
		"name", "durability", "value", "min", "max", "unit", "baseline", "baseline_value", "baseline_min",
		"baseline_max", "ratio", "ratio_min", "ratio_max", "n", "seconds", "rounds", "workers",
	} {
		assert.Contains(t, first, key)
		assert.Contains(t, second, key)
	}
	assert.Equal(t, true, first["met"])
	assert.NotContains(t, second, "met", "no goal, nothing to meet")
}

func TestTable(t *testing.T) {
	var out bytes.Buffer
	write := tableWriter(&out)
	require.NoError(t, write([]result{{Name: "durable/bulk", Unit: "jobs/s", Value: 1e6, Goal: "ratio ≥ 0.5", Met: new(true)}}))
	require.NoError(t, write([]result{{Name: "x", Goal: "≤ 20", Met: new(false)}, {Name: "y"}}))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, lines, 4, "one heading and three figures")
	assert.True(t, strings.HasPrefix(lines[0], "workload "))
	assert.True(t, strings.HasPrefix(lines[1], "durable/bulk "))
	assert.True(t, strings.HasSuffix(lines[1], "ratio ≥ 0.5: yes"))
	assert.True(t, strings.HasSuffix(lines[2], "≤ 20: NO"))
	assert.NotContains(t, lines[3], "yes")
}
