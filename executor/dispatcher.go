package executor

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strandjobs/strand/shard"
)

// dispatcher brings shards that have jobs due and free workers together.
type dispatcher struct {
	// picking is held while the scheduler picks; it is taken before mu. The
	// scheduler may be user code, which runs on workers only, and not under mu.
	picking   sync.Mutex
	scheduler Scheduler
	builtin   bool // the scheduler is ours: it may run under mu, and on actors
	inOrder   bool // the scheduler is strict
	// strict: a shard's next job must be known before its last worker looks. So it is
	// while some queue goes before another.
	strict atomic.Bool
	fair   bool // what queues use is counted
	born   time.Time

	// mu guards what follows, and the shares of queues. Nothing is sent or called
	// under it.
	mu     sync.Mutex
	ready  []Candidate // Invariant: no idle worker, unless closed or held
	idle   []*worker
	tiers  []*tier       // by the priorities of queues
	total  int           // workers
	closed bool          // no shard gets a worker any more
	held   bool          // no shard gets a worker until release
	quiet  chan struct{} // closed once all workers are idle after close
}

func newDispatcher(s Scheduler) *dispatcher {
	_, isFair := s.(fair)
	_, isLag := s.(oldestFirst)
	_, isSeq := s.(*roundRobin)
	_, isInOrder := s.(strictPriority)
	if isSeq {
		s = RoundRobin() // of its own: one Config may serve several executors
	}
	return &dispatcher{
		scheduler: s, builtin: isFair || isLag || isSeq || isInOrder, inOrder: isInOrder, fair: isFair,
		born: time.Now(), quiet: make(chan struct{}),
	}
}

// takeBack finds another shard for a worker whose shard has no job for it. It is
// called on the actor of that shard, where no user code may run: with a scheduler
// of the program's the worker itself has to look again.
func (d *dispatcher) takeBack(w *worker) {
	d.mu.Lock()
	lookAgain := !d.builtin && !d.closed
	d.mu.Unlock()
	if lookAgain {
		w.runs <- nil
		return
	}
	if s := d.next(w, false); s != nil {
		s.Grant(w)
	}
}

// next finds the next shard for a worker, which is no longer among the ready ones,
// or lets the worker be idle and returns nil. With ask, a scheduler of the user's
// decides.
func (d *dispatcher) next(w *worker, ask bool) *shard.Shard {
	if ask = ask && !d.builtin; ask {
		d.picking.Lock()
		defer d.picking.Unlock()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now() // once: to read a clock is a good part of what this takes
	d.end(w, now)
	i := -1
	if ask && !d.closed && !d.held && len(d.ready) > 0 {
		i = d.ask()
	}
	if d.closed || d.held || len(d.ready) == 0 {
		d.idle = append(d.idle, w)
		if d.closed && len(d.idle) == d.total {
			close(d.quiet)
		}
		return nil
	}
	if d.builtin {
		d.countUp(now)
		i = d.scheduler.Pick(d.ready)
	} else if i < 0 {
		i = oldestFirst{}.Pick(d.ready)
	}
	return d.grant(w, i, now)
}

// grant gives a worker to a ready shard.
func (d *dispatcher) grant(w *worker, i int, now time.Duration) *shard.Shard {
	picked := d.ready[i].port
	// The order of ready means nothing.
	last := len(d.ready) - 1
	d.ready[i] = d.ready[last]
	d.ready[last] = Candidate{}
	d.ready = d.ready[:last]
	picked.waiting = false
	picked.queue.share.waiting--
	d.begin(w, picked, now)
	return picked.shard
}

// ask lets the user's scheduler pick from a copy, without mu. It returns the index
// of that shard in ready, below zero when it is not there: the scheduler named no
// shard, or another worker has taken it meanwhile.
func (d *dispatcher) ask() int {
	picked := d.pick(slices.Clone(d.ready))
	return slices.IndexFunc(d.ready, func(c Candidate) bool { return c.port == picked })
}

func (d *dispatcher) pick(ready []Candidate) (picked *port) {
	d.mu.Unlock()
	defer d.mu.Lock() // also when the scheduler ends the goroutine
	_ = guarded(func() error {
		picked = ready[d.scheduler.Pick(ready)].port
		return nil
	})
	return picked
}

// expect says how many workers there are now. A new one begins with free, and one
// that goes is not idle.
func (d *dispatcher) expect(workers int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.total = workers
	if d.closed && len(d.idle) == d.total {
		close(d.quiet)
	}
}

// hold keeps workers from shards until release: what is ready waits as if all of them
// were busy. Those that work go on with the run that they have.
func (d *dispatcher) hold() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.held = true
}

// release ends a hold: the workers that are idle look for themselves.
func (d *dispatcher) release() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.held {
		return
	}
	d.held = false
	if d.closed {
		return // the count of idle workers is what a stop waits for
	}
	for _, w := range d.idle {
		w.runs <- nil // which has room: it is idle
	}
	d.idle = nil
}

// close stops the granting. The channel is closed once all workers are idle.
func (d *dispatcher) close() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed {
		d.closed = true
		d.ready = nil // what queues hold back stays there
		if len(d.idle) == d.total {
			close(d.quiet)
		}
	}
	return d.quiet
}

// load returns how many workers there are, and how many are not idle.
func (d *dispatcher) load() (workers, busy int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.total, d.total - len(d.idle)
}

// busyFor returns how many workers work for a queue.
func (d *dispatcher) busyFor(q *queue) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return q.share.running
}
