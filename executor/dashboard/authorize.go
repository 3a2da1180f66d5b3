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
// once, and not behind the end of the time that a page has.
type verdicts struct {
	r     *http.Request // that it is asked about, whose context ends then
	given map[Action]error
}

type verdictsKey struct{}

// withVerdicts returns a request that may be asked about, and the same with the deadline
// of a page.
func withVerdicts(r *http.Request, timeout time.Duration) (asked, limited *http.Request, cancel context.CancelFunc) {
	v := &verdicts{given: make(map[Action]error)}
	asked = r.WithContext(context.WithValue(r.Context(), verdictsKey{}, v))
	ctx, cancel := context.WithTimeout(asked.Context(), timeout)
	v.r = asked.WithContext(ctx)
	return asked, v.r, cancel
}

// may asks whether a request may do something.
func (h *handler) may(r *http.Request, a Action) error {
	v := r.Context().Value(verdictsKey{}).(*verdicts)
	if err, known := v.given[a]; known {
		return err
	}
	if v.r.Context().Err() != nil {
		return errUnsaid
	}
	err := h.authorize(v.r, a)
	v.given[a] = err
	return err
}

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
func (h *handler) can(r *http.Request, queue string, verbs ...Verb) map[Verb]bool {
	can := make(map[Verb]bool, len(verbs))
	for _, v := range verbs {
		can[v] = h.may(r, Action{Verb: v, Queue: queue}) == nil
	}
	return can
}
