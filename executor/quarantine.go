package executor

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// quarantine holds the jobs that were running when the process died. One of
// them may have killed it. They run again one at a time, beside all other jobs:
// so when it happens again, at most one of them is still suspected of both
// crashes, and a job that is only slow delays no one but them.
type quarantine struct {
	// open is false when nobody is suspected, which is nearly always.
	open atomic.Bool

	// mu guards what follows. Under it shards are told things and the journal
	// is given a change; neither waits, and neither comes back here.
	mu      sync.Mutex
	waiting []*suspect // parked in their shards
	active  *suspect
	aside   []*suspect // were active, and wait for a lock
}

// suspect is an id that was running when the process died.
type suspect struct {
	queue    *queue
	shard    *shard.Shard
	id       string
	position journal.Position
	crashes  int
}

// suspects finds the suspects among the pending entries of a queue, one for
// each id.
func (q *queue) suspects(pending [][]journal.Ref) ([]*suspect, error) {
	crashes := q.x.log.Suspects()
	if len(crashes) == 0 {
		return nil, nil
	}
	var found []*suspect
	var e journal.Entry
	for _, page := range pending {
		for _, ref := range page {
			n := crashes[ref.Position()]
			if n == 0 {
				continue
			}
			if err := ref.Read(&e); err != nil {
				return nil, err
			}
			id := string(e.ID)
			if !slices.ContainsFunc(found, func(s *suspect) bool { return s.id == id }) {
				found = append(found, &suspect{queue: q, id: id, position: e.Position, crashes: n})
			}
		}
	}
	return found, nil
}

// suspects reports whether an id is under suspicion.
func (z *quarantine) suspects(queue, id string) bool {
	z.mu.Lock()
	defer z.mu.Unlock()
	return slices.ContainsFunc(z.waiting, func(s *suspect) bool { return s.queue.name == queue && s.id == id })
}

// admit takes in a suspect that is parked in its shard.
func (x *Executor) admit(s *suspect) {
	x.cfg.Logger.Warn("job was running when the process died",
		slog.String("queue", s.queue.name), slog.String("id", s.id), slog.Int("crashes", s.crashes))
	z := &x.quarantine
	if x.cfg.CrashLimit > 0 && s.crashes >= x.cfg.CrashLimit {
		reason := fmt.Sprintf("crashed the process: it was running each of the %d times that the process died", s.crashes)
		claim := &claim{queue: s.queue, by: holder{s.queue.name, s.id}}
		if s.queue.core.OnExhausted != shard.Halt {
			s.queue.logBurial(s.id, s.position, reason)
		}
		s.shard.Tell(func(c *shard.Core) { c.Condemn(time.Now().UnixNano(), s.id, s.position, reason, claim) })
		s.release()
		return
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	z.open.Store(true)
	if z.active == nil {
		z.active = s
		s.release()
		return
	}
	z.waiting = append(z.waiting, s)
}

// release lets the id run.
func (s *suspect) release() { s.shard.Tell(func(c *shard.Core) { c.Unpark(s.id) }) }

// standAside lets the next suspect run when the active one turns out to wait for
// a lock, which may be another suspect's. It stays suspected: when it can run,
// it runs beside another one.
func (x *Executor) standAside(q *queue, id string) {
	z := &x.quarantine
	if !z.open.Load() {
		return
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	if s := z.active; s != nil && s.queue == q && s.id == id {
		z.aside = append(z.aside, s)
		z.next()
	}
}

// ran reports whether a worker has run the payload at a position, of an item that it
// has run.
func (q *queue) ran(it *shard.Item, at journal.Position) bool {
	return !q.core.Single || it.Current().Ref.Position() == at
}

// next lets the next suspect run. mu is held.
func (z *quarantine) next() {
	z.active = nil
	if len(z.waiting) > 0 {
		z.active, z.waiting = z.waiting[0], z.waiting[1:]
		z.active.release()
	}
}

// acquit takes the suspicion off those who are among the items that a worker has
// run, and lets the next one run.
func (x *Executor) acquit(q *queue, items []*shard.Item) {
	z := &x.quarantine
	if !z.open.Load() {
		return
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	acquitted := func(s *suspect) bool {
		ran := s.queue == q && slices.ContainsFunc(items, func(it *shard.Item) bool { return it.ID == s.id && q.ran(it, s.position) })
		if ran {
			x.log.Record(&journal.Change{Sets: []journal.Set{journal.Cleared(s.position)}})
		}
		return ran
	}
	z.aside = slices.DeleteFunc(z.aside, acquitted)
	if z.active != nil && acquitted(z.active) {
		z.next()
	}
	z.open.Store(z.active != nil || len(z.aside) > 0)
}
