package main

import (
	"math"
	"slices"
)

// steadyWithin is how well the median of some rounds has to be known, as a part
// of it.
const steadyWithin = 0.03

// spread is what the rounds of one figure say.
type spread struct {
	median, low, high float64
	n                 int
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
	return spread{at(0.5), s[0], s[len(s)-1], len(s), at(0.75) - at(0.25)}
}

// steady reports whether more rounds would hardly move the median: the standard
// error of a median is about the distance of the quartiles over the root of how
// many values there are.
func (s spread) steady() bool {
	return s.quartiles <= steadyWithin*s.median*math.Sqrt(float64(s.n))
}
