package await

import (
	"slices"
	"sync"

	"github.com/strandjobs/strand/lock"
)

// Graph knows which running jobs wait for which. The zero Graph has none. Only calls
// that handlers make are in it: what waits outside of a job keeps no job from its
// end.
type Graph struct {
	// mu guards what follows. Nothing is called under it.
	mu    sync.Mutex
	edges []*Edge
}

// Edge is a running call of a handler that waits for a payload.
type Edge struct {
	Call   any          // one value for each call of a handler
	From   []lock.Owner // the jobs that the call has in hand; Queue is what an id is alone in
	To     lock.Owner   // that of the payload
	Waiter *Waiter

	// Asker and Asked are the queues of From and To as people know them: queues may
	// share their ids.
	Asker, Asked string
}

// Enter has a call of a handler wait for a payload, until Leave. It refuses when jobs
// would wait for each other, and returns them by the queues that people know, from the
// first to itself again, which may be under the name of another queue; and when the calls of so many workers would all wait: then there is no cycle.
func (g *Graph) Enter(e *Edge, workers int) (cycle []lock.Owner, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.edges = slices.DeleteFunc(g.edges, func(e *Edge) bool { return e.Waiter.Over() })
	if path := g.path(e.To, e.Asked, e.From, make(map[lock.Owner]bool)); path != nil {
		return append([]lock.Owner{{Queue: e.Asker, ID: path[len(path)-1].ID}}, path...), false
	}
	calls := map[any]bool{e.Call: true}
	for _, e := range g.edges {
		calls[e.Call] = true
	}
	if len(calls) >= workers {
		return nil, false
	}
	g.edges = append(g.edges, e)
	return nil, true
}

// path returns the jobs between at, which was asked of a queue, and one of the ends, both
// included; nil: none of these is waited for. mu is held.
func (g *Graph) path(at lock.Owner, asked string, ends []lock.Owner, seen map[lock.Owner]bool) []lock.Owner {
	here := lock.Owner{Queue: asked, ID: at.ID}
	if slices.Contains(ends, at) {
		return []lock.Owner{here}
	}
	if seen[at] {
		return nil
	}
	seen[at] = true
	for _, e := range g.edges {
		if !slices.Contains(e.From, at) {
			continue
		}
		if path := g.path(e.To, e.Asked, ends, seen); path != nil {
			return append([]lock.Owner{here}, path...)
		}
	}
	return nil
}

// Leave ends a wait. One that did not begin has no effect.
func (g *Graph) Leave(e *Edge) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.edges = slices.DeleteFunc(g.edges, func(o *Edge) bool { return o == e })
}

// Len counts the calls that wait.
func (g *Graph) Len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.edges)
}
