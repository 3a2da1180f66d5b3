package tell

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/strandjobs/strand/executor/events"
	"github.com/strandjobs/strand/executor/internal/feed"
)

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
	if filter.After == "" {
		r.at = *f.ring.Open(want)
		return r, nil
	}
	life, number, ok := parse(filter.After)
	if !ok {
		return nil, fmt.Errorf("the Filter has After %.100q, which is no Token of an Event", filter.After)
	}
	if life != f.life {
		r.at, r.lost = *f.ring.Open(want), &events.MissedError{Restarted: true}
		return r, nil
	}
	after, ok := f.ring.OpenAfter(want, number)
	if !ok {
		return nil, fmt.Errorf("the Filter has After %.100q, and there is no such event yet", filter.After)
	}
	r.at = *after
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
