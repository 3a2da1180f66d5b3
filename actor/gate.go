package actor

import "sync/atomic"

// shutBit is set in gate.state once the gate is shut; the bits below it count who is inside.
const shutBit = int64(1) << 62

// gate counts what is inside and, once shut, lets no more in; when it is shut and
// empty it calls drained, once.
//
// A WaitGroup cannot do this: it has no door, and Add at zero may not race Wait. An
// RWMutex would hold senders up while a Stop waits for the write lock. One atomic
// add answers "may I?" and counts in the same step.
type gate struct {
	state   atomic.Int64
	emptied atomic.Bool // drained was or is being called
	drained func()      // must not block: any goroutine that leaves may be the one to call it
}

// enter counts one in and returns how many are inside now, or 0 when the gate is shut.
func (g *gate) enter() int64 {
	if n := g.state.Add(1); n&shutBit == 0 {
		return n
	}
	g.leave()
	return 0
}

// add counts one more in on behalf of one inside, shut or not.
func (g *gate) add() { g.state.Add(1) }

// leave counts one out.
func (g *gate) leave() {
	if g.state.Add(-1) == shutBit {
		g.empty()
	}
}

// shut refuses everyone from now on; who is inside stays until they leave.
func (g *gate) shut() {
	if g.state.Or(shutBit)&^shutBit == 0 {
		g.empty()
	}
}

// empty is reached more than once: a sender that knocks at a shut gate is counted
// for a moment, and leaves again.
func (g *gate) empty() {
	if g.emptied.CompareAndSwap(false, true) {
		g.drained()
	}
}

// inside is how many have entered and not left.
func (g *gate) inside() int64 { return g.state.Load() &^ shutBit }
