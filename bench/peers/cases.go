package main

import (
	"cmp"
	"slices"
	"time"

	"github.com/strandjobs/strand/bench/peers/peer"
)

// budget is how much the cases may take.
type budget struct {
	target   time.Duration // of one case
	most     int           // jobs of a case
	ids      []int
	shapes   []string
	handlers []time.Duration // what they take
	rounds   int             // of the cases with the first of each
}

var (
	full = budget{
		target: 1500 * time.Millisecond, most: 2_000_000, ids: []int{1000, 1, 100_000}, shapes: []string{together, inTurn},
		handlers: []time.Duration{0, time.Millisecond}, rounds: 3,
	}
	quick = budget{
		target: 400 * time.Millisecond, most: 500_000, ids: []int{1000}, shapes: []string{together},
		handlers: []time.Duration{0}, rounds: 1,
	}
)

// tasks returns the cases of some peers. The same case of all peers comes
// together, and rounds come one after the other, so that all see the same
// machine.
func (b budget) tasks(peers []peer.Peer) (all []task) {
	add := func(t task) {
		t.Target, t.Most = b.target, b.most
		for _, p := range peers {
			if t.Single && p.Bulk == 1 {
				continue // it is what the first case has measured
			}
			t.Peer = p.Name
			all = append(all, t)
		}
	}
	for range b.rounds {
		add(task{Shape: together, IDs: b.ids[0], Handler: b.handlers[0]})
		add(task{Shape: together, IDs: b.ids[0], Handler: b.handlers[0], Single: true})
		add(task{Shape: idle, IDs: b.ids[0]})
	}
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

// medians has one outcome for each task: the middle one of its rounds, among
// those that worked.
func medians(all []outcome) (middle []outcome) {
	rounds := map[task][]outcome{}
	var order []task
	for _, o := range all {
		if rounds[o.task] == nil {
			order = append(order, o.task)
		}
		rounds[o.task] = append(rounds[o.task], o)
	}
	for _, t := range order {
		same := rounds[t]
		if worked := slices.DeleteFunc(slices.Clone(same), func(o outcome) bool { return o.Failed != "" }); len(worked) > 0 {
			same = worked
		}
		slices.SortStableFunc(same, func(a, b outcome) int { return cmp.Compare(a.figure(), b.figure()) })
		middle = append(middle, same[len(same)/2])
	}
	return middle
}

// figure is what an outcome is about.
func (o *outcome) figure() float64 {
	if o.Latency != nil {
		return o.Latency.P50
	}
	return o.Rate
}
