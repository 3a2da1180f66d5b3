package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strandjobs/strand/bench/peers/peer"
)

const payloadBytes = 100

// load is the jobs of one case. They are numbered from 0, and job k belongs to
// id k mod len(slots). They come in rounds, each of which must be over before
// the next one begins.
type load struct {
	slots []slot
	pause time.Duration // what a handler takes

	seen   []atomic.Uint32 // a bit for each job that has run
	gate   atomic.Pointer[gate]
	ran    atomic.Int64  // distinct jobs
	target atomic.Int64  // of ran
	first  atomic.Int64  // when the first job of the round began, in Unix nanoseconds
	full   chan struct{} // gets a value when ran reaches target

	violations, overlaps, repeated, strange atomic.Int64
}

// slot is an id and what its handlers saw.
type slot struct {
	id      string
	running atomic.Int32
	last    atomic.Int64 // the highest job that has begun, plus one
	_       [24]byte     // two of them don't share a cache line
}

func newLoad(ids, most int, pause time.Duration) *load {
	l := &load{
		slots: make([]slot, ids), pause: pause,
		seen: make([]atomic.Uint32, most/32+1), full: make(chan struct{}, 1),
	}
	for i := range l.slots {
		l.slots[i].id = fmt.Sprintf("order-%08d", i)
	}
	return l
}

// handle is the handler of every peer.
func (l *load) handle(id string, payload []byte) {
	if g := l.gate.Load(); g != nil {
		g.held.Add(1)
		<-g.open
	}
	if len(payload) != payloadBytes {
		l.strange.Add(1)
		return
	}
	number := int64(binary.LittleEndian.Uint64(payload))
	s := &l.slots[number%int64(len(l.slots))]
	if s.id != id || number >= int64(len(l.seen))*32 {
		l.strange.Add(1)
		return
	}
	if l.first.Load() == 0 {
		l.first.CompareAndSwap(0, time.Now().UnixNano())
	}
	if s.running.Add(1) > 1 {
		l.overlaps.Add(1)
	}
	if before := s.last.Swap(number + 1); before > number+1 {
		l.violations.Add(1)
		s.last.CompareAndSwap(number+1, before)
	}
	if l.pause > 0 {
		time.Sleep(l.pause)
	}
	s.running.Add(-1)
	bit := uint32(1) << (number % 32)
	if l.seen[number/32].Or(bit)&bit != 0 {
		l.repeated.Add(1)
		return
	}
	if l.ran.Add(1) == l.target.Load() {
		l.full <- struct{}{}
	}
}

// gate is where handlers wait.
type gate struct {
	open chan struct{}
	held atomic.Int64 // how many have come
}

// hold makes handlers wait until the function it returns is called, which tells
// how many had come by then.
func (l *load) hold() (release func() (held int)) {
	g := &gate{open: make(chan struct{})}
	l.gate.Store(g)
	return sync.OnceValue(func() int {
		held := g.held.Load()
		l.gate.Store(nil)
		close(g.open)
		return int(held)
	})
}

// enqueue hands over the jobs from..to, from some producers, each call with up
// to size of them. All jobs of an id come from one producer, in order.
func (l *load) enqueue(ctx context.Context, s peer.System, from, to, producers, size int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	producers = min(producers, len(l.slots), to-from)
	errs := make([]error, producers)
	var group sync.WaitGroup
	for p := range producers {
		group.Go(func() {
			if errs[p] = l.produce(ctx, s, from, to, p, producers, size); errs[p] != nil {
				cancel(errs[p])
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// produce makes new payloads for each call: a system may keep them.
func (l *load) produce(ctx context.Context, s peer.System, from, to, producer, producers, size int) error {
	low, high := producer*len(l.slots)/producers, (producer+1)*len(l.slots)/producers
	var items []peer.Item
	var payloads []byte
	for lap := from - from%len(l.slots); lap < to; lap += len(l.slots) {
		for number := max(lap+low, from); number < min(lap+high, to); number++ {
			if items == nil {
				items, payloads = make([]peer.Item, 0, size), make([]byte, size*payloadBytes)
			}
			payload := payloads[len(items)*payloadBytes:][:payloadBytes:payloadBytes]
			binary.LittleEndian.PutUint64(payload, uint64(number))
			items = append(items, peer.Item{ID: l.slots[number%len(l.slots)].id, Payload: payload})
			if len(items) < size {
				continue
			}
			if err := l.send(ctx, s, items); err != nil {
				return err
			}
			items = nil
		}
	}
	return l.send(ctx, s, items)
}

func (l *load) send(ctx context.Context, s peer.System, items []peer.Item) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if len(items) == 0 {
		return nil
	}
	return s.Enqueue(ctx, items)
}

// wait returns whether all jobs below to have run within d.
func (l *load) wait(ctx context.Context, d time.Duration) (bool, error) {
	select {
	case <-l.full:
		return true, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	case <-time.After(d):
		return false, nil
	}
}
