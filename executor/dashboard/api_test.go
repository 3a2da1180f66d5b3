package dashboard_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/cron"
	"github.com/strandjobs/strand/executor/dashboard"
	"github.com/strandjobs/strand/lock"
)

type object = map[string]any

// api returns what the API says of a path.
func (s site) api(path string, pairs ...string) object {
	s.t.Helper()
	a := s.do(http.MethodGet, "api/v1/"+address(path, pairs...), nil)
	require.Equal(s.t, http.StatusOK, a.StatusCode, "%s: %s", path, a.text)
	require.Equal(s.t, "application/json", a.Header.Get("Content-Type"))
	return decoded(s.t, a.text)
}

func decoded(t testing.TB, text string) (o object) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), &o), text)
	return o
}

// tell posts an action as JSON, as a client does that is no browser: without a word of
// where it comes from.
func (s site) tell(body string, headers ...string) answer {
	s.t.Helper()
	r := httptest.NewRequestWithContext(s.t.Context(), http.MethodPost, "/strand/api/v1/actions", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.mux.ServeHTTP(w, r)
	return answer{w.Result(), w.Body.String()}
}

// affects requires that an action affects so many.
func (s site) affects(n int, of, body string) {
	s.t.Helper()
	a := s.tell(body)
	require.Equal(s.t, http.StatusOK, a.StatusCode, a.text)
	require.JSONEq(s.t, fmt.Sprintf(`{"affected": %d, "of": %q}`, n, of), a.text, body)
}

// problem requires that an answer is one.
func (s site) problem(status int, a answer) string {
	s.t.Helper()
	require.Equal(s.t, status, a.StatusCode, a.text)
	require.Equal(s.t, "application/problem+json", a.Header.Get("Content-Type"), a.text)
	p := decoded(s.t, a.text)
	require.EqualValues(s.t, status, p["status"])
	require.Equal(s.t, http.StatusText(status), p["title"])
	require.Equal(s.t, "about:blank", p["type"])
	require.NotEmpty(s.t, p["detail"])
	return p["detail"].(string)
}

// anyBytes is what the API says of bytes that are no text.
func anyBytes(s string) object {
	return object{"base64": base64.StdEncoding.EncodeToString([]byte(s))}
}

// field is a part of an answer, by its names and indices.
func field(o any, path ...any) any {
	for _, p := range path {
		switch at := p.(type) {
		case string:
			o = o.(object)[at]
		case int:
			o = o.([]any)[at]
		}
	}
	return o
}

// valuesOf are the values of a field over a list.
func valuesOf(list any, path ...any) (all []string) {
	for _, row := range list.([]any) {
		all = append(all, fmt.Sprint(field(row, path...)))
	}
	return all
}

func TestDashboard_L22_TheAPI(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, _ := graveyard(t, 5)
		late := queue(t, x, "late", func(context.Context, executor.Job[string]) error { time.Sleep(time.Hour); return nil },
			executor.QueueConfig[string]{MaxConcurrent: 1})
		enqueue(t, late, "a", "")
		enqueue(t, late, "b", "")
		time.Sleep(90 * time.Second)
		s := mount(t, x, dashboard.Config{})
		stats := s.api("stats")
		for name, want := range map[string]any{
			"length": 7.0, "morgue_length": 5.0, "lag": 90.0, "busy": 1.0, "fresh": 2.0, "retries": 5.0, "processed": 0.0,
			"failed": 5.0, "running": 1.0, "paused": false,
		} {
			require.Equal(t, want, field(stats, "total", name), name)
		}
		for name, want := range map[string]any{"length": 5.0, "morgue_length": 5.0, "lag": 0.0, "busy": 0.0} {
			require.Equal(t, want, field(stats, "by_worker", "q", name), name)
		}
		for name, want := range map[string]any{"length": 2.0, "morgue_length": 0.0, "lag": 90.0, "busy": 1.0} {
			require.Equal(t, want, field(stats, "by_worker", "late", name), name)
		}
		require.Equal(t, 4.0, stats["workers"])
		at, err := time.Parse(time.RFC3339Nano, stats["time"].(string))
		require.NoError(t, err)
		require.WithinDuration(t, time.Now(), at, 0)

		queues := s.api("queues")["queues"]
		require.Equal(t, []string{"late", "q"}, valuesOf(queues, "queue"))
		sum := 0.0
		for _, shard := range field(queues, 1, "shards").([]any) {
			sum += field(shard, "length").(float64)
		}
		require.Equal(t, 5.0, sum)
		require.Len(t, s.api("queues", "queue", "q")["queues"], 1)
		time.Sleep(3 * time.Hour)
		require.NoError(t, x.Stop(t.Context()))
		s.problem(http.StatusServiceUnavailable, s.do(http.MethodGet, "api/v1/stats", nil))
	})
}

