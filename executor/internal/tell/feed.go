package tell

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
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

// Reader reads events from one place of the feed on. It may be copied; a copy belongs to
// one goroutine.
type Reader struct {
	at   feed.Reader[events.Event]
	over <-chan struct{}
	life uint64
	lost *events.MissedError // to be told first; nil: nothing
}

// Read returns a reader for a filter, whose queues are these sources; none: all. It ends
// with ctx, and when the feed is closed and it has had all. An error is about the filter.
func (f *Feed) Read(ctx context.Context, filter events.Filter, queues []*Source) (*Reader, error) {
	if f.ring == nil {
		return nil, errors.New("there is no feed of events: Advanced.EventBuffer is below zero")
	}
	want, err := wanted(filter.Kinds, queues)
	if err != nil {
		return nil, err
	}
	r := &Reader{over: ctx.Done(), life: f.life}
	life, number, ok := parse(filter.After)
	switch {
	case filter.After == "":
		r.at = *f.ring.Open(want)
	case !ok:
		return nil, fmt.Errorf("the Filter has After %.100q, which is no Token of an Event", filter.After)
	case life != f.life:
		r.at, r.lost = *f.ring.Open(want), &events.MissedError{Restarted: true}
	default:
		after, ok := f.ring.OpenAfter(want, number)
		if !ok {
			return nil, fmt.Errorf("the Filter has After %.100q, and there is no such event yet", filter.After)
		}
		r.at = *after
	}
	return r, nil
}

func wanted(some []events.Kind, queues []*Source) (want feed.Filter, err error) {
	for _, k := range some {
		if numbers[k] == 0 {
			return want, fmt.Errorf("there is no kind of events %.100q; there are: %q", k, kinds[1:])
		}
		want.Kinds |= of(k)
	}
	if len(some) == 0 {
		want.Kinds = ^commits
	}
	for _, s := range queues {
		want.Sources = append(want.Sources, &s.Source)
	}
	return want, nil
}

// place is the token of an event in the feed of an executor.
func place(life, number uint64) string { return fmt.Sprintf("%016x-%d", life, number) }

func parse(token string) (life, number uint64, ok bool) {
	a, b, _ := strings.Cut(token, "-")
	life, err1 := strconv.ParseUint(a, 16, 64)
	number, err2 := strconv.ParseUint(b, 10, 64)
	return life, number, err1 == nil && err2 == nil
}

// Each yields the events until the end, or until yield returns false.
func (r *Reader) Each(yield func(events.Event, error) bool) {
	if r.lost != nil && !yield(events.Event{}, r.lost) {
		return
	}
	r.at.Begin()
	defer r.at.End()
	var buffer []feed.Event[events.Event]
	for {
		got, missed := r.at.Next(r.over, buffer[:0])
		if missed != (feed.Missed{}) && !yield(events.Event{}, &events.MissedError{Events: missed.Numbers, Uncounted: missed.Uncounted}) {
			return
		}
		for i := range got {
			told := shown(&got[i])
			told.Token = place(r.life, told.Number)
			if r.ended() || !yield(told, nil) {
				return
			}
		}
		if len(got) == 0 && missed == (feed.Missed{}) || r.ended() {
			return
		}
		buffer = got
		clear(buffer) // of what a slow loop would keep
	}
}

func (r *Reader) ended() bool {
	select {
	case <-r.over:
		return true
	default:
		return false
	}
}
