package shard

import (
	"math/bits"
	"slices"

	"github.com/strandjobs/strand/journal"
)

// looks shows what there is. Its methods change nothing.
type looks struct{ ends }

// Has reports whether an id has anything to do.
func (c *looks) Has(id string) bool { return c.lanes.find([]byte(id)) != nil }

// HasPayload reports whether the payload at a position waits for its id or runs.
func (c *looks) HasPayload(id string, at journal.Position) bool {
	l := c.lanes.find([]byte(id))
	return l != nil && !l.payload(at).IsZero()
}

// HasAny reports whether one of the payloads at some positions, in ascending order,
// waits for its id.
func (c *looks) HasAny(id string, of []journal.Position) bool {
	l := c.lanes.find([]byte(id))
	return l != nil && l.hasAny(func(p Payload) bool {
		_, found := slices.BinarySearch(of, p.Ref.Position())
		return found
	})
}

// FirstWaiting returns the payload of an id that is to run next, of those that don't
// run yet, and when; 0: none waits.
func (c *looks) FirstWaiting(id string) (at journal.Position, due int64) {
	l := c.lanes.find([]byte(id))
	if l == nil {
		return 0, 0
	}
	if it := l.item(); it != nil {
		next := 0
		if it.state.Load() == started {
			next = len(it.Payloads)
			if c.cfg.Single {
				next = int(it.passed.Load()) + 1
			}
		}
		if next < len(it.Payloads) {
			return it.Payloads[next].Ref.Position(), it.Due
		}
	}
	if l.empty() {
		return 0, 0
	}
	return l.upNext().Ref.Position(), l.due
}

// Counts returns the figures of the shard.
func (c *looks) Counts() Counts {
	c.counts.Jobs = c.lanes.len()
	return c.counts
}

// Oldest returns when the oldest payload that waits or runs was accepted, or put back from
// the morgue, as Unix time in nanoseconds and up to a second too early; 0: there is none.
func (c *looks) Oldest() int64 { return c.ages.oldest() }

// Status is what a person wants to know about an id.
type Status struct {
	Known     bool // it has something to do; otherwise the other fields but Newest are zero, also those of the shard
	Running   bool // handed to a worker; what follows is of the payloads that wait
	Parked    bool
	Paused    bool // the id itself is, and not only a prefix of it, or the shard
	Halted    bool
	Due       int64 // Unix ns
	Retry     int   // −1 new, 0 failed once, …
	LastError string
	Payloads  int // that wait, or failed and wait to be retried

	Newest *float64 // the score of the newest version that was done, under MergeSupersede; nil: none is known

	Runs, Concurrency int // of the shard: what counts against its Config.Concurrency, and that
}

// Status describes an id.
func (c *looks) Status(id string) (s Status) {
	if ran := c.rested.byID[id].ran; ran.at != 0 && !ran.isBorder() {
		s.Newest = &ran.score
	}
	l := c.lanes.find([]byte(id))
	if l == nil {
		return s
	}
	held := c.held[id]
	s = Status{
		Known: true, Newest: s.Newest, Running: l.item() != nil, Parked: held&^HoldPause != 0, Paused: held&HoldPause != 0, Halted: l.halted,
		Due: l.due, Retry: l.retry(), Payloads: l.n() + len(l.held()),
		Runs: len(c.runs) - c.exempt, Concurrency: c.cfg.Concurrency,
	}
	s.LastError, _ = l.known().failures()
	return s
}

// Outlook is what waits in a shard, and the runs that it takes if all succeed.
type Outlook struct {
	Fresh, Retrying, Halted int // jobs; a job that is halted is neither of the others
	Due, Delayed            int // runs, of jobs that are not halted
}

// Outlook looks ahead without letting anything run: it takes no more than a look at
// each lane. Call it while no run is out.
func (c *looks) Outlook(now int64) (o Outlook) {
	most := c.cfg.MaxPayloads // in a run
	if c.cfg.Single {
		most = 1
	}
	for l := range c.lanes.all() {
		switch {
		case l.halted:
			o.Halted++
			continue
		case l.retry() >= 0:
			o.Retrying++
		default:
			o.Fresh++
		}
		due := l.due
		if l.holds() {
			o.add(1, due, now)
			if l.n() > 0 { // what waits behind is due when the first of it is, see over
				var e journal.Entry
				due = max(due, c.firstDue(now, l, &e))
			}
		}
		runs := min(l.n(), 1)
		if most > 0 {
			runs = (l.n() + most - 1) / most
		}
		o.add(runs, due, now)
	}
	return o
}

func (o *Outlook) add(runs int, due, now int64) {
	if due <= now {
		o.Due += runs
	} else {
		o.Delayed += runs
	}
}

// Detail is all that a shard knows of a job.
type Detail struct {
	View
	History journal.History // of failures; LastError is the last one
	InHand  []Payload       // those that run, as far as they did not end
	Waiting []Payload       // those that wait behind them, in their order
}

