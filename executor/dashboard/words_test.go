package dashboard_test

import (
	"context"
	"net/http"
	"net/url"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/dashboard"
	"github.com/strandjobs/strand/executor/inspect"
)

// Each word of a figure is explained, where it stands and in a list of all.
func TestFiguresSayWhatTheyMean(t *testing.T) {
	s := mount(t, waiting(t), dashboard.Config{})
	names := make(map[string]bool)
	for _, path := range []string{"", "queue?name=q"} {
		text := s.get(path)
		for _, found := range regexp.MustCompile(`<dt( title="[^"]+")?>([^<]+)</dt><dd data-live`).FindAllStringSubmatch(text, -1) {
			require.NotEmpty(t, found[1], found[2])
			names[found[2]] = true
		}
		for name := range names {
			require.Regexp(t, `<details(?s:.*)<dt>`+name+`</dt><dd>.+</dd>`, text)
		}
	}
	require.Len(t, names, 12)
	require.Contains(t, s.get("queue?name=q"), "; the list has paused ids, too</dd>")
}

// A list says of when it is, with an address that makes it again, and its times are ones
// that go on; only what goes on by itself says that it is live.
func TestAListSaysOfWhenItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := open(t, executor.Config{})
		enqueue(t, queue(t, x, "q", nil, executor.QueueConfig[string]{}), "a", "", executor.In(time.Hour))
		s := mount(t, x, dashboard.Config{})
		text := s.get("queue?name=q&sort=due")
		inOrder(t, text, ">figures live<", "The list is of", time.Now().Format("15:04:05"),
			`href="queue?name=q&amp;sort=due&amp;tab=waiting">reload`, "data-ago>in 1 h<")
		require.NotContains(t, s.get("job?queue=q&id=a"), "pulse")
		require.NoError(t, x.Stop(t.Context()))
	})
}

// A person may say why, as a program may.
func TestReasonOfACancel(t *testing.T) {
	x := open(t, executor.Config{})
	enqueue(t, queue(t, x, "q", nil, executor.QueueConfig[string]{}), "a", "", executor.In(time.Hour))
	enqueue(t, queue(t, x, "r", nil, executor.QueueConfig[string]{}), "a", "", executor.In(time.Hour))
	s := writable(t, x)
	a := s.do(http.MethodPost, "do?verb=cancel&queue=q&scope=id&id=a&from=job", nil)
	require.Contains(t, a.text, `name="reason"`)
	require.NotContains(t, s.do(http.MethodPost, "do?verb=delete&queue=q&scope=id&id=a&from=job", nil).text, `name="reason"`)
	do := regexp.MustCompile(`action="(do[^"]*)"`).FindStringSubmatch(a.text)[1]
	target, err := url.Parse(regexp.MustCompile(`&amp;`).ReplaceAllString(do, "&"))
	require.NoError(t, err)
	require.Equal(t, http.StatusSeeOther, s.do(http.MethodPost, target.String(), url.Values{"reason": {"a duplicate"}}).StatusCode)
	require.Equal(t, http.StatusSeeOther, s.do(http.MethodPost, "do?verb=cancel&queue=r&scope=id&id=a&confirm=yes",
		url.Values{"reason": {""}}).StatusCode)
	for queue, want := range map[string]string{"q": "a duplicate", "r": ""} {
		dead, err := x.Inspect().Dead(context.Background(), inspect.JobQuery{Queue: queue, Limit: 1})
		require.NoError(t, err)
		require.Len(t, dead.Dead, 1)
		require.Contains(t, dead.Dead[0].Error, want)
	}
}
