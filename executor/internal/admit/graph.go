package admit

import (
	"slices"
	"sync"

	"github.com/strandjobs/strand/lock"
)

// Graph finds jobs that wait for each other in a circle: over all conditions, and over the
// calls of handlers that wait for the end of other jobs. Who is about to close a circle
// asks, and stands in its line by then: so of several at least one sees it.
type Graph struct {
	Lists func(queue string) *List

	// mu guards what follows, and makes searches come one after the other. Conditions
	// are asked under it, and nothing asks the graph that holds anything.
	mu    sync.Mutex
	calls []*Call
}

// Call is a running call of a handler that waits for the end of a job.
type Call struct {
	Attempt any     // one value for each call of a handler
	From    []Owner // the jobs that it has in hand
	To      Owner
	Over    func() bool
}

// Begin has a call wait, until End. It returns the circle that this would close; ok is
// false, too, when the calls of so many workers would all wait.
func (g *Graph) Begin(c *Call, workers int) (circle []lock.Hop, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls = slices.DeleteFunc(g.calls, func(c *Call) bool { return c.Over() })
	g.calls = append(g.calls, c)
	waiting := make(map[any]bool)
	for _, c := range g.calls {
		waiting[c.Attempt] = true
	}
	for _, by := range c.From {
		if circle = g.circle(by); circle != nil {
			break
		}
	}
	if ok = circle == nil && len(waiting) < workers; !ok {
		g.calls = g.calls[:len(g.calls)-1]
	}
	return circle, ok
}

// End ends a wait. One that did not begin has no effect.
func (g *Graph) End(c *Call) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls = slices.DeleteFunc(g.calls, func(o *Call) bool { return o == c })
}

// Len counts the calls that wait.
func (g *Graph) Len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.calls)
}

// Closed returns the circle that a job has closed which stands in a line; nil: none. Then
// it has left that line. Most have nothing for which others wait, and are in no circle: to
// look at all that have what a job waits for would take long, with others behind it.
func (g *Graph) Closed(by Owner) (circle []lock.Hop) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.Lists(by.Queue).has(by) && !slices.ContainsFunc(g.calls, func(c *Call) bool { return c.To == by }) {
		return nil
	}
	if circle = g.circle(by); circle != nil {
		g.Lists(by.Queue).Aside(by, true)
	}
	return circle
}

// circle returns the circle that a job is in. It is looked for twice: the conditions are
// not asked in one instant, but a circle stays, and what has only looked like one goes.
func (g *Graph) circle(by Owner) []lock.Hop {
	if g.search(by) == nil {
		return nil
	}
	return g.search(by)
}

// searched bounds how many jobs a search looks at: one that finds no end finds no circle.
const searched = 1 << 16

// search looks for a circle of waits through a job. A job that waits for any one of
// several is stuck if all of them are; a job that waits for several, if one is.
func (g *Graph) search(by Owner) []lock.Hop {
	first := g.waits(by)
	if !slices.ContainsFunc(first, func(w Wait) bool {
		return slices.ContainsFunc(w.On, func(o Owner) bool { return len(g.waits(o)) > 0 })
	}) {
		return nil // most often
	}
	waits := map[Owner][]Wait{by: first}
	seen := []Owner{by}
	for i := 0; i < len(seen); i++ {
		for _, w := range waits[seen[i]] {
			for _, next := range w.On {
				if _, known := waits[next]; !known && len(seen) < searched {
					waits[next] = g.waits(next)
					seen = append(seen, next)
				}
			}
		}
	}
	goesOn := make(map[Owner]bool, len(seen))
	stuck := func(o Owner) bool { _, known := waits[o]; return known && !goesOn[o] }
	for changed := true; changed; {
		changed = false
		for _, o := range slices.Backward(seen) {
			if stuck(o) && !slices.ContainsFunc(waits[o], func(w Wait) bool { return w.stuck(stuck) }) {
				goesOn[o], changed = true, true
			}
		}
	}
	if goesOn[by] {
		return nil
	}
	return path(by, by, waits, stuck, make(map[Owner]bool))
}

// stuck reports whether the wait can't end if the jobs for which stuck is true never move: with Any, if all of On are
// stuck, and otherwise if one of them is.
func (w *Wait) stuck(stuck func(Owner) bool) bool {
	if w.Any {
		return len(w.On) > 0 && !slices.ContainsFunc(w.On, func(o Owner) bool { return !stuck(o) })
	}
	return slices.ContainsFunc(w.On, stuck)
}

// path returns the way from a job over jobs that are stuck to another one.
func path(at, end Owner, waits map[Owner][]Wait, stuck func(Owner) bool, seen map[Owner]bool) []lock.Hop {
	seen[at] = true
	for _, w := range waits[at] {
		if !w.stuck(stuck) {
			continue
		}
		for _, next := range w.On {
			hop := lock.Hop{Owner: at.String(), Key: w.For, Holder: next.String()}
			if next == end {
				return []lock.Hop{hop}
			}
			if stuck(next) && !seen[next] {
				if rest := path(next, end, waits, stuck, seen); rest != nil {
					return append([]lock.Hop{hop}, rest...)
				}
			}
		}
	}
	return nil
}

// waits returns what a job waits for, in lines and in calls of its handler. mu is held.
func (g *Graph) waits(by Owner) (all []Wait) {
	for _, c := range g.Lists(by.Queue).All() {
		all = append(all, c.Waits(by)...)
	}
	for _, c := range g.calls {
		if slices.Contains(c.From, by) {
			all = append(all, Wait{For: "the end", On: []Owner{c.To}})
		}
	}
	return all
}
