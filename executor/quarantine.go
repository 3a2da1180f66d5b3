package executor

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// quarantine holds the jobs that may have killed a process: what was running when
// it died. Nearly all of them run again at once, like any other, and are rid of
// the suspicion when they end. Those that were running at two deaths in a row are
// parked; first the process lives without them for as long as [journal.Suspicion]
// says, then they run one after the other, beside all other jobs. One that lasts
// keeps the others waiting for ten seconds at most.
type quarantine struct {
	// open is false when nobody is suspected, which is nearly always.
	open atomic.Bool

	// mu guards what follows. Under it shards are told things and the journal
	// is given a change; neither waits, and neither comes back here.
	mu       sync.Mutex
	suspects map[holder]*suspect // and not acquitted
	held     []*suspect          // of these, parked
	active   *suspect            // of these, the one whose turn it is; nil: the next one is to come
	givenUp  []string            // what is said of those that do not run again
	running  *journal.Running
	since    time.Time   // when jobs began to run; zero: they don't yet
	timer    *time.Timer // for the next turn
	closed   bool
}

// suspect is an id that was running when the process died.
type suspect struct {
	journal.Suspicion
	queue    *queue
	shard    *shard.Shard
	id       string
	position journal.Position
}

// suspects finds the suspects among the pending entries of a queue: of each id the
// one whom most speaks against, for which the id waits. It counts those that ran at
// the death and are not kept from running again.
func (q *queue) suspects(pending [][]journal.Ref) (found []*suspect, err error) {
	suspicions, death := q.x.log.Suspects(), q.x.log.Death()
	if len(suspicions) == 0 && death == nil {
		return nil, nil
	}
	var ran []string
	var e journal.Entry
	for _, page := range pending {
		for _, ref := range page {
			suspicion, ok := suspicions[ref.Position()]
			again := death.WasRunning(ref.Position())
			if !ok && !again {
				continue
			}
			if err := ref.Read(&e); err != nil {
				return nil, err
			}
			id := string(e.ID)
			if again {
				ran = append(ran, id)
			}
			if !ok {
				continue
			}
			s := &suspect{Suspicion: suspicion, queue: q, id: id, position: e.Position}
			if i := slices.IndexFunc(found, func(s *suspect) bool { return s.id == id }); i < 0 {
				found = append(found, s)
			} else if suspicion.Exceeds(found[i].Suspicion) {
				found[i] = s
			}
		}
	}
	q.again = len(slices.DeleteFunc(ran, func(id string) bool {
		return slices.ContainsFunc(found, func(s *suspect) bool { return s.id == id && (s.isHeld() || s.isGivenUp()) })
	}))
	return found, nil
}

// isHeld reports whether it has to wait for its turn.
func (s *suspect) isHeld() bool { return s.queue.x.cfg.CrashLimit > 0 && s.Strong() }

// isGivenUp reports whether it does not run again.
func (s *suspect) isGivenUp() bool {
	limit := s.queue.x.cfg.CrashLimit
	return limit > 0 && s.Deaths >= limit && s.Guilty()
}

// String says who is suspected, and of what.
func (s *suspect) String() string {
	name := holder{s.queue.name, s.id}.String()
	switch {
	case s.isGivenUp():
		return fmt.Sprintf("%s was running at %d deaths and is the cause: given up", name, s.Deaths)
	case s.Guilty():
		return fmt.Sprintf("%s is the cause of the last of %d deaths", name, s.Deaths)
	}
	return fmt.Sprintf("%s was running at %d deaths: held for %v", name, s.Deaths, s.Hold().Round(time.Millisecond))
}

// release lets the id run.
func (s *suspect) release() { s.shard.Tell(func(c *shard.Core) { c.Unpark(s.id) }) }

// holds reports whether an id has to wait for its turn.
func (z *quarantine) holds(queue, id string) bool {
	z.mu.Lock()
	defer z.mu.Unlock()
	return slices.ContainsFunc(z.held, func(s *suspect) bool { return s.queue.name == queue && s.id == id })
}

