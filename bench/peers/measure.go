package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/strandjobs/strand/bench/peers/peer"
)

// Shapes of a case.
const (
	together = "produce while drain"
	inTurn   = "produce, then drain"
	idle     = "idle latency"
)

// task is one case of one peer, as its child gets it.
type task struct {
	Peer    string        `json:"peer"`
	Shape   string        `json:"shape"`
	Single  bool          `json:"single"`            // one job per call, though there is a call for many
	Callers int           `json:"callers,omitempty"` // that enqueue one by one; 0: as the peer likes it
	Tx      bool          `json:"tx,omitempty"`      // each call is a transaction with a row of the user's
	Standby bool          `json:"standby,omitempty"` // the server has a synchronous one
	IDs     int           `json:"ids"`
	Handler time.Duration `json:"handler_ns"` // what a handler takes
	Target  time.Duration `json:"target_ns"`  // how long to measure, about
	Most    int           `json:"most"`       // jobs, whatever time there is
	N       int           `json:"-"`          // jobs that filled the time in an earlier round; 0: to be found out
	Dir     string        `json:"-"`
}

// sameCase reports whether another peer is asked the same.
func (t task) sameCase(other task) bool {
	t.Peer = other.Peer
	return t == other
}

// asks reports whether t is a case, of any peer and of any length.
func (t task) asks(c task) bool {
	return t.Shape == c.Shape && t.Single == c.Single && t.Callers == c.Callers && t.IDs == c.IDs && t.Handler == c.Handler
}

// outcome is what a case yields.
type outcome struct {
	task
	Promise  peer.Promise `json:"promise"`
	Version  string       `json:"version"`
	Workers  int          `json:"workers"`
	Skipped  string       `json:"skipped,omitempty"` // why
	Failed   string       `json:"failed,omitempty"`  // with what
	Round    int          `json:"-"`                 // which one
	Rounds   int          `json:"rounds,omitempty"`  // that are in the figures
	Broken   int          `json:"failed_rounds,omitempty"`
	Jobs     int          `json:"jobs"`            // that were measured in a round
	CutShort bool         `json:"cut_short"`       // not all of them ran in time
	Rate     float64      `json:"jobs_per_second"` // see try
	RateMin  float64      `json:"jobs_per_second_min,omitempty"`
	RateMax  float64      `json:"jobs_per_second_max,omitempty"`
	Enqueue  float64      `json:"enqueued_per_second"`
	// Processor is the processor time of a job, user and system, in microseconds:
	// that of its producer and of a server, too.
	Processor float64 `json:"cpu_us_per_job,omitempty"`

	// What handlers saw, over all tries and rounds.
	Total      int64 `json:"total"`
	Violations int64 `json:"order_violations"` // a later job of the id had begun before
	Overlaps   int64 `json:"overlaps"`         // another job of the id was running
	Repeated   int64 `json:"repeated"`

	Latency *latency `json:"latency,omitempty"`
	Commit  *latency `json:"commit,omitempty"` // of one row on the same server, in turns
	Cost    *cost    `json:"cost,omitempty"`   // on a server
	Usage   usage    `json:"usage"`
}

const (
	firstTry    = 200
	busyWorkers = 100 // for handlers that take their time
	// overtime is how many targets a try may take before it is cut short.
	overtime = 4

	samplesEach = 7 // latencies in a round, at least
	fetches     = 5 // jobs for each worker in a measurement, at least
)

// carryOut measures t in this process.
func (t task) carryOut(ctx context.Context, p *peer.Peer) (o outcome, err error) {
	o = outcome{task: t, Promise: p.Promise, Workers: p.Workers, Version: version(p.Module)}
	if t.Handler > 0 {
		o.Workers = max(p.Workers, busyWorkers)
		defer punctual()()
	}
	work := newLoad(t.IDs, 3*t.Most, t.Handler)
	handle, entered := work.handle, make(chan time.Time, 1)
	if t.Shape == idle {
		handle = func(string, []byte) { entered <- time.Now() }
	}
	s, err := p.Open(ctx, peer.Room{Dir: t.Dir, Workers: o.Workers, Standby: t.Standby, Lonely: t.Shape == idle, Handle: handle})
	if err != nil {
		return o, fmt.Errorf("open: %w", err)
	}
	if t.Shape == idle {
		err = t.probe(ctx, s, entered, &o)
	} else {
		err = t.tries(ctx, p, s, work, &o)
	}
	o.Usage = usageOf(t.Dir)
	if o.CutShort {
		return o, err // it would go on for long
	}
	return o, errors.Join(err, s.Close())
}

