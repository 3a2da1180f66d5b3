package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/strandjobs/strand/executor"
)

const lockedKey = "key"

func onlyKey(string, []byte) []string { return []string{lockedKey} }

// waiters is an executor in memory whose jobs wait for one key.
type waiters struct {
	x *executor.Executor
	q *executor.Queue[[]byte]
}

func (l *lab) waiters(handler func(context.Context, executor.Merged[[]byte]) error, locks executor.Locks[[]byte], unique executor.Unique[[]byte]) (*waiters, error) {
	x, err := executor.Open("", executor.Config{Workers: l.workers})
	if err != nil {
		return nil, err
	}
	q, err := executor.HandleMerged(x, queueName, handler, executor.QueueConfig[[]byte]{
		Share:      executor.Share{Shards: l.shards, Concurrency: 2}, // one may hold what the others wait for
		Conditions: executor.Conditions[[]byte]{Locks: locks, Unique: unique},
	})
	if err == nil {
		err = x.Start(context.Background())
	}
	if err != nil {
		return nil, errors.Join(err, x.Stop(context.Background()))
	}
	return &waiters{x, q}, nil
}

// stop does not wait for ever for a handler that waits for something else.
func (w *waiters) stop(err error) error {
	ctx, cancel := context.WithTimeout(context.Background(), stalled)
	defer cancel()
	return errors.Join(err, w.x.Stop(ctx))
}

// untilParked waits until n jobs are parked.
func (w *waiters) untilParked(ctx context.Context, n int) error {
	for deadline := time.Now().Add(stalled); ; time.Sleep(50 * time.Microsecond) {
		s, err := w.q.Stats(ctx)
		if err != nil || s.Parked == n {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d jobs are parked, want %d", s.Parked, n)
		}
	}
}

// queueAtBarrier has jobs wait for a key that each of them locks while it runs,
// and returns how long it takes from the first unlock until all have run.
func queueAtBarrier(ctx context.Context, l *lab, waiting int) (time.Duration, error) {
	var c crowd
	c.begin(waiting)
	w, err := l.waiters(c.handle, executor.Locks[[]byte]{BlockedBy: onlyKey, OnRun: onlyKey, Unlock: onlyKey}, executor.Unique[[]byte]{})
	if err != nil {
		return 0, err
	}
	if err := w.x.KeyLocks().Lock(ctx, lockedKey); err != nil {
		return 0, w.stop(err)
	}
	return c.pass(ctx, l, w, waiting, func() error { return w.x.KeyLocks().Unlock(ctx, lockedKey) })
}

// queueForLease has jobs wait until an equal one has run.
func queueForLease(ctx context.Context, l *lab, waiting int) (time.Duration, error) {
	var c crowd
	c.begin(waiting + 1)
	c.first = make(chan struct{})
	w, err := l.waiters(c.handle, executor.Locks[[]byte]{}, executor.Unique[[]byte]{
		While: executor.UniqueWhileRunning, Key: func(string, []byte) string { return lockedKey },
	})
	if err != nil {
		return 0, err
	}
	if _, err := w.q.Enqueue(ctx, "first", nil); err != nil {
		return 0, w.stop(err)
	}
	for c.ran.Load() == 0 {
		time.Sleep(50 * time.Microsecond)
	}
	return c.pass(ctx, l, w, waiting, func() error { close(c.first); return nil })
}

// crowd are jobs that exclude each other.
type crowd struct {
	running, ran, overlaps atomic.Int64
	all                    int64
	over                   chan struct{}
	first                  chan struct{} // what the first one waits for; nil: nothing
}

func (c *crowd) begin(n int) { c.all, c.over = int64(n), make(chan struct{}) }

func (c *crowd) handle(_ context.Context, job executor.Merged[[]byte]) error {
	if c.running.Add(1) > 1 {
		c.overlaps.Add(1)
	}
	n := c.ran.Add(1)
	if n == 1 && c.first != nil {
		<-c.first
	}
	c.running.Add(-1)
	if n == c.all {
		close(c.over)
	}
	return nil
}

// pass has jobs park, lets the first one go, and waits until all have run.
func (c *crowd) pass(ctx context.Context, l *lab, w *waiters, waiting int, begin func() error) (time.Duration, error) {
	items := make([]executor.Item[[]byte], waiting)
	for i := range items {
		items[i].ID = l.ids[i]
	}
	_, err := w.q.EnqueueMany(ctx, items)
	if err == nil {
		err = w.untilParked(ctx, waiting)
	}
	start := time.Now()
	if err == nil {
		err = begin()
	}
	if err != nil {
		return 0, w.stop(err)
	}
	select {
	case <-c.over:
	case <-ctx.Done():
		return 0, w.stop(context.Cause(ctx))
	case <-time.After(stalled):
		return 0, w.stop(fmt.Errorf("%d of %d jobs ran within %v", c.ran.Load(), c.all, stalled))
	}
	took := time.Since(start)
	if n := c.overlaps.Load(); n > 0 {
		err = fmt.Errorf("%d jobs ran beside another one", n)
	}
	return took, w.stop(err)
}

