package tell

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/strandjobs/strand/executor/events"
	"github.com/strandjobs/strand/executor/internal/guard"
)

// Reader reads events from one place of the feed on. It may be copied; a copy belongs to
// one goroutine.
type Reader struct {
	feed    *Feed
	kinds   kinds
	sources []*Source // nil: all, also those to come
	over    <-chan struct{}
	lost    *events.MissedError // to be told first; nil: nothing

	next uint64 // the number that it has not looked at yet
	gap  bool   // there may have been events that have no number
}

// Read returns a reader for a filter, whose queues are these sources; none: all. It ends
// with ctx, and when the feed is closed and it has had all. An error is about the filter. Until the
// reader begins to read, the ring is kept for one lap only.
func (f *Feed) Read(ctx context.Context, filter events.Filter, queues []*Source) (*Reader, error) {
	if f.size == 0 {
		return nil, errors.New("there is no feed of events: Advanced.EventBuffer is below zero")
	}
	r := &Reader{feed: f, sources: queues, over: ctx.Done()}
	for _, k := range filter.Kinds {
		if numbers[k] == 0 {
			return nil, fmt.Errorf("there is no kind of events %.100q; there are: %q", k, words[1:])
		}
		r.kinds |= of(k)
	}
	if len(filter.Kinds) == 0 {
		r.kinds = ^commits
	}
	life, number, ok := parse(filter.After)
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case filter.After == "":
	case !ok:
		return nil, fmt.Errorf("the Filter has After %.100q, which is no Token of an Event", filter.After)
	case life != f.life:
		r.lost = &events.MissedError{Restarted: true}
	case number == 0 || number >= f.next:
		return nil, fmt.Errorf("the Filter has After %.100q, and there is no such event yet", filter.After)
	default:
		r.next = number + 1
	}
	if f.widen(r); r.next == 0 {
		r.next = f.next
	}
	return r, nil
}

// place is the token of an event in the feed of an executor.
func place(life, number uint64) string { return fmt.Sprintf("%016x-%d", life, number) }

func parse(token string) (life, number uint64, ok bool) {
	a, b, _ := strings.Cut(token, "-")
	life, err1 := strconv.ParseUint(a, 16, 64)
	number, err2 := strconv.ParseUint(b, 10, 64)
	return life, number, err1 == nil && err2 == nil
}

// widen sees to it that what a reader wants gets into the ring. mu is held.
func (f *Feed) widen(r *Reader) {
	if f.closed {
		return
	}
	if f.ring == nil {
		f.ring = make([]slot, f.size)
	}
	widened := false
	for _, s := range f.sources {
		if !r.wants(s) {
			continue
		}
		had := kinds(s.wanted.Load())
		for kind := range s.since {
			if k := uint8(kind); r.kinds.has(k) && !had.has(k) {
				s.since[kind], widened = f.next+1, true
			}
		}
		s.wanted.Store(uint64(had | r.kinds))
		s.recent |= r.kinds
	}
	if r.sources == nil {
		f.all |= r.kinds
		f.recent |= r.kinds
	}
	if widened {
		f.push(&slot{}) // a number for all that was not put: who has read up to here has missed it
	}
	f.until = f.next + f.size
}

func (r *Reader) wants(s *Source) bool {
	return s != nil && (r.sources == nil || slices.Contains(r.sources, s))
}

// Each yields the events until the end, or until yield returns false.
func (r *Reader) Each(yield func(events.Event, error) bool) {
	if r.lost != nil && !yield(events.Event{}, r.lost) {
		return
	}
	r.begin()
	defer r.end()
	var buffer []events.Event
	for {
		got, missed := r.some(buffer[:0])
		if missed != nil && !yield(events.Event{}, missed) {
			return
		}
		for _, e := range got {
			e.Token = place(r.feed.life, e.Number)
			if guard.Over(r.over) || !yield(e, nil) {
				return
			}
		}
		if len(got) == 0 && missed == nil || guard.Over(r.over) {
			return
		}
		buffer = got
		clear(buffer) // of what a slow loop would keep
	}
}

// begin says that the reader is at it, until end: the ring stays.
func (r *Reader) begin() {
	f := r.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	f.readers = append(f.readers, r)
	f.widen(r)
	for _, s := range f.sources {
		for kind, since := range s.since {
			r.gap = r.gap || since > r.next && r.wants(s) && r.kinds.has(uint8(kind))
		}
	}
}

// end says that the reader has gone, and may come back.
func (r *Reader) end() {
	f := r.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	at := slices.Index(f.readers, r)
	f.readers = slices.Delete(f.readers, at, at+1)
	f.widen(r) // for one more lap
}

// atOnce is how many slots a reader looks at before it lets writers go on.
const atOnce = 64

// some appends some events to buffer, in their order, when there are any. It returns
// none when the reader is over, and when the feed is closed and the reader has had all.
func (r *Reader) some(buffer []events.Event) ([]events.Event, *events.MissedError) {
	for {
		got, missed, wake := r.take(buffer)
		if wake == nil {
			return got, missed
		}
		select {
		case <-wake:
		case <-r.over:
			return buffer, nil
		}
	}
}

// take returns what there is, or if there is nothing what to wait for.
func (r *Reader) take(buffer []events.Event) (got []events.Event, missed *events.MissedError, wake <-chan struct{}) {
	f := r.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		if r.gap || r.next < f.first {
			missed = &events.MissedError{Events: f.first - min(r.next, f.first), Uncounted: r.gap}
			r.next, r.gap = max(r.next, f.first), false
		}
		for end := min(f.next, r.next+atOnce); r.next < end; r.next++ {
			if at := &f.ring[r.next%f.size]; r.wants(at.source) && r.kinds.has(at.kind) {
				buffer = append(buffer, at.Event)
			}
		}
		switch {
		case len(buffer) > 0 || missed != nil, r.next == f.next && f.closed:
			return buffer, missed, nil
		case r.next < f.next:
			f.mu.Unlock() // others first: nothing of this was for the reader
			f.mu.Lock()
			continue
		case f.wake == nil:
			f.wake = make(chan struct{})
		}
		return nil, nil, f.wake
	}
}
