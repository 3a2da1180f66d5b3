package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"time"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
)

// The steps of the chain, each a queue of another shape, and the ledger, of which
// nothing is due: what is there when all is over is what happened.
const (
	stepEach, stepMerged, stepBatch = "chain-each", "chain-merged", "chain-batch"
	chainLedger                     = "chain-ledger"
)

// chainProof repeats follow-ups in the commit: processes are killed at random moments
// while jobs hand on to the next step, and fail and are slow by chance. After each
// kill every number is in one step, and not in two: that is in the journal, whatever
// handlers have done twice. In the end each is in the ledger, once for each time that
// its first step ended.
func chainProof(c *campaign) error {
	for c.more() {
		if err := c.trial(chainOnce); err != nil {
			return err
		}
	}
	return nil
}

func chainOnce(c *campaign, r *rand.Rand, dir string) error {
	dir = filepath.Join(dir, "jobs.strand")
	asked := 0
	durable := make(map[uint64]bool)
	hear := func(line string) error {
		var from, n int
		switch {
		case scan(line, "i %d %d", &from, &n):
			asked = max(asked, from+n)
		case scan(line, "a %d %d", &from, &n):
			for i := range n {
				durable[uint64(from+i)] = true
			}
		default:
			return fmt.Errorf("a life said: %s", line)
		}
		return nil
	}
	for number := range 1 + r.IntN(12) {
		l := randomLife(r, dir, number+1)
		l.Mode, l.CrashLimit, l.First = chainMode, -1, asked
		p, err := startLife(l, hear)
		if err != nil {
			return err
		}
		time.Sleep(time.Duration(r.IntN(int(200 * time.Millisecond))))
		if err := p.Killed(); err != nil {
			return fmt.Errorf("life %d: %w", number+1, err)
		}
		c.did(1)
		if _, err := checkChain(c, dir, durable, asked); err != nil {
			return fmt.Errorf("after life %d: %w", number+1, err)
		}
		if !c.more() {
			break
		}
	}
	for range 5 { // a life may stop while a follow-up is on its way to its queue
		l := randomLife(r, dir, 100)
		l.Mode, l.CrashLimit = chainEndMode, -1
		p, err := startLife(l, hear)
		if err != nil {
			return err
		}
		if err := p.Wait(60 * time.Second); err != nil {
			return err
		}
		where, err := checkChain(c, dir, durable, asked)
		if err != nil {
			return err
		}
		if len(where) == 1 || len(durable) == 0 {
			c.count("numbers that went through the chain", where[chainLedger])
			return nil
		}
	}
	return errors.New("not all numbers come to the ledger")
}

func scan(line, format string, values ...any) bool {
	n, err := fmt.Sscanf(line, format, values...)
	return err == nil && n == len(values)
}