// parked is how long it takes from an unlock until a job that waited for it is
// in its handler.
func parked(name string, probe func(context.Context, *lab) ([]time.Duration, error)) workload {
	median := figure{suffix: "/p50", unit: "µs", lower: true, baseline: "chan/hand-off", goal: goal{value: 50}}
	tail := figure{suffix: "/p95", unit: "µs", lower: true, baseline: "chan/hand-off"}
	w := memoryLatency(name, 1000, func(int) []figure { return []figure{median, tail} }, busy(memoryPause))
	w.subject = func(ctx context.Context, l *lab) (measured, error) {
		took, err := probe(ctx, l)
		return latencies(took), err
	}
	return w
}

// unlockByHand has a job wait for a key that a person unlocks.
func unlockByHand(ctx context.Context, l *lab) ([]time.Duration, error) {
	entered := make(chan time.Time, 1)
	w, err := l.waiters(func(context.Context, executor.Merged[[]byte]) error {
		entered <- time.Now()
		return nil
	}, executor.Locks[[]byte]{BlockedBy: onlyKey}, executor.Unique[[]byte]{})
	if err != nil {
		return nil, err
	}
	var took []time.Duration
	for i := 0; i < l.n && err == nil; i++ {
		if err = w.x.KeyLocks().Lock(ctx, lockedKey); err == nil {
			_, err = w.q.Enqueue(ctx, l.ids[i%len(l.ids)], nil)
		}
		if err == nil {
			err = w.untilParked(ctx, 1)
		}
		busy(memoryPause)()
		start := time.Now()
		if err == nil {
			err = w.x.KeyLocks().Unlock(ctx, lockedKey)
		}
		if err == nil {
			took = append(took, (<-entered).Sub(start))
		}
	}
	return took, w.stop(err)
}

// unlockBySuccess has a job wait for a key that another one unlocks: from the
// end of one handler until the other one is entered.
func unlockBySuccess(ctx context.Context, l *lab) ([]time.Duration, error) {
	ended, entered, free := make(chan time.Time, 1), make(chan time.Time, 1), make(chan struct{})
	w, err := l.waiters(func(context.Context, executor.Merged[[]byte]) error {
		entered <- time.Now()
		return nil
	}, executor.Locks[[]byte]{BlockedBy: onlyKey}, executor.Unique[[]byte]{})
	if err != nil {
		return nil, err
	}
	before, err := executor.HandleMerged(w.x, "before", func(context.Context, executor.Merged[[]byte]) error {
		<-free
		busy(memoryPause)()
		ended <- time.Now()
		return nil
	}, executor.QueueConfig[[]byte]{Conditions: executor.Conditions[[]byte]{Locks: executor.Locks[[]byte]{OnEnqueue: onlyKey, Unlock: onlyKey}}})
	var took []time.Duration
	for i := 0; i < l.n && err == nil; i++ {
		id := l.ids[i%len(l.ids)]
		if _, err = before.Enqueue(ctx, id, nil); err == nil {
			_, err = w.q.Enqueue(ctx, id, nil)
		}
		if err == nil {
			err = w.untilParked(ctx, 1)
		}
		free <- struct{}{}
		if start := <-ended; err == nil {
			took = append(took, (<-entered).Sub(start))
		}
	}
	return took, w.stop(err)
}

// wakeups counts those of a process that has nothing to do.
func (l *lab) wakeups(ctx context.Context, kind string) (measured, error) {
	r, err := l.child(ctx, kind)
	return measured{[]float64{r.Wakeups}, r.Seconds}, err
}

const (
	idleLocks  = 1000 // that are held
	idleParked = 200  // jobs that wait for them
)

// keepLocked opens an executor, has locks held and jobs wait for them, all
// without a TTL, and then does nothing.
func (o order) keepLocked() (r report, err error) {
	ctx := context.Background()
	x, err := executor.Open(filepath.Join(o.Scratch, "locked.strand"), executor.Config{})
	if err != nil {
		return r, err
	}
	q, err := executor.HandleMerged(x, queueName, func(context.Context, executor.Merged[[]byte]) error { return nil }, executor.QueueConfig[[]byte]{
		Conditions: executor.Conditions[[]byte]{
			Locks: executor.Locks[[]byte]{BlockedBy: func(id string, _ []byte) []string { return []string{id} }},
		},
	})
	if err == nil {
		err = x.Start(ctx)
	}
	for i := 0; i < idleLocks && err == nil; i++ {
		id := fmt.Sprint("key-", i)
		if err = x.KeyLocks().Lock(ctx, id); err == nil && i < idleParked {
			_, err = q.Enqueue(ctx, id, nil)
		}
	}
	if err == nil {
		err = (&waiters{x, q}).untilParked(ctx, idleParked)
	}
	if err != nil {
		return r, errors.Join(err, x.Stop(ctx))
	}
	r = doNothing(o.N)
	return r, x.Stop(ctx)
}
