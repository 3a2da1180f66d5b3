package dashboard_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/dashboard"
)

// TestH1_ViewNamesTheQueue: the authorizer is asked once for each request whether it may
// look, and hears which queue that is about, from each place where it can be said.
func TestH1_ViewNamesTheQueue(t *testing.T) {
	var asked []dashboard.Action
	s := mount(t, waiting(t), dashboard.Config{Authorize: func(_ *http.Request, a dashboard.Action) error {
		asked = append(asked, a)
		return errBoom
	}})
	about := func(queue string) []dashboard.Action { return []dashboard.Action{{Verb: dashboard.View, Queue: queue}} }
	for path, queue := range map[string]string{
		"": "", "queue?name=q": "q", "queue?name=q&tab=morgue": "q", "queue?of=name%3Dq%26tab%3Dmorgue": "q",
		"queue?name=q&of=name%3Dp": "q", "queue?name=q&tab=none": "q", "hot?name=q": "q", "hot?name=q&of=%25zz": "",
		"job?queue=q&id=a": "q", "find?id=a": "", "find?id=a&queue=q": "q", "running": "", "locks": "", "schedules": "",
		"journal": "", "live": "", "assets/style.css": "", "queue?name=none": "none",
		"api/v1/stats": "", "api/v1/queues": "", "api/v1/queues?queue=q": "q", "api/v1/jobs?queue=q": "q", "api/v1/dead?queue=q": "q",
		"api/v1/job?queue=q&id=a": "q", "api/v1/explain?queue=q&id=a": "q", "api/v1/find?id=a": "", "api/v1/find?id=a&queue=q": "q",
		"api/v1/running": "", "api/v1/running?queue=q": "q", "api/v1/locks": "", "api/v1/leases": "", "api/v1/slots": "",
		"api/v1/limits": "", "api/v1/schedules": "", "api/v1/journal": "",
	} {
		asked = nil
		require.Equal(t, http.StatusForbidden, s.do(http.MethodGet, path, nil).StatusCode, path)
		require.Equal(t, about(queue), asked, path)
	}
	for action, queue := range map[string]string{"verb=pause&queue=q&scope=all": "q", "verb=pause&scope=executor": "", "verb=unlock&key=k": ""} {
		asked = nil
		require.Equal(t, http.StatusForbidden, s.do(http.MethodPost, "do?"+action, nil).StatusCode, action)
		require.Equal(t, about(queue), asked, action)
	}
	asked = nil
	s.problem(http.StatusForbidden, s.tell(`{"verb": "run", "queue": "q", "scope": "all"}`))
	require.Equal(t, about("q"), asked)
	asked = nil
	s.problem(http.StatusForbidden, s.do(http.MethodPost, "api/v1/copy", nil))
	require.Equal(t, about(""), asked)
}

// TestH1_QueuesThatMayNotBeSeen are in no list and no figure, for who may not see them.
func TestH1_QueuesThatMayNotBeSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := open(t, executor.Config{Workers: 8})
		hold := make(chan struct{})
		defer func() {
			close(hold)
			_ = x.Stop(context.Background())
		}()
		for _, name := range []string{"orders", "mails"} {
			q := queue(t, x, name, func(context.Context, executor.Job[string]) error { <-hold; return nil }, executor.QueueConfig[string]{})
			enqueue(t, q, "both", "")
			enqueue(t, q, "only-"+name, "")
		}
		require.NoError(t, x.Start(t.Context()))
		var mu sync.Mutex
		hidden := "mails"
		s := mount(t, x, dashboard.Config{Authorize: func(_ *http.Request, a dashboard.Action) error {
			mu.Lock()
			defer mu.Unlock()
			if a.Queue != "" && a.Queue == hidden || hidden == "all" {
				return errors.New("not your queue")
			}
			return nil
		}})
		synctest.Wait()
		for _, path := range []string{"", "running", "running?stacks=1", "find?id=both", "find?id=none", "api/v1/stats", "api/v1/queues",
			"api/v1/running", "api/v1/running?limit=1", "api/v1/find?id=both"} {
			require.NotContains(t, s.get(path), "mails", path)
		}
		require.Contains(t, s.get("find", "id", "only-mails"), "No queue has a job")
		require.EqualValues(t, 2, field(s.api("stats"), "total", "length"))
		require.EqualValues(t, 1, s.api("running", "limit", "1")["more"])
		for _, path := range []string{"queue?name=mails", "hot?name=mails", "job?queue=mails&id=both", "find?id=both&queue=mails",
			"api/v1/queues?queue=mails", "api/v1/jobs?queue=mails", "api/v1/dead?queue=mails", "api/v1/job?queue=mails&id=both",
			"api/v1/explain?queue=mails&id=both", "api/v1/find?queue=mails&id=both", "api/v1/running?queue=mails"} {
			require.Contains(t, s.refused(http.StatusForbidden, http.MethodGet, path, nil), "not your queue", path)
		}
		s.problem(http.StatusForbidden, s.tell(`{"verb": "run", "queue": "mails", "scope": "all"}`))
		s.refused(http.StatusForbidden, http.MethodPost, "do?verb=run&queue=mails&scope=id&id=both", url.Values{})

		first := s.live(0)
		require.Equal(t, "2", first.Cells["enqueued"])
		time.Sleep(time.Second)
		require.Len(t, s.live(0).Past, 1, "the samples are of all queues, but for the one that is made for who looks")
		mu.Lock()
		hidden = ""
		mu.Unlock()
		require.Equal(t, "4", s.live(0).Cells["enqueued"])
		require.Len(t, s.live(0).Past, 2)
		mu.Lock()
		hidden = "all"
		mu.Unlock()
		s.refused(http.StatusForbidden, http.MethodGet, "live", nil)
	})
}
