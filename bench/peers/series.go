package main

import (
	"cmp"
	"slices"

	"github.com/strandjobs/strand/bench/peers/peer"
)

// series is one case of one peer, round by round.
type series struct {
	task    task
	promise peer.Promise
	rounds  []outcome
}

// givenUp reports whether the peer was skipped, or has failed twice.
func (s *series) givenUp() bool {
	failed := 0
	for _, o := range s.rounds {
		if o.Skipped != "" {
			return true
		}
		if o.Failed != "" {
			failed++
		}
	}
	return failed > 1
}

// worked returns the rounds that have a figure.
func (s *series) worked() (all []outcome) {
	for _, o := range s.rounds {
		if o.figure() > 0 {
			all = append(all, o)
		}
	}
	return all
}

// jobs is how many filled the time in an earlier round; 0: it is not known.
func (s *series) jobs() int {
	if worked := s.worked(); len(worked) > 0 {
		return worked[0].Jobs
	}
	return 0
}

// over returns the ratio of two figures in each round that has both.
func (s *series) over(other *series) (ratios []float64) {
	for _, mine := range s.worked() {
		for _, theirs := range other.worked() {
			if mine.Round == theirs.Round {
				ratios = append(ratios, mine.figure()/theirs.figure())
			}
		}
	}
	return ratios
}

// merged is the series as one outcome: the middle one of those that worked,
// with their spread, and with what was counted in all of them.
func (s *series) merged() outcome {
	worked := s.worked()
	if len(worked) == 0 {
		m := s.rounds[len(s.rounds)-1]
		m.Round = 0
		return m
	}
	slices.SortStableFunc(worked, func(a, b outcome) int { return cmp.Compare(a.figure(), b.figure()) })
	m := worked[len(worked)/2]
	m.Round, m.Rounds, m.Broken = 0, len(worked), len(s.rounds)-len(worked)
	m.Total, m.Violations, m.Overlaps, m.Repeated, m.Usage.Written = 0, 0, 0, 0, 0
	var rates, samples, commits []float64
	for _, o := range worked {
		rates = append(rates, o.Rate)
		m.Total, m.Usage.Written = m.Total+o.Total, m.Usage.Written+o.Usage.Written
		m.Violations, m.Overlaps, m.Repeated = m.Violations+o.Violations, m.Overlaps+o.Overlaps, m.Repeated+o.Repeated
		m.CutShort = m.CutShort || o.CutShort
		if o.Latency != nil {
			samples = append(samples, o.Latency.Raw...)
		}
		if o.Commit != nil {
			commits = append(commits, o.Commit.Raw...)
		}
	}
	if m.Latency != nil {
		m.Latency = newLatency(samples)
		if m.Commit != nil {
			m.Commit = newLatency(commits)
		}
		m.Latency.P50Min, m.Latency.P50Max = worked[0].Latency.P50, worked[len(worked)-1].Latency.P50
		return m
	}
	all := spreadOf(rates)
	m.Rate, m.RateMin, m.RateMax = all.median, all.low, all.high
	return m
}

// merge has one outcome for each series that has begun.
func merge(all []*series) (merged []outcome) {
	for _, s := range all {
		if len(s.rounds) > 0 {
			merged = append(merged, s.merged())
		}
	}
	return merged
}

// figure is what an outcome is about; 0: it has none.
func (o *outcome) figure() float64 {
	if o.Latency != nil {
		return o.Latency.P50
	}
	return o.Rate
}
