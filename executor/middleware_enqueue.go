package executor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/strandjobs/strand/executor/internal/await"
	"github.com/strandjobs/strand/executor/internal/brief"
	"github.com/strandjobs/strand/journal"
)

// EnqueueCall is a call that enqueues as a [Middleware] sees it: Enqueue or
// EnqueueMany.
type EnqueueCall struct {
	Queue    string
	Items    []EnqueueItem
	Receipts []Receipt // of the items, when they are accepted; nil before that
}

// EnqueueItem is a payload of an [EnqueueCall], with what options and the functions
// of its queue have said. Its ID and its payload are for looking at: another ID is
// ErrMiddleware. Due and Score that were left open are the time of the call, and after
// next what it was accepted with: see [Score].
type EnqueueItem struct {
	ID    string
	Due   time.Time
	Score float64
	// Metadata is made for the call, so a middleware may write to it; see [Metadata] for
	// the limits.
	Metadata map[string]string

	payload []byte
}

// Raw returns a copy of the encoded payload.
func (i EnqueueItem) Raw() []byte { return slices.Clone(i.payload) }

// accept enqueues entries that have been filled in. A caller may wait for the end of
// the first of them.
func (q *queue) accept(ctx context.Context, entries []journal.Entry, options []Option, w *await.Waiter) (submission, error) {
	if q.layers.enqueue == nil {
		return q.submit(ctx, entries, options, w)
	}
	if err := q.x.admits(ctx); err != nil {
		return submission{}, err
	}
	a := wrapped{q: q, entries: entries, options: options, waiter: w, call: &EnqueueCall{Queue: q.name, Items: make([]EnqueueItem, len(entries))}}
	for i := range entries {
		e := &entries[i]
		a.call.Items[i] = EnqueueItem{string(e.ID), time.Unix(0, e.Due), e.Score, map[string]string{}, e.Payload}
		maps.Insert(a.call.Items[i].Metadata, e.Metadata.All())
	}
	err := nested(ctx, q.layers.enqueue, func(ctx context.Context, f aroundEnqueue, next func(context.Context) error) error {
		return f(ctx, a.call, next)
	}, a.submit)
	return a.conclude(err)
}

// wrapped is a call that enqueues inside its middlewares.
type wrapped struct {
	q       *queue
	entries []journal.Entry
	options []Option
	waiter  *await.Waiter
	call    *EnqueueCall

	tried bool
	o     submission // of the last try
	err   error      // what came of it
}

// submit is what the innermost next does. What is accepted, or may be, is not
// submitted again.
func (a *wrapped) submit(ctx context.Context) error {
	if a.tried && (a.err == nil || errors.Is(a.err, ErrUnknown)) {
		return a.err
	}
	if err := a.takeOver(); err != nil {
		return err
	}
	a.o, a.err = a.q.submit(ctx, a.entries, a.options, a.waiter)
	a.tried = true
	a.show()
	if a.err == nil {
		a.call.Receipts = a.o.receipts()
	}
	return a.err
}

// show tells middlewares of the times and scores that came with the positions: what
// they leave as it is, they have not asked for.
func (a *wrapped) show() {
	for i := range a.entries {
		it, e := &a.call.Items[i], &a.entries[i]
		if it.Score = e.Score; it.Due.UnixNano() != e.Due {
			it.Due = time.Unix(0, e.Due)
		}
	}
}

// takeOver writes what middlewares have changed into the entries.
func (a *wrapped) takeOver() error {
	if n := len(a.call.Items); n != len(a.entries) {
		return fmt.Errorf("%w: it made %d items of %d", ErrMiddleware, n, len(a.entries))
	}
	for i := range a.entries {
		it, e := &a.call.Items[i], &a.entries[i]
		if it.ID != string(e.ID) {
			return fmt.Errorf("%w: it changed the id %q to %q", ErrMiddleware, e.ID, brief.Text(it.ID))
		}
		if it.Due.UnixNano() != e.Due {
			setDue(e, it.Due)
		}
		if it.Score != e.Score {
			if err := setScore(e, it.Score); err != nil {
				return err
			}
		}
		if !maps.Equal(it.Metadata, maps.Collect(e.Metadata.All())) {
			if err := setMetadata(e, it.Metadata); err != nil {
				return err
			}
		}
	}
	return nil
}

// conclude holds what the middlewares returned against what has happened: a caller
// that gets an error may repeat the call, and one that gets none relies on it.
func (a *wrapped) conclude(err error) (submission, error) {
	if panicked, ok := err.(*PanicError); ok {
		err = fmt.Errorf("%w: %w", ErrMiddleware, panicked)
	}
	switch {
	case a.tried && a.err == nil:
		if err != nil {
			a.q.logStray(err)
		}
		return a.o, nil
	case a.tried && errors.Is(a.err, ErrUnknown):
		if err != nil && text(err.Error) != text(a.err.Error) {
			return a.o, fmt.Errorf("%w; a middleware made of it: %s", a.err, text(err.Error))
		}
		return a.o, a.err
	case err != nil:
		return a.o, err
	case a.tried:
		return a.o, fmt.Errorf("%w: it returned nil, but nothing was accepted: %w", ErrMiddleware, a.err)
	}
	return a.o, fmt.Errorf("%w: it returned nil, but nothing was accepted: it did not call next", ErrMiddleware)
}

// logStray tells of an error that no caller gets, because the payloads are accepted.
func (q *queue) logStray(err error) {
	if rest, ok := q.strays.Line(tenASecond); ok {
		q.x.cfg.Logger.LogAttrs(q.x.handlers, slog.LevelError, "middleware failed after the payloads were accepted",
			append([]slog.Attr{slog.String("queue", q.name), slog.String("error", text(err.Error))}, rest...)...)
	}
}
