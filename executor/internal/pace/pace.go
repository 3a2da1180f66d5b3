// Package pace keeps those who only look from taking the processor from those who
// work: all of them together get a small share of it.
//
// Work is done in pieces, one at a time for all who share a Pacer, in the order in
// which they asked. What a piece has taken is paid for with a pause, so that in the
// long run pieces take no more than the share; a short burst is free. While nobody
// works there is no pause.
//
// It starts no goroutine, and calls what it is given under no lock.
package pace

import (
	"context"
	"time"
)

// Pacer is shared by those who look. New makes one.
type Pacer struct {
	share float64 // of one processor
	burst time.Duration
	turn  chan struct{} // whoever has it may do a piece; guards what follows
	next  time.Time     // when the next piece may begin
}

// New returns a pacer that allows a share of one processor, above 0 and up to 1, and
// a burst of so much work before the first pause.
func New(share float64, burst time.Duration) *Pacer {
	return &Pacer{share: share, burst: burst, turn: make(chan struct{}, 1)}
}

// Do does a piece of work when its turn has come, and returns its error, or the
// cause of ctx, and then has done nothing. busy reports whether there is work that
// the piece might take the processor from.
func (p *Pacer) Do(ctx context.Context, busy func() bool, piece func() error) error {
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-p.turn }()
	if !busy() {
		return piece()
	}
	if err := p.pause(ctx); err != nil {
		return err
	}
	began := time.Now()
	defer func() { p.pay(began, time.Now()) }()
	return piece()
}

func (p *Pacer) pause(ctx context.Context) error {
	d := time.Until(p.next)
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// pay moves the time of the next piece by what this one cost.
func (p *Pacer) pay(began, ended time.Time) {
	saved := ended.Add(-time.Duration(float64(p.burst) / p.share)) // what was not used is kept, up to a burst
	if p.next.Before(saved) {
		p.next = saved
	}
	p.next = p.next.Add(time.Duration(float64(ended.Sub(began)) / p.share))
}
