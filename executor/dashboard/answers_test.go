package dashboard_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/cron"
	"github.com/strandjobs/strand/executor/dashboard"
	"github.com/strandjobs/strand/lock"
)

// TestAPI_WhatThereIsNot is a problem wherever it is asked for.
func TestAPI_WhatThereIsNot(t *testing.T) {
	s := writable(t, waiting(t))
	for path, status := range map[string]int{
		"explain?queue=q": http.StatusBadRequest, "explain?queue=q&id=": http.StatusBadRequest,
		"explain?queue=q&id=none": http.StatusNotFound, "job?queue=q&id=none": http.StatusNotFound,
		"find?id=a&queue=none": http.StatusNotFound, "find?id=a&queue=": http.StatusNotFound, "find?queue=q": http.StatusBadRequest,
	} {
		s.problem(status, s.do(http.MethodGet, "api/v1/"+path, nil))
	}
	require.Empty(t, s.api("find", "id", "none")["found"])
	require.Empty(t, s.api("find", "id", "none", "queue", "q")["found"])
	require.Len(t, s.api("find", "id", "a", "queue", "q")["found"], 1)
}

// TestAPI_NothingWasToBeDone: what was so before is not affected.
func TestAPI_NothingWasToBeDone(t *testing.T) {
	x := waiting(t)
	c, err := cron.New(x, cron.Config{})
	require.NoError(t, err)
	require.NoError(t, cron.Add(t.Context(), c, cron.Schedule[string]{Name: "s", Spec: "0 4 * * *",
		Queue: queue(t, x, "ticks", nil, executor.QueueConfig[string]{}), Payload: func(time.Time) string { return "" }}))
	s := mount(t, x, dashboard.Config{Authorize: dashboard.Insecure, Crons: []*cron.Cron{c}})
	for _, each := range [][2]string{{"executor", `"scope": "executor"`}, {"queue", `"scope": "all", "queue": "q"`},
		{"id", `"scope": "id", "queue": "q", "id": "a"`}, {"prefix", `"scope": "filtered", "queue": "q", "prefix": "a"`}} {
		s.affects(0, each[0], `{"verb": "resume", `+each[1]+`}`)
		s.affects(1, each[0], `{"verb": "pause", `+each[1]+`}`)
		s.affects(0, each[0], `{"verb": "pause", `+each[1]+`}`)
		s.affects(1, each[0], `{"verb": "resume", `+each[1]+`}`)
	}
	s.affects(0, "schedule", `{"verb": "resume-schedule", "schedule": "s"}`)
	s.affects(1, "schedule", `{"verb": "pause-schedule", "schedule": "s"}`)
	s.affects(0, "schedule", `{"verb": "pause-schedule", "schedule": "s"}`)
	s.affects(1, "schedule", `{"verb": "resume-schedule", "schedule": "s"}`)
	require.Contains(t, s.post(nil, "verb", "resume", "queue", "q", "scope", "all"), "it was so before")
	require.NoError(t, c.Stop(t.Context()))
}

// TestAPI_AScheduleThatGoesOn keeps its outstanding ticks when somebody resumes it to be sure.
func TestAPI_AScheduleThatGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := open(t, executor.Config{MaxBacklog: executor.BacklogLimit{Payloads: 1}})
		var ran atomic.Int64
		ticks := queue(t, x, "ticks", func(context.Context, executor.Job[string]) error { ran.Add(1); return nil }, executor.QueueConfig[string]{})
		enqueue(t, queue(t, x, "q", nil, executor.QueueConfig[string]{}), "in the way", "", executor.In(time.Hour))
		c, err := cron.New(x, cron.Config{Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		require.NoError(t, cron.Add(t.Context(), c, cron.Schedule[string]{Name: "s", Spec: "* * * * *", Missed: cron.MissedAll,
			Queue: ticks, Payload: func(time.Time) string { return "" }}))
		require.NoError(t, x.Start(t.Context()))
		require.NoError(t, c.Start())
		time.Sleep(3*time.Minute + time.Second)
		s := mount(t, x, dashboard.Config{Authorize: dashboard.Insecure, Crons: []*cron.Cron{c}})
		require.Zero(t, ran.Load())
		s.affects(0, "schedule", `{"verb": "resume-schedule", "schedule": "s"}`)
		s.affects(1, "payload", `{"verb": "delete", "scope": "all", "queue": "q"}`)
		time.Sleep(20 * time.Second)
		require.EqualValues(t, 3, ran.Load())
		require.NoError(t, c.Stop(t.Context()))
		require.NoError(t, x.Stop(t.Context()))
	})
}