// admit takes in a suspect, which is parked in its shard if it is held or given
// up.
func (z *quarantine) admit(s *suspect) {
	if s.isGivenUp() {
		s.condemn()
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	if s.isGivenUp() {
		z.givenUp = append(z.givenUp, s.String())
		return
	}
	if z.suspects == nil {
		z.suspects = make(map[holder]*suspect)
	}
	z.suspects[holder{s.queue.name, s.id}] = s
	z.open.Store(true)
	if s.isHeld() {
		z.held = append(z.held, s)
		z.next()
	}
}

// condemn gives a job up that has killed the process, as if it had failed for the
// last time.
func (s *suspect) condemn() {
	reason, claim := s.reason(), &claim{queue: s.queue, by: holder{s.queue.name, s.id}}
	s.shard.Tell(func(c *shard.Core) { c.Condemn(time.Now().UnixNano(), s.id, s.position, reason, claim) })
	// Not before: the sentence has to be in the log by then.
	s.shard.Tell(func(c *shard.Core) { s.queue.x.clear(s); c.Unpark(s.id) })
}

func (s *suspect) reason() string {
	return fmt.Sprintf("crashed the process: it was running each of the last %d times that the process died, and is the cause", s.Deaths)
}

// logIfGivenUp is left to those who hold no lock.
func (s *suspect) logIfGivenUp() {
	switch {
	case !s.isGivenUp():
	case s.queue.core.OnExhausted == shard.Halt:
		s.queue.logHalt(s.id, s.Deaths, s.reason())
	default:
		s.queue.logBurial(s.id, s.position, s.reason())
	}
}

// clear writes down that nothing speaks against s any more.
func (x *Executor) clear(s *suspect) {
	x.log.Record(&journal.Change{Sets: []journal.Set{journal.Cleared(s.position)}})
}

// start says that jobs run from now on.
func (z *quarantine) start(r *journal.Running) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.running, z.since = r, time.Now()
	z.next()
}

// close ends all turns.
func (z *quarantine) close() {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.closed = true
	if z.timer != nil {
		z.timer.Stop()
	}
}

// next lets the next suspect run, if it is time, and else sees to it when it is.
// It comes first whose guilt would show first. mu is held.
func (z *quarantine) next() {
	if z.active != nil || len(z.held) == 0 || z.since.IsZero() || z.closed {
		return
	}
	first := slices.MinFunc(z.held, func(a, b *suspect) int { return int(a.Hold() - b.Hold()) })
	if wait := time.Until(z.since.Add(first.Hold())); wait > 0 {
		z.wake(wait)
		return
	}
	z.held = slices.DeleteFunc(z.held, func(s *suspect) bool { return s == first })
	z.active = first
	z.wake(maxTurn) // if it does not even begin
	first.release()
}

// maxTurn is how long a suspect may keep others waiting.
const maxTurn = 10 * time.Second

func (z *quarantine) wake(after time.Duration) {
	if z.timer == nil {
		z.timer = time.AfterFunc(after, z.turn)
	} else {
		z.timer.Reset(after)
	}
}

// turn is what the timer calls: a suspect has been held, or has had its turn.
// A timer that ran out too late shortens a turn, at worst.
func (z *quarantine) turn() {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.active = nil
	z.next()
}

// begun notes that a worker has the items in hand now.
func (z *quarantine) begun(q *queue, items []*shard.Item) {
	if !z.open.Load() {
		return
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	if s := z.active; s != nil && s.queue == q && has(items, s.id) {
		z.running.Rebeat()
		z.wake(s.Alone())
	}
}

func has(items []*shard.Item, id string) bool {
	return slices.ContainsFunc(items, func(it *shard.Item) bool { return it.ID == id })
}

// standAside lets the next suspect run when the active one turns out to wait for
// a lock, which may be another suspect's. It stays suspected: when it can run,
// it runs beside another one.
func (z *quarantine) standAside(q *queue, id string) {
	if !z.open.Load() {
		return
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	if s := z.active; s != nil && s.queue == q && s.id == id {
		z.active = nil
		z.next()
	}
}

// ran reports whether a worker has run the payload at a position, of an item that it
// has run.
func (q *queue) ran(it *shard.Item, at journal.Position) bool {
	return !q.core.Single || it.Current().Ref.Position() == at
}

// deaths returns how many deaths of the process speak against what an item has in hand.
func (z *quarantine) deaths(q *queue, it *shard.Item) int {
	if !z.open.Load() {
		return 0
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	if s := z.suspects[holder{q.name, it.ID}]; s != nil && q.ran(it, s.position) {
		return s.Deaths
	}
	return 0
}

// acquit takes the suspicion off those who are among the items that a worker has
// run, and lets the next one run.
func (z *quarantine) acquit(q *queue, items []*shard.Item) {
	if !z.open.Load() {
		return
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	for _, it := range items {
		key := holder{q.name, it.ID}
		s := z.suspects[key]
		if s == nil || !q.ran(it, s.position) {
			continue
		}
		delete(z.suspects, key)
		q.x.clear(s)
		if z.active == s {
			z.active = nil
			z.next()
		}
	}
	z.open.Store(len(z.suspects) > 0)
}

// named returns what is said of those who are held, given up, or the cause.
func (z *quarantine) named() (names []string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	names = slices.Clone(z.givenUp)
	for _, s := range z.suspects {
		if s.isHeld() || s.Guilty() {
			names = append(names, s.String())
		}
	}
	return names
}
