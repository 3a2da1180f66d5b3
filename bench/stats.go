package main

import (
	"math"
	"slices"
	"time"
)

// steadyWithin is how well the median of some rounds has to be known, as a part
// of it.
const steadyWithin = 0.03

// spread is what the rounds of one figure say.
type spread struct {
	median, low, high float64
	quartiles         float64 // how far they are apart
}

// spreadOf returns zeros for no values.
func spreadOf(values []float64) spread {
	if len(values) == 0 {
		return spread{}
	}
	s := slices.Sorted(slices.Values(values))
	at := func(share float64) float64 {
		place := share * float64(len(s)-1)
		below := int(place)
		return s[below] + (place-float64(below))*(s[min(below+1, len(s)-1)]-s[below])
	}
	return spread{at(0.5), s[0], s[len(s)-1], at(0.75) - at(0.25)}
}

// column is the i-th value of each.
func column(all []measured, i int) (values []float64) {
	for _, m := range all {
		values = append(values, m.values[i])
	}
	return values
}

// steady reports whether more rounds would hardly move the median of any ratio:
// the standard error of a median is about the distance of the quartiles over the
// root of how many values there are.
func (w *workload) steady(n int, mine, theirs []measured) bool {
	for i, f := range w.figures(n) {
		s := spreadOf(f.ratios(column(mine, i), column(theirs, i)))
		if f.slack == 0 && s.quartiles > steadyWithin*s.median*math.Sqrt(float64(len(mine))) {
			return false
		}
	}
	return true
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
	Slack         float64 `json:"slack,omitempty"` // how far apart two runs may be; 0: the ratio says
	Baseline      string  `json:"baseline"`
	BaselineValue float64 `json:"baseline_value"` // median
	BaselineMin   float64 `json:"baseline_min"`
	BaselineMax   float64 `json:"baseline_max"`
	// Ratio is the median of those of single rounds, turned so that higher is
	// better.
	Ratio    float64 `json:"ratio"`
	RatioMin float64 `json:"ratio_min"`
	RatioMax float64 `json:"ratio_max"`
	N        int     `json:"n"`
	Seconds  float64 `json:"seconds"` // median, of the measured part of a round, repetitions included
	Rounds   int     `json:"rounds"`
	Workers  int     `json:"workers"` // 0: the executor's default
	Goal     string  `json:"goal,omitempty"`
	Met      *bool   `json:"met,omitempty"` // null without a goal
}

func (w *workload) results(l *lab, mine, theirs []measured) []result {
	var seconds []float64
	for _, m := range mine {
		seconds = append(seconds, m.seconds)
	}
	var results []result
	for i, f := range w.figures(l.n) {
		own, other := column(mine, i), column(theirs, i)
		v, b, r := spreadOf(own), spreadOf(other), spreadOf(f.ratios(own, other))
		res := result{
			Name: w.name + f.suffix, Durability: w.durability, Unit: f.unit, Slack: f.slack,
			Value: v.median, Min: v.low, Max: v.high,
			Baseline: f.baseline, BaselineValue: b.median, BaselineMin: b.low, BaselineMax: b.high,
			Ratio: r.median, RatioMin: r.low, RatioMax: r.high,
			N: l.n, Seconds: spreadOf(seconds).median, Rounds: len(mine), Workers: l.workers,
		}
		if l.n >= w.n { // with fewer jobs, what is there from the start weighs too much
			res.judge(f)
		}
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

// ratios compares round by round.
func (f figure) ratios(values, baselines []float64) (ratios []float64) {
	for i := range values {
		ratios = append(ratios, f.ratio(values[i], baselines[i]))
	}
	return ratios
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
