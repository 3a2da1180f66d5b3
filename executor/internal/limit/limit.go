package limit

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/executor/internal/each"
	"github.com/strandjobs/strand/executor/internal/quota"
	"github.com/strandjobs/strand/executor/internal/sorted"
)

// key returns a key, which settle forgets if it is not in use after all.
func (l *Limit) key(name string) *key {
	k := l.keys[name]
	if k == nil {
		k = &key{limit: l, name: name, next: l.born + l.law.saved} // it has saved up what it has not used since then
		if l.shared {
			k.next, k.part = 0, &part{key: k, Place: sorted.Place{Turn: never}}
		}
		l.keys[name] = k
	}
	return k
}

// Config returns what holds for each key.
func (l *Limit) Config() Config { return l.config }

// Set changes the limit. The config has its defaults. It looks at each key in use, which is not
// held to what the old law made of its past for longer than an interval of the new one.
func (l *Limit) Set(now int64, c Config) {
	l.config, l.law = c, newLaw(c, l.shared)
	for _, k := range slices.Collect(maps.Values(l.keys)) {
		k.next = min(k.next, now+l.law.ahead+l.law.interval)
		if k.part != nil {
			k.part.obey(now)
		}
		l.table.settle(now, k)
	}
}

// Pause has no job of a key start before a time; one that is over ends the pause.
func (l *Limit) Pause(now int64, name string, until int64) {
	k := l.key(name)
	k.pause(now, until, false)
	l.table.settle(now, k)
}

// Stats counts.
func (l *Limit) Stats() inspect.LimitStats {
	return inspect.LimitStats{Limit: l.name, Config: inspect.LimitSetting(l.config), InUse: len(l.keys), Running: l.running, Waiting: l.waiting}
}

// Key shows a key to people; one that is not in use has no jobs.
func (l *Limit) Key(now int64, name string) inspect.LimitKey {
	if k := l.keys[name]; k != nil {
		return k.shown(now)
	}
	return inspect.LimitKey{Limit: l.name, Key: name, Config: inspect.LimitSetting(l.config)}
}

// shown is the key on the clock of people.
func (k *key) shown(now int64) inspect.LimitKey {
	wall := time.Now().Round(0)
	on := func(at int64) (t time.Time) {
		if at > now && at != never {
			t = wall.Add(time.Duration(at - now))
		}
		return t
	}
	return inspect.LimitKey{
		Limit: k.limit.name, Key: k.name, Config: inspect.LimitSetting(k.limit.config), Running: k.running,
		Waiting: k.waiting + len(k.called), Kept: len(k.kept), Until: on(k.from(ahead{})), Paused: on(k.paused),
	}
}

// Keys shows up to n keys in use: those for which most jobs wait.
func (l *Limit) Keys(now int64, n int) []inspect.LimitKey {
	var most []*key // the busiest first
	for _, k := range l.keys {
		if len(most) == n && busier(most[n-1], k) < 0 {
			continue
		}
		i, _ := slices.BinarySearchFunc(most, k, busier)
		most = slices.Insert(most[:min(len(most), n-1)], i, k)
	}
	return each.Of(most, func(k *key) inspect.LimitKey { return k.shown(now) })
}

// busier is below zero if a is the busier one of two keys. It is never zero.
func busier(a, b *key) int {
	return cmp.Or(
		cmp.Compare(b.waiting+len(b.called), a.waiting+len(a.called)),
		cmp.Compare(b.running, a.running),
		cmp.Compare(a.name, b.name),
	)
}

// running returns the jobs that run under a key.
func (t *Table) running(k *key) (jobs []admit.Owner) {
	for g := range t.grants {
		if slices.Contains(g.keys, k) {
			jobs = append(jobs, g.owner)
		}
	}
	return jobs
}

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

func newLaw(c Config, shared bool) law {
	l := law{concurrent: c.Concurrent}
	if c.Rate > 0 {
		per, late := int64(c.Per), int64(c.Per)/lateness
		if shared {
			per += int64(quota.Grace)
		}
		l.interval = (per + late + int64(c.Rate) - 1) / int64(c.Rate)
		l.saved = int64(c.Burst-1) * l.interval
		l.ahead = l.saved + late
	}
	return l
}

// never is a time that does not come by itself.
const never = math.MaxInt64
