package world

import "slices"

// exception is a fault that was found and is not mended yet: worlds do without what
// shows it, so that they find others.
type exception struct {
	script string // in testdata, which shows it; it is replayed once the exception is gone
	skip   func(s script, l line) bool
}

var pending []exception

// without leaves out the lines of exceptions.
func (s script) without(some []exception) script {
	return slices.DeleteFunc(slices.Clone(s), func(l line) bool {
		return slices.ContainsFunc(some, func(e exception) bool { return e.skip(s, l) })
	})
}
