package shard

import (
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
	if l == nil {
		return false
	}
	if it := l.item(); it != nil && slices.ContainsFunc(it.Payloads[it.settled:], func(p Payload) bool { return p.Ref.Position() == at }) {
		return true
	}
	return l.hasPayload(at)
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
	Known     bool // it has something to do; otherwise the other fields but Newest are zero
	Running   bool // handed to a worker; what follows is of the payloads that wait
	Parked    bool
	Paused    bool // by itself
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
	s.LastError, _ = l.failures()
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
		o.add(c.runsOf(l.n()), due, now)
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

// runsOf returns how many runs it takes for so many payloads that wait.
func (c *looks) runsOf(payloads int) int {
	most := c.cfg.MaxPayloads
	if c.cfg.Single {
		most = 1
	}
	if most == 0 || payloads == 0 {
		return min(payloads, 1)
	}
	return (payloads + most - 1) / most
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
	_, failures := l.failures()
	d.History = slices.Clone(failures)
	d.Waiting = slices.Clone(l.held()[:min(len(l.held()), n)])
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
