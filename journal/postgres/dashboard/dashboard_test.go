//go:build unix

package dashboard_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	executorpages "github.com/strandjobs/strand/executor/dashboard"
	"github.com/strandjobs/strand/journal/postgres"
	"github.com/strandjobs/strand/journal/postgres/dashboard"
	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

const partitions = 4

// start opens and starts a node with the queue "orders".
func start(t *testing.T, url, name string) *executor.Executor {
	return startFor(t, url, name, time.Second)
}

func startFor(t *testing.T, url, name string, lease time.Duration) *executor.Executor {
	n, err := postgres.Open(t.Context(), url, postgres.Config{Name: name, SingleServer: true, Lease: lease,
		Executor: executor.Config{Logger: slog.New(slog.DiscardHandler)}})
	require.NoError(t, err)
	_, err = executor.Handle(n, "orders", func(context.Context, executor.Job[int]) error { return nil }, executor.QueueConfig[int]{})
	require.NoError(t, err)
	require.NoError(t, n.Start(t.Context()))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = n.Stop(ctx) // it may have been
	})
	return n
}

func get(t *testing.T, url string) (int, string) {
	answer, err := http.Get(url)
	if !assert.NoError(t, err) {
		return 0, ""
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	assert.NoError(t, err)
	return answer.StatusCode, string(text)
}

func owned(x *executor.Executor) int { return len(postgres.NodeOf(x).Partitions()) }

func owns(x *executor.Executor, count int) func() bool {
	return func() bool { return owned(x) == count }
}

// The list has all partitions, and the pages of jobs are of all of them, whoever owns which, while
// they move.
func TestPartitionsComeAndGo(t *testing.T) {
	s := pgtest.Start(t)
	require.NoError(t, postgres.Migrate(t.Context(), s.URL(), postgres.Config{Partitions: partitions}))
	a := start(t, s.URL(), "a")
	require.Eventually(t, owns(a, partitions), time.Minute, time.Millisecond)
	q, err := a.Lookup("orders")
	require.NoError(t, err)
	for i := range 20 {
		_, err := q.Enqueue(t.Context(), "id "+strconv.Itoa(i), []byte("1"), executor.In(time.Hour))
		require.NoError(t, err)
	}
	mux := http.NewServeMux()
	mux.Handle("/strand/", http.StripPrefix("/strand", dashboard.Handler(a, dashboard.Config{})))
	server := httptest.NewServer(mux)
	defer server.Close()
	at := server.URL + "/strand/"

	status, text := get(t, at)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, partitions, strings.Count(text, "<td>this node"), text)
	for _, path := range []string{"jobs/", "jobs"} { // which leads to where it is mounted
		status, text = get(t, at+path)
		require.Equal(t, http.StatusOK, status)
		require.Contains(t, text, "orders")
	}
	all := func() {
		status, text := get(t, at+"jobs/api/v1/jobs?queue=orders&order=id&limit=100")
		assert.Equal(t, http.StatusOK, status, text)
		assert.Equal(t, 20, strings.Count(text, `"id":"id `), text)
	}
	all()

	// While others look, another node comes.
	over := make(chan struct{})
	var looking sync.WaitGroup
	for range 4 {
		looking.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
					all()
				}
			}
		})
	}
	b := start(t, s.URL(), "b<i>")
	require.Eventually(t, func() bool { return owned(b) > 0 && owned(a)+owned(b) == partitions }, time.Minute, time.Millisecond)
	close(over)
	looking.Wait()
	all()
	_, text = get(t, at)
	require.Contains(t, text, "<td>b&lt;i&gt;")
	require.NoError(t, b.Stop(t.Context()))
	require.Eventually(t, owns(a, partitions), time.Minute, time.Millisecond)

	// Without the server there is what the node knows by itself.
	s.Kill()
	status, text = get(t, at)
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Contains(t, text, "The server does not answer")
	require.Equal(t, 3*strings.Count(text, "<td>this node"), strings.Count(text, `<td class="n">?`))
	s.Restart(t)
	require.Eventually(t, func() bool { status, _ := get(t, at); return status == http.StatusOK }, time.Minute, time.Millisecond)

	require.NoError(t, a.Stop(t.Context()))
	status, text = get(t, at)
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Contains(t, text, "the node was stopped")
}

