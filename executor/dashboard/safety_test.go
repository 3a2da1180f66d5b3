package dashboard_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/dashboard"
)

// every is all that there is to ask for.
var every = []string{
	"", "queue?name=q", "queue?name=q&tab=morgue", "queue?name=q&tab=parked&sort=due&desc=1", "hot?name=q",
	"job?queue=q&id=a", "find?id=a",
	"running", "running?stacks=1", "locks", "schedules", "journal",
}

// actions are one of each verb.
var actions = []string{
	"verb=pause&queue=q&scope=all", "verb=pause&scope=executor", "verb=resume&queue=q&scope=all",
	"verb=run&queue=q&scope=id&id=a", "verb=cancel&queue=q&scope=id&id=a",
	"verb=delete&queue=q&scope=id&id=a", "verb=kill-failed&queue=q&scope=all&tab=retrying",
	"verb=delete-failed&queue=q&scope=all&tab=retrying",
	"verb=requeue&queue=q&scope=all&tab=morgue", "verb=delete-dead&queue=q&scope=all&tab=morgue", "verb=unlock&key=k",
	"verb=trigger&key=s", "verb=pause-schedule&key=s",
	"verb=resume-schedule&key=s",
}

// secret is in a payload, and in nothing else that a page has.
const secret = "no-one-may-see-4711"

// waiting returns an executor with one job, a, that waits: it is not started.
func waiting(t testing.TB) *executor.Executor {
	x := open(t, executor.Config{})
	enqueue(t, queue(t, x, "q", nil, executor.QueueConfig[string]{}), "a", "the payload: "+secret)
	require.NoError(t, x.KeyLocks().Lock(t.Context(), "k"))
	return x
}

func TestH1_ReadOnlyWithoutAnAuthorizer(t *testing.T) {
	x := waiting(t)
	s := mount(t, x, dashboard.Config{})
	for _, path := range every {
		text := s.get(path)
		require.NotContains(t, text, `method="post"`, path)
		require.NotContains(t, text, "<button name", path)
		require.NotContains(t, text, secret, path)
		require.Contains(t, text, "Read-only", path)
	}
	for _, action := range actions {
		s.refused(http.StatusForbidden, http.MethodPost, "do?confirm=yes&"+action, nil)
	}
	s.refused(http.StatusForbidden, http.MethodPost, "copy", nil)
	stats, err := x.Stats(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, stats.Queues[0].Jobs)
	require.False(t, stats.Queues[0].Paused)
	locked, err := x.KeyLocks().Locked(t.Context(), "k")
	require.NoError(t, err)
	require.True(t, locked)
}

func TestH1_TheAuthorizerDecides(t *testing.T) {
	x := waiting(t)
	var asked []dashboard.Action
	no := map[dashboard.Verb]bool{}
	s := mount(t, x, dashboard.Config{Authorize: func(r *http.Request, a dashboard.Action) error {
		asked = append(asked, a)
		if no[a.Verb] {
			return fmt.Errorf("%s is not for %s", a.Verb, r.Header.Get("User"))
		}
		return nil
	}})
	require.Contains(t, s.get("queue?name=q"), ">Pause queue</button>")
	no[dashboard.Pause] = true
	require.NotContains(t, s.get("queue?name=q"), ">Pause queue</button>")
	asked = nil
	require.Contains(t, s.refused(http.StatusForbidden, http.MethodPost, "do?verb=pause&queue=q&scope=all", nil,
		"User", "eve"), "pause is not for eve")
	require.Contains(t, asked, dashboard.Action{Verb: dashboard.Pause, Queue: "q"})
	no[dashboard.View] = true
	for _, path := range append([]string{"live"}, every...) {
		s.refused(http.StatusForbidden, http.MethodGet, path, nil)
	}
}

func TestH1_AnAuthorizerThatPanicsIsANo(t *testing.T) {
	s := mount(t, waiting(t), dashboard.Config{Authorize: func(_ *http.Request, a dashboard.Action) error {
		if a.Verb != dashboard.View {
			panic("no")
		}
		return nil
	}})
	require.NotContains(t, s.get("queue?name=q"), "<button name")
	s.refused(http.StatusForbidden, http.MethodPost, "do?verb=pause&queue=q&scope=all", nil)
}

