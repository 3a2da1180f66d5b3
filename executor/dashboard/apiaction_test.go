package dashboard_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/cron"
	"github.com/strandjobs/strand/executor/dashboard"
	"github.com/strandjobs/strand/executor/inspect"
)

func TestDashboard_L20_ActionsByTheAPI(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, q := graveyard(t, 300)
		s := writable(t, x)
		figures := func() (jobs, dead int) {
			synctest.Wait()
			stats, err := q.Stats(t.Context())
			require.NoError(t, err)
			return stats.Jobs, stats.Dead
		}
		left := func(jobs, dead int) {
			t.Helper()
			j, d := figures()
			require.Equal(t, [2]int{jobs, dead}, [2]int{j, d})
		}
		left(300, 300)
		s.affects(1, "payload", `{"verb": "requeue", "queue": "q", "scope": "id", "id": "dead-00000"}`)
		left(300, 299)
		positions := field(s.api("dead", "queue", "q", "prefix", "dead-00001"), "dead", 0, "position")
		s.affects(2, "payload", fmt.Sprintf(`{"verb": "delete-dead", "queue": "q", "scope": "selected", "selected": [
			{"id": "dead-00001", "position": %v}, {"id": "dead-00002"}]}`, positions))
		left(300, 297)
		s.affects(100, "payload", `{"verb": "requeue", "queue": "q", "scope": "filtered", "prefix": "dead-001"}`)
		left(300, 197)
		s.affects(197, "payload", `{"verb": "requeue", "queue": "q", "scope": "all"}`)
		left(300, 0)
		s.affects(100, "payload", `{"verb": "kill-failed", "queue": "q", "scope": "filtered",
			"prefix": "failed-001", "error": "boom"}`)
		left(200, 100)
		s.affects(1, "job", `{"verb": "run", "queue": "q", "scope": "id", "id": "failed-00000"}`)
		left(199, 100)
		s.affects(1, "payload", `{"verb": "cancel", "queue": "q", "scope": "id", "id": "failed-00001", "reason": "by hand"}`)
		left(198, 101)
		require.Contains(t, field(s.api("job", "queue", "q", "id", "failed-00001"), "dead", 0, "error"), "by hand")
		s.affects(2, "payload", `{"verb": "delete", "queue": "q", "scope": "selected", "selected": [{"id": "failed-00002"},
			{"id": "failed-00003"}, {"id": "no such"}]}`)
		left(196, 101)
		s.affects(0, "payload", `{"verb": "delete-failed", "queue": "q", "scope": "all", "state": ["halted"]}`)
		s.affects(96, "payload", `{"verb": "delete-failed", "queue": "q", "scope": "filtered",
			"state": ["retrying"], "prefix": "failed-000"}`)
		left(100, 101)
		s.affects(100, "job", `{"verb": "run", "queue": "q", "scope": "all", "state": ["retrying"]}`)
		left(0, 101)
		require.NoError(t, x.Stop(t.Context()))
	})
}

// What is retried goes on counting, and what is run begins again.
func TestAPI_RetryGivesNoRetriesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := open(t, executor.Config{})
		q := queue(t, x, "q", func(context.Context, executor.Job[string]) error { return errBoom },
			executor.QueueConfig[string]{RetryIn: func(int) time.Duration { return 24 * time.Hour }})
		require.NoError(t, x.Start(t.Context()))
		enqueue(t, q, "a", "")
		s := writable(t, x)
		for _, each := range []struct {
			verb string
			next float64
		}{{"retry", 3}, {"retry", 4}, {"run", 2}} {
			synctest.Wait()
			s.affects(1, "job", `{"verb": "`+each.verb+`", "queue": "q", "scope": "id", "id": "a"}`)
			synctest.Wait()
			require.Equal(t, each.next, s.api("job", "queue", "q", "id", "a")["attempt"], each.verb)
		}
		require.NoError(t, x.Stop(t.Context()))
	})
}

