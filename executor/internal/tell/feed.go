package tell

import (
	"math/rand/v2"
	"strings"
	"time"

	"github.com/strandjobs/strand/executor/events"
	"github.com/strandjobs/strand/executor/internal/feed"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// Witness hears of all that happens to jobs, whether there are readers or not, on the goroutine
// that tells it. Its methods must not block, nor keep what they get a pointer to.
type Witness interface {
	// Accepted hears of a payload before its shard does, after the commit, and before
	// Told does.
	Accepted(queue string, e *journal.Entry)
	// Told hears of each event. Its Number is 0, and it has no Token.
	Told(e events.Event)
}

// kinds are all there are. Where one stands is its number in the ring, from 1 on.
var kinds = [...]events.Kind{1: events.Accepted, events.Requeued, events.Merged, events.Parked, events.Started, events.Progress,
	events.Done, events.Failed, events.Snoozed, events.Discarded, events.Cancelled, events.Interrupted, events.Buried,
	events.Halted, events.Deleted, events.Paused, events.Resumed, events.Committed}

var numbers = func() map[events.Kind]uint8 {
	numbers := make(map[events.Kind]uint8, len(kinds))
	for i, k := range kinds[1:] {
		numbers[k] = uint8(i + 1)
	}
	return numbers
}()

// of returns a set of kinds.
func of(some ...events.Kind) (all feed.Kinds) {
	for _, k := range some {
		all |= feed.Of(numbers[k])
	}
	return all
}

// Kinds that are asked for together.
var (
	arrivals  = of(events.Accepted, events.Requeued)
	verdicts  = of(events.Done, events.Failed, events.Snoozed, events.Discarded, events.Cancelled, events.Interrupted, events.Halted)
	successes = of(events.Done, events.Cancelled)
	calls     = verdicts | of(events.Started)
	commits   = of(events.Committed)
)

// Feed is that of an executor. The zero Feed is off; see Open. Its methods may be called
// by any goroutine, but for Open, which comes first.
type Feed struct {
	ring    *feed.Feed[events.Event] // nil: it is off
	life    uint64                   // names the executor in tokens
	self    Source                   // of what is about no queue
	witness Witness                  // nil: there is none
}

// Open switches the feed on, with room for so many events, at least one, and with a
// witness, which may be nil.
func (f *Feed) Open(size int, witness Witness) {
	f.ring, f.life, f.witness = feed.New[events.Event](size), rand.Uint64(), witness
	f.Join(&f.self, "", nil) // before the witness, which is not for commits
	if witness != nil {
		f.ring.SetWitness(func(e feed.Event[events.Event]) { witness.Told(shown(&e)) })
	}
}

// Close ends the loops of the readers when they have had all.
func (f *Feed) Close() {
	if f.ring != nil {
		f.ring.Close()
	}
}

// Join makes a queue a source of events, before it has any; core is how its shards work.
func (f *Feed) Join(s *Source, name string, core *shard.Config) {
	s.Name, s.feed, s.core = name, f, core
	if f.ring != nil {
		f.ring.Add(&s.Source)
	}
}

// Committed tells that the disk took so long for a commit.
func (f *Feed) Committed(took time.Duration) {
	if f.self.Wants(commits) {
		f.self.Tell(events.Event{Kind: events.Committed, Duration: took})
	}
}

// Paused tells that the executor is paused, or goes on.
func (f *Feed) Paused(on bool) { f.self.Paused(on, events.Event{}) }

// shown is an event as readers get it, but for its token.
func shown(e *feed.Event[events.Event]) events.Event {
	told := e.Value
	told.Number, told.Queue = e.Number, e.Source.Name
	return told
}

// maxText is how much an event has of an error.
const maxText = 512

// bounded is what an event keeps of a text.
func bounded(s string) string {
	if len(s) <= maxText {
		return s
	}
	return strings.Clone(strings.ToValidUTF8(s[:maxText], ""))
}
