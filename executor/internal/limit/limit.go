package limit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/executor/internal/quota"
)

// key returns a key, which settle forgets if it is not in use after all.
func (l *Limit) key(name string) *key {
	k := l.keys[name]
	if k == nil {
		k = &key{limit: l, name: name, law: l.law, next: l.born + l.law.saved} // it has saved up what it has not used since then
		if l.shared {
			k.next, k.part = 0, &part{key: k, at: never}
		}
		l.keys[name] = k
	}
	return k
}

// Config returns what holds for each key.
func (l *Limit) Config() Config { return l.config }

// Name returns the name of the limit.
func (l *Limit) Name() string { return l.name }

// Set changes the limit. The config has its defaults. It looks at each key in use.
func (l *Limit) Set(now int64, c Config) {
	l.config, l.law = c, newLaw(c, l.shared)
	for _, k := range slices.Collect(maps.Values(l.keys)) {
		k.obey(l.law, now)
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

// Stats are figures of a limit.
type Stats struct {
	Keys    int // in use
	Running int // jobs, by keys
	Waiting int // jobs
}

// Stats counts.
func (l *Limit) Stats() Stats { return Stats{len(l.keys), l.running, l.waiting} }

// KeyStats are figures of a key.
type KeyStats struct {
	Limit, Key string
	Config     Config
	Shared     bool // others may have what it waits for
	Running    int
	Waiting    int
	Paused     int64 // until then; not after now: it is not
	From       int64 // when the next job may start; not after now: now; below zero: when one has ended
}

// Key returns the figures of a key; one that is not in use has none.
func (l *Limit) Key(name string) KeyStats {
	k := l.keys[name]
	if k == nil {
		return KeyStats{Limit: l.name, Key: name, Config: l.config}
	}
	return k.stats()
}

func (k *key) stats() KeyStats {
	from := k.from(1)
	if from == never {
		from = -1
	}
	return KeyStats{
		Limit: k.limit.name, Key: k.name, Config: k.limit.config, Shared: k.limit.shared, Running: k.running,
		Waiting: k.waiting + len(k.called), Paused: k.paused, From: from,
	}
}

// Keys returns the figures of up to n keys in use: those for which most jobs wait.
func (l *Limit) Keys(n int) []KeyStats {
	var most []*key // the busiest first
	for _, k := range l.keys {
		if len(most) == n && busier(most[n-1], k) < 0 {
			continue
		}
		i, _ := slices.BinarySearchFunc(most, k, busier)
		most = slices.Insert(most[:min(len(most), n-1)], i, k)
	}
	all := make([]KeyStats, len(most))
	for i, k := range most {
		all[i] = k.stats()
	}
	return all
}

// busier is below zero if a is the busier one of two keys. It is never zero.
func busier(a, b *key) int {
	return cmp.Or(
		cmp.Compare(b.waiting+len(b.called), a.waiting+len(a.called)),
		cmp.Compare(b.running, a.running),
		cmp.Compare(a.name, b.name),
	)
}

// running returns the jobs that run under the key for which one waits.
func (t *Table) running(owner admit.Owner) (jobs []admit.Owner) {
	for g := range t.grants {
		if slices.Contains(g.keys, t.waiters[owner].key) {
			jobs = append(jobs, g.owner)
		}
	}
	return jobs
}

// Waits says what a job waits for; false: it does not wait. Called: it may come, and
// its turn is kept.
func (t *Table) Waits(owner admit.Owner) (k KeyStats, isCalled, ok bool) {
	w := t.waiters[owner]
	if w == nil || w.state == aside {
		return k, false, false
	}
	return w.key.stats(), w.state == called, true
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