// TestWhatHasStopped lists nothing, by no address; while it stops, people look at it.
func TestWhatHasStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := open(t, executor.Config{})
		hold := make(chan struct{})
		q := queue(t, x, "q", func(context.Context, executor.Job[string]) error { <-hold; return nil }, executor.QueueConfig[string]{})
		enqueue(t, q, "a", "")
		require.NoError(t, x.Start(t.Context()))
		synctest.Wait()
		s := writable(t, x)
		go x.Stop(context.Background())
		synctest.Wait()
		for _, path := range every {
			s.get(path)
		}
		require.Len(t, s.api("running")["running"], 1)
		close(hold)
		synctest.Wait()
		for _, path := range every {
			a := s.do(http.MethodGet, path, nil)
			require.Equal(t, http.StatusServiceUnavailable, a.StatusCode, path)
			require.Contains(t, a.text, "The executor has stopped", path)
			require.NotContains(t, a.text, "shard:", path)
			require.Equal(t, "5", a.Header.Get("Retry-After"), path)
		}
		for _, path := range apiPaths {
			a := s.do(http.MethodGet, "api/v1/"+path, nil)
			require.Contains(t, s.problem(http.StatusServiceUnavailable, a), "The executor has stopped", path)
			require.Equal(t, "5", a.Header.Get("Retry-After"), path)
		}
		for _, action := range apiActions {
			s.problem(http.StatusServiceUnavailable, s.tell(action))
		}
		s.problem(http.StatusServiceUnavailable, s.do(http.MethodPost, "api/v1/copy", nil))
		require.Equal(t, http.StatusOK, s.do(http.MethodGet, "assets/style.css", nil).StatusCode)
		in := x.Inspect()
		_, _, err := in.LockedKeys("", 0)
		require.ErrorIs(t, err, executor.ErrClosed)
		_, _, err = in.Leases("", 0)
		require.ErrorIs(t, err, executor.ErrClosed)
		_, _, err = in.Slots(0)
		require.ErrorIs(t, err, executor.ErrClosed)
	})
}

// TestWhatTakesTooLong says whose time was up, and what to do about it.
func TestWhatTakesTooLong(t *testing.T) {
	x := waiting(t)
	s := mount(t, x, dashboard.Config{Authorize: dashboard.Insecure, PageTimeout: time.Nanosecond})
	for path, want := range map[string]string{"jobs?queue=q": "Take a shorter list", "dead?queue=q": "Take a shorter list",
		"stats": "Config.PageTimeout", "job?queue=q&id=a": "Config.PageTimeout"} {
		a := s.do(http.MethodGet, "api/v1/"+path, nil)
		text := s.problem(http.StatusServiceUnavailable, a)
		require.Contains(t, text, want, path)
		require.Equal(t, "5", a.Header.Get("Retry-After"), path)
		if want == "Config.PageTimeout" {
			require.NotContains(t, text, "list", path)
		}
	}
	s = mount(t, x, dashboard.Config{Authorize: dashboard.Insecure, ActionTimeout: time.Nanosecond})
	for _, action := range []string{`{"verb": "delete", "queue": "q", "scope": "all"}`, `{"verb": "pause", "scope": "executor"}`} {
		text := s.problem(http.StatusServiceUnavailable, s.tell(action))
		require.Contains(t, text, "Config.ActionTimeout")
		require.NotContains(t, text, "list")
	}
}

// TestAPI_AnyName comes with its bytes.
func TestAPI_AnyName(t *testing.T) {
	x := waiting(t)
	_, err := executor.NewLimit(x, "limit\xff", executor.LimitConfig{Concurrent: 1})
	require.NoError(t, err)
	election, err := new(lock.Table).NewElection("e", lock.ElectionConfig{})
	require.NoError(t, err)
	candidate, err := election.Candidate("leader\xff")
	require.NoError(t, err)
	require.NoError(t, candidate.Campaign(t.Context()))
	s := mount(t, x, dashboard.Config{Elections: []dashboard.Election{{Name: "election\xff", Election: election}}})
	leader := field(s.api("schedules"), "leaders", 0).(object)
	for name, o := range map[string]object{"limit": field(s.api("limits"), "limits", 0).(object), "election": leader, "leader": leader} {
		require.Equal(t, anyBytes(name+"\xff"), o[name])
	}
}

func TestAPI_Index(t *testing.T) {
	s := mount(t, waiting(t), dashboard.Config{})
	require.ElementsMatch(t, []string{"actions", "copy", "dead", "details", "explain", "find", "job", "jobs", "journal", "leases", "limits", "locks",
		"queues", "running", "schedules", "slots", "stats"}, valuesOf(s.api("")["endpoints"], "path"))
	for _, e := range s.api("")["endpoints"].([]any) {
		e := e.(object)
		for _, name := range e["params"].([]any) {
			a := s.do(e["method"].(string), fmt.Sprintf("api/v1/%s?%s=", e["path"], name), nil)
			require.NotContains(t, a.text, "there is no parameter", "%v", e)
		}
	}
}
