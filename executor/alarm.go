package executor

import "time"

// alarm is a timer that is set to what happens next by itself, of all that its owner
// knows of. It is guarded by the owner's mutex.
type alarm struct {
	timer *time.Timer   // nil until it was set
	rings time.Duration // when it does, since base; 0: it does not
}

// set has f called at a time since base, or before that if it was set so: then it rings
// for nothing, once, and is set again. Without ok it is not called. f has to say that it
// was, with rang.
func (a *alarm) set(base time.Time, at time.Duration, ok bool, f func()) {
	switch {
	case !ok:
		if a.rings = 0; a.timer != nil {
			a.timer.Stop()
		}
		return
	case a.rings > 0 && a.rings <= at:
		return
	case a.timer == nil:
		a.timer = time.AfterFunc(at-time.Since(base), f)
	default:
		a.timer.Reset(at - time.Since(base))
	}
	a.rings = at
}

func (a *alarm) rang() { a.rings = 0 }
