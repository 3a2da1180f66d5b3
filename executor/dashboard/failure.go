package dashboard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/cron"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/serving"
	"github.com/strandjobs/strand/lock"
)

// problem is an answer that is none, with its HTTP status.
type problem struct {
	status int
	text   string
}

func (p problem) Error() string { return p.text }

// plain is what it says to people, who know whose page it is on.
func (p problem) plain() string {
	return strings.TrimPrefix(strings.TrimPrefix(p.text, "executor: "), "dashboard: ")
}

// problemOf says what an error is over HTTP.
func problemOf(err error) problem {
	if p, ok := errors.AsType[problem](err); ok {
		return p
	}
	if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return problem{http.StatusRequestEntityTooLarge, fmt.Sprintf("the request has more than %d bytes", large.Limit)}
	}
	status := http.StatusInternalServerError
	for _, known := range [...]struct {
		status int
		errs   []error
	}{
		{http.StatusNotFound, []error{executor.ErrUnknownQueue, inspect.ErrUnknownJob, cron.ErrNotFound, lock.ErrNotLocked}},
		{http.StatusBadRequest, []error{inspect.ErrInvalidQuery, inspect.ErrInvalidCursor, executor.ErrInvalidID,
			executor.ErrInvalidKey, lock.ErrEmptyKey}},
		{http.StatusConflict, []error{executor.ErrState, executor.ErrTooManyPaused, cron.ErrOverlap}},
		{http.StatusServiceUnavailable, []error{executor.ErrClosed, executor.ErrFailed, executor.ErrFull, cron.ErrClosed,
			serving.ErrBusy}},
	} {
		for _, e := range known.errs {
			if errors.Is(err, e) {
				status = known.status
			}
		}
	}
	text := err.Error()
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		status = http.StatusServiceUnavailable
		text = "This takes longer than Config.PageTimeout: the executor is at work, and this comes later."
	case errors.Is(err, executor.ErrClosed):
		text = "The executor has stopped, or is about to: what it has not done is in its journal, for the next one."
	}
	return problem{status, text}
}

// gone reports whether an error comes of it that the client has hung up: nobody waits for
// an answer, and nothing is wrong.
func gone(r *http.Request, err error) bool {
	return r.Context().Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(r.Context())))
}

// late says more of an error if the time was up: what to do about it.
func late(err error, text string) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return problem{http.StatusServiceUnavailable, text}
	}
	return err
}

// lateList is late for lists.
func lateList(err error) error {
	return late(err, problemOf(context.DeadlineExceeded).text+
		" Take a shorter list: one without an order, or with fewer states.")
}

// again says when what can't be had now may be had.
func again(h http.Header, status int) {
	if status == http.StatusServiceUnavailable {
		h.Set("Retry-After", "5") // seconds
	}
}

// refuse answers with why there is no other answer, in a page or to a program, after so many
// were affected.
func (s *site) refuse(w http.ResponseWriter, r *http.Request, err error, affected int) {
	p := problemOf(err)
	if p.status == http.StatusInternalServerError {
		s.cfg.Logger.Error("the dashboard failed", slog.String("path", r.URL.Path), slog.Any("error", err))
	}
	content := struct{ Reason, Text string }{http.StatusText(p.status), p.plain()}
	if affected > 0 {
		content.Text = plural(affected, "was", "were") + " affected before this went wrong: " + p.text
	}
	if s.ofAPI(r) || s.show(w, r, "failure.html", page{Title: content.Reason, Content: content, status: p.status}) != nil {
		s.plainly(w, r, p, affected)
	}
}

// ofAPI reports whether a program asks.
func (s *site) ofAPI(r *http.Request) bool { return strings.HasPrefix(s.path(r), apiPrefix) }

// wireProblem is RFC 9457's.
type wireProblem struct {
	Type     string
	Title    string
	Status   int
	Detail   string
	Affected int `wire:",omit"` // by an action, before it went wrong
}

// plainly is refuse without a page, of which something may be what is wrong.
func (s *site) plainly(w http.ResponseWriter, r *http.Request, p problem, affected int) {
	again(w.Header(), p.status)
	if !s.ofAPI(r) {
		http.Error(w, p.text, p.status)
		return
	}
	answer := wireProblem{"about:blank", http.StatusText(p.status), p.status, p.plain(), affected}
	if err := sendJSON(w, r, p.status, "application/problem+json", answer); err != nil {
		panic(err) // there is JSON for it
	}
}
