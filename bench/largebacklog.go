package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/strandjobs/strand/executor"
)

// largeBacklogGoal is what a backlog of largeBacklogMost jobs may take of memory.
const (
	largeBacklogMost = 10_000_000
	largeBacklogGoal = 2048 // MiB
)

// largeBacklog is a backlog whose payloads don't fit into the memory budget, in a
// process of its own: the most memory that this process had, files that it
// mapped included, and how fast the backlog comes and goes. The budget is the
// default one for 10⁷ jobs, and in proportion for fewer. Each job has an id of
// its own.
func largeBacklog() workload {
	return workload{
		name: "beyond-memory", durability: "sync", n: 1_000_000, rounds: 3,
		figures: func(n int) []figure {
			peak := figure{suffix: "/rss", unit: "MiB", baseline: "the payloads", lower: true}
			if n == largeBacklogMost {
				peak.goal.value = largeBacklogGoal
			}
			return []figure{
				peak,
				{suffix: "/anonymous", unit: "MiB", baseline: "the payloads", lower: true},
				{suffix: "/fill", unit: "jobs/s", baseline: "bbolt/put+delete"},
				{suffix: "/drain", unit: "jobs/s", baseline: "bbolt/put+delete"},
			}
		},
		subject: func(ctx context.Context, l *lab) (measured, error) {
			r, err := l.child(ctx, childLargeBacklog)
			return measured{[]float64{r.PeakMiB, r.AnonymousMiB, float64(l.n) / r.FillSeconds, float64(l.n) / r.Seconds}, r.Seconds}, err
		},
		baseline: func(ctx context.Context, l *lab) (measured, error) {
			payloads := float64(l.n) * payloadBytes / (1 << 20)
			m, err := putDelete(ctx, l)
			if err != nil {
				return m, err
			}
			return measured{[]float64{payloads, payloads, m.values[0], m.values[0]}, m.seconds}, nil
		},
	}
}

// backlogRunner makes and runs jobs without remembering their ids: that would take
// more than is to be measured.
type backlogRunner struct {
	n    int
	seen []atomic.Uint64 // a bit for each job that ran
	ran  atomic.Int64
	done chan struct{}
	bad  atomic.Pointer[string]
}

func (h *backlogRunner) handle(_ context.Context, job executor.Job[[]byte]) error {
	var number uint64
	if _, err := fmt.Sscanf(job.ID, "order-%d", &number); err != nil || number >= uint64(h.n) {
		h.bad.Store(new(fmt.Sprintf("a job has the id %q", job.ID)))
		return nil
	}
	if got := binary.LittleEndian.Uint64(job.Payload); got != number || len(job.Payload) != payloadBytes {
		h.bad.Store(new(fmt.Sprintf("payload %d, of %d bytes, belongs to %q", got, len(job.Payload), job.ID)))
	}
	if h.seen[number/64].Or(1<<(number%64))&(1<<(number%64)) != 0 {
		h.bad.Store(new(fmt.Sprintf("%q ran twice", job.ID)))
	}
	if h.ran.Add(1) == int64(h.n) {
		close(h.done)
	}
	return nil
}

// fill enqueues all jobs, from some producers.
func (h *backlogRunner) fill(ctx context.Context, q *executor.Queue[[]byte]) error {
	return new(load).produce(bulkProducers, func(producer int) error {
		items := make([]executor.Item[[]byte], 0, bulk)
		payloads := make([]byte, bulk*payloadBytes)
		for number, to := producer*h.n/bulkProducers, (producer+1)*h.n/bulkProducers; number < to; {
			for items = items[:0]; number < to && len(items) < bulk; number++ {
				payload := payloads[len(items)*payloadBytes:][:payloadBytes:payloadBytes]
				stamp(payload, number)
				items = append(items, executor.Item[[]byte]{ID: fmt.Sprintf("order-%0*d", idDigits, number), Payload: payload})
			}
			if _, err := q.EnqueueMany(ctx, items); err != nil {
				return err
			}
		}
		return nil
	})
}

// largeBacklog is the work of the child.
func (o order) largeBacklog() (r report, err error) {
	h := &backlogRunner{n: o.N, seen: make([]atomic.Uint64, o.N/64+1), done: make(chan struct{})}
	l := &lab{shards: o.Shards, budget: max(1, o.N*(64<<20/1000)/(largeBacklogMost/1000))}
	ctx, s, err := l.open(context.Background(), filepath.Join(o.Scratch, "jobs.strand"), h.handle)
	if err != nil {
		return r, err
	}
	start := time.Now()
	if err := h.fill(ctx, s.q); err != nil {
		return r, s.stop(err)
	}
	r.FillSeconds = time.Since(start).Seconds()
	r.AnonymousMiB = memoryMiB("RssAnon:")
	start = time.Now()
	if err := s.x.Start(ctx); err != nil {
		return r, s.stop(err)
	}
	select {
	case <-h.done:
	case <-ctx.Done():
		return r, s.stop(context.Cause(ctx))
	case <-time.After(stalled + time.Duration(o.N)*time.Millisecond/10):
		err = fmt.Errorf("%d of %d jobs have run", h.ran.Load(), o.N)
	}
	err = s.stop(err)
	r.Seconds, r.PeakMiB = time.Since(start).Seconds(), peakMiB()
	if bad := h.bad.Load(); bad != nil {
		err = errors.Join(err, errors.New(*bad))
	}
	if err == nil {
		err = s.empty(ctx)
	}
	return r, err
}