// Figures of Lowkiq's names that mean other things than there are what the package
// comment says of them.
func TestDashboard_L22_FiguresThatMeanOtherThings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := open(t, executor.Config{Workers: 2})
		locked := func(string, string) []string { return []string{"key"} }
		q, err := executor.HandleMerged(x, "q", func(_ context.Context, job executor.Merged[string]) error {
			switch job.ID {
			case "runs":
				time.Sleep(time.Hour)
			case "dies":
				return executor.Cancel(errBoom)
			case "fails":
				return errBoom
			}
			return nil
		}, executor.QueueConfig[string]{RetryIn: func(int) time.Duration { return 24 * time.Hour }})
		require.NoError(t, err)
		parked := queue(t, x, "parked", nil, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Locks: executor.Locks[string]{BlockedBy: locked}}})
		require.NoError(t, x.KeyLocks().Lock(t.Context(), "key"))
		for _, id := range []string{"runs", "dies", "dies", "done", "done", "done", "fails", "fails"} {
			enqueue(t, q, id, "")
		}
		enqueue(t, parked, "blocked", "")
		require.NoError(t, x.Start(t.Context()))
		synctest.Wait()
		time.Sleep(time.Minute)
		s := mount(t, x, dashboard.Config{})
		for name, want := range map[string]float64{
			"length": 2, "fresh": 1, "retries": 1, // the one that runs is among them
			"morgue_length": 2, "processed": 3, // payloads
			"failed": 1, // a run, of two payloads
			"busy":   1, "lag": 0,
		} {
			require.Equal(t, want, field(s.api("stats"), "by_worker", "q", name), name)
		}
		require.Equal(t, 0.0, field(s.api("stats"), "by_worker", "parked", "lag"), "it could not run")
		require.Equal(t, 1.0, field(s.api("stats"), "by_worker", "parked", "length"))
		time.Sleep(2 * time.Hour)
		require.NoError(t, x.Stop(t.Context()))
	})
}

// apiPages follows a list of the API to its end.
func apiPages(s site, path, list string, field string, pairs ...string) (all []string) {
	s.t.Helper()
	for cursor := []string{}; ; {
		page := s.api(path, append(cursor, pairs...)...)
		all = append(all, valuesOf(page[list], field)...)
		if page["next"] == nil {
			return all
		}
		cursor = []string{"cursor", page["next"].(string)}
	}
}

