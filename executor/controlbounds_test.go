//go:build unix

package executor_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/admin"
	"github.com/strandjobs/strand/executor/internal/control"
)

// said sends a request over the socket as it is, and returns the connection.
func said(t *testing.T, dir, verb, body string) net.Conn {
	t.Helper()
	conn, err := net.Dial("unix", filepath.Join(dir, "control.sock"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = fmt.Fprintf(conn, "POST /v1/%s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", verb, len(body), body)
	require.NoError(t, err)
	return conn
}

// Lists and events that nobody reads do not keep out who acts.
func TestActingBesideListsThatAreNotRead(t *testing.T) {
	slow(t)
	x, dir := listening(t)
	q := handle(t, x, "q", (&probe{}).handle, executor.QueueConfig[string]{})
	items := make([]executor.Item[string], 4000) // of which a list does not fit into the buffer of a connection
	for i := range items {
		items[i] = executor.Item[string]{ID: fmt.Sprint(strings.Repeat("x", 400), i), Due: time.Now().Add(time.Hour)}
	}
	_, err := q.EnqueueMany(t.Context(), items)
	require.NoError(t, err)
	for range 8 {
		answer, err := bufio.NewReader(said(t, dir, "events", `{}`)).ReadString('\n')
		require.NoError(t, err)
		require.Contains(t, answer, "200 OK")
	}
	first := make(chan error, 20)
	for range 20 {
		conn := said(t, dir, "jobs", `{"queue": "q", "limit": 10000}`)
		go func() {
			_, err := io.ReadFull(conn, make([]byte, 1))
			first <- err
		}()
	}
	for range 16 {
		require.NoError(t, <-first)
	}
	_, err = asked[admin.Affected](t, dir, control.VerbAct, admin.Act{Do: "pause", Queue: "q", All: true})
	require.NoError(t, err)
	did, err := asked[admin.Affected](t, dir, control.VerbAct, admin.Act{Do: "cancel", Queue: "q", IDs: []string{items[7].ID}})
	require.NoError(t, err)
	require.Equal(t, 1, did.Back)
	stop(t, x)
}

// An action in which a field is missing does nothing, and is told which one.
func TestActionsWithoutAField(t *testing.T) {
	x, dir := listening(t)
	q := handle(t, x, "q", (&probe{}).handle, executor.QueueConfig[string]{})
	enqueue(t, q, "a", "x")
	require.NoError(t, pauseAll(t.Context(), x))
	require.NoError(t, pauseQueue(t.Context(), q))
	_, err := x.Inspect().Pause(t.Context(), inspect.SelectIDs(q.Name(), "a"))
	require.NoError(t, err)
	for _, c := range []struct{ verb, body, want string }{
		{"pause", `{"do": "resume", "all": true}`, "of another version"},
		{"act", `{"do": null, "all": true}`, "do is null"},
		{"act", `{"do": "resume"}`, "queue is missing; to pause the executor, all is said without one"},
		{"act", `{"do": "resume", "all": false}`, "queue is missing"},
		{"act", `{"do": "resume", "queue": ""}`, "queue is missing"},
		{"act", `{"do": "resume", "ids": ["a"]}`, "queue is missing"},
		{"act", `{"do": "resume", "all": true, "ids": ["a"]}`, "queue is missing"},
		{"act", `{"do": "resume", "all": true, "prefix": "a"}`, "queue is missing"},
		{"act", `{"do": "resume", "queue": "q"}`, "all, ids, prefix or positions is missing"},
		{"act", `{"do": "resume", "queue": "q", "ids": []}`, "all, ids, prefix or positions is missing"},
		{"act", `{"do": "resume", "queue": "q", "prefix": ""}`, "all, ids, prefix or positions is missing"},
		{"act", `{"do": "resume", "queue": "q", "all": true, "prefix": "a"}`, "it has to be one of all"},
		{"act", `{"Do": "resume", "all": true}`, "there is no field"},
		{"act", `{}`, "do is missing"},
		{"act", `{"do": "delete", "all": true}`, "queue is missing"},
		{"act", `{"queue": "q", "all": true}`, "do is missing"},
		{"act", `{"do": "", "queue": "q", "all": true}`, "do is missing"},
		{"act", `{"do": "delete", "queue": "", "all": true}`, "queue is missing"},
		{"act", `{"do": "delete", "queue": "q"}`, "all, ids, prefix or positions is missing"},
		{"act", `{"do": "delete", "queue": "q", "ids": []}`, "all, ids, prefix or positions is missing"},
		{"act", `{"do": "delete", "queue": "q", "all": null, "ids": ["a"]}`, "all is null"},
		{"copy", `{}`, "to is missing"},
		{"copy", `{"to": ""}`, "to is missing"},
	} {
		answer, err := http.ReadResponse(bufio.NewReader(said(t, dir, c.verb, c.body)), nil)
		require.NoError(t, err)
		text, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.GreaterOrEqual(t, answer.StatusCode, 400, "%s %s", c.verb, c.body)
		require.Contains(t, string(text), c.want, "%s %s", c.verb, c.body)
	}
	all, queues := x.Inspect().Paused()
	require.True(t, all)
	require.Equal(t, []string{"q"}, queues)
	require.Equal(t, 1, stats(t, q).PausedIDs)
	require.Equal(t, 1, stats(t, q).Jobs)
	stop(t, x)
}
