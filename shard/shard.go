package shard

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/strandjobs/strand/actor"
	"github.com/strandjobs/strand/journal"
)

// ErrStopped is returned by calls to a shard that has stopped.
var ErrStopped = errors.New("shard: stopped")

// Worker runs jobs. Its methods must not block.
type Worker interface {
	// Assign hands it a run, which it must give back with [Shard.Finish].
	Assign(*Run)

	// Return says that the shard which has found it, or was granted it, has no job
	// for it.
	Return()
}

// Dispatcher finds workers for shards that have jobs due.
type Dispatcher interface {
	// Offer says that s has had a job due since the given time. It returns a
	// worker that is free now, or nil; then the dispatcher calls Grant once one
	// is. A later Offer of the same shard only changes the time.
	Offer(s *Shard, due int64) Worker
}

// Shard is the actor around a [Core]. Its methods may be called from any
// goroutine and do not block, unless they say so.
type Shard struct {
	log      Recorder
	dispatch Dispatcher
	ref      *actor.Ref[any]

	// Owned by the actor.
	core    *Core
	clock   clock
	wall    int64         // what it said when it was last read
	mono    time.Duration // the same
	catchUp time.Duration // when it may next write down what the disk had no room for
	free    []*Run
	timer   *time.Timer // nil until one is needed
	timerAt int64       // what it was set for; MaxInt64 when it is not set
	forRun  bool        // it was set to look at a run
	stopped bool        // no timer any more
}

// deliverHere is how many entries the goroutine that delivers them takes in by
// itself, at most. To take in more costs more than to wake an actor, which can do
// it while the next ones are being committed.
const deliverHere = 16

// catchUpPause is long enough for the disk to tell whether it is short of room again.
const catchUpPause = 100 * time.Millisecond

// readAhead is how many entries are read before the first of them is delivered.
const readAhead = 16

// incoming is an entry that was committed.
type incoming struct {
	journal.Entry
	ref  journal.Ref
	hash uint32 // of its id
	lane number // that its id has, to judge by the hash; 0: none
}

type wakeUp struct{}

// call is work for the actor, and who waits for it.
type call struct {
	f    func(*Core)
	err  error // of the Core; set before done is closed
	done chan struct{}
}

// New starts a shard of a queue with a core that has loaded what the journal had
// for it. now is the time of day; nil: that of this machine. The shard does nothing before its
// first message: have one come, as by Tell. With that it records what the loading has decided,
// and offers itself if something is due.
func New(system *actor.System, name string, core *Core, log Recorder, dispatch Dispatcher, now func() time.Time) (*Shard, error) {
	s := &Shard{log: log, dispatch: dispatch, core: core, clock: newClock(now), timerAt: math.MaxInt64}
	s.wall, s.mono = s.clock()
	var err error
	if s.ref, err = actor.Spawn(system, name, s.receive); err != nil {
		return nil, err
	}
	return s, nil
}

// Deliver takes in committed entries. The shard calls d.Done when it has. Deliveries must come in commit order.
//
// A Deliver of a few entries, GrantHere and Finish do what is to be done on the
// goroutine of the caller if the shard is idle: waking another one is what a job
// costs most. So the caller must hold no lock that the Recorder or the Dispatcher
// takes.
func (s *Shard) Deliver(d *journal.Delivery) {
	send := s.ref.SendHere
	if d.Len() > deliverHere {
		send = s.ref.Send
	}
	if !send(d) {
		d.Done() // on disk, for the next start
	}
}

// Grant hands the shard a worker that it was promised.
func (s *Shard) Grant(w Worker) { s.grant(w, s.ref.Send) }

// GrantHere is Grant for a caller that is not a shard itself: they would stack up.
func (s *Shard) GrantHere(w Worker) { s.grant(w, s.ref.SendHere) }

func (s *Shard) grant(w Worker, send func(any) bool) {
	if !send(w) {
		w.Return()
	}
}

// Finish gives a run back. The caller lets go of the run.
func (s *Shard) Finish(r *Run) { s.ref.SendHere(r) }