func TestH1_PayloadsAreForTheHook(t *testing.T) {
	x := waiting(t)
	show := func(_ *http.Request, p dashboard.Payload) string {
		return strings.ReplaceAll(string(p.Raw), secret, "####")
	}
	text := mount(t, x, dashboard.Config{ShowPayload: show}).get("job?queue=q&id=a")
	require.Contains(t, text, "the payload: ####")
	require.NotContains(t, text, secret)
	require.Contains(t, mount(t, x, dashboard.Config{ShowPayload: dashboard.PlainPayload}).get("job?queue=q&id=a"), secret)
	text = mount(t, x, dashboard.Config{ShowPayload: func(*http.Request,
		dashboard.Payload) string {
		panic(secret)
	}}).get("job?queue=q&id=a")
	require.NotContains(t, text, secret)
}

func TestH2_AnActionIsAPostOfTheSameOrigin(t *testing.T) {
	x := waiting(t)
	s := mount(t, x, dashboard.Config{Authorize: dashboard.Insecure, TrustedOrigins: []string{"https://admin.example.com"}})
	for _, action := range actions {
		path := "do?confirm=yes&" + action
		s.refused(http.StatusMethodNotAllowed, http.MethodGet, path, nil)
		s.refused(http.StatusForbidden, http.MethodPost, path, nil, "Sec-Fetch-Site", "cross-site")
		s.refused(http.StatusForbidden, http.MethodPost, path, nil, "Sec-Fetch-Site", "same-site")
		s.refused(http.StatusForbidden, http.MethodPost, path, nil, "Sec-Fetch-Site", "", "Origin", "https://evil.example")
		s.refused(http.StatusForbidden, http.MethodPost, path, nil, "Sec-Fetch-Site", "", "Origin", "null")
	}
	s.refused(http.StatusForbidden, http.MethodPost, "copy", nil, "Sec-Fetch-Site", "cross-site")
	stats, err := x.Stats(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, stats.Queues[0].Jobs)
	require.False(t, stats.Paused)
	for _, headers := range [][]string{
		{"Sec-Fetch-Site", "", "Origin", "http://example.com"}, // the name that the request asks by
		{"Sec-Fetch-Site", "cross-site", "Origin", "https://admin.example.com"},
	} {
		a := s.do(http.MethodPost, "do?verb=pause&queue=q&scope=all", nil, headers...)
		require.Equal(t, http.StatusSeeOther, a.StatusCode, headers)
	}
}

