// Package dispatch brings shards that have jobs due and free workers together. It knows a
// shard by its [Port], a worker by its [Seat], and a queue by what it has used of the
// workers.
//
// # What is promised
//
//   - A ready shard and an idle seat are never both kept waiting, unless the dispatcher is
//     closed or held, the queue runs as many as its limit, or the [Room] that several
//     dispatchers share has no place. Places go round among those that are short of one.
//   - A queue has no more seats than its limit, but for a while after [Queue.Tune] has
//     lowered it, and for those that [Dispatcher.Excuse] does not count.
//   - Under [Fair], of the queues with the highest priority that have jobs due the one that
//     has used the least worker time for its weight comes first. A queue that had nothing to
//     do begins with what the last one had used, so it claims no time from before.
//   - The policy of the program (see [Asked]) gets a copy. It runs without a lock, from one
//     worker at a time of all that share a Room, and never on a shard's actor. When it panics,
//     ends the goroutine or names no shard, the oldest due job decides.
//   - After [Dispatcher.Close] no shard gets a seat. The channel that Close returns is closed
//     when all seats are idle.
//
// Not promised: that the order is kept between two shards that become ready together, or
// that a priority interrupts what runs.
//
// # Concurrency
//
// One lock guards it all. It is held for memory work only: a shard is granted a seat after
// it. Methods may be called from any goroutine, except that the ones of a Seat belong to its
// worker. There is no goroutine and no timer.
package dispatch

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/brief"
	"github.com/strandjobs/strand/shard"
)

// Dispatcher has the shards that wait for workers, and the workers that wait for shards.
type Dispatcher struct {
	policy Policy
	// asking is held while the policy of the program picks; it is taken before mu. Who shares room shares it.
	asking *sync.Mutex
	// strict: a shard's next job must be known before its last worker looks. So it is
	// while some queue goes before another.
	strict atomic.Bool
	born   time.Time

	// mu guards what follows, and what queues, ports and seats say is guarded. Nothing is
	// sent or called under it, but a policy of this package.
	mu     sync.Mutex
	ready  []Ready // Invariant: no idle seat, unless closed, held, or short of room
	idle   []*Seat
	tiers  []*tier // by the priorities of queues
	queues int
	seats  int
	room   *Room         // of several dispatchers; nil: all seats may work
	places int           // in it that were given to no seat yet
	closed bool          // no shard gets a seat any more
	held   bool          // no shard gets a seat until Release
	quiet  chan struct{} // closed once all seats are idle after Close
	calm   sync.Once     // closes it: some may have been so before the rest was hired
}

// New returns a dispatcher without seats.
func New(p Policy) *Dispatcher {
	return &Dispatcher{policy: p, asking: new(sync.Mutex), born: time.Now(), quiet: make(chan struct{})}
}

// next finds the next shard for a seat, which is no longer among the ready ones, or lets
// the seat be idle and returns nil. With ask, a policy of the program's decides.
func (d *Dispatcher) next(seat *Seat, ask bool) *shard.Shard {
	if ask = ask && d.policy.asked; ask {
		d.asking.Lock()
		defer d.asking.Unlock()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now() // once: to read a clock is a good part of what this takes
	d.end(seat, now)
	i := -1
	if ask && !d.closed && !d.held && len(d.ready) > 0 {
		i = d.ask()
	}
	none := d.closed || d.held || len(d.ready) == 0
	if none || !d.place() {
		if d.idle = append(d.idle, seat); none {
			d.giveBack()
		}
		d.quieten()
		return nil
	}
	if !d.policy.asked {
		d.countUp(now)
		i = d.policy.pick(d.ready)
	} else if i < 0 {
		i = oldest(d.ready)
	}
	picked, last := d.ready[i].Port, len(d.ready)-1
	d.ready[i], d.ready[last] = d.ready[last], Ready{} // their order means nothing
	d.ready = d.ready[:last]
	picked.waiting = false
	picked.Queue.waiting--
	d.begin(seat, picked.Queue, now)
	return picked.shard
}

// ask lets the policy of the program pick from a copy, without mu. It returns the index of
// that shard in ready, below zero when it is not there: the policy named no shard, or
// another worker has taken it meanwhile.
func (d *Dispatcher) ask() int {
	copied, i := slices.Clone(d.ready), -1
	func() {
		d.mu.Unlock()
		defer d.mu.Lock() // also when the policy ends the goroutine
		i = d.policy.pick(copied)
	}()
	return slices.IndexFunc(d.ready, func(c Ready) bool { return i >= 0 && i < len(copied) && c.Port == copied[i].Port })
}

// Expect says how many seats there are now. A new one begins with [Seat.Next], and one that
// goes is not idle.
func (d *Dispatcher) Expect(seats int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seats = seats
	d.quieten()
}

// quieten closes quiet when the last seat is idle.
func (d *Dispatcher) quieten() {
	if d.closed && len(d.idle) == d.seats {
		d.calm.Do(func() { close(d.quiet) })
	}
}

// Hold keeps seats from shards until Release: what is ready waits as if all of them were
// busy. Those that work go on with the run that they have.
func (d *Dispatcher) Hold() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.held = true
}

