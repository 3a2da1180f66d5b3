package executor

import (
	"cmp"
	"slices"

	"github.com/strandjobs/strand/shard"
)

// QueueTuning is what can be changed of a queue while it runs. Its fields are those
// of [QueueConfig] and its [Share], with the same defaults and bounds.
type QueueTuning struct {
	Weight        int // default 1
	MaxConcurrent int // default, and below zero: no limit but the workers
	Priority      int // default 0
}

// check names the fields as those of a group, with its dot, or as its own.
func (t QueueTuning) check(group string) error {
	return errorsOf(
		notAbove("MaxConcurrent", t.MaxConcurrent, 1<<17),
		inRange(group+"Weight", t.Weight, 0, 1<<16),
		inRange(group+"Priority", t.Priority, -1<<16, 1<<16),
	)
}

// Tuning returns what holds for the queue now. That of a queue which no registration
// has made is zero.
func (t *Queue[T]) Tuning() QueueTuning {
	if t == nil || t.q == nil {
		return QueueTuning{}
	}
	return t.q.tuning()
}

// Tune sets how the queue shares the workers with others, from the next grant of a
// worker on; what runs goes on. All fields count, so that to change one of them
// begins with those that hold:
//
//	tuning := queue.Tuning()
//	tuning.Weight = 5
//	err := queue.Tune(tuning)
//
// It is for this process: after a restart the [QueueConfig] holds again. It returns
// ErrConfig, or ErrState for a queue that no registration has made; then it is as it
// was. After Stop it has no effect.
func (t *Queue[T]) Tune(tuning QueueTuning) error {
	if t == nil || t.q == nil {
		return errNoQueue
	}
	return t.q.tune(tuning)
}

func (q *queue) tuning() QueueTuning {
	d := q.x.dispatcher
	d.mu.Lock()
	defer d.mu.Unlock()
	return QueueTuning{int(q.share.weight), q.share.limit, q.share.tier.priority}
}

func (q *queue) tune(t QueueTuning) error {
	if err := t.check(""); err != nil {
		return err
	}
	for _, g := range q.x.dispatcher.tune(q, t) {
		g.shard.Grant(g.worker)
	}
	return nil
}

// join has a new queue share the workers.
func (d *dispatcher) join(q *queue) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.enlist(&q.share, q.share.tier.priority)
}

// enlist gives a queue its priority. mu is held.
func (d *dispatcher) enlist(s *fairShare, priority int) {
	i := slices.IndexFunc(d.tiers, func(t *tier) bool { return t.priority == priority })
	if i < 0 {
		i = len(d.tiers)
		d.tiers = append(d.tiers, &tier{priority: priority})
	}
	if s.tier != d.tiers[i] { // among those it has neither credit nor debt
		s.tier.queues--
		s.tier = d.tiers[i]
		s.tier.queues++
		s.used = s.tier.floor
	}
	inUse := 0
	for _, t := range d.tiers {
		inUse += min(t.queues, 1)
	}
	d.strict.Store(d.inOrder || d.fair && inUse > 1)
}

// granted is a worker that a shard is to have.
type granted struct {
	shard  *shard.Shard
	worker *worker
}

// tune changes the share of a queue. Its shards that wait stand in line anew: some
// may have a worker now, and some may have to wait longer.
func (d *dispatcher) tune(q *queue, t QueueTuning) (grants []granted) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s, now := &q.share, d.now()
	s.count(now)
	s.weight, s.limit = float64(cmp.Or(t.Weight, 1)), max(t.MaxConcurrent, 0)
	if s.tier.priority != t.Priority {
		d.enlist(s, t.Priority)
	}
	if d.closed {
		return nil
	}
	lined := s.held
	s.held, s.waiting = nil, 0
	d.ready = slices.DeleteFunc(d.ready, func(c Candidate) bool {
		if c.port.queue == q {
			lined = append(lined, c)
		}
		return c.port.queue == q
	})
	for _, c := range lined {
		n := len(d.idle)
		switch {
		case s.full():
			s.held = append(s.held, c)
		case n == 0 || d.held:
			s.waiting++
			d.ready = append(d.ready, c)
		default:
			w := d.idle[n-1]
			d.idle = d.idle[:n-1]
			c.port.waiting = false
			d.begin(w, c.port, now)
			grants = append(grants, granted{c.port.shard, w})
		}
	}
	return grants
}
