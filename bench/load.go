package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strandjobs/strand/executor"
)

const (
	payloadBytes = 100
	idCount      = 100_000
	bulk         = 1000    // items of one EnqueueMany
	bulkBytes    = 4 << 20 // and their payloads, at most
	queueName    = "bench"
	idDigits     = 8

	// stalled is how long nothing may happen before jobs count as lost.
	stalled = 20 * time.Second
)

func makeIDs(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("order-%0*d", idDigits, i)
	}
	return ids
}

// stamp writes a number into a payload that has room for it.
func stamp(payload []byte, number int) {
	if len(payload) >= 8 {
		binary.LittleEndian.PutUint64(payload, uint64(number))
	}
}

// numberOf reads it, or that of the id.
func numberOf(id string, payload []byte) int {
	if len(payload) >= 8 {
		return int(binary.LittleEndian.Uint64(payload))
	}
	number, _ := strconv.Atoi(id[len(id)-idDigits:]) // makeIDs made it
	return number
}

// load is n payloads, numbered from 0, and what became of them. Payload k
// belongs to id k mod len(ids), so each id has its payloads in ascending order.
type load struct {
	n   int
	ids []string

	// assigned says to which id each payload belongs, if not to k mod len(ids).
	assigned []int32
	// fails says which payloads fail when they run for the first time. Nil: none.
	fails  func(number int) bool
	failed []bool // those that have

	// size is how long a payload is. If it is too short for its number, each
	// payload has an id of its own, which has it.
	size int

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
	return &load{n: n, ids: ids, size: payloadBytes, laps: make([]int32, len(ids)), done: make(chan struct{}), wrong: make(chan error, 1)}
}

// handle checks that each payload is the next one of its id: that makes it
// exactly once, and in order.
func (l *load) handle(_ context.Context, job executor.Job[[]byte]) error {
	number := numberOf(job.ID, job.Payload)
	if l.fails != nil && l.fails(number) && !l.failed[number] {
		l.failed[number] = true
		return errPlanned
	}
	slot := l.slotOf(number)
	if want := l.next(slot, number); number != want || job.ID != l.ids[slot] {
		l.report(fmt.Errorf("payload %d of %q ran when %d of %q was next", number, job.ID, want, l.ids[slot]))
	}
	l.advance(slot, number)
	if l.ran.Add(1) == int64(l.n) {
		close(l.done)
	}
	return nil
}

func (l *load) slotOf(number int) int {
	if l.assigned != nil {
		return int(l.assigned[number])
	}
	return number % len(l.ids)
}

// next returns the payload of an id that has to run now, where number does.
func (l *load) next(slot, number int) int {
	if l.assigned == nil {
		return slot + int(l.laps[slot])*len(l.ids)
	}
	// laps[slot] is the number after the last one of the id that ran. If these only
	// grow, and n payloads run in the end, none is missing.
	return max(number, int(l.laps[slot]))
}

func (l *load) advance(slot, number int) {
	if l.assigned == nil {
		l.laps[slot]++
	} else {
		l.laps[slot] = int32(number) + 1
	}
}

var errPlanned = errors.New("it is one of those that fail once")

func (l *load) report(err error) {
	select {
	case l.wrong <- err:
	default:
	}
}

// numbers are the payloads of one of some producers. All payloads of an id
// are with one producer, or there would be no order to check.
func (l *load) numbers(producer, producers int) iter.Seq[int] {
	if l.assigned != nil {
		return func(yield func(int) bool) {
			for number, slot := range l.assigned {
				if int(slot)%producers == producer && !yield(number) {
					return
				}
			}
		}
	}
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
		most := max(1, min(bulk, bulkBytes/max(1, l.size)))
		items := make([]executor.Item[[]byte], 0, most)
		payloads := make([]byte, most*l.size)
		flush := func() error {
			receipts, err := q.EnqueueMany(ctx, items)
			if err == nil && len(receipts) != len(items) {
				err = fmt.Errorf("%d receipts for %d payloads", len(receipts), len(items))
			}
			items = items[:0]
			return err
		}
		for number := range l.numbers(producer, producers) {
			payload := payloads[len(items)*l.size:][:l.size:l.size]
			stamp(payload, number)
			items = append(items, executor.Item[[]byte]{ID: l.ids[l.slotOf(number)], Payload: payload})
			if len(items) == most {
				if err := flush(); err != nil {
					return err
				}
			}
		}
		return flush()
	})
}

// inBulk is bulk with the producers that it is measured with.
func (l *load) inBulk(ctx context.Context, q *executor.Queue[[]byte]) error {
	return l.bulk(ctx, q, bulkProducers)
}

// single enqueues one payload at a time.
func (l *load) single(ctx context.Context, q *executor.Queue[[]byte], producers int) error {
	return l.produce(producers, func(producer int) error {
		payload := make([]byte, l.size)
		for number := range l.numbers(producer, producers) {
			stamp(payload, number)
			if _, err := q.Enqueue(ctx, l.ids[l.slotOf(number)], payload); err != nil {
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