func TestAPI_PauseAndUnlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := open(t, executor.Config{})
		q := queue(t, x, "q", nil, executor.QueueConfig[string]{})
		require.NoError(t, x.Start(t.Context()))
		s := writable(t, x)
		paused := func() any { return s.api("explain", "queue", "q", "id", "a")["paused"] }
		s.affects(1, "executor", `{"verb": "pause", "scope": "executor"}`)
		enqueue(t, q, "a", "")
		require.Equal(t, []any{"executor"}, paused())
		s.affects(1, "queue", `{"verb": "pause", "scope": "all", "queue": "q"}`)
		s.affects(1, "id", `{"verb": "pause", "scope": "id", "queue": "q", "id": "a"}`)
		s.affects(1, "prefix", `{"verb": "pause", "scope": "filtered", "queue": "q", "prefix": "a"}`)
		require.Equal(t, []any{"executor", "queue", `prefix "a"`, "id"}, paused())
		page := s.get("queue", "name", "q", "prefix", "a")
		require.Contains(t, page, "are paused")
		require.Contains(t, page, "Pause these ids")
		s.affects(1, "executor", `{"verb": "resume", "scope": "executor"}`)
		s.affects(1, "queue", `{"verb": "resume", "scope": "all", "queue": "q"}`)
		s.affects(1, "prefix", `{"verb": "resume", "scope": "filtered", "queue": "q", "prefix": "a"}`)
		require.Equal(t, []any{"id"}, paused())
		s.affects(1, "id", `{"verb": "resume", "scope": "selected", "queue": "q", "selected": [{"id": "a"}]}`)
		synctest.Wait()
		require.Equal(t, 0.0, field(s.api("stats"), "total", "length"))

		require.NoError(t, x.KeyLocks().Lock(t.Context(), "k\xff"))
		key, err := json.Marshal(field(s.api("locks"), "keys", 0, "key"))
		require.NoError(t, err)
		s.affects(1, "key", `{"verb": "unlock", "key": `+string(key)+`}`)
		s.problem(http.StatusNotFound, s.tell(`{"verb": "unlock", "key": `+string(key)+`}`))
		require.NoError(t, x.Stop(t.Context()))
	})
}

// TestH3_AnyIDSurvivesTheAPI: what a list says of an id names that very job, in an
// address, in JSON and in a form.
func TestH3_AnyIDSurvivesTheAPI(t *testing.T) {
	x := open(t, executor.Config{})
	const name = "a queue/with \xff & more?"
	q := queue(t, x, name, nil, executor.QueueConfig[string]{})
	s := writable(t, x)
	for _, id := range append(hostile, "\ufffd", "a\ufffdb") {
		enqueue(t, q, id, "", executor.In(time.Hour))
		require.Len(t, s.api("jobs", "queue", name, "prefix", id)["jobs"], 1)
		row := field(s.api("jobs", "queue", name), "jobs", 0).(object)
		require.Equal(t, id, idIn(t, row))
		require.Equal(t, id, idIn(t, s.api("job", "queue", name, "id", id)))
		require.Equal(t, id, idIn(t, field(s.api("find", "id", id), "found", 0).(object)))
		ref := object{"queue": row["queue"], "id": row["id"]} // as they are
		do := func(verb dashboard.Verb) string {
			body := object{"verb": verb, "scope": "id"}
			maps.Copy(body, ref)
			text, err := json.Marshal(body)
			require.NoError(t, err)
			return string(text)
		}
		s.affects(1, "id", do(dashboard.Pause))
		form := s.do(http.MethodPost, "api/v1/actions", url.Values{"verb": {"resume"}, "scope": {"selected"}, "queue": {name},
			"sel": {":" + url.QueryEscape(id)}})
		require.JSONEq(t, `{"affected": 1, "of": "id"}`, form.text)
		s.affects(1, "payload", do(dashboard.Cancel))
		require.Equal(t, id, idIn(t, field(s.api("dead", "queue", name), "dead", 0).(object)))
		form = s.do(http.MethodPost, "api/v1/actions", url.Values{"verb": {"delete-dead"},
			"scope": {"id"}, "queue": {name}, "id": {id}})
		require.JSONEq(t, `{"affected": 1, "of": "payload"}`, form.text)
	}
	// What is no text is refused, and is none of those whose bytes it would stand for.
	enqueue(t, q, "\xff", "")
	for _, id := range []string{"\xff", `\ud800`} {
		require.Contains(t, s.problem(http.StatusBadRequest, s.tell(`{"verb": "delete", "scope": "id", "queue": {"base64": "YQ=="},
			"id": "`+id+`"}`)), "base64")
	}
	require.Equal(t, 1.0, field(s.api("stats"), "total", "length"))
}

