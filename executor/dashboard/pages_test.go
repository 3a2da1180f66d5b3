package dashboard_test

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
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

// What keeps a worker from a job that is ready is on its page, and in its JSON.
func TestWhyNoWorkerComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := open(t, executor.Config{Workers: 4})
		few := queue(t, x, "few", func(ctx context.Context, _ executor.Job[string]) error {
			<-ctx.Done()
			return nil
		}, executor.QueueConfig[string]{MaxConcurrent: 1})
		require.NoError(t, x.Start(t.Context()))
		for _, id := range []string{"first", "second"} { // of two ids either may begin first
			enqueue(t, few, id, "")
			synctest.Wait()
		}
		s := mount(t, x, dashboard.Config{})
		require.Contains(t, s.get("job", "queue", "few", "id", "second"), "waits for a worker: the queue runs 1 of 1")
		why := s.api("explain", "queue", "few", "id", "second")
		require.Equal(t, map[string]any{"reason": "max concurrent", "running": 1.0, "of": 1.0, "before": []any{}, "more": 0.0}, why["turn"])
		ctx, end := context.WithTimeout(t.Context(), time.Second)
		defer end()
		require.NoError(t, x.Stop(ctx))
	})
}

// The page of a job says who waits for whom, over queues, and links to each.
func TestWhyAJobDoesNotRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := open(t, executor.Config{Workers: 4})
		key := func(string, string) []string { return []string{"order-1"} }
		ship := queue(t, x, "ship/it", func(context.Context, executor.Job[string]) error { return errBoom },
			executor.QueueConfig[string]{
				Conditions: executor.Conditions[string]{
					Locks: executor.Locks[string]{OnEnqueue: key, Unlock: key},
				}, RetryIn: func(int) time.Duration { return time.Hour },
			})
		cancel := queue(t, x, "cancel", nil, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Locks: executor.Locks[string]{BlockedBy: key}}})
		limit, err := executor.NewLimit(x, "stripe", executor.LimitConfig{Concurrent: 1})
		require.NoError(t, err)
		hooks := queue(t, x, "hooks", func(context.Context,
			executor.Job[string]) error {
			time.Sleep(time.Hour)
			return nil
		}, executor.QueueConfig[string]{
			Conditions: executor.Conditions[string]{Limits: []executor.LimitOf[string]{{Limit: limit}}},
		})
		single := queue(t, x, "single", func(context.Context,
			executor.Job[string]) error {
			time.Sleep(time.Hour)
			return nil
		}, executor.QueueConfig[string]{
			Conditions: executor.Conditions[string]{
				Unique: executor.Unique[string]{Key: func(string, string) string { return "the lease" }},
			},
		})
		require.NoError(t, x.Start(t.Context()))
		enqueue(t, ship, "o/1", "")
		enqueue(t, cancel, "1", "")
		for _, id := range []string{"first", "second"} {
			enqueue(t, hooks, id, "")
			enqueue(t, single, id, "")
			synctest.Wait()
		}
		s := writable(t, x)
		text := s.get("job", "queue", "cancel", "id", "1")
		require.Contains(t, text, "Why it does not run")
		require.Contains(t, text, "key order-1")
		require.Contains(t, text, `href="job?id=o%2F1&amp;queue=ship%2Fit"`)
		require.Contains(t, text, "attempt 2 is due in 1 h")
		text = s.get("job", "queue", "hooks", "id", "second")
		require.Contains(t, text, "limit stripe")
		require.Contains(t, text, "1 of 1 run, 1 wait")
		text = s.get("job", "queue", "single", "id", "second")
		require.Contains(t, text, "lease the lease")
		require.Contains(t, text, `href="job?id=first&amp;queue=single"`)
		text = s.get("locks")
		for _, want := range []string{"order-1", `href="job?id=o%2F1&amp;queue=ship%2Fit"`, "the lease",
			`href="job?id=second&amp;queue=single"`, "stripe", "1 at a time"} {
			require.Contains(t, text, want)
		}
		a := s.do(http.MethodPost, "do?verb=unlock&key=order-1&from=locks", nil)
		require.Contains(t, a.text, "Unlock the key?")
		require.Contains(t, s.post(nil, "verb", "unlock", "key", "order-1", "from", "locks", "confirm", "yes"),
			"The key is unlocked.")
		synctest.Wait()
		s.refused(http.StatusNotFound, http.MethodGet, "job?queue=cancel&id=1", nil)
		s.refused(http.StatusNotFound, http.MethodPost, "do?verb=unlock&key=order-1&confirm=yes", nil)
		time.Sleep(3 * time.Hour)
		ctx, end := context.WithTimeout(t.Context(), time.Second)
		defer end()
		_ = x.Stop(ctx)
	})
}

func TestTimeLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := open(t, executor.Config{})
		n := 0
		q := queue(t, x, "q", func(context.Context, executor.Job[string]) error { n++; return fmt.Errorf("failure %d", n) },
			executor.QueueConfig[string]{MaxRetries: 1, RetryIn: func(int) time.Duration { return time.Minute }})
		require.NoError(t, x.Start(t.Context()))
		enqueue(t, q, "a", "", executor.Score(17.5))
		synctest.Wait()
		s := mount(t, x, dashboard.Config{})
		inOrder(t, s.get("job", "queue", "q", "id", "a"), ">17.5<", "enqueued", "Attempt 1 failed", "failure 1",
			"Attempt 2 is due", "in 1 min")
		time.Sleep(2 * time.Minute)
		inOrder(t, s.get("job", "queue", "q", "id", "a"), "In the morgue", "enqueued", "Attempt 1 of payload 1 failed",
			"failure 1", "went to the morgue, in attempt 2", "failure 2")
		require.NoError(t, x.Stop(t.Context()))
	})
}

// inOrder holds that a page says something, and behind it the next.
func inOrder(t *testing.T, text string, words ...string) {
	t.Helper()
	for _, w := range words {
		_, rest, found := strings.Cut(text, w)
		require.True(t, found, "%q is missing in %s", w, text)
		text = rest
	}
}

func TestSchedulesAndLeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := open(t, executor.Config{})
		q := queue(t, x, "q", nil, executor.QueueConfig[string]{})
		c, err := cron.New(x, cron.Config{})
		require.NoError(t, err)
		require.NoError(t, cron.Add(t.Context(), c, cron.Schedule[string]{Name: "nightly", Spec: "0 4 * * *", Queue: q,
			Payload: func(time.Time) string { return "" }}))
		require.NoError(t, c.Start())
		election, err := new(lock.Table).NewElection("billing", lock.ElectionConfig{})
		require.NoError(t, err)
		candidate, err := election.Candidate("web-1")
		require.NoError(t, err)
		candidate.IsLeader()
		s := mount(t, x, dashboard.Config{Authorize: dashboard.Insecure, Crons: []*cron.Cron{c},
			Elections: []dashboard.Election{{Name: "billing", Election: election}}})
		text := s.get("schedules")
		inOrder(t, text, "nightly", "0 4 * * *", "billing", "web-1", "3 min")
		require.Contains(t, s.post(nil, "verb", "trigger", "cron", "0", "key", "nightly", "from", "schedules"),
			"The schedule was triggered.")
		stats, err := q.Stats(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, stats.Jobs)
		require.Contains(t, s.post(nil, "verb", "pause-schedule", "cron", "0", "key", "nightly", "from", "schedules"),
			"The schedule is paused.")
		require.True(t, c.List()[0].Paused)
		require.Contains(t, s.post(nil, "verb", "resume-schedule", "cron", "0", "key", "nightly", "from", "schedules"),
			"The schedule goes on.")
		require.False(t, c.List()[0].Paused)
		s.refused(http.StatusNotFound, http.MethodPost, "do?verb=trigger&cron=0&key=none", nil)
		s.refused(http.StatusNotFound, http.MethodPost, "do?verb=trigger&cron=7&key=nightly", nil)
		require.NoError(t, c.Stop(t.Context()))
		require.NoError(t, x.Stop(t.Context()))
		time.Sleep(time.Hour) // until the lease is over
	})
}

