// Package lane keeps the order of ids that several queues share: of the payloads of
// one id those of one queue come first, until the earliest that was accepted is
// another queue's.
//
//	id 42:  #3 created  #7 paid  #9 paid  #12 canceled
//	        └ may run   └──────── stand in line ─────┘
//
// A payload is in its lane from the instant in which it gets its position to the one
// in which its end is on record. While a job of a lane runs, no other does. Inside a
// queue its own order holds: so the queue of the earliest payload may run whichever
// of its own comes first, and no two queues ever wait for each other. A payload that
// comes back from the morgue has its old place before its queue has it: meanwhile no
// other of its queue may use its turn.
//
// It is plain data with a mutex. Wakers are called under none.
package lane

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/executor/internal/each"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// Lanes are the ids of queues that share them. The zero Lanes is ready for use, by
// any number of goroutines.
type Lanes struct {
	mu    sync.Mutex
	woken []func()                   // whose turn has come; see unlock
	byID  map[string]*lane           // Invariant: each has a payload, or a job that runs
	of    map[journal.Position]*lane // by the position of a payload

	queues map[uint32]string // that share them, by number
}

// Join adds a queue, before it has a payload.
func (l *Lanes) Join(number uint32, queue string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.queues == nil {
		l.queues = make(map[uint32]string)
	}
	l.queues[number] = queue
}

// lane is one id.
type lane struct {
	id       string
	payloads []payload         // by position
	busy     bool              // a job runs
	running  uint32            // of this queue
	wakers   map[uint32]func() // of the queues whose job waits for its turn; nil: it does not for now
}

type payload struct {
	position journal.Position
	queue    uint32
	away     bool // it comes back, and its queue does not have it yet
	anew     bool // it is back, and a job of its queue may have been taken up without it
}

// Add puts a payload in its place. One that comes before all others, from the morgue,
// calls the job of its queue that waits.
func (l *Lanes) Add(id string, position journal.Position, queue uint32) {
	l.mu.Lock()
	defer l.unlock()
	l.next(l.add(id, position, queue))
}

// unlock ends what has changed lanes: those whose turn has come are called under no mutex.
func (l *Lanes) unlock() {
	woken := l.woken
	l.woken = nil
	l.mu.Unlock()
	for _, wake := range woken {
		if wake != nil {
			wake()
		}
	}
}

func (l *Lanes) add(id string, position journal.Position, queue uint32) *lane {
	n := l.byID[id]
	if n == nil {
		if l.byID == nil {
			l.byID, l.of = make(map[string]*lane), make(map[journal.Position]*lane)
		}
		n = &lane{id: id}
		l.byID[id] = n
	}
	if _, known := l.of[position]; !known {
		l.of[position] = n
		n.payloads = slices.Insert(n.payloads, n.find(position), payload{position: position, queue: queue})
	}
	return n
}

// find returns where a position is, or belongs: most often at the end.
func (n *lane) find(position journal.Position) int {
	if last := len(n.payloads) - 1; last < 0 || n.payloads[last].position < position {
		return last + 1
	}
	i, _ := slices.BinarySearchFunc(n.payloads, position, func(p payload, q journal.Position) int { return cmp.Compare(p.position, q) })
	return i
}

// ComeBack puts payloads in their old places that are about to come back to their queue:
// until Back they hold up what comes after them, so that none of that has its turn.
func (l *Lanes) ComeBack(ids []string, positions []journal.Position, queue uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, p := range positions {
		if l.of[p] == nil {
			n := l.add(ids[i], p, queue)
			n.payloads[n.find(p)].away = true
		}
	}
}

// Back says that the queues of payloads have them again. What comes next is called.
func (l *Lanes) Back(positions ...journal.Position) {
	l.mu.Lock()
	defer l.unlock()
	for _, p := range positions {
		n := l.of[p]
		if n == nil {
			continue // it has ended
		}
		if at := &n.payloads[n.find(p)]; at.away {
			at.away, at.anew = false, true
			l.next(n)
		}
	}
}

// Remove takes payloads out that have ended, or were refused. Positions that are not
// known are passed over. What comes next is called.
func (l *Lanes) Remove(positions ...journal.Position) {
	l.mu.Lock()
	defer l.unlock()
	for _, p := range positions {
		n := l.of[p]
		if n == nil {
			continue
		}
		delete(l.of, p)
		i := n.find(p)
		queue := n.payloads[i].queue
		if i > 0 {
			n.payloads = slices.Delete(n.payloads, i, i+1)
		} else {
			n.payloads = n.payloads[1:] // most often, and however long the lane is
		}
		if wake, asked := n.wakers[queue]; asked && wake == nil && !slices.ContainsFunc(n.payloads, func(p payload) bool { return p.queue == queue }) {
			delete(n.wakers, queue) // what was set aside is gone
		}
		l.next(n)
	}
}