// TestH2_AnotherSiteCanAskForNothing: an image, a frame or a script of it, with stacks for
// which all goroutines stand still; a person who follows a link can.
func TestH2_AnotherSiteCanAskForNothing(t *testing.T) {
	s := mount(t, waiting(t), dashboard.Config{TrustedOrigins: []string{"https://admin.example.com"}})
	for _, path := range append([]string{"assets/style.css", "api/v1/running?stacks=1", "api/v1/stats"}, every...) {
		for _, headers := range [][]string{
			{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "https://evil.example"}, {"Origin", "null"},
			{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"},
			{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"},
		} {
			require.Contains(t, s.refused(http.StatusForbidden, http.MethodGet, path, nil, headers...), "another site", "%s %q", path, headers)
			require.Equal(t, http.StatusForbidden, s.do(http.MethodHead, path, nil, headers...).StatusCode, path)
		}
		for _, headers := range [][]string{nil, {"Sec-Fetch-Site", "same-origin"}, {"Sec-Fetch-Site", "none"},
			{"Origin", "http://example.com"}, {"Sec-Fetch-Site", "cross-site", "Origin", "https://admin.example.com"},
			{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"},
		} {
			require.Less(t, s.do(http.MethodGet, path, nil, headers...).StatusCode, 400, "%s %q", path, headers)
		}
	}
}

func TestH3_EachAnswerHasTheHeaders(t *testing.T) {
	s := writable(t, waiting(t))
	for _, path := range append([]string{"assets/style.css", "nowhere", "queue?name=none", "job?queue=q&id="}, every...) {
		h := s.do(http.MethodGet, path, nil).Header
		csp := h.Get("Content-Security-Policy")
		require.Contains(t, csp, "default-src 'none'", path)
		require.Contains(t, csp, "frame-ancestors 'none'", path)
		require.Contains(t, csp, "form-action 'self'", path)
		require.NotContains(t, csp, "unsafe", path)
		require.Equal(t, "nosniff", h.Get("X-Content-Type-Options"), path)
		require.Equal(t, "DENY", h.Get("X-Frame-Options"), path)
	}
	for _, path := range every { // the policy would break what is inline
		text := s.get(path)
		require.NotContains(t, text, "style=", path)
		require.NotRegexp(t, `<script(>|[^>]*[^r]>[^<])`, text, path)
		require.NotRegexp(t, `\son[a-z]+=`, text, path)
	}
}

func TestH4_NamesThatAreNotOurs(t *testing.T) {
	x := waiting(t)
	s := mount(t, x, dashboard.Config{Hosts: []string{"jobs.example.com", "::1"}})
	for host, status := range map[string]int{
		"jobs.example.com": 200, "JOBS.example.com:8080": 200, "jobs.example.com.": 200, "[::1]:80": 200,
		"evil.example": 403, "jobs.example.com.evil.example": 403, "127.0.0.1": 403,
	} {
		require.Equal(t, status, s.do(http.MethodGet, "", nil, "Host", host).StatusCode, host)
	}
	// Without a list, what is on loopback is asked for by no name that may be forged.
	local := context.WithValue(t.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80})
	for host, status := range map[string]int{"localhost:80": 200, "app.localhost": 200, "127.0.0.1:80": 200,
		"[::1]": 200, "rebound.evil.example": 403} {
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(local, http.MethodGet, "/strand/", nil)
		r.Host = host
		mount(t, x, dashboard.Config{}).mux.ServeHTTP(w, r)
		require.Equal(t, status, w.Code, host)
	}
}

func TestH5_Caps(t *testing.T) {
	s := writable(t, waiting(t))
	for _, path := range []string{
		"queue?name=q&limit=1000000000", "queue?name=q&limit=0", "queue?name=q&limit=-1", "queue?name=q&limit=x",
		"queue?name=q&sort=secret", "queue?name=q&tab=none",
		"queue?name=q&desc=1", "queue?name=q&after=AAAA", "queue?name=q&sort=died",
		"queue?name=q&prefix=" + strings.Repeat("x", 600), "job?queue=q&id=" + strings.Repeat("x", 1<<20),
	} {
		s.refused(http.StatusBadRequest, http.MethodGet, path, nil)
	}
	s.refused(http.StatusNotFound, http.MethodGet, "queue?name=none", nil)
	s.refused(http.StatusNotFound, http.MethodGet, "job?queue=q&id=none", nil)
	many := make(url.Values)
	for i := range 1001 {
		many.Add("sel", fmt.Sprintf(":%d", i))
	}
	s.refused(http.StatusBadRequest, http.MethodPost, "do?verb=run&queue=q&scope=selected&tab=waiting", many)
	s.refused(http.StatusRequestEntityTooLarge, http.MethodPost, "do?verb=run&queue=q&scope=selected&tab=waiting",
		url.Values{"sel": {":" + strings.Repeat("x", 2<<20)}})
	for _, form := range []string{"verb=format", "verb=run&queue=q&scope=id",
		"verb=run&queue=q&scope=selected&tab=waiting", "verb=run&queue=q&scope=all",
		"verb=run&queue=q&scope=selected&tab=waiting&sel=x"} {
		s.refused(http.StatusBadRequest, http.MethodPost, "do?"+form, nil)
	}
}

// What does not say which jobs it is about is refused: nothing else is done instead.
func TestAnActionThatMeansNothing(t *testing.T) {
	x := waiting(t)
	s := writable(t, x)
	for form, want := range map[string]string{
		"verb=delete&tab=morgue&scope=all":                  "tab is morgue, and delete is about another list",
		"verb=delete&tab=morgue&scope=filtered&prefix=a":    "tab is morgue",
		"verb=delete&tab=morgue&scope=selected&sel=:a":      "tab is morgue",
		"verb=cancel&tab=morgue&scope=all":                  "tab is morgue",
		"verb=run&tab=morgue&scope=filtered":                "tab is morgue",
		"verb=kill-failed&tab=morgue&scope=all":             "tab is morgue",
		"verb=delete-failed&tab=morgue&scope=all":           "tab is morgue",
		"verb=delete-dead&tab=waiting&scope=all":            "tab is waiting",
		"verb=requeue&tab=retrying&scope=selected&sel=:a":   "tab is retrying",
		"verb=delete&tab=waiting&scope=zzz":                 "scope is &#34;zzz&#34;",
		"verb=pause&scope=zzz":                              "scope is &#34;zzz&#34;",
		"verb=delete&id=a":                                  "scope is missing",
		"verb=delete&tab=waiting":                           "scope is missing",
		"verb=pause":                                        "scope is missing",
		"verb=pause&scope=filtered&tab=waiting&error=other": "error is given, and pause filtered is about",
		"verb=resume&scope=filtered&tab=waiting":            "without prefix or error",
		"verb=delete&scope=all":                             "tab is missing",
		"verb=delete&scope=filtered&prefix=a":               "tab is missing",
		"verb=delete&tab=waiting&scope=filtered":            "without prefix or error",
		"verb=delete&tab=waiting&scope=all&prefix=other":    "prefix is given, and delete all has no use for it",
		"verb=delete&tab=waiting&scope=all&error=boom":      "error is given",
		"verb=requeue&tab=morgue&scope=all&prefix=other":    "prefix is given",
		"verb=delete-dead&tab=morgue&scope=all&error=boom":  "error is given",
		"verb=pause&scope=executor&prefix=other":            "prefix is given",
		"verb=delete&scope=id&id=a&prefix=other":            "prefix is given",
		"verb=delete&scope=id":                              "id is missing",
		"verb=run&tab=waiting&scope=selected&sel=1:a":       "position 1, and run is about whole jobs",
		"verb=pause&scope=executor":                         "queue is given",
		"verb=unlock&key=k":                                 "queue is given",
	} {
		for _, sure := range []string{"", "&confirm=yes"} {
			text := s.refused(http.StatusBadRequest, http.MethodPost, "do?queue=q&"+form+sure, nil)
			require.Contains(t, text, want, form)
		}
	}
	text := s.refused(http.StatusNotFound, http.MethodPost, "do?verb=pause&queue=none&scope=all", nil)
	require.NotContains(t, text, "affected")
	stats, err := x.Stats(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, stats.Queues[0].Jobs)
	require.Zero(t, stats.Queues[0].Dead)
	require.False(t, stats.Queues[0].Paused)
	require.False(t, stats.Paused)
	// What is about a key or a schedule is about nothing else.
	for form, want := range map[string]string{"verb=unlock&key=k&scope=all": "scope is given", "verb=unlock": "key is missing",
		"verb=unlock&key=k&cron=0": "cron is given", "verb=trigger&cron=0": "schedule is missing"} {
		require.Contains(t, s.refused(http.StatusBadRequest, http.MethodPost, "do?confirm=yes&"+form, nil), want, form)
	}
	require.Equal(t, http.StatusSeeOther, s.do(http.MethodPost, "do?verb=unlock&key=k&confirm=yes", nil).StatusCode)
}

func TestH6_APanicIsOneRequests(t *testing.T) {
	var log strings.Builder
	s := mount(t, new(executor.Executor), dashboard.Config{Logger: slog.New(slog.NewTextHandler(&log,
		nil))}) // its methods panic
	s.refused(http.StatusInternalServerError, http.MethodGet, "", nil)
	require.Contains(t, log.String(), "panicked")
	s.get("assets/style.css")
}

func TestAConfigurationThatMakesNoSense(t *testing.T) {
	x := waiting(t)
	for want, cfg := range map[string]dashboard.Config{
		"Prefix": {Prefix: "strand"}, "Hosts": {Hosts: []string{"example.com:80"}},
		"TrustedOrigins": {TrustedOrigins: []string{"example.com"}},
		"Elections":      {Elections: []dashboard.Election{{Name: "e"}}},
	} {
		require.Contains(t, mount(t, x, cfg).refused(http.StatusInternalServerError, http.MethodGet, "", nil), want)
	}
	require.Contains(t, mount(t, nil, dashboard.Config{}).refused(http.StatusInternalServerError, http.MethodGet, "",
		nil), "no executor")
}

// What was done is said once, and no link says it that somebody has made up.
func TestNoticeIsOfAnAction(t *testing.T) {
	s := writable(t, waiting(t))
	const banner = `class="banner good"`
	for _, made := range []string{"queue?name=q&did=delete&n=999999&of=payload", "queue?name=q&done=", "?did=pause&n=1&of=executor",
		"queue?name=q&done=AAAAAAAAAAAAAAAAAAAAAAAAAA"} {
		require.NotContains(t, s.get(made), banner)
	}
	a := s.do(http.MethodPost, "do?verb=pause&queue=q&scope=all", nil)
	said := a.Header.Get("Location")
	require.Contains(t, s.get(said), "1 queue is paused.")
	require.NotContains(t, s.get(said), banner)
	said = s.do(http.MethodPost, "do?verb=pause&queue=q&scope=all", nil).Header.Get("Location")
	for range 300 {
		s.do(http.MethodPost, "do?verb=pause&queue=q&scope=all", nil)
	}
	require.NotContains(t, s.get(said), banner, "those that nobody asks for are forgotten")
}
