package feed

// Reader reads the events of a feed that it wants. One goroutine may use it.
type Reader[E any] struct {
	feed *Feed[E]
	want Filter
	next uint64 // the number that it has not looked at yet
	gap  bool   // there may have been events that have no number
}

// Missed is what a reader has to be told before it goes on.
type Missed struct {
	Numbers   uint64 // so many events, wanted by it or by others
	Uncounted bool   // and there may have been others
}

// Begin says that the reader is at it, until End: the ring stays.
func (r *Reader[E]) Begin() {
	f := r.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	f.readers++
	f.widen(&r.want)
	for _, s := range f.sources {
		for kind := range uint8(maxKinds) {
			r.gap = r.gap || s.since[kind] > r.next && r.want.has(s, kind)
		}
	}
}

// End says that the reader has gone, and may come back.
func (r *Reader[E]) End() {
	r.feed.mu.Lock()
	defer r.feed.mu.Unlock()
	r.feed.readers--
	r.feed.until = r.feed.next + r.feed.size
}

// atOnce is how many slots a reader looks at before it lets writers go on.
const atOnce = 64

// Next appends some events to buffer, in their order, when there are any. It returns
// none when over is closed, and when the feed is closed and the reader has had all.
func (r *Reader[E]) Next(over <-chan struct{}, buffer []Event[E]) (got []Event[E], missed Missed) {
	for {
		got, missed, wake := r.take(buffer)
		if wake == nil {
			return got, missed
		}
		select {
		case <-wake:
		case <-over:
			return buffer, Missed{}
		}
	}
}

// take returns what there is, or if there is nothing what to wait for.
func (r *Reader[E]) take(buffer []Event[E]) (got []Event[E], missed Missed, wake <-chan struct{}) {
	f := r.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		missed.Uncounted, r.gap = missed.Uncounted || r.gap, false
		if r.next < f.first {
			missed.Numbers += f.first - r.next
			r.next = f.first
		}
		for end := min(f.next, r.next+atOnce); r.next < end; r.next++ {
			if slot := &f.ring[r.next%f.size]; r.want.has(slot.Source, slot.Kind) {
				buffer = append(buffer, *slot)
			}
		}
		switch {
		case len(buffer) > 0 || missed != (Missed{}), r.next == f.next && f.closed:
			return buffer, missed, nil
		case r.next < f.next:
			f.mu.Unlock() // others first: nothing of this was for the reader
			f.mu.Lock()
			continue
		case f.wake == nil:
			f.wake = make(chan struct{})
		}
		return nil, missed, f.wake
	}
}
