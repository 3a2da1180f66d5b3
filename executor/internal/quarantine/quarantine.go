// Package quarantine holds the jobs that may have killed a process: what was running when
// it died. It knows what the journal says of them, and neither queues nor workers.
//
// Nearly all of them run again at once, like any other, and are rid of the suspicion when
// they end. Those that were running at two deaths are held; first the process
// lives without them for as long as [journal.Suspicion] says, then they run one after the
// other, beside all other jobs. One that lasts keeps the others waiting for ten seconds at
// most. One that is the cause of as many deaths as its limit says is given up.
package quarantine

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/executor/internal/each"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// Quarantine holds the suspects of all queues. The zero Quarantine has none.
type Quarantine struct {
	// open is false when nothing is suspected, or waits to be given up, which is nearly always.
	open atomic.Bool

	// mu guards what follows. The functions of suspects are called under it.
	mu       sync.Mutex
	suspects map[admit.Owner]*Suspect // and not acquitted
	held     []*Suspect               // of these, parked
	active   *Suspect                 // of these, the one whose turn it is; nil: the next one is to come
	givenUp  []*Suspect               // that do not run again
	rebeat   func()
	since    time.Time   // when jobs began to run; zero: they don't yet
	timer    *time.Timer // for the next turn
	closed   bool
}

// Suspect is an id that was running when the process died.
type Suspect struct {
	journal.Suspicion
	admit.Owner
	Position journal.Position // of what was running
	Limit    int              // of deaths; 0 or below: it is neither held nor given up
	Over     atomic.Bool      // it was given up, for which the disk had room

	// What the quarantine calls. Neither function waits, or calls the quarantine back.
	Release func() // lets the id run, which is parked
	Clear   func() // writes down that nothing speaks against it any more
}

// Held reports whether it has to wait for its turn.
func (s *Suspect) Held() bool { return s.Limit > 0 && s.Strong() }

// Heir reports whether it is newer than what was given up, and has not run.
func (s *Suspect) Heir() bool { return s.Odds == Inherited }

// Inherited are the odds of an heir, which no death gives.
var Inherited = math.Inf(1)

// GivenUp reports whether it does not run again.
func (s *Suspect) GivenUp() bool {
	return s.Limit > 0 && (s.Heir() || s.Deaths >= s.Limit && s.Guilty())
}

// crashed is how the reason of a dead letter begins that was given up.
const crashed = "crashed the process: "

// Guilty reports whether a dead letter was given up. Older versions told by its reason alone.
func Guilty(b *journal.Buried) bool {
	return b.Crashed || b.Untold && strings.HasPrefix(b.Reason, crashed)
}

// Reason is why it is given up.
func (s *Suspect) Reason() string {
	if s.Heir() {
		return crashed + "older payloads of its id did; this one has not run, and does when a person says so"
	}
	return fmt.Sprintf(crashed+"it was running each of the last %d times that the process died, and is the cause", s.Deaths)
}

// String names the suspect, and says what it is suspected of.
func (s *Suspect) String() string {
	why := fmt.Sprintf("was running at %d deaths and is the cause", s.Deaths)
	if s.Heir() {
		why = "is newer than the cause"
	}
	switch {
	case s.Over.Load():
		return fmt.Sprintf("%s %s: given up", s.Owner, why)
	case s.GivenUp():
		return fmt.Sprintf("%s %s: held until the disk has room to give it up", s.Owner, why)
	case s.Guilty():
		return fmt.Sprintf("%s is the cause of the last of %d deaths", s.Owner, s.Deaths)
	}
	return fmt.Sprintf("%s was running at %d deaths: held for %v", s.Owner, s.Deaths, s.Hold().Round(time.Millisecond))
}

// Holds returns the suspect for which an id has to wait: for its turn, or to be given up.
func (z *Quarantine) Holds(queue, id string) *Suspect {
	z.mu.Lock()
	defer z.mu.Unlock()
	for _, s := range slices.Concat(z.held, z.givenUp) {
		if s.Queue == queue && s.ID == id && !s.Over.Load() {
			return s
		}
	}
	return nil
}

// Admit takes in a suspect, which is parked in its shard if it is held or given up. One that is
// given up takes the place of those of its id.
func (z *Quarantine) Admit(s *Suspect) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.open.Store(true)
	if s.GivenUp() {
		z.givenUp = append(slices.DeleteFunc(z.givenUp, func(o *Suspect) bool { return o.Owner == s.Owner }), s)
		return
	}
	if z.suspects == nil {
		z.suspects = make(map[admit.Owner]*Suspect)
	}
	z.suspects[s.Owner] = s
	if s.Held() {
		z.held = append(z.held, s)
		z.next()
	}
}

// Start says that jobs run from now on. A suspect whose turn begins has rebeat
// called, so that the crash recorder counts from there.
func (z *Quarantine) Start(rebeat func()) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.rebeat, z.since = rebeat, time.Now()
	z.next()
}

// Close ends all turns.
func (z *Quarantine) Close() {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.closed = true
	if z.timer != nil {
		z.timer.Stop()
	}
}

