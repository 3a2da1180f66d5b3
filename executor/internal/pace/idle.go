package pace

import (
	"runtime"
	"time"
)

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
