package dashboard_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
)

// A list that takes longer than a page should is a part, says so, and leads to all of it.
func TestLongListsComeInTime(t *testing.T) {
	slow(t)
	const waiting = 100_000
	x := open(t, executor.Config{})
	over := make(chan struct{})
	end := sync.OnceFunc(func() { close(over) })
	t.Cleanup(end) // before the executor stops
	q := queue(t, x, "q", func(context.Context, executor.Job[string]) error { <-over; return nil }, executor.QueueConfig[string]{})
	items := make([]executor.Item[string], waiting)
	for i := range items {
		items[i] = executor.Item[string]{ID: fmt.Sprintf("customer-%06d", i*7919%waiting), Due: time.Now().Add(time.Hour)}
	}
	_, err := q.EnqueueMany(t.Context(), items)
	require.NoError(t, err)
	require.NoError(t, x.Start(t.Context()))
	enqueue(t, q, "runs", "")
	require.Eventually(t, func() bool { return running(t, q) == 1 }, time.Minute, time.Millisecond)
	var others sync.WaitGroup
	var leaves []context.CancelFunc
	look := func() { // at all of it, one page after the other
		ctx, leave := context.WithCancel(t.Context())
		leaves = append(leaves, leave)
		others.Go(func() {
			for ctx.Err() == nil {
				_, _ = x.Inspect().Jobs(ctx, inspect.JobQuery{Queue: "q", Order: inspect.OrderID})
			}
		})
	}
	leave := func() {
		last := len(leaves) - 1
		leaves[last]()
		leaves = leaves[:last]
	}
	s := writable(t, x)
	var text string
	const note = "of 100\u202f001: jobs go first"
	require.Eventually(t, func() bool { // with as many others as make it slow, and leave it something
		text = s.do(http.MethodGet, "queue?name=q&sort=id&limit=25", nil).text
		rows := len(ids(text)) > 0
		switch {
		case rows && !strings.Contains(text, note):
			look()
		case !rows && len(leaves) > 0:
			leave() // too busy is an answer, too
		}
		return rows && strings.Contains(text, note)
	}, time.Minute, time.Millisecond, "a part")
	require.Contains(t, s.do(http.MethodGet, "api/v1/jobs?queue=q&order=id&patience=0.01", nil).text, `"partial":true`)
	for len(leaves) > 0 {
		leave()
	}
	others.Wait()
	end() // a busy machine leaves lists too little of itself while jobs run
	link := regexp.MustCompile(`<a href="(queue\?[^"]*whole=1[^"]*)">`).FindStringSubmatch(text)
	require.NotNil(t, link)
	require.Eventually(t, func() bool {
		text = s.do(http.MethodGet, strings.ReplaceAll(link[1], "&amp;", "&"), nil).text
		return len(ids(text)) > 24
	}, time.Minute, time.Millisecond)
	require.NotContains(t, text, note)
	require.Equal(t, "customer-000024", ids(text)[24])
	require.Eventually(t, func() bool {
		return strings.Contains(s.do(http.MethodGet, "api/v1/jobs?queue=q&order=id", nil).text, `"partial":false`)
	}, time.Minute, time.Millisecond)
	for _, wrong := range []string{"", "0", "-1", "x", "NaN", "1e9"} {
		s.refused(http.StatusBadRequest, http.MethodGet, "api/v1/jobs?queue=q&patience="+wrong, nil)
		s.refused(http.StatusBadRequest, http.MethodGet, "api/v1/dead?queue=q&patience="+wrong, nil)
	}
}

func running(t *testing.T, q *executor.Queue[string]) int {
	stats, err := q.Stats(t.Context())
	require.NoError(t, err)
	return stats.Running
}

// The hot ids are looked for once in five seconds, and after an action.
func TestHotIDsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := open(t, executor.Config{})
		q := queue(t, x, "q", nil, executor.QueueConfig[string]{})
		s := writable(t, x)
		hot := func() string { return s.get("hot", "name", "q") }
		add := func(id string) { enqueue(t, q, id, "", executor.In(time.Hour)); synctest.Wait() }
		add("anna-1")
		require.Contains(t, hot(), "anna-1")
		add("bert-2")
		time.Sleep(5*time.Second - 1)
		require.NotContains(t, hot(), "bert-2", "it is what it was")
		time.Sleep(time.Second)
		require.Contains(t, hot(), "bert-2")
		add("carl-3")
		s.post(url.Values{}, "verb", "delete", "queue", "q", "scope", "id", "id", "anna-1", "confirm", "yes")
		text := hot()
		require.Contains(t, text, "carl-3")
		require.NotContains(t, text, "anna-1")
		s.refused(http.StatusNotFound, http.MethodGet, "hot?name=other", nil)
	})
}