// Detail shows the job of an id, with n payloads of each kind at most.
func (c *looks) Detail(id string, now int64, n int) (d Detail, ok bool) {
	l := c.lanes.find([]byte(id))
	if l == nil {
		return d, false
	}
	c.show(Cursor(l.number), now, &d.View)
	d.ID = id
	_, failures := l.known().failures()
	d.History, d.Waiting = slices.Clone(failures), slices.Clone(l.held()[:min(len(l.held()), n)])
	if it := l.item(); it != nil {
		hand := it.Payloads[it.settled:]
		d.InHand = slices.Clone(hand[:min(len(hand), n)])
	}
	if b := l.bag(); b != nil {
		d.Waiting = append(d.Waiting, b.some(n-len(d.Waiting))...)
	} else if l.n() == 1 && len(d.Waiting) < n {
		d.Waiting = append(d.Waiting, l.one)
	}
	return d, true
}

// Cursor is a place in a walk over the jobs of a shard: that of the job last seen.
// The walk begins at zero.
//
// It is the number of a lane, which a lane keeps for its life, whatever else comes
// and goes and however the table of ids grows or shrinks. So a walk sees each job
// that is there all the time exactly once; one that comes or goes meanwhile, once
// or not at all, and an id that goes and comes back may be seen twice. Numbers are
// those of one process: a restart gives others.
type Cursor uint32

// View is a job as a walk shows it. It takes no look at the journal.
type View struct {
	Cursor Cursor

	// Several may be true, and the first says what it does. None: it is due, and waits for a worker.
	Running bool // handed to a worker
	Halted  bool // waits for RunNow
	Parked  bool // held: it waits for a lock or a slot, is suspected, or is paused
	Delayed bool // due later

	ID        string      // "": it is that of First, see Identify
	First     journal.Ref // the payload that runs, or comes next; zero: none that is known
	Due       int64       // Unix ns; of one that runs, that of what waits behind
	Retry     int         // −1 new, 0 failed once, …
	LastError string
	Payloads  int // that wait, or are in hand
}

// Scan calls f for the jobs behind a place, and returns the place that it came to,
// from where the next call goes on, and whether there may be more. It looks at n
// places at most, free ones among them; 63 free ones that stand together count as
// one. A thousand take some 20 µs. f gets a View that is valid during the call, and
// may use the core and change its jobs.
func (c *looks) Scan(after Cursor, n int, now int64, f func(*View)) (last Cursor, more bool) {
	var v View
	for last = after; n > 0 && !c.broken(); n-- {
		at := last + 1
		if int(at>>slabBits) >= len(c.lanes.slabs) {
			return last, false
		}
		used := c.lanes.slabs[at>>slabBits].used() &^ (1<<(at&slabLanes) - 1)
		if used == 0 {
			last = at | slabLanes
			continue
		}
		last = at&^slabLanes | Cursor(bits.TrailingZeros64(used))
		c.show(last, now, &v)
		f(&v)
	}
	return last, !c.broken()
}

// ScanBack is Scan the other way: it calls f for the jobs before a place, the last one
// first, or for all of them if that is zero. f must not change the jobs of the core.
func (c *looks) ScanBack(before Cursor, n int, now int64, f func(*View)) (last Cursor, more bool) {
	var v View
	end := Cursor(len(c.lanes.slabs)) << slabBits // those behind it have gone meanwhile
	if last = before; last == 0 || last > end {
		last = end
	}
	for ; n > 0 && last != 0 && !c.broken(); n-- {
		at := last - 1
		used := c.lanes.slabs[at>>slabBits].used() & (1<<(at&slabLanes+1) - 1)
		if last = at &^ slabLanes; used == 0 {
			continue
		}
		last |= Cursor(bits.Len64(used) - 1)
		c.show(last, now, &v)
		f(&v)
	}
	return last, last != 0 && !c.broken()
}

// Look shows the job at a place, as Scan does. It reports false when there is none.
func (c *looks) Look(at Cursor, now int64, v *View) bool {
	if c.broken() || int(at>>slabBits) >= len(c.lanes.slabs) || c.lanes.slabs[at>>slabBits].used()>>(at&slabLanes)&1 == 0 {
		return false
	}
	c.show(at, now, v)
	return true
}

// Identify sets the ID of a View in the visit in which it was shown. It may read the
// disk; see Ref.Peek for what a caller can do behind the visit.
func (c *looks) Identify(v *View) {
	if v.ID == "" {
		v.ID = string(c.lanes.at(number(v.Cursor)).id(&c.lanes.entries))
	}
}

// Payload returns the payload at a position if the job of a View has it, in the visit in which
// that was shown; zero: it does not. It takes no look at the journal.
func (c *looks) Payload(v *View, at journal.Position) journal.Ref {
	return c.lanes.at(number(v.Cursor)).payload(at)
}

func (c *looks) show(at Cursor, now int64, v *View) {
	l := c.lanes.at(number(at))
	if l.rest == nil { // as most are, of which there may be millions
		*v = View{Cursor: at, Halted: l.halted, Parked: l.standing == absent, Delayed: l.due > now, First: l.one.Ref, Due: l.due, Retry: -1}
		if !l.one.Ref.IsZero() {
			v.Payloads = 1
		}
		return
	}
	*v = View{
		Cursor: at, Halted: l.halted, Parked: l.standing == absent, Delayed: l.due > now,
		ID: l.rest.id, First: l.upNext().Ref, Due: l.due, Retry: l.retry(), Payloads: l.n() + len(l.held()),
	}
	v.LastError, _ = l.known().failures()
	if it := l.item(); it != nil { // of its fields only what the worker never writes
		hand := it.Payloads[it.settled:]
		v.Running, v.ID, v.First = true, it.ID, hand[0].Ref
		v.Payloads += len(hand)
	}
}
