package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

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
	Single  bool          `json:"single"` // one job per call, though there is a call for many
	IDs     int           `json:"ids"`
	Handler time.Duration `json:"handler_ns"` // what a handler takes
	Target  time.Duration `json:"target_ns"`  // how long to measure, about
	Most    int           `json:"most"`       // jobs, whatever time there is
	Dir     string        `json:"-"`
}

// outcome is what a case yields.
type outcome struct {
	task
	Promise  peer.Promise `json:"promise"`
	Version  string       `json:"version"`
	Workers  int          `json:"workers"`
	Skipped  string       `json:"skipped,omitempty"` // why
	Failed   string       `json:"failed,omitempty"`  // with what
	Jobs     int          `json:"jobs"`              // of the round that counts
	CutShort bool         `json:"cut_short"`         // not all of them ran in time
	Rate     float64      `json:"jobs_per_second"`   // from the first handler, or the end of filling, to the last one
	Enqueue  float64      `json:"enqueued_per_second"`

	// What handlers saw, over all rounds.
	Total      int64 `json:"total"`
	Violations int64 `json:"order_violations"` // a later job of the id had begun before
	Overlaps   int64 `json:"overlaps"`         // another job of the id was running
	Repeated   int64 `json:"repeated"`

	Latency *latency `json:"latency,omitempty"`
	Usage   usage    `json:"usage"`
}

// latency is from before Enqueue until the handler is entered, in microseconds.
type latency struct {
	Samples int64   `json:"samples"`
	P50     float64 `json:"p50"`
	P99     float64 `json:"p99"`
	Max     float64 `json:"max"`
	// Steps are a distribution: the value that a share of all are not above.
	Steps []step `json:"steps"`
}

type step struct {
	Share float64 `json:"share"` // 0 to 1
	Value float64 `json:"value"`
}

const (
	firstRound  = 200
	busyWorkers = 100 // for handlers that take their time
	// overtime is how many targets a round may take before it is cut short.
	overtime = 4
)

// carryOut measures t in this process.
func (t task) carryOut(ctx context.Context, p *peer.Peer) (o outcome, err error) {
	o = outcome{task: t, Promise: p.Promise, Workers: p.Workers, Version: version(p.Module)}
	if t.Handler > 0 {
		o.Workers = max(p.Workers, busyWorkers)
	}
	work := newLoad(t.IDs, 2*t.Most, t.Handler)
	handle, entered := work.handle, make(chan time.Time, 1)
	if t.Shape == idle {
		handle = func(string, []byte) { entered <- time.Now() }
	}
	s, err := p.Open(ctx, peer.Room{Dir: t.Dir, Workers: o.Workers, Handle: handle})
	if err != nil {
		return o, fmt.Errorf("open: %w", err)
	}
	if t.Shape == idle {
		o.Latency, err = t.probe(ctx, s, entered)
	} else {
		err = t.rounds(ctx, p, s, work, &o)
	}
	o.Usage = usageOf(t.Dir)
	if o.CutShort {
		return o, err // it would go on for long
	}
	return o, errors.Join(err, s.Close())
}

// rounds measures with more and more jobs, until there are enough of them to
// fill the time. The last round counts.
func (t task) rounds(ctx context.Context, p *peer.Peer, s peer.System, work *load, o *outcome) error {
	producers, size := p.Producers, 1
	if p.Bulk > 1 && !t.Single {
		producers, size = 2, p.Bulk
	}
	from := 0
	for n := min(firstRound, t.Most); ; {
		active, err := t.round(ctx, s, work, from, from+n, producers, size, o)
		if err != nil {
			return err
		}
		from += n
		if o.CutShort || n == t.Most || active > t.Target/3 {
			break
		}
		growth := min(10, max(2, 0.8*t.Target.Seconds()/active.Seconds()))
		n = min(t.Most, int(float64(n)*growth), 2*t.Most-from)
	}
	o.Total = work.ran.Load()
	o.Violations, o.Overlaps, o.Repeated = work.violations.Load(), work.overlaps.Load(), work.repeated.Load()
	if strange := work.strange.Load(); strange > 0 {
		return fmt.Errorf("%d jobs came with an id or a payload that was not theirs", strange)
	}
	return nil
}

// round returns how long handlers were at work: from the first to the last, or
// from the moment that they were let go. How long the first one takes to come
// is the idle latency, and no matter of throughput.
func (t task) round(ctx context.Context, s peer.System, work *load, from, to, producers, size int, o *outcome) (time.Duration, error) {
	work.target.Store(int64(to))
	work.first.Store(0)
	release := func() {}
	if t.Shape == inTurn {
		release = work.hold()
	}
	defer release()
	start := time.Now()
	if err := work.enqueue(ctx, s, from, to, producers, size); err != nil {
		return 0, fmt.Errorf("enqueue: %w", err)
	}
	filled := time.Since(start)
	begun := time.Now()
	release()
	all, err := work.wait(ctx, overtime*t.Target)
	if err != nil {
		return 0, err
	}
	if t.Shape == together {
		begun = time.Unix(0, work.first.Load())
	}
	active := time.Since(begun)
	ran := int(work.ran.Load()) - from
	if ran == 0 {
		return 0, fmt.Errorf("none of %d jobs ran within %v", to-from, overtime*t.Target)
	}
	o.Jobs, o.CutShort = ran, !all
	o.Rate, o.Enqueue = float64(ran)/active.Seconds(), float64(to-from)/filled.Seconds()
	return active, nil
}

// probe enqueues one job at a time on a system that has nothing else to do.
func (t task) probe(ctx context.Context, s peer.System, entered <-chan time.Time) (*latency, error) {
	h := hdrhistogram.New(1, time.Minute.Nanoseconds(), 3)
	ids := newLoad(t.IDs, 1, 0).slots
	for start, i := time.Now(), 0; i < 5 || time.Since(start) < t.Target && i < t.Most; i++ {
		time.Sleep(time.Millisecond + rand.N(2*time.Millisecond))
		begin := time.Now()
		if err := s.Enqueue(ctx, []peer.Item{{ID: ids[i%len(ids)].id, Payload: make([]byte, payloadBytes)}}); err != nil {
			return nil, err
		}
		select {
		case at := <-entered:
			if err := h.RecordValue(max(1, at.Sub(begin).Nanoseconds())); err != nil {
				return nil, err
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(time.Minute):
			return nil, errors.New("the job did not run within a minute")
		}
	}
	micro := func(ns int64) float64 { return float64(ns) / 1e3 }
	l := &latency{Samples: h.TotalCount(), P50: micro(h.ValueAtQuantile(50)), P99: micro(h.ValueAtQuantile(99)), Max: micro(h.Max())}
	for _, share := range []float64{0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999, 1} {
		l.Steps = append(l.Steps, step{share, micro(h.ValueAtQuantile(100 * share))})
	}
	return l, nil
}