// tries measures with ten times as many jobs again and again, until it can be
// told how many fill the time, and then with these; or with as many as did so in
// an earlier round, after a tenth of them to warm up. The last try counts.
func (t task) tries(ctx context.Context, p *peer.Peer, s peer.System, work *load, o *outcome) error {
	producers, size := p.Producers, 1
	if p.Bulk > 1 && !t.Single {
		producers, size = 2, p.Bulk
	}
	if t.Callers > 0 {
		producers = t.Callers
	}
	served, counted := s.(peer.Served)
	if t.Tx {
		s = transactions{served}
	}
	from, found := 0, t.N > 0
	try := func(n int) (time.Duration, error) {
		active, err := t.try(ctx, s, work, from, from+n, producers, size, o)
		from += n
		return active, err
	}
	n := min(firstTry, t.Most)
	if found {
		n = max(1, t.N/10)
	}
	if _, err := try(n); err != nil { // it warms up, and says nothing else
		return err
	}
	for !found && n < t.Most && !o.CutShort {
		active, err := try(n)
		if err != nil {
			return err
		}
		found = active > t.Target/8
		growth := 10.0
		if found {
			growth = max(1, t.Target.Seconds()/active.Seconds())
		}
		n = min(t.Most, int(float64(n)*growth))
	}
	if t.Callers == 0 { // what a system has fetched for its workers runs at once, and says little
		n = min(t.Most, max(n, fetches*o.Workers))
	}
	if !o.CutShort {
		var before meter
		if counted {
			var err error
			if before, err = t.settled(ctx, served, from); err != nil {
				return err
			}
		}
		if _, err := try(cmp.Or(t.N, n)); err != nil {
			return err
		}
		if counted && !o.CutShort {
			after, err := t.settled(ctx, served, from)
			if err != nil {
				return err
			}
			o.Cost = after.since(before, o.Jobs)
		}
	}
	o.Total = work.ran.Load()
	o.Violations, o.Overlaps, o.Repeated = work.violations.Load(), work.overlaps.Load(), work.repeated.Load()
	if strange := work.strange.Load(); strange > 0 {
		return fmt.Errorf("%d jobs came with an id or a payload that was not theirs", strange)
	}
	return nil
}

// settled reads the meter of a system which says that so many jobs are done.
func (t task) settled(ctx context.Context, s peer.Served, jobs int) (meter, error) {
	patience, cancel := context.WithTimeout(ctx, overtime*t.Target+time.Second)
	defer cancel()
	if err := s.Settle(patience, int64(jobs)); err != nil {
		return meter{}, fmt.Errorf("%d jobs that have run are not on record as done: %w", jobs, err)
	}
	return readMeter(ctx, s)
}

// try returns how long handlers were at work: from the first to the last. How
// long the first one takes to come is the idle latency, and no matter of
// throughput; and those who had come before they were let go don't count. Who
// does both at a time can't be faster than its producers: some let no handler
// begin before they are through.
func (t task) try(ctx context.Context, s peer.System, work *load, from, to, producers, size int, o *outcome) (time.Duration, error) {
	work.target.Store(int64(to))
	work.first.Store(0)
	release := func() int { return 0 }
	if t.Shape == inTurn {
		release = work.hold()
		defer release()
	}
	start, processor := time.Now(), processorTime()
	if err := work.enqueue(ctx, s, from, to, producers, size); err != nil {
		return 0, fmt.Errorf("enqueue: %w", err)
	}
	filled := time.Since(start)
	held := release()
	all, err := work.wait(ctx, overtime*t.Target)
	if err != nil {
		return 0, err
	}
	begun := time.Unix(0, work.first.Load())
	active := time.Since(begun)
	if t.Shape == together {
		active = max(active, filled)
	}
	ran := int(work.ran.Load()) - from
	if ran == 0 {
		return 0, fmt.Errorf("none of %d jobs ran within %v", to-from, overtime*t.Target)
	}
	o.Jobs, o.CutShort = ran, !all
	o.Processor = float64((processorTime() - processor).Nanoseconds()) / 1e3 / float64(ran)
	o.Rate, o.Enqueue = float64(max(1, ran-held))/active.Seconds(), float64(to-from)/filled.Seconds()
	return active, nil
}

// probe enqueues one job at a time on a system that has nothing else to do, in turns
// with a bare commit where there is a server. It takes three targets, so that there are
// enough of them.
func (t task) probe(ctx context.Context, s peer.System, entered <-chan time.Time, o *outcome) error {
	ids := newLoad(t.IDs, 1, 0).slots
	served, counted := s.(peer.Served)
	var took, commits []float64
	pause := func() time.Time {
		time.Sleep(time.Millisecond + rand.N(2*time.Millisecond))
		return time.Now()
	}
	for start, i := time.Now(), 0; i < samplesEach || time.Since(start) < 3*t.Target && i < t.Most; i++ {
		begin := pause()
		if err := s.Enqueue(ctx, []peer.Item{{ID: ids[i%len(ids)].id, Payload: make([]byte, payloadBytes)}}); err != nil {
			return err
		}
		select {
		case at := <-entered:
			took = append(took, float64(at.Sub(begin).Nanoseconds())/1e3)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Minute):
			return errors.New("the job did not run within a minute")
		}
		if counted {
			begin := pause()
			if err := served.Commit(ctx); err != nil {
				return err
			}
			commits = append(commits, float64(time.Since(begin).Nanoseconds())/1e3)
		}
	}
	o.Latency = newLatency(took)
	o.Latency.Raw = took
	if counted {
		o.Commit = newLatency(commits)
		o.Commit.Raw = commits
	}
	return nil
}
