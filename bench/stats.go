package main

import (
	"math"
	"slices"
	"time"
)

// spread is what the rounds of one figure say.
type spread struct{ median, low, high float64 }

// spreadOf returns zeros for no values.
func spreadOf(values []float64) spread {
	if len(values) == 0 {
		return spread{}
	}
	s := slices.Sorted(slices.Values(values))
	middle := len(s) / 2
	median := s[middle]
	if len(s)%2 == 0 {
		median = (s[middle-1] + s[middle]) / 2
	}
	return spread{median, s[0], s[len(s)-1]}
}

// percentile returns the smallest value that at least p of all are not above,
// for 0 < p ≤ 1, and 0 for no values. It sorts them.
func percentile(values []time.Duration, p float64) time.Duration {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	rank := int(math.Ceil(p * float64(len(values))))
	return values[min(max(rank, 1), len(values))-1]
}

// result is one figure over all rounds. Its JSON is a format that other
// programs read.
type result struct {
	Name          string  `json:"name"`
	Durability    string  `json:"durability"`
	Value         float64 `json:"value"` // median
	Min           float64 `json:"min"`
	Max           float64 `json:"max"`
	Unit          string  `json:"unit"`
	Baseline      string  `json:"baseline"`
	BaselineValue float64 `json:"baseline_value"` // median
	BaselineMin   float64 `json:"baseline_min"`
	BaselineMax   float64 `json:"baseline_max"`
	// Ratio is that of the medians, turned so that higher is better. RatioMin
	// and RatioMax are of single rounds.
	Ratio    float64 `json:"ratio"`
	RatioMin float64 `json:"ratio_min"`
	RatioMax float64 `json:"ratio_max"`
	N        int     `json:"n"`
	Seconds  float64 `json:"seconds"` // median, of the measured part of a round
	Rounds   int     `json:"rounds"`
	Workers  int     `json:"workers"` // 0: the executor's default
	Goal     string  `json:"goal,omitempty"`
	Met      *bool   `json:"met,omitempty"` // null without a goal
}

func (w *workload) results(l *lab, mine, theirs []measured) []result {
	column := func(rounds []measured, i int) (values []float64) {
		for _, m := range rounds {
			values = append(values, m.values[i])
		}
		return values
	}
	var seconds []float64
	for _, m := range mine {
		seconds = append(seconds, m.seconds)
	}
	var results []result
	for i, f := range w.figures(l.n) {
		own, other := column(mine, i), column(theirs, i)
		var ratios []float64
		for k := range own {
			ratios = append(ratios, f.ratio(own[k], other[k]))
		}
		v, b, r := spreadOf(own), spreadOf(other), spreadOf(ratios)
		res := result{
			Name: w.name + f.suffix, Durability: w.durability, Unit: f.unit,
			Value: v.median, Min: v.low, Max: v.high,
			Baseline: f.baseline, BaselineValue: b.median, BaselineMin: b.low, BaselineMax: b.high,
			Ratio: f.ratio(v.median, b.median), RatioMin: r.low, RatioMax: r.high,
			N: l.n, Seconds: spreadOf(seconds).median, Rounds: len(mine), Workers: l.workers,
		}
		res.judge(f)
		results = append(results, res)
	}
	return results
}

// ratio compares so that higher is better. Without a baseline it is 0: JSON
// has no infinity.
func (f figure) ratio(value, baseline float64) float64 {
	if f.lower {
		value, baseline = baseline, value
	}
	if baseline == 0 {
		return 0
	}
	return value / baseline
}

func (r *result) judge(f figure) {
	switch g := f.goal; {
	case g.ratio != 0:
		r.Goal, r.Met = "ratio ≥ "+short(g.ratio), new(r.Ratio >= g.ratio)
	case g.value != 0 && f.lower:
		r.Goal, r.Met = "≤ "+short(g.value), new(r.Value <= g.value)
	case g.value != 0:
		r.Goal, r.Met = "≥ "+short(g.value), new(r.Value >= g.value)
	}
}
