package dashboard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/cron"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/serving"
	"github.com/strandjobs/strand/lock"
)

// Handler returns the dashboard of x, to be mounted under a path that ends in a
// slash. A configuration that makes no sense is logged as an error, and the answer to
// each request, with 500: so a mistake in it is seen, and stops no job. Handler may
// be called before x has started; after x has stopped the pages say so.
func Handler(x *executor.Executor, cfg Config) http.Handler {
	readOnly := cfg.Authorize == nil
	cfg, err := cfg.withDefaults()
	b := &board{gate: &gate{cfg, http.NewCrossOriginProtection()}, x: x, stacks: serving.NewRoom(1), figures: newShared[reading]()}
	s := &site{board: b, looks: serving.NewRoom(maxLooks), acts: serving.NewRoom(maxActs), readOnly: readOnly}
	if x == nil {
		err = errors.New("dashboard: no executor; executor.Open returns one")
	}
	for _, origin := range cfg.TrustedOrigins {
		if wrong := s.origin.AddTrustedOrigin(origin); wrong != nil {
			err = fmt.Errorf("dashboard: Config.TrustedOrigins: %w", wrong)
		}
	}
	if err != nil {
		cfg.Logger.Error("invalid dashboard configuration", slog.Any("error", err))
		s.cfg.Prefix = "" // which may be what is wrong
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			secure(w.Header())
			s.plainly(w, r, problemOf(err), 0)
		})
	}
	s.routes = s.table()
	return s
}

// route is a path and who answers it.
type route struct {
	method string // GET also means HEAD
	// about is the queue that a request wants to look at, "" for none or all: whether it
	// may is asked before serve is called. nil: serve asks.
	about func(*http.Request) string
	// serve writes the answer, or returns why there is none, and then it has written
	// nothing. The context of its request ends after timeout; 0: it sets its own.
	serve   func(w http.ResponseWriter, r *http.Request) error
	timeout time.Duration
	params  []string // of the API: the query that it takes
}

// table has all routes, by their path behind the prefix.
func (s *site) table() map[string]route {
	page := func(name string, about func(*http.Request) string, look func(*http.Request) (page, error)) route {
		return route{http.MethodGet, about, s.looking(s.paged(name, look)), s.cfg.PageTimeout, nil}
	}
	p := pages{s.board}
	all := map[string]route{
		"/":          page("overview.html", anyQueue, p.overview),
		"/queue":     page("queue.html", listedQueue, p.queue),
		"/hot":       page("hot.html", listedQueue, p.hot),
		"/schedules": page("schedules.html", anyQueue, p.schedules),
		"/job":       page("job.html", namedQueue, p.job),
		"/find":      page("find.html", namedQueue, p.find),
		"/running":   page("running.html", anyQueue, p.running),
		"/locks":     page("locks.html", anyQueue, p.locks),
		"/journal":   page("journal.html", anyQueue, p.journal),
		"/copy":      {http.MethodPost, nil, s.sendCopy, 0, nil},
		"/do":        {http.MethodPost, nil, s.act, 0, nil},
		"/live":      api{s}.look(s.live, "after"),
		"/assets/":   {http.MethodGet, anyQueue, serveAsset, s.cfg.PageTimeout, nil},
	}
	maps.Copy(all, api{s}.table())
	return all
}

// What there is room for. Who acts does not wait for those who look.
const (
	maxLooks = 8 * serving.Making // bytes of answers
	maxActs  = 16
)

// looking has an answer made and sent as far as there is room for it.
func (s *site) looking(serve func(http.ResponseWriter, *http.Request) error) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		return s.looks.Look(w, r, func(w http.ResponseWriter) error { return serve(w, r) })
	}
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	secure(w.Header())
	defer s.contain(w, r)
	at := s.path(r)
	if at == "" { // relative links need the slash
		w.Header().Set("Location", path.Base(r.URL.EscapedPath())+"/")
		w.WriteHeader(http.StatusMovedPermanently)
		return
	}
	if err := s.serve(w, r, at); err != nil && !gone(r, err) {
		s.refuse(w, r, err, 0)
	}
}

