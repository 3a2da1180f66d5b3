// Package serving is what the control socket and the dashboard have in common, as servers
// of HTTP: how much goes on at a time, and how long a client may take to read.
//
//   - A [Room] bounds what goes on at a time. Looking has one of bytes: an answer takes its
//     share before it is made, and has it until it is sent, so that clients that do not read
//     can't fill the memory. Acting has one of its own, so that nobody who looks keeps out
//     who acts.
//   - A client that takes nothing of its answer for [Stall] is cut off, and so is one that
//     takes longer than [Whole] for all of it.
//   - Those for whom there is no room stand in line, in the order in which they came, for
//     [InLine] at most. That is longer than Stall: who does not read is gone by then.
package serving

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Making is the share of an answer that is being made: about what a page, or a part of a
// list, takes with a MiB of payloads in it, until its garbage is collected.
const Making = 8 << 20

// Look has an answer made and sent. Room for it is in bytes: serve gives it to [Send], or it has no
// body, and has its room until the client has it.
func (r *Room) Look(w http.ResponseWriter, req *http.Request, serve func(w http.ResponseWriter) error) error {
	share, err := r.Enter(req.Context(), Making)
	if err != nil {
		return err
	}
	defer share.Leave()
	return serve(&looker{w, share})
}

// looker is a client whose answer has a share of a room.
type looker struct {
	http.ResponseWriter
	share *Share
}

// Unwrap is for http.ResponseController.
func (l *looker) Unwrap() http.ResponseWriter { return l.ResponseWriter }

// Act does what needs one place of the room.
func (r *Room) Act(ctx context.Context, do func() error) error {
	share, err := r.Enter(ctx, 1)
	if err != nil {
		return err
	}
	defer share.Leave()
	return do()
}

// Send sends an answer that is all there, and is not written to any more.
func Send(w http.ResponseWriter, status int, body []byte) {
	if l, ok := w.(*looker); ok {
		l.share.Resize(int64(len(body)))
	}
	if len(body) > 0 {
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	}
	w.WriteHeader(status)
	_, _ = (&Writer{w, time.Now().Add(Whole)}).Write(body) // or the client has gone
}

// Writer writes to a client that has [Stall] for each piece of it.
type Writer struct {
	to    http.ResponseWriter
	until time.Time // for all of it; zero: as long as it takes pieces
}

// Endless returns a Writer of what has no end, or is large: it ends when the client takes
// nothing for Stall.
func Endless(w http.ResponseWriter) *Writer { return &Writer{to: w} }

// piece is so small that a slow client takes it in time, too.
const piece = 32 << 10

// Write writes all of b, or returns why the client does not get it.
func (p *Writer) Write(b []byte) (n int, err error) {
	control := http.NewResponseController(p.to)
	for {
		by := time.Now().Add(Stall)
		if !p.until.IsZero() && p.until.Before(by) {
			by = p.until
		}
		_ = control.SetWriteDeadline(by) // what knows no deadlines has no slow client
		wrote, err := p.to.Write(b[:min(len(b), piece)])
		if n += wrote; err != nil || len(b) <= piece {
			return n, err
		}
		b = b[wrote:]
	}
}

// What clients have time for.
const (
	Stall  = 5 * time.Second
	Whole  = 30 * time.Second
	InLine = 8 * time.Second
)

// ErrBusy is returned when there was no room within [InLine].
var ErrBusy = errors.New("too many others are being answered; try again")

// Room is how much may go on at a time, in bytes or in places. Many goroutines use it.
type Room struct {
	most int64

	mu   sync.Mutex
	left int64    // below zero when answers became larger than their shares
	line []*Share // the first one came first
}

// NewRoom returns a room of which all is free.
func NewRoom(most int64) *Room { return &Room{most: most, left: most} }

// Share is a part of a room that is taken. One goroutine uses it.
type Share struct {
	room *Room
	n    int64
	in   chan struct{} // closed when it is taken
}

// Enter takes a share of n, or of all the room if that is less. Where it has to wait it
// does so until ctx ends, whose cause it returns, or for InLine.
func (r *Room) Enter(ctx context.Context, n int64) (*Share, error) {
	s := &Share{room: r, n: min(n, r.most), in: make(chan struct{})}
	r.mu.Lock()
	r.line = append(r.line, s)
	r.admitLocked()
	r.mu.Unlock()
	ctx, cancel := context.WithTimeoutCause(ctx, InLine, ErrBusy)
	defer cancel()
	select {
	case <-s.in:
	case <-ctx.Done():
		r.mu.Lock()
		defer r.mu.Unlock()
		if at := slices.Index(r.line, s); at >= 0 { // or it was let in, whatever ctx says
			r.line = slices.Delete(r.line, at, at+1)
			r.admitLocked()
			return nil, context.Cause(ctx)
		}
	}
	return s, nil
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
