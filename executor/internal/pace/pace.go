// Package pace keeps those who only look from taking the processor from those who
// work: all of them together get a small share of it, or half of what lies idle.
//
// Work is done in pieces, one at a time for all who share a Pacer, in the order in
// which they asked. What a piece has taken is paid for with a pause, so that in the
// long run pieces take no more than the share; a short burst is free. While nobody
// works there is no pause.
//
// What lies idle is measured while somebody looks, twenty times a second: it is what
// neither this process has used of the processors that it may use, nor anybody else of
// the machine. So who works in handlers that only wait does not make those wait who
// look, and who has no processor to spare spares none. It is known on Linux; elsewhere
// the share is all there is.
//
// It starts no goroutine, and calls what it is given under no lock.
package pace

import (
	"context"
	"runtime"
	"time"
)

// Pacer is shared by those who look. New makes one.
type Pacer struct {
	least float64 // of one processor
	burst time.Duration
	idle  func() float64
	turn  chan struct{} // whoever has it may do a piece; guards what follows
	next  time.Time     // when the next piece may begin
}

// New returns a pacer that allows a share of one processor, above 0 and up to 1, or
// half of what idle says lies idle, if that is more, and a burst of so much work
// before the first pause. idle is called by one goroutine at a time.
func New(share float64, burst time.Duration, idle func() float64) *Pacer {
	return &Pacer{least: share, burst: burst, idle: idle, turn: make(chan struct{}, 1)}
}

// Do does a piece of work when its turn has come, and returns its error, or the
// cause of ctx, and then has done nothing. busy reports whether there is work that
// the piece might take the processor from; the piece says how long it has kept one
// busy, without what it waited for others.
func (p *Pacer) Do(ctx context.Context, busy func() bool, piece func() (time.Duration, error)) error {
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-p.turn }()
	works := busy()
	if d := time.Until(p.next); works && d > 0 {
		select {
		case <-time.After(d):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	cost, err := piece()
	if works {
		p.pay(time.Now(), cost)
	}
	return err
}

// pay moves the time of the next piece by what this one cost.
func (p *Pacer) pay(now time.Time, cost time.Duration) {
	share := max(p.least, min(p.idle()/2, 1))                  // half: those who work may want more in a moment
	saved := now.Add(-time.Duration(float64(p.burst) / share)) // what was not used is kept, up to a burst
	if p.next.Before(saved) {
		p.next = saved
	}
	p.next = p.next.Add(time.Duration(float64(cost) / share))
}

// What is idle is measured over windows, as long as somebody looks: of a moment long
// ago it says nothing.
const (
	window    = 50 * time.Millisecond
	oldWindow = 4 * window
)

// Idle says how many processors lie idle. The zero Idle is ready to use, by one
// goroutine at a time.
type Idle struct {
	at            time.Time
	used, machine time.Duration // by this process; not used by any, of all processors
	lately        float64
}

// Lately returns how many processors lay idle in the last window; 0 if that is not
// known.
func (i *Idle) Lately() float64 {
	now := time.Now()
	passed := now.Sub(i.at)
	if passed < window {
		return i.lately
	}
	used, machine, ok := processorTimes()
	if i.lately = 0; ok && passed < oldWindow {
		own := float64(runtime.GOMAXPROCS(0)) - (used-i.used).Seconds()/passed.Seconds()
		i.lately = max(min(own, (machine-i.machine).Seconds()/passed.Seconds()), 0)
	}
	i.at, i.used, i.machine = now, used, machine
	return i.lately
}