func TestAPI_ListsOfAQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, q := graveyard(t, 30)
		for i := range 30 {
			enqueue(t, q, fmt.Sprintf("later-%02d", i), "", executor.In(time.Duration(100-i)*time.Minute),
				executor.Score(float64(i)))
		}
		s := mount(t, x, dashboard.Config{})
		all := apiPages(s, "jobs", "jobs", "id", "queue", "q", "order", "id", "limit", "7")
		require.Len(t, all, 60)
		require.IsIncreasing(t, all)
		require.IsDecreasing(t, apiPages(s, "jobs", "jobs", "id", "queue", "q", "order", "id", "desc", "true", "limit", "9"))
		require.ElementsMatch(t, all, apiPages(s, "jobs", "jobs", "id", "queue", "q", "limit", "7"))
		require.Len(t, s.api("jobs", "queue", "q")["jobs"], 50)
		later := apiPages(s, "jobs", "jobs", "id", "queue", "q", "state", "scheduled", "order", "due")
		require.Equal(t, "later-29", later[0])
		require.Len(t, later, 30)
		require.Len(t, s.api("jobs", "queue", "q", "state", "scheduled", "state", "retrying", "limit", "1000")["jobs"], 60)
		require.Equal(t, later, apiPages(s, "jobs", "jobs", "id", "queue", "q", "prefix", "later", "order", "due"))
		job := field(s.api("jobs", "queue", "q", "prefix", "later-17"), "jobs", 0).(object)
		due, err := time.Parse(time.RFC3339Nano, job["due"].(string))
		require.NoError(t, err)
		require.WithinDuration(t, time.Now().Add(83*time.Minute), due, time.Minute)
		require.Equal(t, []any{"scheduled", 1.0, 17.0, 1.0}, []any{job["state"], job["attempt"], job["score"], job["payloads"]})
		require.Empty(t, s.api("jobs", "queue", "q", "error", "no such text")["jobs"])
		require.NotNil(t, s.api("jobs", "queue", "q", "error", "no such text")["jobs"])

		dead := apiPages(s, "dead", "dead", "id", "queue", "q", "order", "died", "limit", "7")
		require.Len(t, dead, 30)
		require.ElementsMatch(t, dead, apiPages(s, "dead", "dead", "id", "queue", "q", "limit", "7"))
		row := field(s.api("dead", "queue", "q", "prefix", dead[3]), "dead", 0).(object)
		require.NotEmpty(t, row["error"])
		require.NotZero(t, row["position"])
		require.NoError(t, x.Stop(t.Context()))
	})
}

func TestAPI_AJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := open(t, executor.Config{Workers: 2})
		q := queue(t, x, "q", func(_ context.Context, job executor.Job[string]) error {
			if job.Payload == "bad" {
				return executor.Cancel(errBoom)
			}
			return errBoom
		}, executor.QueueConfig[string]{RetryIn: func(int) time.Duration { return time.Hour }})
		require.NoError(t, x.Start(t.Context()))
		enqueue(t, q, "a", "bad")
		synctest.Wait()
		enqueue(t, q, "a", "the payload: 4711", executor.Metadata(map[string]string{"trace": "secret"}))
		synctest.Wait()
		some := mount(t, x, dashboard.Config{}).do(http.MethodGet, "api/v1/details?queue=q&id=a&id=none&id=a", nil).text
		require.NotContains(t, some, "payload: 4711")
		require.NotContains(t, some, "secret")
		require.Equal(t, []string{"a"}, valuesOf(decoded(t, some)["details"], "id"))
		require.Equal(t, `"the payload: 4711"`, field(mount(t, x, dashboard.Config{ShowPayload: dashboard.PlainPayload}).api(
			"details", "queue", "q", "id", "a"), "details", 0, "waiting", 0, "payload"))
		hidden := mount(t, x, dashboard.Config{}).do(http.MethodGet, "api/v1/job?queue=q&id=a", nil).text
		require.NotContains(t, hidden, "payload: 4711")
		require.NotContains(t, hidden, "secret")
		d := decoded(t, hidden)
		require.Equal(t, "retrying", d["state"])
		require.Equal(t, 2.0, d["attempt"])
		require.Equal(t, "boom", field(d, "failures", 0, "error"))
		require.Equal(t, "cancelled: boom", field(d, "dead", 0, "error"))
		require.Equal(t, "retrying", field(d, "explanation", "state"))
		shown := mount(t, x, dashboard.Config{ShowPayload: dashboard.PlainPayload}).api("job", "queue", "q", "id", "a")
		require.Equal(t, `"the payload: 4711"`, field(shown, "waiting", 0, "payload"))
		require.Equal(t, "secret", field(shown, "waiting", 0, "metadata", "trace"))
		require.Equal(t, `"bad"`, field(shown, "dead", 0, "payload"))
		bytes := mount(t, x, dashboard.Config{ShowPayload: func(*http.Request, dashboard.Payload) string { return "a\xff" }})
		require.Equal(t, anyBytes("a\xff"), field(bytes.api("job", "queue", "q", "id", "a"), "waiting", 0, "payload"))
		s := mount(t, x, dashboard.Config{})
		require.Equal(t, "retrying", field(s.api("jobs", "queue", "q"), "jobs", 0, "state"))
		require.Contains(t, s.api("explain", "queue", "q", "id", "a")["text"], "failed 1 time: boom")
		require.Equal(t, "retrying", s.api("explain", "queue", "q", "id", "a")["state"])
		require.Contains(t, s.get("job", "queue", "q", "id", "a"), ">retrying</span>")
		require.NotContains(t, s.get("job", "queue", "q", "id", "a"), ">scheduled</span>")
		require.NotContains(t, s.api("explain", "queue", "q", "id", "a"), "dead", "it has one, which is not counted")
		require.Equal(t, []string{"q"}, valuesOf(s.api("find", "id", "a")["found"], "queue"))
		require.Empty(t, s.api("find", "id", "none")["found"])
		require.NoError(t, x.Stop(t.Context()))
	})
}