// The copy that is sent is a journal with all that was accepted.
func TestCopyOfTheJournal(t *testing.T) {
	x, err := executor.Open(filepath.Join(t.TempDir(), "journal"), executor.Config{})
	require.NoError(t, err)
	enqueue(t, queue(t, x, "q", nil, executor.QueueConfig[string]{}), "a", "")
	s := writable(t, x)
	text := s.get("journal")
	inOrder(t, text, "Download a copy", "Health", "good", "Last commit", "UUID")
	a := s.do(http.MethodPost, "copy", nil)
	require.Equal(t, http.StatusOK, a.StatusCode)
	dir := t.TempDir()
	for in := tar.NewReader(strings.NewReader(a.text)); ; {
		file, err := in.Next()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		if file.FileInfo().IsDir() {
			require.NoError(t, os.MkdirAll(filepath.Join(dir, file.Name), 0o700))
			continue
		}
		content, err := io.ReadAll(in)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, file.Name), content, 0o600))
	}
	require.NoError(t, x.Stop(t.Context()))
	y, err := executor.Open(filepath.Join(dir, "journal.strand"), executor.Config{})
	require.NoError(t, err)
	stats, err := queue(t, y, "q", nil, executor.QueueConfig[string]{}).Stats(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, stats.Jobs)
	require.NoError(t, y.Stop(t.Context()))
	require.Contains(t, s.refused(http.StatusServiceUnavailable, http.MethodGet, "", nil), "closed")

	memory := writable(t, waiting(t))
	require.NotContains(t, memory.get("journal"), "Download")
	memory.refused(http.StatusConflict, http.MethodPost, "copy", nil)
}

func TestFindInAllQueues(t *testing.T) {
	x := open(t, executor.Config{})
	for _, name := range []string{"a", "b"} {
		enqueue(t, queue(t, x, name, nil, executor.QueueConfig[string]{}), "both", "")
	}
	queue(t, x, "c", nil, executor.QueueConfig[string]{})
	s := mount(t, x, dashboard.Config{})
	text := s.get("find", "id", "both")
	require.Contains(t, text, `href="job?id=both&amp;queue=a"`)
	require.Contains(t, text, `href="job?id=both&amp;queue=b"`)
	a := s.do(http.MethodGet, address("find", "id", "both", "queue", "b"), nil)
	require.Equal(t, "job?id=both&queue=b", a.Header.Get("Location"))
	require.Contains(t, s.get("find", "id", "none"), "No queue has a job or a dead payload with this id")
}

func TestHotIDs(t *testing.T) {
	x := open(t, executor.Config{})
	q := queue(t, x, "q", nil, executor.QueueConfig[string]{})
	for i := range 30 {
		for range i + 1 {
			enqueue(t, q, fmt.Sprintf("id-%02d", i), "")
		}
	}
	text := mount(t, x, dashboard.Config{}).get("hot", "name", "q")
	inOrder(t, text, "id-29", ">30<", "id-28", ">29<", "id-20", ">21<")
	require.NotContains(t, text, "id-19")
}

// The page of a job names who is in its way, and shows no more of a queue that its reader may not see.
func TestWhyNamesAJobOfAQueueThatIsNotShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := open(t, executor.Config{})
		key := func(string, string) []string { return []string{"k"} }
		secret := queue(t, x, "secret", func(context.Context, executor.Job[string]) error { return errBoom }, executor.QueueConfig[string]{
			Conditions: executor.Conditions[string]{Locks: executor.Locks[string]{OnEnqueue: key, Unlock: key}}, RetryIn: func(int) time.Duration { return time.Hour },
		})
		plain := queue(t, x, "plain", nil, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Locks: executor.Locks[string]{BlockedBy: key}}})
		require.NoError(t, x.Start(t.Context()))
		enqueue(t, secret, "17", "")
		enqueue(t, plain, "1", "")
		synctest.Wait()
		for shown, refused := range map[bool]error{true: nil, false: errBoom} {
			s := mount(t, x, dashboard.Config{Authorize: func(_ *http.Request, a dashboard.Action) error {
				if a.Queue == "secret" {
					return refused
				}
				return nil
			}})
			text := s.get("job", "queue", "plain", "id", "1")
			require.Contains(t, text, "secret/17")
			require.Equal(t, shown, strings.Contains(text, "attempt 2 is due in"))
		}
		require.NoError(t, x.Stop(t.Context()))
	})
}