// idIn is the id that an answer names, read as a client does.
func idIn(t *testing.T, o object) string {
	t.Helper()
	if coded, ok := o["id"].(object); ok {
		id, err := base64.StdEncoding.DecodeString(coded["base64"].(string))
		require.NoError(t, err)
		return string(id)
	}
	return o["id"].(string)
}

// apiPaths are all that there is to ask for.
var apiPaths = []string{"stats", "queues", "jobs?queue=q", "dead?queue=q", "job?queue=q&id=a", "details?queue=q&id=a&id=b", "explain?queue=q&id=a",
	"find?id=a", "running", "running?stacks=1", "locks", "leases", "slots", "limits", "schedules", "journal"}

// apiActions are one of each verb.
var apiActions = []string{
	`{"verb": "pause", "scope": "executor"}`, `{"verb": "pause", "scope": "all", "queue": "q"}`,
	`{"verb": "resume", "scope": "id", "queue": "q", "id": "a"}`, `{"verb": "run", "scope": "all", "queue": "q"}`,
	`{"verb": "retry", "scope": "all", "queue": "q"}`,
	`{"verb": "cancel", "scope": "id", "queue": "q", "id": "a"}`, `{"verb": "delete", "scope": "id", "queue": "q", "id": "a"}`,
	`{"verb": "kill-failed", "scope": "all", "queue": "q"}`, `{"verb": "delete-failed", "scope": "all", "queue": "q"}`,
	`{"verb": "requeue", "scope": "all", "queue": "q"}`, `{"verb": "delete-dead", "scope": "all", "queue": "q"}`,
	`{"verb": "unlock", "key": "k"}`, `{"verb": "trigger", "schedule": "s"}`, `{"verb": "pause-schedule", "schedule": "s"}`,
	`{"verb": "resume-schedule", "schedule": "s"}`,
}

func TestH1_TheAPIIsReadOnlyWithoutAnAuthorizer(t *testing.T) {
	x := waiting(t)
	s := mount(t, x, dashboard.Config{})
	for _, path := range apiPaths {
		s.api(path)
		require.NotContains(t, s.do(http.MethodGet, "api/v1/"+path, nil).text, secret, path)
	}
	for _, action := range apiActions {
		require.Contains(t, s.problem(http.StatusForbidden, s.tell(action)), "read-only")
	}
	s.problem(http.StatusForbidden, s.do(http.MethodPost, "api/v1/copy", nil))
	untouched(t, x)

	_, err := x.Inspect().Cancel(t.Context(), inspect.SelectQueue("q"), "")
	require.NoError(t, err)
	require.Len(t, s.api("dead", "queue", "q")["dead"], 1)
	for _, path := range apiPaths {
		require.NotContains(t, s.do(http.MethodGet, "api/v1/"+path, nil).text, secret, "of what is dead: %s", path)
	}
}

// untouched requires that nothing was done to what waiting has made.
func untouched(t *testing.T, x *executor.Executor) {
	t.Helper()
	stats, err := x.Stats(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, stats.Queues[0].Jobs)
	require.False(t, stats.Queues[0].Paused)
	require.Zero(t, stats.Queues[0].Dead)
	locked, err := x.KeyLocks().Locked(t.Context(), "k")
	require.NoError(t, err)
	require.True(t, locked)
}

func TestH1_TheAuthorizerDecidesAboutTheAPI(t *testing.T) {
	x := waiting(t)
	s := mount(t, x, dashboard.Config{Authorize: func(r *http.Request, a dashboard.Action) error {
		switch token := r.Header.Get("Authorization"); {
		case token == "Bearer operator":
			return nil
		case token == "Bearer viewer" && a.Verb == dashboard.View:
			return nil
		}
		return errors.New("who are you?")
	}})
	for _, path := range apiPaths {
		require.Equal(t, "who are you?", s.problem(http.StatusForbidden, s.do(http.MethodGet, "api/v1/"+path, nil)))
		require.Equal(t, http.StatusOK, s.do(http.MethodGet, "api/v1/"+path, nil, "Authorization", "Bearer viewer").StatusCode)
	}
	for _, action := range apiActions {
		s.problem(http.StatusForbidden, s.tell(action))
		s.problem(http.StatusForbidden, s.tell(action, "Authorization", "Bearer viewer"))
	}
	untouched(t, x)
	a := s.tell(`{"verb": "pause", "scope": "all", "queue": "q"}`, "Authorization", "Bearer operator")
	require.JSONEq(t, `{"affected": 1, "of": "queue"}`, a.text)
}