// serve checks a request, and has it answered.
func (s *site) serve(w http.ResponseWriter, r *http.Request, at string) error {
	rt, found := s.routes[at]
	if dir, _, below := strings.Cut(at[1:], "/"); below && !found {
		rt, found = s.routes["/"+dir+"/"]
	}
	switch {
	case !s.knows(r):
		return problem{http.StatusForbidden,
			fmt.Sprintf("the name %q is none of this dashboard's; if it should be, put it into Config.Hosts", hostOf(r))}
	case !found:
		text := "there is no such page"
		if s.cfg.Prefix == "" && r.Pattern == "" {
			text += fmt.Sprintf(": %q; behind another router than http.ServeMux, Config.Prefix says what of it to take off",
				clip(at, 80))
		}
		return problem{http.StatusNotFound, text}
	case r.Method != rt.method && !(r.Method == http.MethodHead && rt.method == http.MethodGet):
		w.Header().Set("Allow", rt.method)
		return problem{http.StatusMethodNotAllowed, "this address answers " + rt.method + " only"}
	}
	if err := s.foreign(r); err != nil {
		return problem{http.StatusForbidden, "this request comes from a page of another site: " + err.Error()}
	}
	ctx := context.WithValue(r.Context(), verdictsKey{}, &verdicts{given: make(map[Action]error), left: s.cfg.PageTimeout})
	if rt.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, rt.timeout)
		defer cancel()
	}
	r = r.WithContext(ctx)
	if rt.about != nil {
		if err := s.may(r, Action{Verb: View, Queue: rt.about(r)}); err != nil {
			return err
		}
	}
	if !strings.HasPrefix(at, "/assets/") { // a stopped executor shows nothing, not even old figures
		if _, _, err := s.x.Inspect().Slots(1); errors.Is(err, executor.ErrClosed) {
			return err
		}
	}
	r.Body = http.MaxBytesReader(w, r.Body, 1<<20) // all that a client may send
	// A writer that knows no deadlines, of a test for example, has no slow client.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.cfg.PageTimeout))
	if r.ContentLength == 0 {
		heard(w)
	}
	return rt.serve(w, r)
}

// heard ends the time that a client has to say all: it is not late. A deadline that is left
// ends the context of the request with it, if what it has said was read before: by a
// middleware, for example.
func heard(w http.ResponseWriter) { _ = http.NewResponseController(w).SetReadDeadline(time.Time{}) }

// path is that of a request behind the prefix: empty for the prefix itself.
func (s *site) path(r *http.Request) string {
	if rest, found := strings.CutPrefix(r.URL.Path, cmp.Or(s.cfg.Prefix, prefixOf(r))); found && (rest == "" || rest[0] == '/') {
		return rest
	}
	return "/" + strings.TrimPrefix(r.URL.Path, "/") // a StripPrefix has been here
}

// prefixOf is what the pattern of a mux has taken of the path, up to "{rest...}".
func prefixOf(r *http.Request) string {
	_, pattern, _ := strings.Cut(r.Pattern, "/") // behind method and host
	segments := strings.Split(strings.TrimSuffix(pattern, "/"), "/")
	var b strings.Builder
	for _, segment := range segments {
		if name, wild := strings.CutPrefix(segment, "{"); wild {
			name = strings.TrimSuffix(name, "}")
			if name == "$" || strings.HasSuffix(name, "...") {
				break
			}
			segment = r.PathValue(name)
		} else if plain, err := url.PathUnescape(segment); err == nil {
			segment = plain // as it is in the path of a request
		}
		b.WriteString("/" + segment)
	}
	return strings.TrimSuffix(b.String(), "/")
}

// The queue of a request, as what answers it reads it.
func anyQueue(*http.Request) string     { return "" }
func namedQueue(r *http.Request) string { return r.URL.Query().Get("queue") }
func listedQueue(r *http.Request) string {
	l, _ := listOf(r.URL.Query())
	return l.Queue
}

// contain ends a request that panicked. What was sent of an answer stays.
func (s *site) contain(w http.ResponseWriter, r *http.Request) {
	v := recover()
	if v == nil {
		return
	}
	if v == http.ErrAbortHandler {
		panic(v)
	}
	s.cfg.Logger.Error("a page of the dashboard panicked", slog.String("path", r.URL.Path), slog.Any("panic", v),
		slog.String("stack", string(debug.Stack())))
	s.plainly(w, r, problem{http.StatusInternalServerError, "This page failed; the log says why, and no job is concerned."}, 0)
}

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
		{http.StatusConflict, []error{executor.ErrState, inspect.ErrTooManyPaused, cron.ErrOverlap}},
		{http.StatusServiceUnavailable, []error{executor.ErrClosed, executor.ErrFailed, executor.ErrFull, serving.ErrBusy}},
	} {
		if slices.ContainsFunc(known.errs, func(e error) bool { return errors.Is(err, e) }) {
			status = known.status
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

// plainly is refuse without a page, of which something may be what is wrong.
func (s *site) plainly(w http.ResponseWriter, r *http.Request, p problem, affected int) {
	again(w.Header(), p.status)
	if !s.ofAPI(r) {
		http.Error(w, p.text, p.status)
		return
	}
	answer := struct { // that of RFC 9457
		Type, Title string
		Status      int
		Detail      string
		Affected    int `wire:",omit"` // by an action, before it went wrong
	}{"about:blank", http.StatusText(p.status), p.status, p.plain(), affected}
	if err := sendJSON(w, r, p.status, "application/problem+json", answer); err != nil {
		panic(err) // there is JSON for it
	}
}
