package dashboard_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/dashboard"
)

var errBoom = errors.New("boom")

func open(t testing.TB, cfg executor.Config) *executor.Executor {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	x, err := executor.Open("", cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = x.Stop(context.Background()) })
	return x
}

// queue registers one whose handler is do; nil: it does nothing.
func queue(t testing.TB, x *executor.Executor, name string, do func(context.Context, executor.Job[string]) error,
	cfg executor.QueueConfig[string]) *executor.Queue[string] {
	t.Helper()
	if do == nil {
		do = func(context.Context, executor.Job[string]) error { return nil }
	}
	q, err := executor.Handle(x, name, do, cfg)
	require.NoError(t, err)
	return q
}

func enqueue(t testing.TB, q *executor.Queue[string], id, payload string, options ...executor.Option) {
	t.Helper()
	_, err := q.Enqueue(t.Context(), id, payload, options...)
	require.NoError(t, err)
}

// site is a dashboard that is mounted under /strand/. Requests are calls, so that a
// test may be in a bubble.
type site struct {
	t   testing.TB
	mux *http.ServeMux
}

func mount(t testing.TB, x *executor.Executor, cfg dashboard.Config) site {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	mux := http.NewServeMux()
	mux.Handle("/strand/", dashboard.Handler(x, cfg))
	return site{t, mux}
}

// writable is a dashboard that allows everything.
func writable(t testing.TB, x *executor.Executor) site {
	return mount(t, x, dashboard.Config{Authorize: dashboard.Insecure})
}

// answer is what a page said.
type answer struct {
	*http.Response
	text string
}

func (s site) do(method, path string, form url.Values, headers ...string) answer {
	s.t.Helper()
	r := httptest.NewRequestWithContext(s.t.Context(), method, "/strand/"+path, strings.NewReader(form.Encode()))
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	if host := r.Header.Get("Host"); host != "" {
		r.Host = host
	}
	w := httptest.NewRecorder()
	s.mux.ServeHTTP(w, r)
	return answer{w.Result(), w.Body.String()}
}

// get returns a page that is there.
func (s site) get(path string, pairs ...string) string {
	s.t.Helper()
	a := s.do(http.MethodGet, address(path, pairs...), nil)
	if a.StatusCode == http.StatusSeeOther {
		a = s.do(http.MethodGet, a.Header.Get("Location"), nil)
	}
	require.Equal(s.t, http.StatusOK, a.StatusCode, a.text)
	return a.text
}

// post does an action, and returns the page that says what it did.
func (s site) post(form url.Values, pairs ...string) string {
	s.t.Helper()
	a := s.do(http.MethodPost, address("do", pairs...), form)
	require.Equal(s.t, http.StatusSeeOther, a.StatusCode, a.text)
	return s.get(strings.TrimPrefix(a.Header.Get("Location"), "./"))
}

// refused does what is not allowed, or makes no sense, and returns the answer.
func (s site) refused(status int, method, path string, form url.Values, headers ...string) string {
	s.t.Helper()
	a := s.do(method, path, form, headers...)
	require.Equal(s.t, status, a.StatusCode, a.text)
	return a.text
}

// address is a page with a query of names and values.
func address(path string, pairs ...string) string {
	q := make(url.Values)
	for i := 0; i+1 < len(pairs); i += 2 {
		q.Add(pairs[i], pairs[i+1])
	}
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}