// What runs, and what jobs have that others wait for: who has it is named as a job.
func TestAPI_WhoHasWhat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := open(t, executor.Config{Workers: 8})
		hold := make(chan struct{})
		block := func(ctx context.Context, _ executor.Job[string]) error {
			executor.Progress(ctx, 3, 10, "mailing")
			theHandlerThatBlocks(hold)
			return nil
		}
		key := func(_, _ string) []string { return []string{"k\xff"} }
		locker := queue(t, x, "locker", block, executor.QueueConfig[string]{
			Conditions: executor.Conditions[string]{
				Locks: executor.Locks[string]{OnEnqueue: key, Unlock: key},
			}})
		waiter := queue(t, x, "waiter", nil, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Locks: executor.Locks[string]{BlockedBy: key}}})
		single := queue(t, x, "single", block, executor.QueueConfig[string]{
			Conditions: executor.Conditions[string]{
				Unique: executor.Unique[string]{Key: func(_, _ string) string { return "the lease" }},
			}})
		limit, err := executor.NewLimit(x, "stripe", executor.LimitConfig{Concurrent: 1})
		require.NoError(t, err)
		hooks := queue(t, x, "hooks", block, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Limits: []executor.LimitOf[string]{{Limit: limit}}}})
		slots, err := executor.NewSlots(x, "port", executor.SlotsConfig[int]{Next: func(n int) int { return n + 1 }, MaxSteps: 1})
		require.NoError(t, err)
		ports := queue(t, x, "ports", block, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Slots: []executor.SlotSource{slots}}})
		require.NoError(t, x.Start(t.Context()))
		for _, q := range []*executor.Queue[string]{locker, waiter, single, hooks, ports} {
			enqueue(t, q, "first/\xff", "")
			synctest.Wait()
		}
		for _, q := range []*executor.Queue[string]{single, hooks, ports} {
			enqueue(t, q, "second", "")
			synctest.Wait()
		}
		time.Sleep(90 * time.Second)
		s := mount(t, x, dashboard.Config{})
		base := anyBytes("first/\xff")
		keys := s.api("locks")
		require.Equal(t, anyBytes("k\xff"), field(keys, "keys", 0, "key"))
		require.Equal(t, "locker", field(keys, "keys", 0, "locks", 0, "by", "job", "queue"))
		require.Equal(t, base, field(keys, "keys", 0, "locks", 0, "by", "job", "id"))
		require.Equal(t, "waiter", field(keys, "keys", 0, "waiting", 0, "job", "queue"))
		leases := s.api("leases")
		require.Equal(t, "the lease", field(leases, "leases", 0, "key"))
		require.Equal(t, base, field(leases, "leases", 0, "by", "job", "id"))
		require.Equal(t, 90.0, field(leases, "leases", 0, "held_seconds"))
		require.Equal(t, "second", field(leases, "leases", 0, "waiters", 0, "by", "job", "id"))
		require.Equal(t, "ports", field(s.api("slots"), "slots", 0, "by", "job", "queue"))
		limits := s.api("limits")
		require.Equal(t, []any{"stripe", 1.0, 1.0, 1.0}, []any{field(limits, "limits", 0, "limit"),
			field(limits, "limits", 0, "setting", "concurrent"), field(limits, "limits", 0, "running"),
			field(limits, "limits", 0, "waiting")})
		require.Equal(t, "limited", s.api("explain", "queue", "hooks", "id", "second")["state"])
		require.Equal(t, "stripe", field(s.api("explain", "queue", "hooks", "id", "second"), "limit", "limit"))
		require.Equal(t, base, field(s.api("explain", "queue", "single", "id", "second"), "leases", 0, "by", "job", "id"))

		running := s.api("running", "queue", "locker")
		require.Equal(t, base, field(running, "running", 0, "jobs", 0, "id"))
		require.Equal(t, 90.0, field(running, "running", 0, "age_seconds"))
		require.Equal(t, "mailing", field(running, "running", 0, "progress", "message"))
		require.Nil(t, field(running, "running", 0, "stack"))
		require.Contains(t, field(s.api("running", "stacks", "true"), "running", 0, "stack"), "theHandlerThatBlocks")
		require.Equal(t, 3.0, s.api("running", "limit", "1")["more"])
		close(hold)
		require.NoError(t, x.Stop(t.Context()))
	})
}

