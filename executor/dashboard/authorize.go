package dashboard

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"
)

// verdicts are what the authorizer has said to a request. It is asked about each action
// once, and for no longer altogether than a page has.
type verdicts struct {
	given map[Action]error
	left  time.Duration // that it may take for the rest
}

type verdictsKey struct{}

// withVerdicts returns a request that may be asked about.
func withVerdicts(r *http.Request, most time.Duration) *http.Request {
	v := &verdicts{given: make(map[Action]error), left: most}
	return r.WithContext(context.WithValue(r.Context(), verdictsKey{}, v))
}

// may asks whether a request may do something.
func (h *handler) may(r *http.Request, a Action) error {
	v := r.Context().Value(verdictsKey{}).(*verdicts)
	if err, known := v.given[a]; known {
		return err
	}
	if v.left <= 0 {
		return errUnsaid
	}
	if len(v.given) > 0 && r.Context().Err() != nil { // the time went elsewhere
		return problemOf(context.DeadlineExceeded)
	}
	ctx, cancel := context.WithTimeout(r.Context(), v.left)
	defer cancel()
	began := time.Now()
	err := h.authorize(r.WithContext(ctx), a)
	v.left -= time.Since(began)
	v.given[a] = err
	return err
}

// permit asks whether a request may have something done, and may look at it.
func (h *handler) permit(r *http.Request, o *order) error {
	err := h.may(r, Action{Verb: View, Queue: o.Queue})
	if err == nil {
		err = h.may(r, Action{Verb: o.Verb, Queue: o.Queue, Name: o.Name})
	}
	if err != nil {
		h.record(r, o, "dashboard: an action was refused", slog.Attr{}, err)
	}
	return err
}

// seen are those of a list that are of a queue at which a request may look. Where that
// was not said there is no list: a part of it would look like all.
func seen[E any](h *handler, r *http.Request, list []E, queue func(E) string) (some []E, err error) {
	for _, e := range list {
		switch err := h.may(r, Action{Verb: View, Queue: queue(e)}); {
		case err == nil:
			some = append(some, e)
		case unsaid(err):
			return nil, err
		}
	}
	return some, nil
}

// unsaid reports whether an error of may is neither a yes nor a no.
func unsaid(err error) bool { return err != nil && problemOf(err).status != http.StatusForbidden }

var errUnsaid = problem{http.StatusServiceUnavailable,
	"whether this is allowed was not said within Config.PageTimeout: the authorizer is slow"}

func (h *handler) authorize(r *http.Request, a Action) (err error) {
	defer func() {
		if v := recover(); v != nil {
			h.cfg.Logger.Error("the authorizer of the dashboard panicked", slog.Any("panic", v), slog.String("stack",
				string(debug.Stack())))
			err = problem{http.StatusForbidden, "whether this is allowed is not known: the authorizer failed"}
		}
	}()
	err = h.cfg.Authorize(r, a)
	switch {
	case err == nil:
		return nil
	case r.Context().Err() != nil && errors.Is(err, context.DeadlineExceeded):
		return errUnsaid
	}
	return problem{http.StatusForbidden, begin(err.Error(), mostError)}
}

// can says which verbs a request may use on a queue.
func (h *handler) can(r *http.Request, queue string, verbs ...Verb) (map[Verb]bool, error) {
	can := make(map[Verb]bool, len(verbs))
	for _, v := range verbs {
		err := h.may(r, Action{Verb: v, Queue: queue})
		if unsaid(err) {
			return nil, err
		}
		can[v] = err == nil
	}
	return can, nil
}
