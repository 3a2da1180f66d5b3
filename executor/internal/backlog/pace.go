package backlog

import (
	"time"

	"github.com/strandjobs/strand/shard"
)

// now is the time on the monotonic clock, in nanoseconds, and not 0.
func (b *Backlog) now() int64 { return 1 + int64(time.Since(b.born)) }

// paceWindow is how far back a pace looks, or twice as far.
const paceWindow = int64(10 * time.Second)

// pace counts what has ended lately. Times are those of Backlog.now.
type pace struct {
	begun  int64        // when the window began
	ended  shard.Weight // in this window
	before int64        // when the one before began
	former shard.Weight // ended in that
	last   int64        // when anything ended
}

func (p *pace) count(now int64, w shard.Weight) {
	p.turn(now)
	p.ended = p.ended.Plus(w)
	p.last = now
}

// turn begins a window when the last one is over.
func (p *pace) turn(now int64) {
	switch age := now - p.begun; {
	case age < paceWindow:
		return
	case age < 2*paceWindow:
		p.before, p.former = p.begun, p.ended
	default:
		p.before, p.former = now, shard.Weight{}
	}
	p.begun, p.ended = now, shard.Weight{}
}

// rate returns how much ends in a second, and for how long nothing has.
func (p *pace) rate(now int64) (payloads, bytes float64, quiet time.Duration) {
	p.turn(now)
	if w, seconds := p.ended.Plus(p.former), time.Duration(now-p.before).Seconds(); seconds > 0 {
		payloads, bytes = float64(w.Payloads)/seconds, float64(w.Bytes)/seconds
	}
	return payloads, bytes, time.Duration(now - p.last)
}
