package main

import (
	"github.com/HdrHistogram/hdrhistogram-go"
)

// latency is from before Enqueue until the handler is entered, in microseconds.
type latency struct {
	Samples int     `json:"samples"`
	P50     float64 `json:"p50"`
	P50Min  float64 `json:"p50_min"` // of single rounds
	P50Max  float64 `json:"p50_max"`
	P99     float64 `json:"p99,omitempty"` // not told with too few samples
	// Steps are a distribution: the value that a share of all are not above, as
	// far as enough of them are above it.
	Steps []step    `json:"steps"`
	Raw   []float64 `json:"raw,omitempty"` // of one round
}

type step struct {
	Share float64 `json:"share"` // 0 to 1
	Value float64 `json:"value"`
}

// samplesAbove is how many samples have to be above a quantile that is told.
const samplesAbove = 10

var shares = []float64{0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999}

func newLatency(samples []float64) *latency {
	h := hdrhistogram.New(1, 1<<36, 3)
	for _, micros := range samples {
		_ = h.RecordValue(int64(micros * 1e3)) // only fails above a minute, which a probe doesn't wait for
	}
	at := func(share float64) float64 { return float64(h.ValueAtQuantile(100*share)) / 1e3 }
	l := &latency{Samples: len(samples), P50: at(0.5)}
	for _, share := range shares {
		if float64(len(samples))*(1-share) < samplesAbove-1e-6 {
			break
		}
		l.Steps = append(l.Steps, step{share, at(share)})
		if share == 0.99 {
			l.P99 = at(share)
		}
	}
	return l
}