// checkChain holds the journal against what was accepted: each number that is durable is
// there once, and each of those that were asked for once at most. It returns how many
// each step has.
func checkChain(c *campaign, dir string, durable map[uint64]bool, asked int) (where map[string]int, err error) {
	l, err := journal.Open(dir, journal.Config{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	where = make(map[string]int)
	step := make(map[uint64]string)
	for queue, number := range l.Queues() {
		for _, ref := range slices.Concat(l.PendingPages(number)...) {
			var e journal.Entry
			if err := ref.Read(&e); err != nil {
				return nil, err
			}
			if e.Kind != journal.KindEnqueued {
				continue
			}
			n, err := readPayload(e.Payload)
			if err != nil {
				return nil, err
			}
			if other, twice := step[n]; twice {
				return nil, fmt.Errorf("number %d is in %s and in %s: a step ended, and it or its follow-up is there twice", n, other, queue)
			}
			step[n] = queue
			where[queue]++
		}
		if dead := l.Buried(number); dead > 0 {
			return nil, fmt.Errorf("%d dead in %s", dead, queue)
		}
	}
	for n := range durable {
		if step[n] == "" {
			return nil, fmt.Errorf("number %d is in no step: one ended without its follow-up", n)
		}
	}
	if len(step) > asked {
		return nil, fmt.Errorf("%d numbers, %d were enqueued", len(step), asked)
	}
	for _, queue := range []string{stepMerged, stepBatch, chainLedger} {
		c.count("numbers found after a kill in "+queue, where[queue])
	}
	return where, nil
}

// chain is the life of a child that works on the chain.
type chain struct{ life }

// playChain enqueues until it is killed, or ends what there is.
func playChain(l life) int {
	x, err := l.open(nil)
	if err != nil {
		say("z open: %v", err)
		return 0
	}
	first, left, err := (&chain{life: l}).register(x)
	if err != nil {
		say("z register: %v", err)
		return 0
	}
	if err := x.Start(context.Background()); err != nil {
		say("z start: %v", err)
		return 0
	}
	for n := l.First; l.Mode == chainMode; n += 10 {
		say("i %d 10", n)
		items := make([]executor.Item[[]byte], 10)
		for i := range items {
			items[i] = executor.Item[[]byte]{ID: fmt.Sprint("id ", (n+i)%7), Payload: writePayload(uint64(n + i))}
		}
		if _, err := first.EnqueueMany(context.Background(), items); err != nil {
			say("z enqueue: %v", err)
			return 0
		}
		say("a %d 10", n)
	}
	for left() > 0 {
		time.Sleep(time.Millisecond)
	}
	if err := x.Stop(context.Background()); err != nil {
		say("z stop: %v", err)
	}
	return 0
}

// luck is what becomes of a call of a handler.
func (*chain) luck() error {
	switch rand.IntN(20) {
	case 0:
		return errors.New("bad luck")
	case 1:
		return executor.Snooze(time.Millisecond)
	case 2:
		time.Sleep(2 * time.Millisecond) // its run is taken apart
	}
	return nil
}

// register makes the queues, the last step first. left is how many payloads the steps
// have.
func (h *chain) register(x *executor.Executor) (first *executor.Queue[[]byte], left func() int, err error) {
	var errs error
	pause := func(int) time.Duration { return time.Millisecond }
	cfg := func(i int) executor.QueueConfig[[]byte] {
		q := queueLife{Shards: 1 + i, Concurrency: 4, Batch: 1, Async: h.Seed%2 == 0}
		if i < len(h.Queues) {
			q.Shards = h.Queues[i].Shards
		}
		c := q.config(pause)
		c.MaxRetries = 1 << 20
		return c
	}
	never := cfg(0)
	never.Defaults.Due = func([]byte) time.Time { return time.Now().Add(1000 * time.Hour) }
	byID := func(id string, _ []byte) []string { return []string{id} }
	never.Conditions.Locks = executor.Locks[[]byte]{OnEnqueue: byID, Unlock: byID, Counted: true}
	ledger, err := executor.Handle(x, chainLedger, func(context.Context, executor.Job[[]byte]) error { return nil }, never)
	errs = errors.Join(errs, err)
	batched := cfg(1)
	batched.BatchSize, batched.Gather.MaxPayloads = 4, 20
	third, err := executor.HandleBatch(x, stepBatch, func(_ context.Context, jobs []executor.Merged[[]byte]) error {
		for _, job := range jobs {
			if err := h.handOn(ledger, job); err != nil {
				return err
			}
		}
		return h.luck()
	}, batched)
	errs = errors.Join(errs, err)
	merged := cfg(2)
	merged.Gather.MaxPayloads = 20
	second, err := executor.HandleMerged(x, stepMerged, func(_ context.Context, job executor.Merged[[]byte]) error {
		return errors.Join(h.handOn(third, job), h.luck())
	}, merged)
	errs = errors.Join(errs, err)
	start := cfg(3)
	start.Defaults.Durability = executor.DurabilitySync // what was accepted is to be there
	first, err = executor.Handle(x, stepEach, func(_ context.Context, job executor.Job[[]byte]) error {
		return errors.Join(second.FollowUp(job, job.ID, job.Payload), h.luck())
	}, start)
	return first, func() (n int) {
		for _, q := range []*executor.Queue[[]byte]{first, second, third} {
			s, err := q.Stats(context.Background())
			if err != nil {
				say("x stats: %v", err)
				return 0
			}
			n += s.Payloads
		}
		return n
	}, errors.Join(errs, err)
}

// handOn stages each payload of a job for the next step.
func (*chain) handOn(next *executor.Queue[[]byte], job executor.Merged[[]byte]) error {
	for _, p := range job.Payloads {
		if err := next.FollowUp(job, job.ID, p.Value); err != nil {
			return err
		}
	}
	return nil
}