func TestAPI_KeysInPages(t *testing.T) {
	x := open(t, executor.Config{})
	var want []string
	for i := range 5 {
		want = append(want, fmt.Sprint("key-", i))
		require.NoError(t, x.KeyLocks().Lock(t.Context(), want[i]))
	}
	s := mount(t, x, dashboard.Config{})
	require.Equal(t, want, apiPages(s, "locks", "keys", "key", "limit", "2"))
	require.Equal(t, "a person", field(s.api("locks"), "keys", 0, "locks", 0, "by", "name"))
	require.Empty(t, apiPages(s, "leases", "leases", "key"))
}

func TestAPI_SchedulesAndTheJournal(t *testing.T) {
	x, err := executor.Open(t.TempDir(), executor.Config{})
	require.NoError(t, err)
	defer func() { _ = x.Stop(context.Background()) }()
	q := queue(t, x, "q", nil, executor.QueueConfig[string]{})
	c, err := cron.New(x, cron.Config{})
	require.NoError(t, err)
	require.NoError(t, cron.Add(t.Context(), c, cron.Schedule[string]{Name: "report", Spec: "0 4 * * *", Queue: q,
		Payload: func(time.Time) string { return "" }}))
	election, err := new(lock.Table).NewElection("cron", lock.ElectionConfig{})
	require.NoError(t, err)
	s := mount(t, x, dashboard.Config{Authorize: dashboard.Insecure, Crons: []*cron.Cron{c},
		Elections: []dashboard.Election{{Name: "e", Election: election}}})
	schedule := func() object { return field(s.api("schedules"), "crons", 0, "schedules", 0).(object) }
	require.Equal(t, []any{"report", "0 4 * * *", false}, []any{schedule()["schedule"], schedule()["spec"], schedule()["paused"]})
	require.Equal(t, "e", field(s.api("schedules"), "leaders", 0, "election"))
	s.affects(1, "schedule", `{"verb": "pause-schedule", "schedule": "report"}`)
	require.Equal(t, true, schedule()["paused"])
	s.affects(1, "schedule", `{"verb": "resume-schedule", "schedule": "report", "cron": 0}`)
	require.Equal(t, false, schedule()["paused"])
	s.affects(1, "schedule", `{"verb": "trigger", "schedule": "report"}`)
	require.Equal(t, 1.0, field(s.api("stats"), "total", "length"))
	s.problem(http.StatusNotFound, s.tell(`{"verb": "trigger", "schedule": "none"}`))
	s.problem(http.StatusNotFound, s.tell(`{"verb": "trigger", "schedule": "report", "cron": 1}`))

	journal := s.api("journal")
	require.Equal(t, false, journal["in_memory"])
	require.NotEmpty(t, journal["uuid"])
	require.NotZero(t, journal["commits"])
	copied := s.do(http.MethodPost, "api/v1/copy", nil)
	require.Equal(t, http.StatusOK, copied.StatusCode)
	require.Contains(t, copied.text, "journal.strand")
}