func TestH2_TheAPITakesNoOrdersFromOtherSites(t *testing.T) {
	x := waiting(t)
	s := mount(t, x, dashboard.Config{Authorize: dashboard.Insecure, TrustedOrigins: []string{"https://admin.example.com"}})
	for _, action := range apiActions {
		s.problem(http.StatusForbidden, s.tell(action, "Sec-Fetch-Site", "cross-site"))
		s.problem(http.StatusForbidden, s.tell(action, "Sec-Fetch-Site", "same-site"))
		s.problem(http.StatusForbidden, s.tell(action, "Origin", "https://evil.example"))
		s.problem(http.StatusForbidden, s.tell(action, "Origin", "null"))
		s.problem(http.StatusUnsupportedMediaType, s.tell(action, "Content-Type", "text/plain"))
		s.problem(http.StatusUnsupportedMediaType, s.tell(action, "Content-Type", ""))
		a := s.do(http.MethodGet, "api/v1/actions", nil)
		s.problem(http.StatusMethodNotAllowed, a)
		require.Equal(t, http.MethodPost, a.Header.Get("Allow"))
	}
	s.problem(http.StatusForbidden, s.do(http.MethodPost, "api/v1/copy", nil, "Sec-Fetch-Site", "cross-site"))
	untouched(t, x)
	for _, headers := range [][]string{nil, {"Sec-Fetch-Site", "same-origin"}, {"Origin", "http://example.com"},
		{"Sec-Fetch-Site", "cross-site", "Origin", "https://admin.example.com"}} {
		require.Equal(t, http.StatusOK, s.tell(`{"verb": "pause", "scope": "all", "queue": "q"}`, headers...).StatusCode, headers)
	}
	named := mount(t, x, dashboard.Config{Hosts: []string{"jobs.example.com"}})
	s.problem(http.StatusForbidden, named.do(http.MethodGet, "api/v1/stats", nil, "Host", "rebound.evil.example"))
	require.Equal(t, http.StatusOK, named.do(http.MethodGet, "api/v1/stats", nil, "Host", "jobs.example.com").StatusCode)
}

