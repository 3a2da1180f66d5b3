package executor

import "time"

// fairShare is a queue's part of the workers. It is guarded by dispatcher.mu.
type fairShare struct {
	weight  float64
	tier    *tier       // the queues of its priority
	limit   int         // jobs that may run at a time; 0: any number
	running int         // workers that work for the queue
	waiting int         // its shards among the ready ones
	held    []Candidate // its shards that are kept from the ready ones by the limit; Invariant: it is full

	used float64 // worker time so far, in ns, by weight; or more, if it had nothing to do
	at   time.Duration
}

// tier are the queues of one priority. It is guarded by dispatcher.mu.
type tier struct {
	priority int
	queues   int
	floor    float64 // what the queue of it that was picked last had used
}

func (s *fairShare) full() bool { return s.limit > 0 && s.running >= s.limit }

// count brings used up to date.
func (s *fairShare) count(now time.Duration) {
	s.used += float64(s.running) * float64(now-s.at) / s.weight
	s.at = now
}

// now is the time on the monotonic clock, or 0 when no scheduler needs it.
func (d *dispatcher) now() time.Duration {
	if !d.fair {
		return 0
	}
	return time.Since(d.born)
}

// busy has a queue begin that had nothing to do: it claims no time from before.
func (d *dispatcher) busy(s *fairShare) {
	if s.running+s.waiting+len(s.held) == 0 {
		s.count(d.now())
		s.used = max(s.used, s.tier.floor)
	}
}

// await has a shard wait for a worker.
func (d *dispatcher) await(c Candidate) {
	s := &c.port.queue.share
	d.busy(s)
	if s.full() {
		s.held = append(s.held, c)
		return
	}
	s.waiting++
	d.ready = append(d.ready, c)
}

// countUp brings what the ready queues have used up to date.
func (d *dispatcher) countUp(now time.Duration) {
	for _, c := range d.ready {
		c.port.queue.share.count(now)
	}
}

// begin notes that a worker works for a shard, which is not among the ready ones.
func (d *dispatcher) begin(w *worker, p *port, now time.Duration) {
	s := &p.queue.share
	s.count(now)
	s.tier.floor = max(s.tier.floor, s.used)
	w.serves, w.queue = s, p.queue
	if s.running++; !s.full() || s.waiting == 0 {
		return
	}
	kept := d.ready[:0]
	for _, c := range d.ready {
		if c.port.queue == p.queue {
			s.held = append(s.held, c)
		} else {
			kept = append(kept, c)
		}
	}
	clear(d.ready[len(kept):])
	d.ready, s.waiting = kept, 0
}

// end notes that a worker has left the queue. The shards that the limit kept
// waiting are ready: the worker, or one that takes its place, is about to look.
func (d *dispatcher) end(w *worker, now time.Duration) {
	s := w.serves
	if s == nil {
		return
	}
	s.count(now)
	w.serves = nil
	if s.running--; s.full() {
		return // the limit has come down
	}
	if !d.closed {
		s.waiting += len(s.held)
		d.ready = append(d.ready, s.held...)
	}
	s.held = nil
}

// excuse is end for a worker that is stuck. Another one takes its place.
func (d *dispatcher) excuse(w *worker) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.end(w, d.now())
}
