package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/strandjobs/strand/executor"
)

// producer is one goroutine that enqueues. Its ids of the sequence queues are
// its own, so the order of its calls is the order of acceptance.
type producer struct {
	*actor
	r     *rand.Rand
	index int
	count uint64
}

func (a *actor) produce(index int, told <-chan struct{}) {
	p := &producer{actor: a, r: rand.New(rand.NewPCG(a.Seed, uint64(index)<<32)), index: index}
	names := make([]string, 0, len(a.queues))
	for name := range a.queues {
		names = append(names, name)
	}
	slices.Sort(names)
	for i := 0; a.Ops == 0 || i < a.Ops; i++ {
		select {
		case <-told:
			return
		default:
		}
		name := names[p.r.IntN(len(names))]
		items := make([]executor.Item[[]byte], 1)
		if p.r.IntN(4) == 0 {
			n := 7
			if a.Busy || a.Wide { // longer lines than runs
				n = 60
			}
			items = make([]executor.Item[[]byte], 2+p.r.IntN(n))
		}
		var line strings.Builder
		for i := range items {
			id, number := p.fill(&items[i], name)
			fmt.Fprintf(&line, " %s:%d", id, number)
		}
		var cond *condition
		if a.Keyed && name != mergingQueue && p.r.IntN(2) == 0 {
			cond = asKey(fmt.Sprintf("p%d.%d.%d", p.Number, p.index, p.count))
		}
		p.enqueue(name, items, line.String(), cond)
		if cond != nil && p.r.IntN(10) == 0 {
			p.enqueue(name, items, line.String(), cond)
		}
		if p.r.IntN(3) == 0 && p.Processors != 1 { // a sleep changes the thread
			time.Sleep(time.Duration(p.r.IntN(int(4 * time.Millisecond))))
		}
	}
}

// fill draws one item. Ids come from a small and from a large set. Numbers of
// a sequence grow with every life.
func (p *producer) fill(item *executor.Item[[]byte], queue string) (id string, number uint64) {
	if queue == mergingQueue {
		id, number = fmt.Sprintf("shared%d", p.r.IntN(6)), uint64(p.r.IntN(5))
		item.Score = new(float64(p.r.IntN(10)))
	} else {
		k := p.r.IntN(6)
		if p.r.IntN(2) == 0 {
			k = 6 + p.r.IntN(500)
			if p.Wide {
				k = 6 + p.r.IntN(50_000)
			}
		}
		p.count++
		id, number = fmt.Sprintf("p%d.%d", p.index, k), uint64(p.Number)*1e8+uint64(p.index)*1e7+p.count
		*item = sequenceItem(id, k, number)
	}
	if p.r.IntN(10) == 0 {
		item.Due = time.Now().Add(time.Duration(p.r.IntN(int(20 * time.Millisecond))))
	}
	item.ID, item.Payload = id, writePayload(number)
	return id, number
}

// sequenceItem is an item of a sequence queue. Of half of the ids the numbers are
// the scores; the others are ordered by the time of the call.
func sequenceItem(id string, k int, number uint64) executor.Item[[]byte] {
	item := executor.Item[[]byte]{ID: id, Payload: writePayload(number)}
	if k%2 == 0 {
		item.Score = new(float64(number))
	}
	return item
}

// enqueue makes one call, under a condition unless it is nil, and again for a while
// if the disk is full. False: it was not accepted, neither now nor before.
func (p *producer) enqueue(queue string, items []executor.Item[[]byte], line string, cond *condition) bool {
	for deadline := time.Now().Add(2 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		op := p.ops.Add(1)
		var options []executor.Option
		if cond != nil {
			options = append(options, cond.option)
			say(cond.line, op)
		}
		say("i %d %s%s", op, queue, line)
		receipts, err := p.call(p.queues[queue], items, options)
		if err == nil {
			var places strings.Builder
			for _, r := range receipts {
				fmt.Fprintf(&places, " %d:%d", r.Position, r.MergedInto)
			}
			if receipts[0].Duplicate {
				say("d %d%s", op, places.String())
			} else {
				say("a %d %t%s", op, receipts[0].Durable, places.String())
			}
			return true
		}
		say("e %d %s %v", op, class(err), err)
		if !errors.Is(err, executor.ErrFull) || time.Now().After(deadline) {
			return errors.As(err, new(*executor.StaleError))
		}
	}
}

func (p *producer) call(q *executor.Queue[[]byte], items []executor.Item[[]byte], options []executor.Option) ([]executor.Receipt, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Second)
	defer cancel()
	if len(items) > 1 {
		return q.EnqueueMany(ctx, items, options...)
	}
	if it := items[0]; it.Score != nil {
		options = append(options, executor.Score(*it.Score))
	}
	if it := items[0]; !it.Due.IsZero() {
		options = append(options, executor.At(it.Due))
	}
	r, err := q.Enqueue(ctx, items[0].ID, items[0].Payload, options...)
	return []executor.Receipt{r}, err
}

// class names the kind of an error in one word: what a caller may conclude
// from it.
func class(err error) string {
	if errors.As(err, new(*executor.StaleError)) {
		return "stale"
	}
	for _, c := range []struct {
		err  error
		name string
	}{
		{executor.ErrUnknown, unknownClass}, {executor.ErrFull, "full"},
		{executor.ErrClosed, "closed"}, {executor.ErrFailed, "failed"},
	} {
		if errors.Is(err, c.err) {
			return c.name
		}
	}
	return "other"
}

// unknownClass is the one class of errors that leaves open whether the items
// were accepted.
const unknownClass = "unknown"
