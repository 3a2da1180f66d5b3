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
		Waiting: k.waiting + len(k.called), Kept: len(k.kept), Until: on(k.from(1)), Paused: on(k.paused),
	}
}

// Keys shows up to n keys in use: those for which most jobs wait.
func (l *Limit) Keys(now int64, n int) (all []inspect.LimitKey) {
	var most []*key // the busiest first
	for _, k := range l.keys {
		if len(most) == n && busier(most[n-1], k) < 0 {
			continue
		}
		i, _ := slices.BinarySearchFunc(most, k, busier)
		most = slices.Insert(most[:min(len(most), n-1)], i, k)
	}
	for _, k := range most {
		all = append(all, k.shown(now))
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

const (
	// patience is how long the turn of a job is kept that was called: it waits for a
	// worker, or is not going to come. It doubles as long as none comes, because
	// then the workers are busy.
	patience    = int64(10 * time.Millisecond)
	mostMisses  = 6 // 640 ms
	forgetEvery = int64(time.Second)
	// mostTurns is how often a job of several keys is called in vain before places are kept for it. Fewer
	// cost more starts where all jobs have two keys: 4 one in eight, 8 one in fourteen, 16 one in fifty.
	mostTurns = 8
)

// key is a key of a limit that is in use.
type key struct {
	limit *Limit
	name  string

	running int
	next    int64 // the pace; see the package comment
	paused  int64 // until then

	lines   []*line // of the queues that wait, whose turn is next first
	waiting int     // in all of them
	called  []*waiter
	misses  int     // calls since the last start that came to nothing
	kept    []place // for jobs that wait for this key or another

	sorted.Place       // in Table.agenda, by when something changes by itself
	part         *part // of what a cluster allows; nil: it is this process's alone
}

// line are the jobs of one queue that wait for a key.
type line struct {
	queue string
	jobs  sorted.List[*waiter]
}

// waiter is a job that has come and does not run yet, or not again.
type waiter struct {
	sorted.Place // in line, in the order in which jobs came
	owner        admit.Owner
	key          *key // that it waits for, or whose turn is kept for it; nil: its number is kept, no more
	called       bool // out of the line, and its turn is kept until then
	line         *line
	until        int64 // then the call is over, or the number is forgotten
	wake         func()
	needs        []Need // when there are several
	turns        int    // how often it was called
	since        int64  // when it was first
	kept         []*key // that have a place for it
}

// free is how many jobs may start now.
func (k *key) free(now int64) int {
	if now < k.paused {
		return 0
	}
	if k.part != nil {
		return k.part.free(now)
	}
	free := math.MaxInt
	if k.limit.law.concurrent > 0 {
		free = max(k.limit.law.concurrent-k.running, 0)
	}
	if k.limit.law.interval > 0 {
		lead := now + k.limit.law.ahead - max(k.next, now)
		if lead < 0 {
			return 0
		}
		free = min(free, int(lead/k.limit.law.interval)+1)
	}
	return free
}

// from is when n jobs may start, or never by themselves: before that one has to end,
// or to start.
func (k *key) from(n int) int64 {
	if k.part != nil {
		return k.part.from(n)
	}
	if k.limit.law.concurrent > 0 && k.limit.law.concurrent-k.running < n {
		return never
	}
	at := k.paused
	if k.limit.law.interval > 0 {
		lead := int64(n-1) * k.limit.law.interval
		if lead > k.limit.law.ahead {
			return never
		}
		at = max(at, k.next+lead-k.limit.law.ahead)
	}
	return at
}

// lacks reports whether a permit is what there is none of.
func (k *key) lacks() bool {
	if k.part != nil {
		return k.part.lacks()
	}
	return k.limit.law.concurrent > 0 && k.limit.law.concurrent <= k.running
}

// begin has a job start.
func (k *key) begin(now int64) {
	k.running++
	k.limit.running++
	k.misses = 0
	if k.part != nil {
		k.part.begin(now)
	} else if k.limit.law.interval > 0 {
		k.next = max(k.next, now) + k.limit.law.interval
	}
}

// pause has no job begin before a time; least says that a longer one of other processes stays.
func (k *key) pause(now, until int64, least bool) {
	k.paused = until
	if k.part != nil {
		k.part.pause, k.part.said = quota.Pause{New: true, Least: least}, now
	}
}

// idle reports whether the key need not be known, and if it will be so by itself,
// when.
func (k *key) idle(now int64) (at int64, idle bool) {
	if k.running > 0 || k.waiting > 0 || len(k.called) > 0 || len(k.kept) > 0 {
		return never, false
	}
	if k.part != nil && (k.part.Turn != never || k.part.claims > 0) {
		return never, false
	}
	at = max(k.next, k.paused)
	return at, at <= now
}

// event is when something changes by itself.
func (k *key) event(now int64) int64 {
	at := int64(never)
	for _, w := range k.called {
		at = min(at, w.until)
	}
	for _, p := range k.kept {
		at = min(at, p.until)
	}
	if k.waiting > 0 {
		_, before := k.turn()
		return min(at, k.from(before+1))
	}
	if over, _ := k.idle(now); over != never {
		return (over/forgetEvery + 1) * forgetEvery // together with others
	}
	return at
}

// enqueue has a job wait in the line of its queue, at its number.
func (k *key) enqueue(w *waiter) {
	i := slices.IndexFunc(k.lines, func(l *line) bool { return l.queue == w.owner.Queue })
	if i < 0 {
		i = len(k.lines)
		k.lines = append(k.lines, &line{queue: w.owner.Queue})
	}
	w.key, w.line = k, k.lines[i]
	w.line.jobs.Put(w)
	k.waiting++
	k.limit.waiting++
}

// leave takes a job out of the line, or ends its call.
func (k *key) leave(w *waiter) {
	if w.called {
		k.called = slices.DeleteFunc(k.called, func(o *waiter) bool { return o == w })
	} else {
		w.line.jobs.Remove(w)
		k.waiting--
		k.limit.waiting--
		if len(w.line.jobs) == 0 {
			k.lines = slices.DeleteFunc(k.lines, func(l *line) bool { return l == w.line })
		}
	}
	w.called, w.key, w.line = false, nil, nil
}

// turn returns the line whose turn it is, among those whose first job has the fewest turns and places kept
// before it, and how many these are.
func (k *key) turn() (line, before int) {
	before = math.MaxInt
	for i, l := range k.lines {
		if n := k.places(l.jobs[0].Turn); n < before {
			if line, before = i, n; n == 0 {
				break
			}
		}
	}
	return line, before + len(k.called)
}

// call calls the first job of a line.
func (k *key) call(now int64, line int) *waiter {
	l := k.lines[line]
	w := l.jobs[0]
	k.lines = append(slices.Delete(k.lines, line, line+1), l)
	k.leave(w)
	k.give(w)
	w.called, w.key = true, k
	if w.turns++; w.turns == 1 {
		w.since = now
	}
	w.until = now + patience<<min(k.misses, mostMisses)
	k.called = append(k.called, w)
	return w
}

// reserved is how many turns and places are kept for jobs that came before one.
func (k *key) reserved(number int64) int {
	n := k.places(number)
	for _, w := range k.called {
		if w.Turn < number {
			n++
		}
	}
	return n
}