// Release ends a hold: the workers that are idle look for themselves.
func (d *Dispatcher) Release() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.held && !d.closed { // then the count of idle seats is what a stop waits for
		for _, seat := range d.idle {
			seat.Runs <- nil // which has room: it is idle
		}
		d.idle = nil
	}
	d.held = false
}

// Close stops the granting. The channel is closed once all seats are idle.
func (d *Dispatcher) Close() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed {
		d.closed = true
		d.ready = nil // what queues hold back stays there
		d.giveBack()
		d.quieten()
	}
	return d.quiet
}

// Load returns how many seats there are, and how many are not idle.
func (d *Dispatcher) Load() (seats, busy int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.seats, d.seats - len(d.idle)
}

// Excuse does not count a seat for its queue any more: its worker is stuck, and another one
// takes its place.
func (d *Dispatcher) Excuse(seat *Seat) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.end(seat, d.now())
}

// Turn says why no seat comes to a shard of a queue with a job due, which runs so many of as
// many as it may; nil: one is about to come. Of several reasons, the first of
// [inspect.Turn] counts.
func (d *Dispatcher) Turn(q *Queue, runs, most int) *inspect.Turn {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.closed || d.held:
		return nil
	case d.seats == 0:
		return &inspect.Turn{Reason: "not started"}
	case q.full():
		return &inspect.Turn{Reason: "max concurrent", Running: q.running, Of: q.limit}
	case runs >= most && most < d.seats: // by default it is all of them
		return &inspect.Turn{Reason: "concurrency", Running: runs, Of: most}
	case len(d.idle) > 0 && !d.room.full():
		return nil
	}
	t := &inspect.Turn{Reason: "workers", Running: d.seats, Of: d.seats}
	if d.policy.fair {
		d.explain(q, t)
	}
	return t
}

// explain says which queues go before one that shares the seats fairly.
func (d *Dispatcher) explain(q *Queue, t *inspect.Turn) {
	q.count(d.now())
	d.countUp(d.now())
	var higher, lower []string
	for _, c := range d.ready {
		switch its := c.Queue; {
		case its.tier.priority > q.tier.priority:
			higher = append(higher, its.Name)
		case its.tier == q.tier && its.used < q.used:
			lower = append(lower, its.Name)
		}
	}
	switch {
	case len(higher) > 0:
		t.Reason, t.Before = "priority", higher
	case len(lower) > 0:
		t.Reason, t.Before = "weight", lower
	}
	slices.Sort(t.Before)
	t.Before = slices.Compact(t.Before) // there is one for each shard
	t.More = max(len(t.Before)-brief.Most, 0)
	t.Before = t.Before[:len(t.Before)-t.More]
}

