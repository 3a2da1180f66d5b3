package lane

import (
	"cmp"
	"maps"
	"slices"
	"sync"
)

// Lanes are the ids of queues that share them. The zero Lanes is ready for use, by
// any number of goroutines.
type Lanes struct {
	mu   sync.Mutex
	byID map[string]*lane // Invariant: each has a payload, or a job that runs
	of   map[uint64]*lane // by the position of a payload
}

// lane is one id.
type lane struct {
	id       string
	payloads []payload         // by position
	busy     bool              // a job runs
	running  uint32            // of this queue
	wakers   map[uint32]func() // of the queues whose job waits for its turn
}

type payload struct {
	position uint64
	queue    uint32
}

// Add puts a payload in its place. One that comes before all others, from the morgue,
// calls the job of its queue that waits.
func (l *Lanes) Add(id string, position uint64, queue uint32) {
	l.mu.Lock()
	wakers := l.next(l.add(id, position, queue), nil)
	l.mu.Unlock()
	call(wakers)
}

func (l *Lanes) add(id string, position uint64, queue uint32) *lane {
	n := l.byID[id]
	if n == nil {
		if l.byID == nil {
			l.byID, l.of = make(map[string]*lane), make(map[uint64]*lane)
		}
		n = &lane{id: id}
		l.byID[id] = n
	}
	if _, known := l.of[position]; !known {
		l.of[position] = n
		n.payloads = slices.Insert(n.payloads, n.find(position), payload{position, queue})
	}
	return n
}

// find returns where a position is, or belongs: most often at the end.
func (n *lane) find(position uint64) int {
	if last := len(n.payloads) - 1; last < 0 || n.payloads[last].position < position {
		return last + 1
	}
	i, _ := slices.BinarySearchFunc(n.payloads, position, func(p payload, q uint64) int { return cmp.Compare(p.position, q) })
	return i
}

// Remove takes payloads out that have ended, or were refused. Positions that are not
// known are passed over. What comes next is called.
func (l *Lanes) Remove(positions ...uint64) {
	var wakers []func()
	l.mu.Lock()
	for _, p := range positions {
		n := l.of[p]
		if n == nil {
			continue
		}
		delete(l.of, p)
		n.remove(p)
		wakers = l.next(n, wakers)
	}
	l.mu.Unlock()
	call(wakers)
}

func (n *lane) remove(position uint64) {
	if i := n.find(position); i > 0 {
		n.payloads = slices.Delete(n.payloads, i, i+1)
		return
	}
	n.payloads = n.payloads[1:] // most often, and however long the lane is
}

// Enter lets a job begin that has a payload at a position in hand, unless another
// one of its lane comes first: then wake is called once when it may try again. A
// payload that came back from the morgue gets its old place.
func (l *Lanes) Enter(id string, position uint64, queue uint32, wake func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.add(id, position, queue)
	if !n.busy && n.payloads[0].queue == queue {
		n.busy, n.running = true, queue
		delete(n.wakers, queue)
		return true
	}
	if n.wakers == nil {
		n.wakers = make(map[uint32]func())
	}
	n.wakers[queue] = wake
	return false
}

// Leave ends what Enter began. What comes next is called.
func (l *Lanes) Leave(id string) {
	l.mu.Lock()
	var wakers []func()
	if n := l.byID[id]; n != nil {
		n.busy = false
		wakers = l.next(n, nil)
	}
	l.mu.Unlock()
	call(wakers)
}

// next adds the waker of the queue that comes next, and forgets a lane in which there
// is nothing. mu is held.
func (l *Lanes) next(n *lane, wakers []func()) []func() {
	if n.busy {
		return wakers
	}
	if len(n.payloads) == 0 {
		delete(l.byID, n.id)
		return slices.AppendSeq(wakers, maps.Values(n.wakers)) // what they waited with has gone
	}
	first := n.payloads[0].queue
	if wake := n.wakers[first]; wake != nil {
		delete(n.wakers, first)
		wakers = append(wakers, wake)
	}
	return wakers
}

func call(wakers []func()) {
	for _, wake := range wakers {
		wake()
	}
}

// First returns the queue whose job of an id runs, or comes first; false: there is
// none.
func (l *Lanes) First(id string) (queue uint32, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.byID[id]
	switch {
	case n == nil:
		return 0, false
	case n.busy:
		return n.running, true
	}
	return n.payloads[0].queue, true
}