// Enter lets a job begin that has a payload at a position in hand, unless another
// one of its lane comes first: then wake is called once when it may try again. A
// payload that came back from the morgue gets its old place. A job that may have been
// taken up before that is called at once: its queue has to choose again.
func (l *Lanes) Enter(id string, position journal.Position, queue uint32, wake func()) bool {
	l.mu.Lock()
	defer l.unlock()
	n := l.add(id, position, queue)
	first := &n.payloads[0]
	if first.position == position {
		first.away, first.anew = false, false // it is in hand
	}
	if !n.busy && first.queue == queue && !first.away {
		delete(n.wakers, queue)
		if first.anew {
			first.anew = false
			l.woken = append(l.woken, wake)
			return false
		}
		n.busy, n.running = true, queue
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
	defer l.unlock()
	if n := l.byID[id]; n != nil {
		n.busy = false
		l.next(n)
	}
}

// next has the queue called that comes next, and forgets a lane in which there is
// nothing. mu is held.
func (l *Lanes) next(n *lane) {
	switch {
	case n.busy:
		return
	case len(n.payloads) == 0:
		delete(l.byID, n.id)
		l.woken = slices.AppendSeq(l.woken, maps.Values(n.wakers)) // what they waited with has gone
		return
	}
	first := n.payloads[0]
	if wake := n.wakers[first.queue]; wake != nil && !first.away {
		delete(n.wakers, first.queue)
		l.woken = append(l.woken, wake)
	}
}

// Before returns the job that runs in the lane of an id, or comes first there, if it is
// that of another queue, and how many payloads of others stand before those of a queue,
// maxAhead at most; false: none is before it, or it stands aside.
func (l *Lanes) Before(id string, queue uint32) (job admit.Owner, ahead int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.byID[id]
	if n == nil {
		return job, 0, false
	}
	for ahead < min(len(n.payloads), maxAhead) && n.payloads[ahead].queue != queue {
		ahead++
	}
	first := n.running
	if !n.busy {
		first = n.payloads[0].queue
	}
	wake, asked := n.wakers[queue]
	return admit.Owner{Queue: l.queues[first], ID: id}, ahead, first != queue && (wake != nil || !asked)
}

// maxAhead bounds what Before counts, so that it does not hold the mutex for long.
const maxAhead = 1 << 16

// Condition has the jobs of a queue wait for their turn in lanes that it shares.
type Condition struct {
	*Lanes
	Number uint32 // of the queue
}

// Stand gives a payload its place. Nil: the queue shares no lanes.
func (c *Condition) Stand(id string, position journal.Position) {
	if c != nil {
		c.Add(id, position, c.Number)
	}
}

// Enter implements [admit.Condition].
func (c *Condition) Enter(_ context.Context, cl *admit.Claim) (admit.Hold, error) {
	next, _ := cl.Item.InHand()
	if !c.Lanes.Enter(cl.By.ID, next.Ref.Position(), c.Number, cl.Wake) {
		return nil, admit.ErrWaits
	}
	return &hold{c.Lanes, cl.By.ID}, nil
}

// Aside implements [admit.Condition]. A job that waits for its turn blocks nobody, so there is nothing
// to give back. With forget it no longer counts as waiting until it asks again: that opens the circle
// that it has closed.
func (c *Condition) Aside(by admit.Owner, forget bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.byID[by.ID]; forget && n != nil && n.wakers[c.Number] != nil {
		n.wakers[c.Number] = nil
	}
}

// Waits implements [admit.Condition]: a job that comes after another one waits for its
// turn, also before it was asked.
func (c *Condition) Waits(by admit.Owner) []admit.Wait {
	job, _, ok := c.Before(by.ID, c.Number)
	if !ok {
		return nil
	}
	return []admit.Wait{{For: "its turn", On: []admit.Owner{job}}}
}

// Recorded implements [admit.Listener]: it takes what has ended out of its lane. Its end is
// on record by now, so that what comes next can't be before it on disk.
func (c *Condition) Recorded(change *shard.Change) {
	positions := each.Of(change.Ended, journal.Ref.Position)
	for i := range change.Buried {
		positions = append(positions, change.Buried[i].Ref.Position())
	}
	c.Remove(positions...)
}

// hold is a lane that a running job has entered.
type hold struct {
	lanes *Lanes
	id    string
}

// Release implements [admit.Hold].
func (h *hold) Release() { h.lanes.Leave(h.id) }

// Explain implements [admit.Condition].
func (c *Condition) Explain(by admit.Owner, e *inspect.Explanation) bool {
	job, ahead, ok := c.Before(by.ID, c.Number)
	if ok {
		e.Behind, e.Ahead = job.String(), ahead
	}
	return ok
}
