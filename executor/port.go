package executor

import (
	"slices"

	"github.com/strandjobs/strand/shard"
)

// port is the dispatcher as one shard sees it.
type port struct {
	dispatcher *dispatcher
	queue      *queue
	candidate  Candidate

	// Guarded by dispatcher.mu.
	shard   *shard.Shard // nil until it has offered itself, which may be before register has it
	waiting bool         // among the ready ones, or those that its queue holds back
}

// Offer implements [shard.Dispatcher].
func (p *port) Offer(s *shard.Shard, due int64) shard.Worker {
	d := p.dispatcher
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	p.shard = s
	if p.waiting {
		p.postpone(due)
		return nil
	}
	if n := len(d.idle); n > 0 && !d.held && !p.queue.share.full() {
		w := d.idle[n-1]
		d.idle = d.idle[:n-1]
		d.busy(&p.queue.share)
		d.begin(w, p, d.now())
		return w
	}
	p.waiting = true
	c := p.candidate
	c.due, c.port = due, p
	d.await(c)
	return nil
}

// postpone changes since when a shard that waits has had something due.
func (p *port) postpone(due int64) {
	for _, list := range [][]Candidate{p.dispatcher.ready, p.queue.share.held} {
		if i := slices.IndexFunc(list, func(c Candidate) bool { return c.port == p }); i >= 0 {
			list[i].due = due
		}
	}
}
