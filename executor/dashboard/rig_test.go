package dashboard_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

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
func queue(t testing.TB, x *executor.Executor, name string, do func(context.Context, executor.Job[string]) error, cfg executor.QueueConfig[string]) *executor.Queue[string] {
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

// site is a dashboard that is served.
type site struct {
	t    testing.TB
	base string // with the slash
	http *http.Client
}

// serve mounts a dashboard under /strand/ of a server.
func serve(t testing.TB, x *executor.Executor, cfg dashboard.Config) site {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	mux := http.NewServeMux()
	mux.Handle("/strand/", dashboard.Handler(x, cfg))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	client := &http.Client{Timeout: time.Minute, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return site{t, server.URL + "/strand/", client}
}

// answer is what a page said.
type answer struct {
	*http.Response
	text string
}

func (s site) do(method, path string, form url.Values, headers ...string) answer {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.base+path, strings.NewReader(form.Encode()))
	require.NoError(s.t, err)
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
	response, err := s.http.Do(r)
	require.NoError(s.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(s.t, err)
	return answer{response, string(text)}
}

// get returns a page that is there.
func (s site) get(path string) string {
	s.t.Helper()
	a := s.do(http.MethodGet, path, nil)
	require.Equal(s.t, http.StatusOK, a.StatusCode, a.text)
	return a.text
}

// post does an action, and returns the page that says what it did.
func (s site) post(path string, form url.Values) string {
	s.t.Helper()
	a := s.do(http.MethodPost, path, form)
	require.Equal(s.t, http.StatusSeeOther, a.StatusCode, a.text)
	return s.get(a.Header.Get("Location"))
}
