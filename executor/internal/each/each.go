// Package each makes one list of another.
package each

import "slices"

// Of returns what f makes of each of a list, in its order; nil if there is none.
func Of[E, R any](list []E, f func(E) R) (all []R) {
	all = slices.Grow(all, len(list))
	for _, e := range list {
		all = append(all, f(e))
	}
	return all
}
