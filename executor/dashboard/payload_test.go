package dashboard_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/dashboard"
	"github.com/strandjobs/strand/executor/inspect"
)

func plainPayload(raw string) string {
	return dashboard.PlainPayload(nil, dashboard.Payload{PayloadInfo: inspect.PayloadInfo{Raw: []byte(raw)}})
}

func TestPlainPayload(t *testing.T) {
	for _, raw := range []string{`{}`, `[ ]`, ` [1, {"a" : "b\\\"c]", "d": [[],{}, null]}, "\\"] `, `"a"`, `17`, `{"a":{"b":[]},"c":[{}]}`} {
		var b bytes.Buffer
		require.NoError(t, json.Indent(&b, []byte(raw), "", "  "))
		require.Equal(t, strings.TrimSpace(b.String()), plainPayload(raw), raw)
	}
	for _, raw := range []string{"", "{", "no JSON", "\xff\x00", `[1] [2]`} {
		require.Equal(t, raw, plainPayload(raw))
	}
	long := strings.Repeat("[", 9000) + strings.Repeat("]", 9000)
	require.Greater(t, len(plainPayload(long)), 64<<10)
	for _, raw := range []string{long, strings.Repeat("x", 1<<20)} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		require.Less(t, len(plainPayload(raw)), 100<<10)
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(4<<20))
	}
}

// What the hook returns, and all of it together, is more than an answer has.
func TestPayloadsOfAnAnswerAreBounded(t *testing.T) {
	x := open(t, executor.Config{})
	q := queue(t, x, "q", nil, executor.QueueConfig[string]{})
	for range 50 {
		enqueue(t, q, "a", "")
	}
	text := strings.Repeat("ü", 5<<20)
	s := mount(t, x, dashboard.Config{ShowPayload: func(*http.Request, dashboard.Payload) string { return text }})
	require.Less(t, len(s.get("job?queue=q&id=a")), 3<<20)
	require.Contains(t, s.get("job?queue=q&id=a"), "left out: this page has enough")
	var job struct {
		Waiting []struct {
			Payload string
			Clipped bool
		}
	}
	answer := s.get("api/v1/job?queue=q&id=a")
	require.Less(t, len(answer), 3<<20)
	require.NoError(t, json.Unmarshal([]byte(answer), &job))
	require.Len(t, job.Waiting, 50)
	all := 0
	for i, row := range job.Waiting {
		require.True(t, row.Clipped)
		require.True(t, utf8.ValidString(row.Payload))
		require.LessOrEqual(t, len(row.Payload), 64<<10)
		if all += len(row.Payload); i < 16 {
			require.Len(t, row.Payload, 64<<10)
		}
	}
	require.Equal(t, 1<<20, all)
}

// The hook may take long: a page has its time, and asks no more when that is over.
func TestPayloadsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := open(t, executor.Config{})
		q := queue(t, x, "q", nil, executor.QueueConfig[string]{})
		for range 20 {
			enqueue(t, q, "a", "")
		}
		asked := 0
		s := mount(t, x, dashboard.Config{ShowPayload: func(r *http.Request, _ dashboard.Payload) string {
			asked++
			<-r.Context().Done()
			return context.Cause(r.Context()).Error()
		}})
		s.refused(http.StatusServiceUnavailable, http.MethodGet, "job?queue=q&id=a", nil)
		s.refused(http.StatusServiceUnavailable, http.MethodGet, "api/v1/job?queue=q&id=a", nil)
		require.Equal(t, 2, asked)
		require.NoError(t, x.Stop(t.Context()))
	})
}

// Rows of one id are told apart by their positions, and by what the hook for lists says
// of the begin that it is given.
func TestPayloadsOfAList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := open(t, executor.Config{})
		q := queue(t, x, "q", func(context.Context, executor.Job[string]) error { return executor.Cancel(errBoom) },
			executor.QueueConfig[string]{})
		enqueue(t, q, "a", strings.Repeat("first ", 100))
		enqueue(t, q, "a", "second")
		require.NoError(t, x.Start(t.Context()))
		synctest.Wait()
		enqueue(t, q, "a", "third", executor.In(time.Hour))
		lists := []string{"queue?name=q&tab=morgue", "queue?name=q"}
		hidden := mount(t, x, dashboard.Config{ShowPayload: dashboard.PlainPayload})
		inOrder(t, hidden.get(lists[0]), `>Position<`, `<td class="n">1</td>`, `<td class="n">2</td>`)
		for _, list := range lists {
			require.NotRegexp(t, "first|second|third", hidden.get(list))
		}
		calls := 0
		shown := mount(t, x, dashboard.Config{ShowPreview: func(_ *http.Request, p dashboard.Payload) string {
			if calls++; p.Position == 2 {
				panic("no")
			}
			require.LessOrEqual(t, len(p.Raw), 256)
			require.Nil(t, p.Value)
			return strings.ToUpper(string(p.Raw)) + "\n<end>"
		}})
		inOrder(t, shown.get(lists[0]), ">Payload<", "FIRST FIRST", ">hidden<")
		inOrder(t, shown.get(lists[1]), ">Payload<", "THIRD&#34; &lt;end&gt;")
		require.Equal(t, 3, calls)
		require.NotContains(t, shown.get("job?queue=q&id=a"), "THIRD")
		require.NoError(t, x.Stop(t.Context()))
	})
}
