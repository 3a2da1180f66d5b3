package main

import (
	"regexp"
	"time"

	"github.com/strandjobs/strand/bench/peers/peer"
)

// budget is how much the cases may take.
type budget struct {
	target   time.Duration // of one measurement
	most     int           // jobs of one
	backlog  int           // jobs of one that enqueues them all first
	ids      []int
	shapes   []string
	handlers []time.Duration // what they take
	rounds   int             // of every case
	atMost   int             // rounds of what is not steady
	limit    time.Duration   // after which nothing gets more than its rounds; with a list no round begins that would end later
	only     *regexp.Regexp  // what is asked; nil: everything
	list     []task          // what is asked instead of what ids, shapes and handlers make
}

var (
	// A backlog of 500,000 jobs fits into Strand's memory budget; one that does
	// not is its own workload, large backlog.
	full = budget{
		target: 400 * time.Millisecond, most: 2_000_000, backlog: 500_000,
		ids: []int{1000, 1, 100_000}, shapes: []string{together, inTurn}, handlers: []time.Duration{0, time.Millisecond},
		rounds: 3, atMost: 9, limit: 14 * time.Minute,
	}
	quick = budget{
		target: 400 * time.Millisecond, most: 500_000, backlog: 500_000,
		ids: []int{1000}, shapes: []string{together}, handlers: []time.Duration{0}, rounds: 1, atMost: 1,
	}
)

// cases returns what is asked of every peer.
func (b budget) cases() (all []task) {
	add := func(t task) {
		if b.only != nil && !b.only.MatchString(t.Describe()) {
			return
		}
		t.Target, t.Most = b.target, b.most
		if t.Shape == inTurn {
			t.Most = b.backlog
		}
		all = append(all, t)
	}
	for _, t := range b.list {
		add(t)
	}
	if b.list != nil {
		return all
	}
	add(task{Shape: together, IDs: b.ids[0], Handler: b.handlers[0]})
	add(task{Shape: together, IDs: b.ids[0], Handler: b.handlers[0], Single: true})
	add(alone)
	add(task{Shape: idle, IDs: b.ids[0]})
	for _, handler := range b.handlers {
		for _, ids := range b.ids {
			for _, shape := range b.shapes {
				if handler != b.handlers[0] || ids != b.ids[0] || shape != together {
					add(task{Shape: shape, IDs: ids, Handler: handler})
				}
			}
		}
	}
	return all
}

// of returns the series of one case, one for each peer that it is for.
func (t task) of(peers []peer.Peer) (all []*series) {
	for _, p := range peers {
		if t.Single && t.Callers == 0 && p.Bulk == 1 {
			continue // it is what the first case has measured
		}
		if (t.Tx || t.Standby) && !p.Served || p.OneLog && (t.Single || t.Shape == idle) {
			continue
		}
		t.Peer = p.Name
		all = append(all, &series{task: t, promise: p.Promise})
	}
	return all
}