// enlist gives a queue its priority. mu is held.
func (d *Dispatcher) enlist(q *Queue, priority int) {
	i := slices.IndexFunc(d.tiers, func(t *tier) bool { return t.priority == priority })
	if i < 0 {
		i = len(d.tiers)
		d.tiers = append(d.tiers, &tier{priority: priority})
	}
	if q.tier != d.tiers[i] { // among those it has neither credit nor debt
		if q.tier != nil {
			q.tier.queues--
		}
		q.tier = d.tiers[i]
		q.tier.queues++
		q.used = q.tier.floor
	}
	inUse := 0
	for _, t := range d.tiers {
		inUse += min(t.queues, 1)
	}
	d.strict.Store(d.policy.strict || d.policy.fair && inUse > 1)
}

// Join makes a queue that shares the seats, for its owner.
func (d *Dispatcher) Join(name string, owner any, s Share) *Queue {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := &Queue{Name: name, Owner: owner, d: d, order: d.queues, weight: float64(cmp.Or(s.Weight, 1)), limit: max(s.MaxConcurrent, 0)}
	d.queues++
	d.enlist(q, s.Priority)
	return q
}

// Port is the dispatcher as one shard sees it: a [shard.Dispatcher].
type Port struct {
	Queue *Queue
	Shard int // in its queue, from 0
	Index int // among all shards

	// Guarded by the dispatcher's mu.
	shard   *shard.Shard // nil until it has offered itself
	waiting bool         // among the ready ones, or those that its queue holds back
}

// Offer implements [shard.Dispatcher].
func (p *Port) Offer(s *shard.Shard, due int64) shard.Worker {
	d := p.Queue.d
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	p.shard = s
	if p.waiting {
		for _, list := range [][]Ready{d.ready, p.Queue.held} {
			if i := slices.IndexFunc(list, func(c Ready) bool { return c.Port == p }); i >= 0 {
				list[i].Due = due
			}
		}
		return nil
	}
	if q := p.Queue; q.running+q.waiting+len(q.held) == 0 { // it had nothing to do, and claims no time from before
		q.count(d.now())
		q.used = max(q.used, q.tier.floor)
	}
	if seat := d.line(Ready{p, due}); seat != nil {
		return seat
	}
	return nil
}

// Seat is a worker as the dispatcher sees it: a [shard.Worker].
type Seat struct {
	// Runs has room for the one run that it may be assigned. Nil means: call Next.
	Runs  chan *shard.Run
	Queue *Queue // of the run; it is set before the shard assigns that

	d      *Dispatcher
	serves *Queue // nil while it works for no queue; guarded by the dispatcher's mu
}

// Seat returns a new seat. It counts from [Dispatcher.Expect] on.
func (d *Dispatcher) Seat() *Seat { return &Seat{Runs: make(chan *shard.Run, 1), d: d} }

// Assign implements [shard.Worker].
func (s *Seat) Assign(r *shard.Run) { s.Runs <- r }

// Return implements [shard.Worker]. It finds another shard for a seat whose shard has no job
// for it. It is called on the actor of that shard, where no code of the program may run:
// with its policy the worker itself has to look again.
func (s *Seat) Return() {
	s.d.mu.Lock()
	again := s.d.policy.asked && !s.d.closed
	s.d.mu.Unlock()
	if again {
		s.Runs <- nil // which has room
	} else if next := s.d.next(s, false); next != nil {
		next.Grant(s)
	}
}

// Next has the seat look for a shard, which assigns it a run; while there is none, the seat
// is idle. With ask, a policy of the program's may be asked, on this goroutine.
func (s *Seat) Next(ask bool) {
	if next := s.d.next(s, ask); next != nil {
		next.GrantHere(s)
	}
}

// NextAfter is Next for a seat that has just given a run back to a shard. While some queue
// goes before another, it looks when the shard has offered what it has next: then it returns
// true, and a nil comes through Runs.
func (s *Seat) NextAfter(in *shard.Shard) bool {
	return s.d.strict.Load() && in.Tell(func(*shard.Core) { s.Runs <- nil })
}