// Do has f called with the state of the shard, between two messages, and returns when it was. What f has changed is
// recorded a moment later: before the next message, and so before another Do returns. f must not block or keep the
// core. Do returns ErrStopped, or the cause of ctx; then f may still be called. After the journal has failed to read
// something back it returns that.
func (s *Shard) Do(ctx context.Context, f func(*Core)) error {
	c := &call{f: f, done: make(chan struct{})}
	if !s.ref.Send(c) {
		return ErrStopped
	}
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Tell has f called like Do, and does not wait. False: the shard has stopped.
func (s *Shard) Tell(f func(*Core)) bool { return s.ref.Send(&call{f: f, done: make(chan struct{})}) }

// receive handles one message. What it decides is recorded before the next.
func (s *Shard) receive(message any) {
	now := s.now()
	s.core.Tick(now)
	switch m := message.(type) {
	case *journal.Delivery:
		s.takeIn(m)
	case *Run:
		s.core.Finish(now, m)
		s.free = append(s.free, m)
	case *call:
		m.f(s.core)
		m.err = s.core.Err()
		close(m.done)
	case *Fold:
		m.Over(s.core.folded(m))
	case wakeUp:
		s.timerAt = math.MaxInt64
	case Worker:
		if !s.assign(now, m) {
			m.Return()
		}
	}
	s.core.reclaim(now)
	if s.mono >= s.catchUp {
		s.core.catchUp()
		s.catchUp = s.mono + catchUpPause
	}
	s.core.Record(s.log)
	for _, f := range s.core.takeFolds() {
		f.Shard = s
		s.core.cfg.Fold(f)
	}
	s.serve(now)
	s.setTimer(now, s.core.reclaim(now)) // of the runs just handed out, too
}

// Folded gives a fold back.
func (s *Shard) Folded(f *Fold) {
	if !s.ref.Send(f) {
		f.Over(false)
	}
}

func (s *Shard) takeIn(d *journal.Delivery) {
	if d.Len() == 1 { // most calls bring one, and room for more would have to be zeroed
		var one [1]incoming
		s.takeInBy(d, one[:])
	} else {
		var room [readAhead]incoming
		s.takeInBy(d, room[:])
	}
	d.Done()
}

// takeInBy takes in the entries of d, as many at a time as there is room for.
func (s *Shard) takeInBy(d *journal.Delivery, room []incoming) {
	for from := 0; from < d.Len(); from += len(room) {
		batch := room[:min(len(room), d.Len()-from)]
		for i := range batch {
			var err error
			if batch[i].ref, err = d.Read(from+i, &batch[i].Entry); err != nil {
				s.core.lanes.entries.fail(err)
				return
			}
		}
		s.core.lanes.prefetchIncoming(batch)
		for i := range batch {
			a := &batch[i]
			if into := s.core.come(&a.Entry, a.ref, a.hash); into != 0 {
				d.Merged(a.Position, into)
			}
		}
	}
}

// serve asks for workers as long as there are some and something is due.
func (s *Shard) serve(now int64) {
	for {
		due, ok := s.core.ready(now)
		if !ok {
			return
		}
		w := s.dispatch.Offer(s, due)
		if w == nil {
			return
		}
		if !s.assign(now, w) {
			w.Return() // an entry could not be read back
			return
		}
	}
}

// assign forms a run and hands it to w; false when nothing is due.
func (s *Shard) assign(now int64, w Worker) bool {
	var r *Run
	if n := len(s.free); n > 0 {
		r, s.free = s.free[n-1], s.free[:n-1]
	} else {
		r = s.core.NewRun()
		r.Shard = s
	}
	if !s.core.Take(now, r) {
		s.free = append(s.free, r)
		return false
	}
	w.Assign(r)
	return true
}

// setTimer keeps one timer for the next moment at which something changes by
// itself, and none when nothing does. It moves to a later one only when it was
// set for a run and none is out: that is most often over long before.
func (s *Shard) setTimer(now, reclaim int64) {
	next, idle := reclaim, false
	if !s.core.paused && s.core.NextDue() > now {
		next, idle = min(next, s.core.nextWake()), reclaim == math.MaxInt64
	}
	if s.stopped || next >= s.timerAt && !(idle && s.forRun) {
		return // an earlier wake-up sets it again
	}
	s.timerAt, s.forRun = next, next == reclaim && !idle
	switch d := time.Duration(min(next, later(now, clockCheck)) - now); {
	case next == math.MaxInt64:
		s.timer.Stop()
	case s.timer == nil:
		s.timer = time.AfterFunc(d, func() { s.ref.SendHere(wakeUp{}) })
	default:
		s.timer.Reset(d)
	}
}

// Stop takes the shard's timer away, catches up with what it has to write down, and returns when
// every message was handled, or with the cause of ctx.
func (s *Shard) Stop(ctx context.Context) error {
	err := s.Do(ctx, func(*Core) {
		if s.timer != nil {
			s.timer.Stop()
		}
		s.stopped = true // a wake-up may still be queued
		for s.core.catchUp() {
			s.core.Record(s.log)
		}
	})
	if errors.Is(err, ErrStopped) || errors.Is(err, journal.ErrFailed) || errors.Is(err, journal.ErrClosed) {
		err = nil // nothing is left to stop, or the journal says so itself
	}
	return errors.Join(err, s.ref.Stop(ctx))
}
