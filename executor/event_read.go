package executor

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/strandjobs/strand/executor/internal/feed"
)

// EventFilter says which events a reader wants. The zero EventFilter means all but
// EventCommitted, from now on.
type EventFilter struct {
	// Queues are names of registered queues. Default: all queues, also those that are
	// registered later, and events that are about no queue.
	Queues []string

	// Kinds of events. Default: all but EventCommitted, of which there may be
	// thousands a second.
	Kinds []EventKind

	// After is the [Event.Token] of the last event that the reader has seen; it goes on
	// behind that one. Default: the reader begins with the call of Events.
	After string
}

// MissedError says that a reader has missed events: it was too slow, was away for too
// long, or no reader wanted them when they happened. The reader goes on with the oldest
// event that is left.
type MissedError struct {
	// Events is how many were overwritten, of all kinds and queues that any reader
	// wanted.
	Events uint64

	// Uncounted: there may have been others beside them.
	Uncounted bool

	// Restarted: the token is of another executor, of an earlier process most
	// likely. The reader gets what happens from now on.
	Restarted bool
}

func (e *MissedError) Error() string {
	switch {
	case e.Restarted:
		return "executor: events missed: the token is from before a restart"
	case e.Uncounted:
		return fmt.Sprintf("executor: %d events missed, and maybe more that were not counted", e.Events)
	}
	return fmt.Sprintf("executor: %d events missed", e.Events)
}

// Events yields what happens to jobs, from a buffer in memory, as it happens. It yields
// what happens after the call, also if the loop begins later. A slow loop holds up
// neither jobs nor other readers, of which there may be any number. The loop ends when
// ctx does, and after [Executor.Stop] with the last event.
//
// The buffer keeps Config.Advanced.EventBuffer events. A reader that falls further
// behind gets a [*MissedError] once, and then the oldest event that is left. While no
// loop reads, the feed is switched off after so many events, to save the cost: a loop
// that begins after that has missed all of those, and others that were not counted. Any
// other error is yielded once and ends the loop: ErrConfig for an unknown kind, an
// invalid token, or an EventBuffer below zero; ErrUnknownQueue; and ErrContext.
//
// Events of one id of a queue come in the order in which they happened. EventAccepted
// and EventRequeued come after the commit. All other events come when the executor has
// decided what they tell, a few milliseconds before that is on disk: if the process
// dies in between, a job whose EventDone was read runs again. So the feed is no audit
// log; for one that lasts, see "Events" in the guide (README.md). The feed does not
// survive a restart; a reader that comes with a token from before is told so by the
// MissedError.
//
// Without a reader, events cost an atomic load for each call of a handler; with one,
// about 0.2 µs each. Queues and kinds that no reader wants are not recorded.
func (x *Executor) Events(ctx context.Context, f EventFilter) iter.Seq2[Event, error] {
	r, err := x.openEvents(ctx, f)
	return func(yield func(Event, error) bool) {
		if err != nil {
			yield(Event{}, err)
			return
		}
		again := *r // each loop begins where the call was
		again.yield(yield)
	}
}

// eventReader is a reader with what it has to be told first.
type eventReader struct {
	feed.Reader[fact]
	ctx   context.Context
	life  uint64
	first error // nil: nothing
}

func (x *Executor) openEvents(ctx context.Context, f EventFilter) (*eventReader, error) {
	ctx, err := usable(ctx)
	if err != nil {
		return nil, err
	}
	if x == nil || x.events.feed == nil {
		return nil, fmt.Errorf("%w: there is no feed of events: Advanced.EventBuffer is below zero", ErrConfig)
	}
	want, err := x.wanted(f)
	if err != nil {
		return nil, err
	}
	r := &eventReader{ctx: ctx, life: x.events.life}
	if f.After == "" {
		r.Reader = *x.events.feed.Open(want)
		return r, nil
	}
	life, number, err := parseToken(f.After)
	if err != nil {
		return nil, err
	}
	if life != x.events.life {
		r.Reader, r.first = *x.events.feed.Open(want), &MissedError{Restarted: true}
		return r, nil
	}
	after, ok := x.events.feed.OpenAfter(want, number)
	if !ok {
		return nil, fmt.Errorf("%w: After is %q, and there is no such event yet", ErrConfig, brief(f.After))
	}
	r.Reader = *after
	return r, nil
}

// wanted checks a filter.
func (x *Executor) wanted(f EventFilter) (want feed.Filter, err error) {
	for _, k := range f.Kinds {
		if k == 0 || int(k) >= len(eventKindNames) {
			return want, fmt.Errorf("%w: Kinds has %v, which no event is", ErrConfig, k)
		}
		want.Kinds |= feed.Of(uint8(k))
	}
	if len(f.Kinds) == 0 {
		want.Kinds = ^kindsOf(EventCommitted)
	}
	for _, name := range f.Queues {
		q, err := x.lookup(name)
		if err != nil {
			return want, err
		}
		want.Sources = append(want.Sources, &q.events)
	}
	return want, nil
}

func parseToken(token string) (life, number uint64, err error) {
	a, b, _ := strings.Cut(token, "-")
	life, err1 := strconv.ParseUint(a, 16, 64)
	number, err2 := strconv.ParseUint(b, 10, 64)
	if err1 != nil || err2 != nil {
		return 0, 0, fmt.Errorf("%w: After is %q, which is no Token of an Event", ErrConfig, brief(token))
	}
	return life, number, nil
}

func (r *eventReader) yield(yield func(Event, error) bool) {
	if r.first != nil && !yield(Event{}, r.first) {
		return
	}
	r.Begin()
	defer r.End()
	var buffer []feed.Event[fact]
	for {
		got, missed := r.Next(r.ctx.Done(), buffer[:0])
		if missed != (feed.Missed{}) && !yield(Event{}, &MissedError{Events: missed.Numbers, Uncounted: missed.Uncounted}) {
			return
		}
		for i := range got {
			if r.over() || !yield(eventOf(&got[i], r.life), nil) {
				return
			}
		}
		if len(got) == 0 && missed == (feed.Missed{}) || r.over() {
			return
		}
		buffer = got
		clear(buffer) // of what a slow loop would keep
	}
}

func (r *eventReader) over() bool {
	select {
	case <-r.ctx.Done():
		return true
	default:
		return false
	}
}

func eventOf(e *feed.Event[fact], life uint64) Event {
	v := &e.Value
	told := Event{
		Number: e.Number, Time: time.Unix(0, v.at), Kind: EventKind(e.Kind), Queue: e.Source.Name, ID: v.id,
		Position: v.position, Payloads: v.payloads, Attempt: v.attempt, Into: v.into,
		Duration: v.duration, Delay: v.delay, Error: v.text, Done: v.done, Total: v.total, life: life,
	}
	if told.Kind == EventPaused || told.Kind == EventResumed {
		told.Prefix, told.Error = v.text, ""
	}
	return told
}