// TestH5_WhatTheAPIHasNoUseFor is refused, by name, and nothing is done.
func TestH5_WhatTheAPIHasNoUseFor(t *testing.T) {
	x := waiting(t)
	s := writable(t, x)
	for path, want := range map[string]string{
		"stats?x=1": `"x"`, "jobs?queue=q&tab=morgue": `"tab"`, "jobs?queue=q&queue=q": "queue", "jobs?queue=q&limit=1001": "1001",
		"jobs?queue=q&limit=0": "limit", "jobs?queue=q&limit=": "limit", "jobs?queue=q&limit=x": "limit",
		"jobs?queue=q&order=secret": "Order",
		"jobs?queue=q&desc=true":    "Descending", "jobs?queue=q&order=id&desc=down": "desc", "jobs?queue=q&cursor=AAAA": "cursor",
		"jobs?queue=q&state=dead": "dead", "jobs?queue=q&%zz": "query", "dead?queue=q&order=due": "Order",
		"locks?cursor=%ff":            "cursor",
		"dead?queue=q&state=retrying": "state", "running?stacks=maybe": "stacks", "job?queue=q&id=": "id", "find?id=": "id",
		"jobs?queue=q&prefix=" + strings.Repeat("x", 600): "IDPrefix", "job?queue=q&id=" + strings.Repeat("x", 1<<20): "id",
		"jobs?queue=q&a=1;b=2": "query",
	} {
		require.Contains(t, s.problem(http.StatusBadRequest, s.do(http.MethodGet, "api/v1/"+path, nil)), want, "%.80s", path)
	}
	for _, path := range []string{"nowhere", "stats/", "jobs?queue=none", "jobs", "queues?queue=none", "job?queue=q&id=none",
		"explain?queue=none&id=a", "running?queue=none", "dead?queue=none"} {
		s.problem(http.StatusNotFound, s.do(http.MethodGet, "api/v1/"+path, nil))
	}
	s.problem(http.StatusNotFound, s.do(http.MethodGet, "api/v2/stats", nil))
	s.problem(http.StatusMethodNotAllowed, s.do(http.MethodPost, "api/v1/stats", nil))
	s.problem(http.StatusMethodNotAllowed, s.do(http.MethodDelete, "api/v1/jobs?queue=q", nil))
	head := s.do(http.MethodHead, "api/v1/stats", nil)
	require.Equal(t, http.StatusOK, head.StatusCode)
	require.Empty(t, head.text)
	for _, each := range [][2]string{
		{``, "too early"},
		{`{`, "too early"},
		{`[]`, "must be an object"},
		{`{} {}`, "more behind"},
		{`{"verb": "format"}`, `"format"`},
		{`{}`, "verb"},
		{`{"verb": "run", "queue": "q"}`, "scope"},
		{`{"verb": "run", "queue": "q", "scope": "some"}`, `"some"`},
		{`{"verb": "run", "queue": "q", "scope": "executor"}`, "scope"},
		{`{"verb": "run", "scope": "all"}`, "queue is missing"},
		{`{"verb": "run", "queue": "q", "scope": "id"}`, "id is missing"},
		{`{"verb": "run", "queue": "q", "scope": "all", "id": "a"}`, "id is given"},
		{`{"verb": "run", "queue": "q", "scope": "all", "prefix": "a"}`, "prefix is given"},
		{`{"verb": "delete", "queue": "q", "scope": "all", "error": "boom"}`, "error is given"},
		{`{"verb": "requeue", "queue": "q", "scope": "all", "prefix": "a"}`, "prefix is given"},
		{`{"verb": "pause", "queue": "q", "scope": "all", "prefix": "a"}`, "prefix is given"},
		{`{"verb": "run", "queue": "q", "scope": "filtered"}`, "without prefix"},
		{`{"verb": "run", "queue": "q", "scope": "filtered", "state": ["ready"]}`, "without prefix"},
		{`{"verb": "run", "queue": "q", "scope": "id", "id": "a", "reason": "x"}`, "reason is given"},
		{`{"verb": "run", "queue": "q", "scope": "all", "limit": 1}`, `"limit"`},
		{`{"verb": "run", "queue": "q", "scope": "all", "state": ["dead"]}`, "dead"},
		{`{"verb": "run", "queue": "q", "scope": "selected", "selected": []}`, "selected is empty"},
		{`{"verb": "run", "queue": "q", "scope": "selected", "selected": [{"id": ""}]}`, "id"},
		{`{"verb": "run", "queue": "q", "scope": "selected", "selected": [{"id": "a", "position": 1}]}`, "position"},
		{`{"verb": "cancel", "queue": "q", "scope": "selected", "selected": [{"id": "a", "at": 1}]}`, `"at"`},
		{`{"verb": "cancel", "queue": "q", "scope": "selected", "selected": [{"id": "a", "position": -1}]}`, "position"},
		{`{"verb": "run", "queue": "q", "scope": "id", "id": "a", "id": {"base64": "YQ=="}}`, "id is there twice"},
		{`{"verb": "run", "queue": "q", "scope": "id", "id": {"base64": "?"}}`, "base64"},
		{`{"verb": "requeue", "queue": "q", "scope": "all", "state": ["retrying"]}`, "state is given"},
		{`{"verb": "pause", "scope": "executor", "queue": "q"}`, "queue is given"},
		{`{"verb": "pause", "scope": "all"}`, "queue is missing"},
		{`{"verb": "unlock"}`, "key is missing"},
		{`{"verb": "unlock", "key": "k", "scope": "all"}`, "scope is given"},
		{`{"verb": "unlock", "key": "k", "cron": 0}`, "cron is given"},
		{`{"verb": "trigger", "cron": 0}`, "schedule is missing"},
		{`{"verb": "delete", "queue": "q", "scope": "id", "id": "` + strings.Repeat("x", 600) + `"}`, "600"},
		{`{"verb": "run", "queue": "q", "scope": "selected", "selected": [{"id": "a"}` +
			strings.Repeat(`,{"id":"a"}`, 1000) + `]}`, "1001"},
	} {
		require.Contains(t, s.problem(http.StatusBadRequest, s.tell(each[0])), each[1], "%.100s", each[0])
	}
	for form, want := range map[string]string{"verb=run&scope=all&queue=q&tab=waiting": "tab is given", "verb=run&verb=run": "verb",
		"verb=delete&scope=all&queue=q&prefix=a": "prefix is given", "verb=delete-dead&scope=all&queue=q&error=x": "error is given",
		"verb=run&scope=selected&queue=q&sel=x": "sel", "verb=trigger&schedule=s&cron=x": "cron", "%zz": "escape"} {
		a := s.tell(form, "Content-Type", "application/x-www-form-urlencoded")
		require.Contains(t, s.problem(http.StatusBadRequest, a), want, form)
	}
	s.problem(http.StatusBadRequest, s.do(http.MethodPost, "api/v1/actions?verb=pause&scope=executor", nil))
	s.problem(http.StatusRequestEntityTooLarge, s.tell(`{"verb": "`+strings.Repeat("x", 2<<20)+`"}`))
	s.problem(http.StatusNotFound, s.tell(`{"verb": "run", "queue": "none", "scope": "all"}`))
	untouched(t, x)
}

