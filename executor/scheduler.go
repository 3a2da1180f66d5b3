package executor

import (
	"slices"
	"sync"
	"time"

	"github.com/strandjobs/strand/shard"
)

// Scheduler decides which shard gets the next free worker.
type Scheduler interface {
	// Pick returns the index in ready, which is never empty. It is called from
	// one goroutine at a time and must not block. If it panics, or the index is
	// out of range, [Lag] decides.
	Pick(ready []Candidate) int
}

// Candidate is a shard that has a job due.
type Candidate struct {
	Queue string
	Shard int // in its queue, from 0
	Index int // among all shards of the executor, in order of registration
	queue int // among all queues, in order of registration
	due   int64
	port  *port
}

// Due returns since when the oldest job of the shard has been due.
func (c Candidate) Due() time.Time { return time.Unix(0, c.due) }

// Lag returns the scheduler that picks the shard with the oldest due job. No
// shard starves: a job that waits only gets older.
func Lag() Scheduler { return lag{} }

type lag struct{}

func (lag) Pick(ready []Candidate) int {
	best := 0
	for i := range ready {
		if ready[i].due < ready[best].due {
			best = i
		}
	}
	return best
}

// Seq returns a scheduler that goes round: each shard with a job due in turn.
func Seq() Scheduler { return &seq{last: -1} }

type seq struct{ last int }

func (s *seq) Pick(ready []Candidate) int {
	next, lowest := -1, 0
	for i := range ready {
		if ready[i].Index < ready[lowest].Index {
			lowest = i
		}
		if ready[i].Index > s.last && (next < 0 || ready[i].Index < ready[next].Index) {
			next = i
		}
	}
	if next < 0 {
		next = lowest
	}
	s.last = ready[next].Index
	return next
}

// InOrder returns the scheduler that picks the queue that was registered first,
// and of its shards the one with the oldest due job: the order of queues is their
// priority. A queue waits as long as those before it have jobs that can run; jobs
// that wait for a lock don't count.
func InOrder() Scheduler { return inOrder{} }

type inOrder struct{}

func (inOrder) Pick(ready []Candidate) int {
	best := 0
	for i, c := range ready {
		b := ready[best]
		if c.queue < b.queue || (c.queue == b.queue && c.due < b.due) {
			best = i
		}
	}
	return best
}

// dispatcher brings shards that have jobs due and free workers together.
type dispatcher struct {
	// picking is held while the scheduler picks; it is taken before mu. The
	// scheduler may be user code, which runs on workers only, and not under mu.
	picking   sync.Mutex
	scheduler Scheduler
	builtin   bool // the scheduler is ours: it may run under mu, and on actors
	strict    bool // a shard's next job must be known before its last worker looks

	// mu guards what follows. Nothing is sent or called under it.
	mu     sync.Mutex
	ready  []Candidate // Invariant: no idle worker, unless closed
	idle   []*worker
	total  int           // workers
	closed bool          // no shard gets a worker any more
	quiet  chan struct{} // closed once all workers are idle after close
}

func newDispatcher(s Scheduler) *dispatcher {
	_, isLag := s.(lag)
	_, isSeq := s.(*seq)
	_, isInOrder := s.(inOrder)
	if isSeq {
		s = Seq() // of its own: one Config may serve several executors
	}
	return &dispatcher{scheduler: s, builtin: isLag || isSeq || isInOrder, strict: isInOrder, quiet: make(chan struct{})}
}

// port is the dispatcher as one shard sees it.
type port struct {
	*dispatcher
	queue     *queue
	candidate Candidate

	// Guarded by dispatcher.mu.
	shard   *shard.Shard // nil until it has offered itself, which may be before whoever made it knows it
	waiting bool         // among the ready ones
}

// Offer implements [shard.Dispatcher].
func (p *port) Offer(s *shard.Shard, due int64) shard.Worker {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch n := len(p.idle); {
	case p.closed:
	case n > 0:
		w := p.idle[n-1]
		p.idle = p.idle[:n-1]
		return w
	case p.waiting:
		i := slices.IndexFunc(p.ready, func(c Candidate) bool { return c.port == p })
		p.ready[i].due = due
	default:
		p.shard, p.waiting = s, true
		c := p.candidate
		c.due, c.port = due, p
		p.ready = append(p.ready, c)
	}
	return nil
}

// Return implements [shard.Dispatcher]. It is called on the shard's actor, where
// no user code may run: then the worker itself has to look again.
func (p *port) Return(sw shard.Worker) {
	w := sw.(*worker)
	p.mu.Lock()
	lookAgain := !p.builtin && !p.closed
	p.mu.Unlock()
	if lookAgain {
		w.runs <- nil
		return
	}
	if s := p.next(w, false); s != nil {
		s.Grant(w)
	}
}

// Record implements [shard.Recorder].
func (p *port) Record(c *shard.Change) {
	if q := p.queue; q.locking.wants == nil && q.locking.onEnqueue == nil {
		q.x.log.Record(&c.Change)
	} else {
		q.x.locks.settle(q, c)
	}
}

// next finds the next shard for a worker, which is no longer among the ready
// ones, or lets the worker be idle and returns nil. With ask, a scheduler of the
// user's decides.
func (d *dispatcher) next(w *worker, ask bool) *shard.Shard {
	if ask = ask && !d.builtin; ask {
		d.picking.Lock()
		defer d.picking.Unlock()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var picked *port
	if ask && !d.closed && len(d.ready) > 0 {
		picked = d.ask()
	}
	switch {
	case d.closed || len(d.ready) == 0:
		d.idle = append(d.idle, w)
		if d.closed && len(d.idle) == d.total {
			close(d.quiet)
		}
		return nil
	case d.builtin:
		picked = d.ready[d.scheduler.Pick(d.ready)].port
	case picked == nil || !picked.waiting:
		// Nobody was asked, or nothing sensible was said, or a worker that did
		// not ask has taken it meanwhile.
		picked = d.ready[lag{}.Pick(d.ready)].port
	}
	picked.waiting = false
	i := slices.IndexFunc(d.ready, func(c Candidate) bool { return c.port == picked })
	// The order of ready means nothing.
	last := len(d.ready) - 1
	d.ready[i] = d.ready[last]
	d.ready[last] = Candidate{}
	d.ready = d.ready[:last]
	return picked.shard
}

// ask lets the user's scheduler pick from a copy, without mu.
func (d *dispatcher) ask() (picked *port) {
	ready := slices.Clone(d.ready)
	d.mu.Unlock()
	defer d.mu.Lock()
	_ = guarded(func() error {
		// A panic or a wrong index leaves the choice to Lag.
		picked = ready[d.scheduler.Pick(ready)].port
		return nil
	})
	return picked
}

// expect says how many workers there are now. A new one begins with free, and
// one that goes is not idle.
func (d *dispatcher) expect(workers int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.total = workers
	if d.closed && len(d.idle) == d.total {
		close(d.quiet)
	}
}

// close stops the granting. The channel is closed once all workers are idle.
func (d *dispatcher) close() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed {
		d.closed = true
		d.ready = nil
		if len(d.idle) == d.total {
			close(d.quiet)
		}
	}
	return d.quiet
}
