package shard

import "github.com/strandjobs/strand/journal"

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
			due = max(due, c.dueBehind(l))
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

// dueBehind returns when what waits behind held payloads is due, see over.
func (c *looks) dueBehind(l *lane) int64 {
	if l.n() == 0 {
		return l.due
	}
	var e journal.Entry
	first := l.first().Ref
	c.lanes.entries.read(first, &e)
	return c.set.since(e.Due, first.Position())
}