// next lets the next suspect run, if it is time, and else sees to it when it is.
// The suspect whose guilt would show soonest goes first. mu is held.
func (z *Quarantine) next() {
	if z.active != nil || len(z.held) == 0 || z.since.IsZero() || z.closed {
		return
	}
	first := slices.MinFunc(z.held, func(a, b *Suspect) int { return int(a.Hold() - b.Hold()) })
	if wait := time.Until(z.since.Add(first.Hold())); wait > 0 {
		z.wake(wait)
		return
	}
	z.held = slices.DeleteFunc(z.held, func(s *Suspect) bool { return s == first })
	z.active = first
	z.wake(maxTurn) // if it does not even begin
	first.Release()
}

// maxTurn is how long a suspect may keep others waiting.
const maxTurn = 10 * time.Second

func (z *Quarantine) wake(after time.Duration) {
	if z.timer == nil {
		z.timer = time.AfterFunc(after, z.turn)
	} else {
		z.timer.Reset(after)
	}
}

// turn is what the timer calls: a suspect has been held, or has had its turn. A
// timer that ran out too late shortens a turn, at worst.
func (z *Quarantine) turn() {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.active = nil
	z.next()
}

// Begun notes that a worker has items of a queue in hand now.
func (z *Quarantine) Begun(queue string, items []*shard.Item) {
	if !z.open.Load() {
		return
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	if s := z.active; s != nil && s.Queue == queue && slices.ContainsFunc(items, func(it *shard.Item) bool { return it.ID == s.ID }) {
		z.rebeat()
		z.wake(s.Alone())
	}
}

// StandAside lets the next suspect run when the active one turns out to wait for a
// lock, which may be another suspect's, or is refused. It stays suspected: when it can run,
// it runs beside another one.
func (z *Quarantine) StandAside(queue, id string) {
	if !z.open.Load() {
		return
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	if s := z.active; s != nil && s.Queue == queue && s.ID == id {
		z.active = nil
		z.next()
	}
}

// Deaths returns how many deaths of the process speak against what a worker has in
// hand of an id. Single: that is one payload.
func (z *Quarantine) Deaths(queue string, it *shard.Item, single bool) int {
	if !z.open.Load() {
		return 0
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	if s := z.suspects[admit.Owner{Queue: queue, ID: it.ID}]; s != nil && s.ranIn(it, single) {
		return s.Deaths
	}
	return 0
}

// ranIn reports whether it is the suspect that ran, and not another payload of its id.
func (s *Suspect) ranIn(it *shard.Item, single bool) bool {
	return !single || it.Payloads[it.Outcome.Done].Ref.Position() == s.Position
}

// Acquit takes the suspicion off the suspects among the items of a queue that a worker has
// run, or that are over without that, and lets the next one run. Single: of each it has had one
// payload. What a failure sends to the morgue without a run is for Ended.
func (z *Quarantine) Acquit(queue string, items []*shard.Item, single bool) {
	if !z.open.Load() {
		return
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	for _, it := range items {
		s := z.suspects[admit.Owner{Queue: queue, ID: it.ID}]
		v := it.Outcome.Verdict
		over := v == shard.VerdictDone || v == shard.VerdictDiscarded || v == shard.VerdictCanceled || it.Removal(single) != nil
		if s == nil || it.Outcome.Unrun && !over || !s.ranIn(it, single) {
			continue
		}
		z.drop(s)
	}
	z.review()
}

// Ended drops the suspects that a change deletes or buries although they have not run, as a person wants it, and lets
// their ids run.
func (z *Quarantine) Ended(queue string, c *shard.Change) {
	if len(c.Deleted)+len(c.Buried) == 0 || !z.open.Load() {
		return
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	for _, s := range z.all() {
		buried := func(b journal.Burial) bool { return b.Ref.Position() == s.Position }
		ended := slices.Contains(c.Deleted, s.Position) || slices.ContainsFunc(c.Buried, buried)
		if ended && s.Queue == queue && !s.Over.Load() {
			is := func(o *Suspect) bool { return o == s }
			z.held, z.givenUp = slices.DeleteFunc(z.held, is), slices.DeleteFunc(z.givenUp, is)
			s.Over.Store(true)
			z.drop(s)
			s.Release()
		}
	}
	z.review()
}

// drop takes the suspicion off a suspect. mu is held.
func (z *Quarantine) drop(s *Suspect) {
	delete(z.suspects, s.Owner)
	s.Clear()
	if z.active == s {
		z.active = nil
		z.next()
	}
}

// review notes whether anything is suspected. mu is held.
func (z *Quarantine) review() {
	z.open.Store(slices.ContainsFunc(z.all(), func(s *Suspect) bool { return !s.Over.Load() }))
}

// Inherit has what speaks against a payload speak against the one that takes its place,
// and returns how that is written down.
func (z *Quarantine) Inherit(queue string, from, to journal.Position) []journal.Set {
	if !z.open.Load() {
		return nil
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	for _, s := range z.all() {
		if s.Queue == queue && s.Position == from && !s.Over.Load() {
			s.Position = to
			return []journal.Set{journal.Cleared(from), s.Set(to)}
		}
	}
	return nil
}

// all returns the suspects that are not acquitted, and those that were given up.
func (z *Quarantine) all() []*Suspect {
	return slices.AppendSeq(slices.Clone(z.givenUp), maps.Values(z.suspects))
}

// Named returns what is said of the suspects that are held, given up, or the cause.
func (z *Quarantine) Named() []string {
	z.mu.Lock()
	defer z.mu.Unlock()
	return each.Of(slices.DeleteFunc(z.all(), func(s *Suspect) bool { return !s.Held() && !s.Guilty() }), (*Suspect).String)
}
