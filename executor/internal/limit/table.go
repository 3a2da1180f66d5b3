package limit

import (
	"slices"
	"time"

	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/executor/internal/sorted"
)

// keepNumber is how long the number of a job is kept that has not come although it
// was called, or that waits for something else.
const keepNumber = int64(time.Minute)

// Table has the limits that jobs may need together, and all that wait for one. One
// goroutine at a time may use it. What its methods have to wake, Drain returns.
type Table struct {
	waiters map[admit.Owner]*waiter
	arrived int64
	agenda  sorted.List[*key]
	asides  map[*waiter]struct{}
	sweep   int64 // when to look at asides
	woken   []func()
	grants  map[*Grant]struct{} // of jobs that run
	names   map[string]bool     // of limits
	keys    []*key              // of the needs of one call

	common  bool               // limits with Config.Cluster are those of a cluster
	shared  []*Limit           // these
	asks    sorted.List[*part] // that are to be made
	expects int64              // when Limits.Keep looks at them
	lapses  int                // how often the cluster has taken this process for dead
}

// Limit is one limit with its keys.
type Limit struct {
	table  *Table
	name   string
	config Config
	law    law
	born   int64
	shared bool // with other processes
	keys   map[string]*key

	running, waiting int
}

// Need is a key of a limit that a job runs under.
type Need struct {
	Limit *Limit
	Key   string
}

// Grant is what a job has while it runs.
type Grant struct {
	owner  admit.Owner
	number int64
	keys   []*key // as long as it runs
	needs  []Need
}

// NewTable returns a table without limits.
func NewTable() *Table {
	return &Table{waiters: make(map[admit.Owner]*waiter), asides: make(map[*waiter]struct{}), grants: make(map[*Grant]struct{}), names: make(map[string]bool)}
}

// NewLimit adds a limit. The config has its defaults.
func (t *Table) NewLimit(now int64, name string, c Config) *Limit {
	l := &Limit{table: t, name: name, config: c, born: now, shared: t.common && c.Cluster, keys: make(map[string]*key)}
	if l.law = newLaw(c, l.shared); l.shared {
		t.shared = append(t.shared, l)
	}
	return l
}

// Enter has a job start that needs some keys, each once, and returns what it has
// then; or nil, and then it waits for one of them. It is called by its wake when it
// may come again. A job that waits already waits no more where it did.
func (t *Table) Enter(now int64, owner admit.Owner, needs []Need, wake func()) *Grant {
	w, number := t.waiters[owner], t.arrived
	var left []*key
	if w != nil {
		left, number = t.stepOut(w), w.Turn
	} else {
		t.arrived++
	}
	full := t.need(now, number, needs)
	var g *Grant
	if full == nil {
		delete(t.waiters, owner)
		g = &Grant{owner: owner, number: number, keys: append([]*key(nil), t.keys...), needs: needs}
		t.grants[g] = struct{}{}
		for _, k := range g.keys {
			k.begin(now)
		}
	} else {
		if w == nil {
			w = &waiter{owner: owner, Place: sorted.Place{Turn: number}}
		}
		w.wake, w.needs = wake, nil
		if len(needs) > 1 {
			w.needs = needs
			t.keep(now, w, full)
		}
		t.waiters[owner] = w
		full.enqueue(w)
	}
	t.settle(now, t.keys...)
	t.settle(now, left...)
	clear(t.keys)
	return g
}

// place is one that a key has for a job: a permit, and a time of the rate if start is set.
type place struct {
	of    *waiter
	until int64
	start bool
}

// ahead is what others have of a key before a job may start: their turns, and their places.
type ahead struct{ permits, starts int }

// give gives the place of a job to others.
func (k *key) give(w *waiter) {
	k.kept = slices.DeleteFunc(k.kept, func(p place) bool { return p.of == w })
}

// places are those that are kept for jobs that came before one.
func (k *key) places(number int64) (n ahead) {
	for _, p := range k.kept {
		if p.of.Turn < number {
			n.permits++
			if p.start {
				n.starts++
			}
		}
	}
	return n
}

