package world

import "slices"

// exception is a fault that was found and is not mended yet: worlds do without what
// shows it, so that they find others.
type exception struct {
	script string // in testdata, which shows it; it is replayed once the exception is gone
	skip   func(s script, l line) bool
}

var pending = []exception{
	{"clock_rest_and_moment", momentsAndPauses},
	{"clock_moment_and_rest", momentsAndPauses},
	{"clock_debounce_and_moment", momentsAndPauses},
	{"clock_rest_and_crash", func(script, line) bool { return false }}, // the oracle knows
}

// momentsAndPauses: a job has one due time, which is the later one of a moment that a caller has
// asked for and the end of a rest, or of a quiet time. When the clock is set the two part.
func momentsAndPauses(s script, l line) bool {
	if l.verb != "enqueue" || !l.has("in") && !l.has("at") && l.num("computed") == 0 {
		return false
	}
	set := slices.ContainsFunc(s, func(l line) bool { return l.verb == "set" })
	return set && slices.ContainsFunc(s, func(q line) bool {
		return q.verb == "queue" && q.str("name") == l.str("q") && (q.has("throttle") || q.has("debounce"))
	})
}

// without leaves out the lines of exceptions.
func (s script) without(some []exception) script {
	return slices.DeleteFunc(slices.Clone(s), func(l line) bool {
		return slices.ContainsFunc(some, func(e exception) bool { return e.skip(s, l) })
	})
}