// TestH6_AFailureOfTheAPI is a problem, too, whatever fails.
func TestH6_AFailureOfTheAPI(t *testing.T) {
	var log strings.Builder
	s := mount(t, new(executor.Executor), dashboard.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	s.problem(http.StatusInternalServerError, s.do(http.MethodGet, "api/v1/stats", nil))
	require.Contains(t, log.String(), "panicked")
	for _, cfg := range []dashboard.Config{{Prefix: "strand"}, {Hosts: []string{"example.com:80"}}} {
		s.problem(http.StatusInternalServerError, mount(t, waiting(t), cfg).do(http.MethodGet, "api/v1/stats", nil))
	}
}

// An action in which a field is missing does nothing, and is told which one.
func TestAnActionWithoutAField(t *testing.T) {
	x := waiting(t)
	c, err := cron.New(x, cron.Config{})
	require.NoError(t, err)
	s := mount(t, x, dashboard.Config{Authorize: dashboard.Insecure, Crons: []*cron.Cron{c, c}})
	for _, whole := range []map[string]any{
		{"verb": "pause", "scope": "all", "queue": "q"},
		{"verb": "resume", "scope": "id", "queue": "q", "id": "a"},
		{"verb": "run", "scope": "id", "queue": "q", "id": "a"},
		{"verb": "cancel", "scope": "all", "queue": "q"},
		{"verb": "delete", "scope": "selected", "queue": "q", "selected": []any{map[string]any{"id": "a"}}},
		{"verb": "kill-failed", "scope": "filtered", "queue": "q", "prefix": "a"},
		{"verb": "delete-failed", "scope": "id", "queue": "q", "id": "a"},
		{"verb": "requeue", "scope": "id", "queue": "q", "id": "a"},
		{"verb": "delete-dead", "scope": "filtered", "queue": "q", "error": "boom"},
		{"verb": "unlock", "key": "k"},
		{"verb": "trigger", "schedule": "s", "cron": 0},
		{"verb": "pause-schedule", "schedule": "s", "cron": 0},
		{"verb": "resume-schedule", "schedule": "s", "cron": 0},
	} {
		for missing := range whole {
			some := maps.Clone(whole)
			delete(some, missing)
			want := missing + " is missing"
			if some["scope"] == "filtered" && (missing == "prefix" || missing == "error") {
				want = "without prefix or error"
			}
			text, err := json.Marshal(some)
			require.NoError(t, err)
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/strand/api/v1/actions", bytes.NewReader(text))
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			s.mux.ServeHTTP(w, r)
			require.Equal(t, http.StatusBadRequest, w.Code, "%s: %s", text, w.Body)
			require.Contains(t, w.Body.String(), want, "%s", text)
		}
	}
	untouched(t, x)
}