// A server that is silent is not waited for as long as a page may take: by then what the node has
// would be lost.
func TestTheListOfASilentServer(t *testing.T) {
	s := pgtest.Start(t)
	require.NoError(t, postgres.Migrate(t.Context(), s.URL(), postgres.Config{Partitions: partitions}))
	n := startFor(t, s.URL(), "a", time.Minute)
	require.Eventually(t, owns(n, partitions), time.Minute, time.Millisecond)
	s.Freeze()
	defer s.Thaw()
	w, began := httptest.NewRecorder(), time.Now()
	dashboard.Handler(n, dashboard.Config{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	require.Less(t, time.Since(began), 8*time.Second, "two seconds, and not the ten of a page")
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Equal(t, partitions, strings.Count(w.Body.String(), "<td>this node"))
}

// A person unlocks a key on any node, whichever have the partitions in which it is locked, by the API and by the page.
func TestUnlockOnAnyNode(t *testing.T) {
	s := pgtest.Shared(t)
	require.NoError(t, postgres.Migrate(t.Context(), s.URL(), postgres.Config{Partitions: partitions}))
	a := startFor(t, s.URL(), "a", 5*time.Second)
	require.Eventually(t, owns(a, partitions), time.Minute, time.Millisecond)
	for number, part := range postgres.NodeOf(a).Partitions() {
		require.NoError(t, part.KeyLocks().Lock(t.Context(), "of "+strconv.Itoa(number)))
		require.NoError(t, part.KeyLocks().Lock(t.Context(), "of all"))
	}
	b := startFor(t, s.URL(), "b", 5*time.Second)
	require.Eventually(t, func() bool { return owned(b) > 0 && owned(a)+owned(b) == partitions }, time.Minute, time.Millisecond)
	h := dashboard.Handler(b, dashboard.Config{Authorize: executorpages.Insecure, Logger: slog.New(slog.DiscardHandler)})
	do := func(path, kind, body string) *httptest.ResponseRecorder {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
		r.Header.Set("Content-Type", kind)
		h.ServeHTTP(w, r)
		return w
	}
	unlock := func(key string) *httptest.ResponseRecorder {
		return do("/jobs/api/v1/actions", "application/json", `{"verb": "unlock", "key": "`+key+`"}`)
	}
	left := func(want int) {
		t.Helper()
		page, more, err := b.Inspect().LockedKeys("", 0)
		require.NoError(t, err)
		require.Equal(t, want, len(page)+more)
	}
	left(2 * partitions)
	for number := range partitions {
		w := unlock("of " + strconv.Itoa(number))
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		require.JSONEq(t, `{"affected": 1, "of": "key"}`, w.Body.String())
	}
	left(partitions)
	require.Equal(t, http.StatusSeeOther, do("/jobs/do", "application/x-www-form-urlencoded", "verb=unlock&key=of+all&confirm=yes").Code)
	left(0)
	require.Equal(t, http.StatusNotFound, unlock("of all").Code)
}

// The list is for those only who may look at the rest.
func TestTheListAsksWhoMayLook(t *testing.T) {
	s := pgtest.Shared(t)
	require.NoError(t, postgres.Migrate(t.Context(), s.URL(), postgres.Config{Partitions: partitions}))
	n := start(t, s.URL(), "a")
	h := dashboard.Handler(n, dashboard.Config{Authorize: func(r *http.Request, a executorpages.Action) error {
		if a.Verb == executorpages.View && r.Header.Get("Who") == "me" {
			return nil
		}
		return errors.New("who are you?")
	}})
	for _, path := range []string{"/", "/jobs/"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		require.Equal(t, http.StatusForbidden, w.Code)
		require.NotContains(t, w.Body.String(), "partition")
	}
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Who", "me")
	h.ServeHTTP(w, r)
	require.Equal(t, http.StatusOK, w.Code)
}

// Functions of the user that panic or are slow cost a page what they are for.
func TestHostileFunctions(t *testing.T) {
	s := pgtest.Shared(t)
	require.NoError(t, postgres.Migrate(t.Context(), s.URL(), postgres.Config{Partitions: partitions}))
	n := start(t, s.URL(), "a")
	require.Eventually(t, func() bool { return owned(n) > 0 }, time.Minute, time.Millisecond)
	list := func(cfg dashboard.Config) (int, string) {
		w := httptest.NewRecorder()
		cfg.Logger = slog.New(slog.DiscardHandler)
		dashboard.Handler(n, cfg).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		return w.Code, w.Body.String()
	}
	as := func(f func(*http.Request, executorpages.Action) error) dashboard.Config {
		return dashboard.Config{Authorize: f, PageTimeout: time.Second}
	}
	status, text := list(as(func(*http.Request, executorpages.Action) error { panic("no") }))
	require.Equal(t, http.StatusForbidden, status)
	require.Contains(t, text, "the authorizer failed")
	status, text = list(as(func(r *http.Request, _ executorpages.Action) error { <-r.Context().Done(); return nil }))
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Contains(t, text, "the authorizer is slow")
	status, text = list(as(func(*http.Request, executorpages.Action) error { return errors.New(strings.Repeat("é", 1<<16)) }))
	require.Equal(t, http.StatusForbidden, status)
	require.LessOrEqual(t, len(text), 4<<10+1)
}

// An executor that is no node has no partitions to show, and its jobs.
func TestPagesOfAnotherExecutor(t *testing.T) {
	x, err := executor.Open("", executor.Config{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer func() { require.NoError(t, x.Stop(t.Context())) }()
	server := httptest.NewServer(dashboard.Handler(x, dashboard.Config{Title: "Alone"}))
	defer server.Close()
	status, text := get(t, server.URL)
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, text, "Alone")
}
