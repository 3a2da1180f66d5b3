package serving

import (
	"context"
	"net/http"
	"strconv"
	"time"
)

// Making is the share of an answer that is being made: about what a page, or a part of a
// list, takes with a MiB of payloads in it, until its garbage is collected.
const Making = 8 << 20

// Look has an answer made and sends it. Room for it is in bytes. What make gives to [Send]
// is kept until it returns, and is the answer then; with an error nothing is sent.
func (r *Room) Look(w http.ResponseWriter, req *http.Request, make func(w http.ResponseWriter) error) error {
	share, err := r.Enter(req.Context(), Making)
	if err != nil {
		return err
	}
	defer share.Leave()
	d := &draft{header: w.Header(), status: http.StatusOK}
	if err := make(d); err != nil {
		return err
	}
	share.Resize(int64(len(d.body)))
	Send(w, d.status, d.body)
	return nil
}

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
	if d, ok := w.(*draft); ok {
		d.status, d.body = status, body
		return
	}
	if len(body) > 0 {
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	}
	w.WriteHeader(status)
	_, _ = Patient(w).Write(body) // or the client has gone
}

// draft is an answer that is not yet sent.
type draft struct {
	header http.Header
	status int
	body   []byte
}

func (d *draft) Header() http.Header    { return d.header }
func (d *draft) WriteHeader(status int) { d.status = status }

func (d *draft) Write(b []byte) (int, error) {
	d.body = append(d.body, b...)
	return len(b), nil
}

// Writer writes to a client that has [Stall] for each piece of it.
type Writer struct {
	to    http.ResponseWriter
	until time.Time // for all of it; zero: as long as it takes pieces
}

// Patient returns a Writer of an answer, which the client has to take within [Whole].
func Patient(w http.ResponseWriter) *Writer { return &Writer{w, time.Now().Add(Whole)} }

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
