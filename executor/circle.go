package executor

import "github.com/strandjobs/strand/lock"

// step is one edge of a circle: who waits for key, which the next one has.
type step struct {
	by  holder
	key string
}

// circle returns the way from a request back to its own job, along jobs that
// stand in line for each other's holds, or nil. All others go on by themselves.
func (b *barrier) circle(r *request) []step {
	if len(b.waits) == 0 {
		return nil
	}
	seen := map[holder]bool{r.by: true}
	var way []step
	var follow func(q *request) bool
	follow = func(q *request) bool {
		for _, key := range q.blockedBy {
			k := b.keys[key]
			if k == nil || !k.blocks(q.by) {
				continue
			}
			way = append(way, step{q.by, key})
			if q.by != r.by && k.by[r.by] > 0 {
				return true
			}
			for by := range k.by {
				if w := b.waits[by]; w != nil && w.at != nil && !seen[by] {
					if seen[by] = true; follow(&w.request) {
						return true
					}
				}
			}
			way = way[:len(way)-1]
		}
		return false
	}
	if follow(r) {
		return way
	}
	return nil
}

func (b *barrier) named(circle []step) []lock.Hop {
	hops := make([]lock.Hop, len(circle))
	for i, s := range circle {
		next := circle[(i+1)%len(circle)].by
		hops[i] = lock.Hop{Owner: s.by.String(), Key: s.key, Holder: next.String()}
	}
	return hops
}