// keep keeps places in the keys of a call for a job whose turn has come too often in vain, for as long
// again as that has gone on, unless a job that came before it has one there: it goes first, and what
// the two don't share is used meanwhile. No times of a rate are kept, and lost, as long as the job has
// to wait for a permit or for a slower rate, and nothing while one of its keys is paused.
func (t *Table) keep(now int64, w *waiter, full *key) {
	if w.turns < mostTurns || slices.ContainsFunc(t.keys, func(k *key) bool { return k.paused > now || k.places(w.Turn).permits > 0 }) {
		return
	}
	for _, k := range t.keys {
		of := k.limit.law
		if start := !full.lacks() && of.interval >= full.limit.law.interval; start || of.concurrent > 0 {
			k.kept, w.kept = append(k.kept, place{w, now + now - w.since, start}), append(w.kept, k)
		}
	}
}

// need gathers the keys of a call, and returns the one that the job has to wait for, if any: for a
// permit first, because a start does not wait for it.
func (t *Table) need(now, number int64, needs []Need) (full *key) {
	t.keys = t.keys[:0]
	for _, n := range needs {
		k := n.Limit.key(n.Key)
		t.keys = append(t.keys, k)
		if !k.open(now, k.reserved(number)) && (full == nil || k.lacks() && !full.lacks()) {
			full = k
		}
	}
	return full
}

// keeping returns the jobs of a queue that wait and have places: others leave these to them.
func (t *Table) keeping(queue string) (ids []string) {
	for by, w := range t.waiters {
		if by.Queue == queue && len(w.kept) > 0 {
			ids = append(ids, by.ID)
		}
	}
	return ids
}

// Aside says that a job waits for something else, or does not come for now: others
// have its turn, and it keeps its number for a while, unless it is gone and to be forgotten.
func (t *Table) Aside(now int64, owner admit.Owner, forget bool) {
	if w := t.waiters[owner]; w != nil {
		left := t.stepOut(w)
		if forget {
			delete(t.waiters, owner)
		} else {
			t.setAside(now, w, now+keepNumber)
		}
		t.settle(now, left...)
	}
}

// Release takes back what a job had while it ran. A second time it has no effect.
func (t *Table) Release(now int64, g *Grant) {
	keys := g.keys
	g.keys = nil
	delete(t.grants, g)
	for _, k := range keys {
		k.running--
		k.limit.running--
		t.settle(now, k)
	}
}

// Throttle pauses the keys that a job ran under, those of one limit or with nil of
// all, until a time at least. The job keeps its number, so that it is the first of
// its queue when it comes back.
func (t *Table) Throttle(now int64, g *Grant, only *Limit, until int64) {
	for _, n := range g.needs {
		if only == nil || n.Limit == only {
			k := n.Limit.key(n.Key)
			k.pause(now, max(k.paused, until), true)
			t.settle(now, k)
		}
	}
	if t.waiters[g.owner] == nil {
		w := &waiter{owner: g.owner, Place: sorted.Place{Turn: g.number}}
		t.waiters[g.owner] = w
		t.setAside(now, w, max(now, until)+keepNumber)
	}
}

// waits returns the key that a job waits for; nil: it does not wait. Called: it may come, and its turn is kept.
func (t *Table) waits(owner admit.Owner) (k *key, called bool) {
	if w := t.waiters[owner]; w != nil {
		k, called = w.key, w.called
	}
	return k, called
}

// stepOut takes a job out of where it waits, and returns the keys that this may
// matter to.
func (t *Table) stepOut(w *waiter) (left []*key) {
	for _, k := range w.kept {
		k.give(w)
	}
	left, w.kept = w.kept, nil
	k := w.key
	if k == nil { // it is aside
		delete(t.asides, w)
		return left
	}
	if k.leave(w); k.part != nil && k.part.first == w {
		k.part.first = nil // it may have other keys when it comes back
	}
	return append(left, k)
}

