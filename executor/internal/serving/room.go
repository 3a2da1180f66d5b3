package serving

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// ErrBusy is returned when there was no room within [InLine].
var ErrBusy = errors.New("too many others are being answered; try again")

// Room is how much may go on at a time, in bytes or in places. Many goroutines use it.
type Room struct {
	most int64

	mu   sync.Mutex
	left int64     // below zero when answers became larger than their shares
	line []*waiter // the first one came first
}

type waiter struct {
	n  int64
	in chan struct{} // closed when it has its share
}

// NewRoom returns an empty one.
func NewRoom(most int64) *Room { return &Room{most: most, left: most} }

// Share is a part of a room that is taken. One goroutine uses it.
type Share struct {
	room *Room
	n    int64
}

// Enter takes a share of n, or of all the room if that is less. Where it has to wait it
// does so until ctx ends, whose cause it returns, or for InLine.
func (r *Room) Enter(ctx context.Context, n int64) (*Share, error) {
	w := &waiter{n: min(n, r.most), in: make(chan struct{})}
	r.mu.Lock()
	r.line = append(r.line, w)
	r.admitLocked()
	r.mu.Unlock()
	select {
	case <-w.in: // whatever ctx says: nobody has waited
		return &Share{r, w.n}, nil
	default:
	}
	limit := time.NewTimer(InLine)
	defer limit.Stop()
	var err error
	select {
	case <-w.in:
		return &Share{r, w.n}, nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-limit.C:
		err = ErrBusy
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if at := slices.Index(r.line, w); at >= 0 {
		r.line = slices.Delete(r.line, at, at+1)
	} else {
		r.left += w.n // it was let in just now
	}
	r.admitLocked()
	return nil, err
}

// admitLocked lets in whom there is room for. mu is held.
func (r *Room) admitLocked() {
	for len(r.line) > 0 && r.line[0].n <= r.left {
		r.left -= r.line[0].n
		close(r.line[0].in)
		r.line = slices.Delete(r.line, 0, 1)
	}
}

// Resize makes the share as large as its answer has become, at once. While answers take
// more than there is, nobody else is let in.
func (s *Share) Resize(n int64) {
	s.room.mu.Lock()
	defer s.room.mu.Unlock()
	s.room.left += s.n - n
	s.n = n
	s.room.admitLocked()
}

// Leave gives the share back. Calling it again does nothing.
func (s *Share) Leave() { s.Resize(0) }
