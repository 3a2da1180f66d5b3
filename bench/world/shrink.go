package world

import (
	"maps"
	"slices"
	"testing"
	"time"
)

// shrink returns a shorter script that fails in the same way, as far as it finds one in
// the time that it has.
func shrink(t *testing.T, s script, failure string, limit time.Duration) (script, string) {
	deadline := time.Now().Add(limit)
	try := func(shorter script) bool {
		if time.Now().After(deadline) {
			return false
		}
		for range 2 { // what goroutines do is not the same each time
			if found := perform(t, shorter, nil); found != "" && kind(found) == kind(failure) {
				s, failure = shorter, found
				return true
			}
		}
		return false
	}
	for before := -1; before != size(s) && time.Now().Before(deadline); {
		before = size(s)
		for chunk := len(s) / 2; chunk > 0; chunk /= 2 {
			for at := len(s) - chunk; at > 0; at -= chunk { // the first line stays
				at = min(at, len(s)-chunk)
				if at > 0 {
					try(slices.Concat(s[:at], s[at+chunk:]))
				}
			}
		}
		for at := range s {
			shrinkLine(s, at, try)
		}
	}
	return s, failure
}

// shrinkLine takes out what a line says beside its verb.
func shrinkLine(s script, at int, try func(script) bool) {
	for _, name := range slices.Sorted(maps.Keys(s[at].args)) {
		l := s[at].clone()
		delete(l.args, name)
		if try(replaced(s, at, l)) {
			s = replaced(s, at, l)
		}
	}
	if s[at].with {
		l := s[at].clone()
		l.with = false
		try(replaced(s, at, l))
	}
}

func replaced(s script, at int, l line) script {
	s = slices.Clone(s)
	s[at] = l
	return s
}

// size is how much a script says.
func size(s script) (n int) {
	for _, l := range s {
		n += 1 + len(l.args)
	}
	return n
}
