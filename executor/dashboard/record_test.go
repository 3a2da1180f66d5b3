package dashboard_test

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor/dashboard"
)

// TestTheLogOfActions: each is one line, with what it was asked with and nothing else, by
// whom, also when it was refused.
func TestTheLogOfActions(t *testing.T) {
	var log strings.Builder
	s := mount(t, waiting(t), dashboard.Config{
		Authorize: func(_ *http.Request, a dashboard.Action) error {
			if a.Verb == dashboard.Delete || a.Verb == dashboard.CopyJournal {
				return errors.New("not you")
			}
			return nil
		},
		User: func(r *http.Request) string {
			if r.Header.Get("User") == "panics" {
				panic("no user")
			}
			return r.Header.Get("User")
		},
		Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{
			ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey {
					return slog.Attr{}
				}
				return a
			},
		})),
	})
	logged := func() string {
		text := log.String()
		log.Reset()
		return strings.TrimSpace(text)
	}
	const from = " from=192.0.2.1:1234"
	for _, each := range [][2]string{
		{`{"verb": "unlock", "key": "k"}`, `verb=unlock key=k affected=1`},
		{`{"verb": "pause", "scope": "executor"}`, `verb=pause scope=executor affected=1`},
		{`{"verb": "pause", "scope": "id", "queue": "q", "id": "a"}`, `verb=pause scope=id queue=q id=a affected=1`},
		{`{"verb": "run", "scope": "filtered", "queue": "q", "prefix": "x", "error": "boom", "state": ["halted"]}`,
			`verb=run scope=filtered queue=q states=[halted] prefix=x containing=boom affected=0`},
		{`{"verb": "cancel", "scope": "selected", "queue": "q", "selected": [{"id": "a"}, {"id": "b"}], "reason": "by hand"}`,
			`verb=cancel scope=selected queue=q selected=2 reason="by hand" affected=1`},
	} {
		require.Equal(t, http.StatusOK, s.tell(each[0]).StatusCode, each[0])
		require.Equal(t, `level=INFO msg="dashboard: an action" `+each[1]+from, logged())
	}
	s.problem(http.StatusNotFound, s.tell(`{"verb": "trigger", "schedule": "s", "cron": 3}`, "User", "eve"))
	require.Equal(t, `level=WARN msg="dashboard: an action" verb=trigger cron=3 schedule=s affected=0`+from+
		` user=eve error="there is no Cron 3 in Config.Crons"`, logged())
	s.refused(http.StatusForbidden, http.MethodPost, "do?verb=delete&queue=q&scope=id&id=a", nil, "User", "eve")
	require.Equal(t, `level=WARN msg="dashboard: an action was refused" verb=delete scope=id queue=q id=a`+from+
		` user=eve error="not you"`, logged())
	s.problem(http.StatusForbidden, s.do(http.MethodPost, "api/v1/copy", nil, "User", "eve"))
	require.Equal(t, `level=WARN msg="dashboard: an action was refused" verb=copy`+from+` user=eve error="not you"`, logged())
	s.tell(`{"verb": "resume", "scope": "executor"}`, "User", "panics")
	require.Contains(t, logged(), "verb=resume scope=executor affected=1"+from)
	s.get("queue?name=q")
	require.Empty(t, logged())
}
