package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/lock"
)

// A child may make calls that are to be accepted once, and has more to say about
// them, each before the line of the call:
//
//	y OP KEY                       the call has a key
//	n OP SOURCE MARK               the call has the mark of a numbered source
//	d OP POSITION:INTO...          it was accepted before
//	w SOURCE MARK                  how far the source has come, at the start

// sources are as many numbered sources as a journal takes events from, if any.
const sources = 2

// again is a call with a key that an earlier life has made.
type again struct{ Key, Queue, Items string }

// repeat makes calls of earlier lives again, before any other: what was not in
// effect takes its old place. False: one could not be made.
func (a *actor) repeat() bool {
	for _, call := range a.Again {
		p := &producer{actor: a}
		var items []executor.Item[[]byte]
		for text := range strings.FieldsSeq(call.Items) {
			id, digits, _ := strings.Cut(text, ":")
			var number uint64
			var producer, k int
			_, err := fmt.Sscan(digits, &number)
			_, err2 := fmt.Sscanf(id, "p%d.%d", &producer, &k)
			if err := errors.Join(err, err2); err != nil {
				say("x a call to be made again: %q: %v", text, err)
				return false
			}
			items = append(items, sequenceItem(id, k, number))
		}
		if !p.enqueue(call.Queue, items, " "+call.Items, asKey(call.Key)) {
			return false
		}
	}
	return true
}

// condition is what a call has to meet, and how that is said.
type condition struct {
	option executor.Option
	line   string // before "i OP"; %d is OP
}

func asKey(key string) *condition { return &condition{executor.IdempotencyKey(key), "y %d " + key} }

func asOnce(source string, mark int64) *condition {
	return &condition{executor.FromSource(source, mark), fmt.Sprintf("n %%d %s %d", source, mark)}
}

// marks says how far the sources have come.
func (a *actor) marks() {
	for n := range a.Sources {
		mark, _, err := a.x.SourceOffset(sourceName(n))
		if err != nil {
			say("x mark: %v", err)
			return
		}
		say("w %s %d", sourceName(n), mark)
	}
}

func sourceName(n int) string { return fmt.Sprint("source", n) }

// consume takes the events of a numbered source in, from where the journal says
// that it is, one to many at a time.
func (a *actor) consume(n int, told <-chan struct{}) {
	p := &producer{actor: a, r: rand.New(rand.NewPCG(a.Seed, uint64(n)<<40))}
	name, queue := sourceName(n), sequenceQueues[n%len(sequenceQueues)]
	for {
		select {
		case <-told:
			return
		default:
		}
		mark, _, err := a.x.SourceOffset(name)
		if err != nil {
			return
		}
		items := make([]executor.Item[[]byte], 1)
		if p.r.IntN(4) == 0 {
			items = make([]executor.Item[[]byte], 1+p.r.IntN(40))
		}
		var line strings.Builder
		for i := range items {
			mark++
			number := uint64(n+1)*1e12 + uint64(mark)
			items[i] = executor.Item[[]byte]{ID: fmt.Sprintf("o%d.%d", n, mark*7919%60), Payload: writePayload(number)}
			fmt.Fprintf(&line, " %s:%d", items[i].ID, number)
		}
		if !p.enqueue(queue, items, line.String(), asOnce(name, mark)) {
			return
		}
		if p.r.IntN(8) == 0 && !p.enqueue(queue, items, line.String(), asOnce(name, mark)) {
			return
		}
		time.Sleep(time.Duration(p.r.IntN(int(4 * time.Millisecond))))
	}
}

// gateKey keeps the jobs of the merging queue parked while it is locked.
const gateKey = "gate"

// parking has the jobs of the merging queue wait at a gate, and lock keys that
// count when they pass it.
func parking() executor.Locks[[]byte] {
	keys := func(_ string, payload []byte) []string {
		number, _ := readPayload(payload)
		return []string{fmt.Sprint("value", number)}
	}
	return executor.Locks[[]byte]{
		BlockedBy: func(string, []byte) []string { return []string{gateKey} },
		OnRun:     keys, Unlock: keys, Counted: true,
	}
}

// keepGate unlocks and locks the gate, again and again, until told.
func (a *actor) keepGate(told <-chan struct{}) {
	for a.openGate() {
		if a.x.KeyLocks().Lock(context.Background(), gateKey) != nil {
			return // the executor has stopped
		}
		select {
		case <-told:
			return
		case <-time.After(rand.N(5 * time.Millisecond)):
		}
	}
}

// openGate lets all that is parked pass.
func (a *actor) openGate() bool {
	err := a.x.KeyLocks().Unlock(context.Background(), gateKey)
	return err == nil || errors.Is(err, lock.ErrNotLocked)
}

// nothingLocked says so when keys are left of jobs that are over.
func (a *actor) nothingLocked() {
	for _, k := range lockedKeys(a.x) {
		say("x %q is locked %d times after all jobs are over", k.Key, len(k.Locks))
	}
}

// lockedKeys are all keys that are locked.
func lockedKeys(x *executor.Executor) (all []inspect.KeyLockStatus) {
	for after, more := "", 1; more > 0; {
		var page []inspect.KeyLockStatus
		var err error
		if page, more, err = x.Inspect().LockedKeys(after, 1000); err != nil {
			say("x locked keys: %v", err)
		}
		for _, k := range page {
			all, after = append(all, k), k.Key
		}
	}
	return all
}
