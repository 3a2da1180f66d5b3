package limit

import (
	"cmp"
	"fmt"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
)

// Config of a limit, or of one of its keys. Zero: no limit.
type Config inspect.LimitSetting

const (
	maxConcurrent = 1 << 17
	maxRate       = 1 << 30
	maxBurst      = 1 << 20
	minInterval   = time.Microsecond
	maxPer        = 366 * 24 * time.Hour
	// maxFill is how long a burst may take to be saved up.
	maxFill = 10 * maxPer
	// lateness is the part of Per that a late start is made up for.
	lateness = 200
)

// WithDefaults returns c with what it leaves out, or an error that names a setting
// that makes no sense.
func (c Config) WithDefaults() (Config, error) {
	for _, n := range [...]struct {
		name       string
		value, max int
	}{{"Concurrent", c.Concurrent, maxConcurrent}, {"Rate", c.Rate, maxRate}, {"Burst", c.Burst, maxBurst}} {
		if n.value < 0 || n.value > n.max {
			return c, fmt.Errorf("its %s is %d, it must be from 0 to %d", n.name, n.value, n.max)
		}
	}
	switch {
	case c.Per < 0 || c.Per > maxPer:
		return c, fmt.Errorf("its Per is %v, it must be from 0 (the default, a second) to %v", c.Per, maxPer)
	case c.Rate == 0 && c.Per != 0:
		return c, fmt.Errorf("its Per is %v, and does nothing without a Rate", c.Per)
	case c.Rate == 0 && c.Burst != 0:
		return c, fmt.Errorf("its Burst is %d, and does nothing without a Rate", c.Burst)
	case c.Rate == 0:
		return c, nil
	}
	c.Per, c.Burst = cmp.Or(c.Per, time.Second), cmp.Or(c.Burst, 1)
	if c.Per/time.Duration(c.Rate) < minInterval {
		return c, fmt.Errorf("its Rate is %d in %v, it must not be above one in %v", c.Rate, c.Per, minInterval)
	}
	if fill := float64(c.Burst) * float64(c.Per) / float64(c.Rate); fill > float64(maxFill) {
		return c, fmt.Errorf("its Burst is %d, it would take more than %v to save that up", c.Burst, maxFill)
	}
	return c, nil
}

// law is a Config in nanoseconds; see the package comment.
type law struct {
	concurrent int
	interval   int64 // 0: no rate
	ahead      int64
	saved      int64 // the part of ahead that is the burst
}

func newLaw(c Config) law {
	l := law{concurrent: c.Concurrent}
	if c.Rate > 0 {
		per, late := int64(c.Per), int64(c.Per)/lateness
		l.interval = (per + late + int64(c.Rate) - 1) / int64(c.Rate)
		l.saved = int64(c.Burst-1) * l.interval
		l.ahead = l.saved + late
	}
	return l
}
