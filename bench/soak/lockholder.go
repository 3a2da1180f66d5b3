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
)

// lockHolder is an actor whose jobs hold locks, counters and slots, and wait for
// them. It has more to say:
//
//	l                  "hand" is locked
//	u                  about to unlock it
//	v QUEUE ID VALUE   the slot of a job, after its s
//	k KEY HOLDER       a lock that there is
//	r QUEUE VALUE ID   a slot that is reserved
//	q                  there are no others than those said before
//	h                  enough is held
type lockHolder struct {
	*actor
	slots map[string]*executor.Slots[int]
	count uint64
}

func newLockHolder(l life) *lockHolder {
	return &lockHolder{actor: newActor(l), slots: make(map[string]*executor.Slots[int])}
}

// play is the whole life; see [actor.play].
func (h *lockHolder) play() int {
	if !h.setUp(h.register) {
		return 0
	}
	h.list()
	if h.Number == 1 {
		if err := h.x.KeyLocks().Lock(context.Background(), handKey); err != nil {
			say("x lock: %v", err)
		}
		say("l")
	}
	if !h.start() {
		return 0
	}
	if h.Mode == unlockMode {
		h.letGo()
	} else {
		h.hold(untilTold())
	}
	h.stop()
	return 0
}

func (h *lockHolder) register(q queueLife) (err error) {
	cfg := q.config(func(int) time.Duration { return rand.N(5 * time.Millisecond) })
	keys := func(id string, payload []byte) []string {
		number, _ := readPayload(payload)
		return []string{lockKey(q.Name, id, number)}
	}
	switch q.Name {
	case countQueue:
		cfg.Conditions.Locks = executor.Locks[[]byte]{OnEnqueue: keys, Unlock: keys, Counted: true, UnlockOnBurial: true}
	case gateQueue, loneQueue:
		cfg.Conditions.Locks = executor.Locks[[]byte]{BlockedBy: keys, OnRun: keys, Unlock: keys, UnlockOnBurial: true}
	case waitQueue:
		cfg.Conditions.Locks.BlockedBy = keys
	case uniqueQueue:
		cfg.Conditions.Unique = executor.Unique[[]byte]{
			While: executor.UniqueWhileRunning,
			Key:   func(id string, payload []byte) string { return keys(id, payload)[0] },
		}
	case keptQueue, serialQueue:
		slots := executor.SlotsConfig[int]{KeepOnFailure: q.Name == keptQueue}
		slots.Next, slots.TTL = func(v int) int { return v + 1 }, 10*time.Minute
		s, err := executor.NewSlots(h.x, q.Name, slots)
		if err != nil {
			return err
		}
		h.slots[q.Name] = s
		cfg.Conditions.Slots, cfg.Gather.MaxPayloads = []executor.SlotSource{s}, 1
	}
	if q.Name == loneQueue {
		cfg.Gather.MaxPayloads = 1 // or its jobs could hold one key and wait for another: see lock.DeadlockError
	}
	return h.serve(q, h.handle, cfg)
}

// handle is a [handler].
func (h *lockHolder) handle(ctx context.Context, job executor.Merged[[]byte]) (run int64, end func() error) {
	slots := h.slots[job.Queue]
	stays := h.Mode == lockMode && h.stays(job)
	if slots == nil && !stays {
		return h.actor.handle(ctx, job)
	}
	run = h.begin(job)
	if slots != nil {
		h.slot(slots, job)
	}
	return run, func() error {
		r := rand.New(rand.NewPCG(h.Seed, uint64(run)))
		switch p := r.IntN(100); {
		case stays:
			say("f %d again", run)
			return executor.RetryAfter(afterwards, errors.New("stays"))
		case p < 20 && job.Attempt < 4:
			say("f %d again", run)
			return errors.New("no luck")
		case p < 23:
			say("f %d cancelled", run)
			return executor.Cancel(errors.New("not wanted"))
		}
		say("f %d over", run)
		return nil
	}
}

// stays reports whether a job is there to fail once and to hold what it has.
func (h *lockHolder) stays(job executor.Merged[[]byte]) bool {
	number, _ := readPayload(job.Payloads[0].Value)
	return job.Attempt == 1 && (job.Queue == gateQueue && gate(job.ID) < staying || job.Queue == keptQueue && number%3 != 0)
}

func (h *lockHolder) slot(s *executor.Slots[int], job executor.Merged[[]byte]) {
	value, ok := s.Of(job)
	if !ok {
		say("x %s/%s runs without a slot", job.Queue, job.ID)
	}
	say("v %s %s %d", job.Queue, job.ID, value)
}

// hold keeps all queues filled until told, and says so when enough is held.
func (h *lockHolder) hold(told <-chan struct{}) {
	p := &producer{actor: h.actor, r: rand.New(rand.NewPCG(h.Seed, 0))}
	for enough := false; ; {
		for _, q := range lockQueues {
			s, err := h.queues[q.name].Stats(context.Background())
			if err != nil {
				say("x stats: %v", err)
				return
			}
			h.fill(p, q.name, q.ids, min(q.payloads-s.Payloads, 100))
		}
		if !enough && h.held() >= heldAtLeast {
			enough = true
			say("h")
		}
		select {
		case <-told:
			return
		case <-time.After(time.Millisecond):
		}
	}
}

// fill makes one call for n items of a queue.
func (h *lockHolder) fill(p *producer, queue string, ids, n int) {
	if n <= 0 {
		return
	}
	items := make([]executor.Item[[]byte], n)
	var line strings.Builder
	for i := range items {
		h.count++
		k, number := p.r.IntN(ids), uint64(h.Number)*1e8+h.count
		items[i] = executor.Item[[]byte]{ID: fmt.Sprint("k", k), Payload: writePayload(number)}
		if queue == countQueue && k%5 > 0 {
			items[i].Due = time.Now().Add(afterwards)
		}
		fmt.Fprintf(&line, " %s:%d", items[i].ID, number)
	}
	p.enqueue(queue, items, line.String(), nil)
}

func (h *lockHolder) held() (n int) {
	for _, k := range lockedKeys(h.x) {
		n += len(k.Locks)
	}
	for _, s := range h.slots {
		n += len(s.Snapshot().Open)
	}
	return n
}

// list says all that is held.
func (h *lockHolder) list() {
	for _, k := range lockedKeys(h.x) {
		for _, l := range k.Locks {
			say("k %s %s", k.Key, strings.ReplaceAll(l.By, " ", "-"))
		}
	}
	for name, s := range h.slots {
		for _, open := range s.Snapshot().Open {
			say("r %s %d %s", name, open.Value, open.Held.Owner)
		}
	}
	say("q")
}

// letGo frees what a person holds, runs everything to its end, and says what is
// held then: nothing.
func (h *lockHolder) letGo() {
	say("u")
	if err := h.x.KeyLocks().Unlock(context.Background(), handKey); err != nil {
		say("x unlock: %v", err)
	}
	for _, q := range lockQueues {
		ids := make([]string, q.ids)
		for i := range ids {
			ids[i] = fmt.Sprint("k", i)
		}
		if _, err := h.x.Inspect().RunNow(context.Background(), inspect.SelectIDs(q.name, ids...)); err != nil {
			say("x run now: %v", err)
		}
	}
	h.drain()
	h.list()
}
