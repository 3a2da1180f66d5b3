package shard

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/actor"
	"github.com/strandjobs/strand/journal"
)

// Whatever a core is doing when an entry can't be read back: from then on it
// hands out, merges and records nothing, and every entry is there at the next
// start.
func TestUnreadableEntryStopsTheCore(t *testing.T) {
	broken := 0
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 0))
		policies := combinations()
		cfg := policies[r.IntN(len(policies))]
		cfg.MaxRetries, cfg.Concurrency, cfg.MaxPayloads = r.IntN(3), 1+r.IntN(3), r.IntN(3)
		g := newRig(t, cfg, 1)
		c := g.cores[0]
		recorded := make(map[journal.Position]bool)
		g.record = func(change *journal.Change) {
			require.NoError(t, c.Err(), "seed %d: recorded", seed)
			for _, ref := range change.Ended {
				recorded[ref.Position()] = true
			}
			for _, b := range change.Buried {
				recorded[b.Ref.Position()] = true
			}
		}
		accepted := make(map[journal.Position]string)
		accept := func() {
			var entries []journal.Entry
			for range 1 + r.IntN(3) {
				data := fmt.Append(nil, "payload ", len(accepted)+len(entries)) // no two are alike: none may merge
				entries = append(entries, journal.Entry{Queue: g.queue, ID: []byte{'a' + byte(r.IntN(6))}, Payload: data, Score: r.Float64(), Due: int64(r.IntN(100))})
			}
			ticket, err := g.log.Append(context.Background(), entries, nil)
			if err == nil {
				err = ticket.Wait(context.Background())
			}
			if err != nil {
				require.ErrorIs(t, g.log.Err(), journal.ErrFailed)
				return
			}
			for i, e := range entries {
				accepted[ticket.Position(i)] = string(e.Payload)
			}
		}
		var runs []*Run
		step := func(now int64) {
			switch r.IntN(8) {
			case 0, 1:
				accept()
			case 2:
				g.takeIn()
			case 3, 4:
				if run := c.NewRun(); c.Take(now, run) {
					require.NoError(t, c.Err(), "seed %d: handed out", seed)
					runs = append(runs, run)
				}
			case 5, 6:
				if len(runs) == 0 {
					break
				}
				run := runs[0]
				runs = runs[1:]
				for i := range run.Items {
					it := &run.Items[i]
					if it.start(i) {
						it.Outcome = Outcome{Verdict: Verdict(1 + r.IntN(6)), Delay: 5}
					}
				}
				c.Finish(now, run)
			case 7:
				id := string([]byte{'a' + byte(r.IntN(6))})
				[]func(){
					func() { c.RunNow(id, now, true) }, func() { c.Has(id) }, func() { c.Hold(id, HoldWait) }, func() { c.Let(id, HoldWait) },
					func() {
						if v, _ := c.view(id); len(v.held)+len(v.waiting) > 0 {
							c.Condemn(now, id, append(v.held, v.waiting...)[0].Ref.Position(), "because", nil)
						}
					},
					func() { c.Status(id) },
					func() { c.stepClock(now, int64(1e12)) }, func() { c.Counts() },
				}[r.IntN(8)]()
			}
			c.reclaim(now)
			c.Record(g)
		}
		before, now := 20+r.IntN(40), int64(0)
		for range before {
			now += int64(r.IntN(5))
			step(now)
		}
		g.mem.FailReads(errors.New("the disk does not answer"))
		for range 60 {
			now += int64(r.IntN(5))
			step(now)
		}
		if c.Err() != nil {
			broken++
			_, ok := c.ready(now + 1000)
			require.False(t, ok)
			require.False(t, c.Take(now+1000, c.NewRun()))
		}
		if err := g.log.Close(); err != nil {
			require.ErrorIs(t, err, journal.ErrFailed)
		}

		g.mem.FailReads(nil)
		log, err := journal.OpenMemory(g.mem, journal.Config{})
		require.NoError(t, err)
		live := make(map[journal.Position]string)
		for _, ref := range slices.Concat(log.PendingPages(g.queue)...) {
			var e journal.Entry
			mustRead(ref, &e)
			live[e.Position] = string(e.Payload)
		}
		for p, data := range accepted {
			if !recorded[p] {
				require.Equal(t, data, live[p], "seed %d: #%d is lost", seed, p)
			}
		}
		require.NoError(t, log.Close())
	}
	require.Greater(t, broken, 200)
}

// lender is a dispatcher with one worker, which it lends when it may.
type lender struct {
	lend     atomic.Bool
	returned chan Worker
}

type idler struct{ lender *lender }

func (idler) Assign(*Run) { panic("a run that can't be read") }

func (w idler) Return() { w.lender.returned <- w }

func (d *lender) Offer(*Shard, int64) Worker {
	if d.lend.Load() {
		return idler{d}
	}
	return nil
}

// A worker that a shard has found and can't use goes back, and a caller that asks
// the shard learns why.
func TestUnreadableEntryReturnsTheWorker(t *testing.T) {
	disk := new(journal.Memory)
	var s *Shard
	log, err := journal.OpenMemory(disk, journal.Config{MemoryBudget: 1, Deliver: func(d *journal.Delivery) { s.Deliver(d) }})
	require.NoError(t, err)
	system := actor.New(actor.Config{})
	d := &lender{returned: make(chan Worker, 1)}
	s, err = New(system, "shard", NewCore(1, Config{}), silent{log}, d, nil)
	require.NoError(t, err)
	for i := range 3 {
		ticket, err := log.Append(context.Background(), []journal.Entry{{Queue: 1, ID: fmt.Append(nil, i)}}, nil)
		require.NoError(t, err)
		require.NoError(t, ticket.Wait(context.Background()))
	}
	// What was read last stays in memory: let it not be the first.
	require.NoError(t, s.Do(context.Background(), func(c *Core) { require.True(t, c.Has("1")) }))
	broken := errors.New("the disk does not answer")
	disk.FailReads(broken)
	d.lend.Store(true)
	_ = s.Do(context.Background(), func(*Core) {}) // it looks for a worker after each message
	require.Equal(t, idler{d}, <-d.returned)
	require.ErrorIs(t, s.Do(context.Background(), func(*Core) {}), broken)
	require.NoError(t, s.Stop(context.Background()))
	require.ErrorIs(t, log.Close(), broken)
}

// silent is a Recorder on a log.
type silent struct{ log *journal.Log }

func (r silent) Record(c *Change) { r.log.Record(&c.Change) }