func (t *Table) setAside(now int64, w *waiter, until int64) {
	if len(t.asides) == 0 {
		t.sweep = now + keepNumber
	}
	w.until, w.wake = until, nil
	t.asides[w] = struct{}{}
}

// settle calls those that may start now, and notes when to look at keys again, if
// they are to be known any longer.
func (t *Table) settle(now int64, keys ...*key) {
	for _, k := range keys {
		t.settleKey(now, k)
	}
}

func (t *Table) settleKey(now int64, k *key) {
	if k.part != nil {
		k.part.yield()
	}
	k.kept = slices.DeleteFunc(k.kept, func(p place) bool { return p.until <= now })
	for k.waiting > 0 {
		line, before := k.turn()
		if !k.open(now, before) {
			break
		}
		w := k.call(now, line)
		t.woken = append(t.woken, w.wake)
		w.wake = nil
	}
	if k.part != nil {
		t.claim(now, k)
		k.part.plan(now)
	}
	if _, idle := k.idle(now); idle {
		t.agenda.Remove(k)
		if k.limit.keys[k.name] == k {
			delete(k.limit.keys, k.name)
		}
		return
	}
	if k.Turn = k.event(now); k.Turn == never {
		t.agenda.Remove(k)
	} else {
		t.agenda.Put(k)
	}
}

// claim has this process want the permits of all keys that the first job needs which waits for one of
// a cluster's, so that it has them in the same turn. It wants none while others of its key run, which
// it comes after, or no start is near.
func (t *Table) claim(now int64, k *key) {
	var first *waiter
	p := k.part
	if k.waiting > 0 && k.running == 0 && k.paused <= now && (p.lacks() || len(p.starts) > 0) {
		first = k.lines[0].jobs[0]
	}
	if first == p.first && (first != nil || p.claimed == nil) {
		return
	}
	changed := p.claimed
	for _, c := range changed {
		c.part.claims--
	}
	if p.first, p.claimed = first, nil; first != nil {
		for _, n := range first.needs {
			if !n.Limit.shared || n.Limit.law.concurrent == 0 || n == (Need{k.limit, k.name}) {
				continue
			}
			c := n.Limit.key(n.Key) // it may have been forgotten
			c.part.claims++
			p.claimed = append(p.claimed, c)
		}
	}
	t.settle(now, append(changed, p.claimed...)...)
}

// Expire does what is due by now.
func (t *Table) Expire(now int64) {
	for len(t.agenda) > 0 && t.agenda[0].Turn <= now {
		k := t.agenda[0]
		for i := 0; i < len(k.called); {
			if w := k.called[i]; w.until <= now {
				k.misses++
				k.leave(w)
				t.setAside(now, w, now+keepNumber)
			} else {
				i++
			}
		}
		t.settle(now, k)
	}
	if len(t.asides) > 0 && t.sweep <= now {
		t.sweep = now + keepNumber
		for w := range t.asides {
			if w.until <= now {
				delete(t.waiters, w.owner)
				t.settle(now, t.stepOut(w)...)
			}
		}
	}
}

// Next is when Expire has something to do; false: it has not.
func (t *Table) Next() (at int64, ok bool) {
	at = never
	if len(t.agenda) > 0 {
		at = t.agenda[0].Turn
	}
	if len(t.asides) > 0 {
		at = min(at, t.sweep)
	}
	return at, at != never
}

// Drain returns what is to be called for the jobs that may come again.
func (t *Table) Drain() (woken []func()) {
	woken, t.woken = t.woken, nil
	return woken
}

// due returns the parts to ask for, so many at a time.
func (t *Table) due(now int64) (parts []*part) {
	for len(t.asks) > 0 && t.asks[0].Turn <= now && len(parts) < mostAsks {
		p := t.asks[0]
		t.asks.Remove(p)
		if p.forget(now) {
			t.settle(now, p.key)
		} else {
			parts = append(parts, p)
		}
	}
	return parts
}
