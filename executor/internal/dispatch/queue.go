package dispatch

import (
	"cmp"
	"slices"
	"time"

	"github.com/strandjobs/strand/shard"
)

// Share is how a queue shares the seats with others.
type Share struct {
	Weight        int // 0 means 1
	MaxConcurrent int // seats at a time; 0 and below: any number
	Priority      int
}

// Queue is a queue's part of the seats.
type Queue struct {
	Name  string
	Owner any // for whom it was made

	d     *Dispatcher
	order int // of joining

	// What follows is guarded by the dispatcher's mu.

	weight  float64
	tier    *tier   // the queues of its priority
	limit   int     // seats at a time; 0: any number
	running int     // seats that it has
	waiting int     // its shards among the ready ones
	held    []Ready // its shards that are kept from the ready ones by the limit; Invariant: it is full

	used float64 // worker time so far, in ns, by weight; or more, if it had nothing to do
	at   time.Duration
}

// tier are the queues of one priority. It is guarded by the dispatcher's mu.
type tier struct {
	priority int
	queues   int
	floor    float64 // what the queue of it that was picked last had used
}

func (q *Queue) full() bool { return q.limit > 0 && q.running >= q.limit }

// count brings used up to date.
func (q *Queue) count(now time.Duration) {
	q.used += float64(q.running) * float64(now-q.at) / q.weight
	q.at = now
}

// now is the time on the monotonic clock, or 0 when no policy needs it.
func (d *Dispatcher) now() time.Duration {
	if !d.policy.fair {
		return 0
	}
	return time.Since(d.born)
}

// countUp brings the used worker time of the ready queues up to date.
func (d *Dispatcher) countUp(now time.Duration) {
	for _, c := range d.ready {
		c.Queue.count(now)
	}
}

// begin notes that a seat works for a shard of a queue, which is not among the ready ones.
func (d *Dispatcher) begin(seat *Seat, q *Queue, now time.Duration) {
	q.count(now)
	q.tier.floor = max(q.tier.floor, q.used)
	seat.serves, seat.Queue = q, q
	if q.running++; q.full() && q.waiting > 0 {
		d.hold(q)
	}
}

// hold moves the shards of a queue from the ready ones to those that it keeps from them.
func (d *Dispatcher) hold(q *Queue) {
	d.ready = slices.DeleteFunc(d.ready, func(c Ready) bool {
		if c.Queue == q {
			q.held = append(q.held, c)
		}
		return c.Queue == q
	})
	q.waiting = 0
}

// end notes that a seat has left its queue. The shards that the limit kept waiting are
// ready: the seat, or one that takes its place, is about to look.
func (d *Dispatcher) end(seat *Seat, now time.Duration) {
	q := seat.serves
	if q == nil {
		return
	}
	q.count(now)
	seat.serves = nil
	d.room.give()
	if q.running--; q.full() {
		return // the limit has come down
	}
	if !d.closed {
		q.waiting += len(q.held)
		d.ready = append(d.ready, q.held...)
	}
	q.held = nil
}

// Running returns how many seats work for the queue.
func (q *Queue) Running() int {
	q.d.mu.Lock()
	defer q.d.mu.Unlock()
	return q.running
}

// Share returns what holds now.
func (q *Queue) Share() Share {
	q.d.mu.Lock()
	defer q.d.mu.Unlock()
	return Share{int(q.weight), q.limit, q.tier.priority}
}

// Tune changes the share. The shards of the queue that wait stand in line anew: some may
// have a seat now, and some may have to wait longer.
func (q *Queue) Tune(s Share) {
	for seat, in := range q.tune(s) {
		in.Grant(seat)
	}
}

// tune returns the shards that seats are granted to.
func (q *Queue) tune(s Share) map[*Seat]*shard.Shard {
	d := q.d
	d.mu.Lock()
	defer d.mu.Unlock()
	q.count(d.now())
	q.weight, q.limit = float64(cmp.Or(s.Weight, 1)), max(s.MaxConcurrent, 0)
	if q.tier.priority != s.Priority {
		d.enlist(q, s.Priority)
	}
	if d.closed {
		return nil
	}
	d.hold(q)
	lined, grants := q.held, make(map[*Seat]*shard.Shard)
	q.held = nil
	for _, c := range lined {
		if seat := d.line(c); seat != nil {
			grants[seat] = c.shard
		}
	}
	return grants
}

// line returns an idle seat for a shard that has a job due, or has it wait for one.
func (d *Dispatcher) line(c Ready) *Seat {
	q := c.Queue
	c.waiting = true
	switch {
	case q.full():
		q.held = append(q.held, c)
	case len(d.idle) > 0 && !d.held && d.place():
		seat := d.take()
		c.waiting = false
		d.begin(seat, q, d.now())
		return seat
	default:
		q.waiting++
		d.ready = append(d.ready, c)
	}
	return nil
}

// take takes an idle seat. The caller has made sure that there is one.
func (d *Dispatcher) take() *Seat {
	last := len(d.idle) - 1
	seat := d.idle[last]
	d.idle = d.idle[:last]
	return seat
}
