package dashboard_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/dashboard"
)

// asked are requests to the authorizer, each with a deadline.
func asked(t *testing.T, answer func(*http.Request) error) (site, map[dashboard.Action]int) {
	x := open(t, executor.Config{})
	enqueue(t, queue(t, x, "q", nil, executor.QueueConfig[string]{}), "a", "")
	all := make(map[dashboard.Action]int)
	return mount(t, x, dashboard.Config{PageTimeout: time.Second, Authorize: func(r *http.Request, a dashboard.Action) error {
		all[a]++
		deadline, there := r.Context().Deadline()
		require.True(t, there, a)
		require.LessOrEqual(t, time.Until(deadline), time.Second)
		return answer(r)
	}}), all
}

var ofOneQueue = []string{"", "queue?name=q", "job?queue=q&id=a", "api/v1/stats", "api/v1/job?queue=q&id=a", "schedules",
	"api/v1/find?id=a&queue=q", "live"}

func TestAuthorizerIsAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, all := asked(t, func(*http.Request) error { return nil })
		for _, path := range ofOneQueue {
			clear(all)
			require.Equal(t, http.StatusOK, s.do(http.MethodGet, path, nil).StatusCode)
			require.NotEmpty(t, all)
			for a, n := range all {
				require.Equal(t, 1, n, "%s: %+v", path, a)
			}
		}
		clear(all)
		s.do(http.MethodPost, "do?verb=pause&queue=q&scope=all", nil)
		require.Equal(t, 1, all[dashboard.Action{Verb: dashboard.Pause, Queue: "q"}])
	})
}

// A page has its time, whatever the authorizer does, but for the answer that it waits for.
func TestAuthorizerHasATime(t *testing.T) {
	for name, answer := range map[string]func(*http.Request) error{
		"it heeds its context": func(r *http.Request) error { <-r.Context().Done(); return context.Cause(r.Context()) },
		"it says yes too late": func(r *http.Request) error { <-r.Context().Done(); return nil },
		"it is slow":           func(*http.Request) error { time.Sleep(700 * time.Millisecond); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, _ := asked(t, answer)
				for _, path := range []string{"", "queue?name=q", "job?queue=q&id=a", "schedules"} {
					began := time.Now()
					s.refused(http.StatusServiceUnavailable, http.MethodGet, path, nil)
					require.LessOrEqual(t, time.Since(began), 1500*time.Millisecond)
				}
				if name == "it is slow" {
					return
				}
				began := time.Now()
				s.refused(http.StatusServiceUnavailable, http.MethodPost, "do?verb=pause&queue=q&scope=all", nil)
				require.LessOrEqual(t, time.Since(began), 1500*time.Millisecond)
				for _, path := range []string{"find?id=a", "api/v1/stats", "api/v1/queues", "api/v1/find?id=a", "live"} {
					s.refused(http.StatusServiceUnavailable, http.MethodGet, path, nil) // a part would look like all
				}
			})
		})
	}
}

func TestAuthorizerSaysLong(t *testing.T) {
	s, _ := asked(t, func(*http.Request) error { return errors.New("no " + strings.Repeat("<", 9<<20)) })
	for _, path := range []string{"", "api/v1/stats"} {
		require.Less(t, len(s.refused(http.StatusForbidden, http.MethodGet, path, nil)), 64<<10)
	}
}
