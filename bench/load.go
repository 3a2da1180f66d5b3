package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strandjobs/strand/executor"
)

const (
	payloadBytes = 100
	idCount      = 100_000
	bulk         = 1000 // items of one EnqueueMany
	queueName    = "bench"

	// stalled is how long nothing may happen before jobs count as lost.
	stalled = 20 * time.Second
)

func makeIDs(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("order-%08d", i)
	}
	return ids
}

// load is n payloads, numbered from 0, and what became of them. Payload k
// belongs to id k mod len(ids), so each id has its payloads in ascending order.
type load struct {
	n   int
	ids []string

	// laps tells for each id how many of its payloads have run. Only the run of
	// that id writes to it, and these never overlap; if they do, the race
	// detector says so.
	laps []int32
	ran  atomic.Int64
	done chan struct{} // closed when n payloads have run

	wrong chan error // the first thing that was wrong
}

func newLoad(n int, ids []string) *load {
	ids = ids[:max(1, min(n, len(ids)))]
	return &load{n: n, ids: ids, laps: make([]int32, len(ids)), done: make(chan struct{}), wrong: make(chan error, 1)}
}

// handle checks that each payload is the next one of its id: that makes it
// exactly once, and in order.
func (l *load) handle(_ context.Context, job executor.Job[[]byte]) error {
	for i := range job.Payloads {
		number := int(binary.LittleEndian.Uint64(job.Payloads[i].Value))
		slot := number % len(l.ids)
		if want := slot + int(l.laps[slot])*len(l.ids); number != want || job.ID != l.ids[slot] {
			l.report(fmt.Errorf("payload %d of %q ran when %d of %q was next", number, job.ID, want, l.ids[slot]))
		}
		l.laps[slot]++
	}
	if l.ran.Add(int64(len(job.Payloads))) == int64(l.n) {
		close(l.done)
	}
	return nil
}

func (l *load) report(err error) {
	select {
	case l.wrong <- err:
	default:
	}
}

// numbers are the payloads of one of some producers. All payloads of an id
// are with one producer, or there would be no order to check.
func (l *load) numbers(producer, producers int) iter.Seq[int] {
	from, to := producer*len(l.ids)/producers, (producer+1)*len(l.ids)/producers
	return func(yield func(int) bool) {
		for lap := 0; lap < l.n; lap += len(l.ids) {
			for number := lap + from; number < min(lap+to, l.n); number++ {
				if !yield(number) {
					return
				}
			}
		}
	}
}

// produce calls one for each of some producers, at the same time.
func (l *load) produce(producers int, one func(producer int) error) error {
	errs := make([]error, producers)
	var group sync.WaitGroup
	for p := range producers {
		group.Go(func() { errs[p] = one(p) })
	}
	group.Wait()
	return errors.Join(errs...)
}

// bulk enqueues everything in calls of 1000.
func (l *load) bulk(ctx context.Context, q *executor.Queue[[]byte], producers int) error {
	return l.produce(producers, func(producer int) error {
		// What EnqueueMany was given is ours again when it returns.
		items := make([]executor.Item[[]byte], 0, bulk)
		payloads := make([]byte, bulk*payloadBytes)
		flush := func() error {
			receipts, err := q.EnqueueMany(ctx, items)
			if err == nil && len(receipts) != len(items) {
				err = fmt.Errorf("%d receipts for %d payloads", len(receipts), len(items))
			}
			items = items[:0]
			return err
		}
		for number := range l.numbers(producer, producers) {
			payload := payloads[len(items)*payloadBytes:][:payloadBytes:payloadBytes]
			binary.LittleEndian.PutUint64(payload, uint64(number))
			items = append(items, executor.Item[[]byte]{ID: l.ids[number%len(l.ids)], Payload: payload})
			if len(items) == bulk {
				if err := flush(); err != nil {
					return err
				}
			}
		}
		return flush()
	})
}

// single enqueues one payload at a time.
func (l *load) single(ctx context.Context, q *executor.Queue[[]byte], producers int) error {
	return l.produce(producers, func(producer int) error {
		payload := make([]byte, payloadBytes)
		for number := range l.numbers(producer, producers) {
			binary.LittleEndian.PutUint64(payload, uint64(number))
			if _, err := q.Enqueue(ctx, l.ids[number%len(l.ids)], payload); err != nil {
				return err
			}
		}
		return nil
	})
}

// wait returns when everything has run.
func (l *load) wait(ctx context.Context) error {
	tick := time.NewTicker(stalled)
	defer tick.Stop()
	for before := int64(-1); ; {
		select {
		case <-l.done:
			return nil
		case err := <-l.wrong:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
			now := l.ran.Load()
			if now == before {
				return fmt.Errorf("%d of %d payloads have run, and no more for %v", now, l.n, stalled)
			}
			before = now
		}
	}
}

// check is called after Stop.
func (l *load) check() error {
	select {
	case err := <-l.wrong:
		return err
	default:
	}
	if ran := l.ran.Load(); ran != int64(l.n) {
		return fmt.Errorf("%d payloads have run, want %d", ran, l.n)
	}
	return nil
}
