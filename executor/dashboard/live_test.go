package dashboard_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/dashboard"
)

// started is a server with little room for what a client does not read. It is closed
// after the connections that the test opens.
func started(t testing.TB, h http.Handler) *httptest.Server {
	server := httptest.NewUnstartedServer(h)
	server.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		_ = c.(*net.TCPConn).SetWriteBuffer(4 << 10)
		return ctx
	}
	server.Start()
	t.Cleanup(server.Close)
	return server
}

// listen opens a live connection, and returns what reads an event from it.
func listen(t testing.TB, server *httptest.Server) (next func() (event, data string, err error), response *http.Response) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/strand/live", nil)
	require.NoError(t, err)
	response, err = server.Client().Do(r)
	require.NoError(t, err)
	t.Cleanup(func() { response.Body.Close() })
	lines := bufio.NewReader(response.Body)
	return func() (event, data string, err error) {
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return "", "", err
			}
			if name, found := strings.CutPrefix(line, "event: "); found {
				event = strings.TrimSpace(name)
			} else if text, found := strings.CutPrefix(line, "data: "); found {
				return event, text, nil
			}
		}
	}, response
}

func TestLiveFigures(t *testing.T) {
	t.Parallel()
	x := open(t, executor.Config{})
	q := queue(t, x, "q", nil, executor.QueueConfig[string]{})
	server := started(t, mount(t, x, dashboard.Config{}).mux)
	next, response := listen(t, server)
	require.Equal(t, "text/event-stream", response.Header.Get("Content-Type"))
	event, _, err := next()
	require.NoError(t, err)
	require.Equal(t, "history", event)
	enqueue(t, q, "a", "")
	enqueue(t, q, "b", "")
	require.NoError(t, x.Start(t.Context()))
	for {
		_, data, err := next()
		require.NoError(t, err)
		var f struct {
			Processed float64
			Cells     map[string]string
		}
		require.NoError(t, json.Unmarshal([]byte(data), &f))
		if f.Cells["processed"] == "2" && f.Processed == 0 {
			break // they were done before this second
		}
	}
	// One that comes later begins with what was.
	next, _ = listen(t, server)
	_, data, err := next()
	require.NoError(t, err)
	var past []struct{ Processed float64 }
	require.NoError(t, json.Unmarshal([]byte(data), &past))
	require.NotEmpty(t, past)
}

// point is one of a chart; without a rate it draws none.
type point struct {
	At                        int64
	Processed, Failed, Commit *float64
}

// watched returns the points that a browser is sent in a while, but for the history.
func watched(t *testing.T, s site, while time.Duration) (points []point) {
	t.Helper()
	ctx, end := context.WithTimeout(t.Context(), while)
	defer end()
	w := httptest.NewRecorder()
	s.mux.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/strand/live", nil))
	synctest.Wait() // until the last sample is told, to nobody
	for _, text := range strings.Split(w.Body.String(), "event: figures\ndata: ")[1:] {
		var p point
		require.NoError(t, json.Unmarshal([]byte(text), &p))
		points = append(points, p)
	}
	return points
}

// A rate is that of a second: what happened while nobody watched is in none.
func TestLiveRatesBehindAGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := open(t, executor.Config{})
		q := queue(t, x, "q", func(_ context.Context, job executor.Job[string]) error {
			if job.Payload == "fails" {
				return executor.Cancel(errBoom)
			}
			return nil
		}, executor.QueueConfig[string]{})
		require.NoError(t, x.Start(t.Context()))
		s := mount(t, x, dashboard.Config{})
		some := func(n int) {
			for i := range n {
				enqueue(t, q, fmt.Sprint("done-", i), "")
				enqueue(t, q, fmt.Sprint("dead-", i), "fails")
			}
			synctest.Wait()
		}
		some(100)
		for range 2 {
			time.AfterFunc(500*time.Millisecond, func() {
				for i := range 7 {
					_, err := q.Enqueue(context.Background(), fmt.Sprint(i), "")
					assert.NoError(t, err)
				}
			})
			points := watched(t, s, 2500*time.Millisecond)
			require.Len(t, points, 3)
			require.Nil(t, points[0].Processed, "it is unknown what came in the second before")
			require.Nil(t, points[0].Failed)
			require.Nil(t, points[0].Commit)
			require.Equal(t, 7.0, *points[1].Processed)
			require.Zero(t, *points[1].Failed)
			require.Zero(t, *points[2].Processed)
			some(100)
			time.Sleep(time.Hour)
		}
		// Who comes back soon, from another page for example, sees the line go on.
		watched(t, s, 1500*time.Millisecond)
		some(8)
		time.Sleep(2500 * time.Millisecond)
		points := watched(t, s, 500*time.Millisecond)
		require.Len(t, points, 1)
		require.Equal(t, 8/3.0, *points[0].Processed)
		require.NoError(t, x.Stop(t.Context()))
	})
}

func TestLiveConnectionsAreBounded(t *testing.T) {
	x := open(t, executor.Config{})
	server := started(t, mount(t, x, dashboard.Config{MaxStreams: 2}).mux)
	for range 2 {
		next, _ := listen(t, server)
		_, _, err := next()
		require.NoError(t, err)
	}
	_, response := listen(t, server)
	require.Equal(t, http.StatusServiceUnavailable, response.StatusCode)
}

// Behind a middleware that lets nothing through until all is written, each connection has
// the newest figures, and the browser comes again.
func TestLiveBehindAMiddleware(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		x := open(t, executor.Config{})
		q := queue(t, x, "q", nil, executor.QueueConfig[string]{})
		require.NoError(t, x.Start(t.Context()))
		s := mount(t, x, dashboard.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		look := func(behind http.Handler, id string) string {
			w := httptest.NewRecorder()
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/strand/live", nil)
			r.Header.Set("Last-Event-ID", id)
			behind.ServeHTTP(w, r)
			return w.Body.String()
		}
		for name, behind := range map[string]http.Handler{
			"no Flush": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				s.mux.ServeHTTP(struct{ http.ResponseWriter }{w}, r)
			}),
			"TimeoutHandler": http.TimeoutHandler(s.mux, 10*time.Second, "late"),
		} {
			t.Log(name)
			inOrder(t, look(behind, ""), "event: history\n", "retry: 2000\n", "id: 1\n", "event: figures\n")
			for i := range 3 {
				enqueue(t, q, fmt.Sprint(name, i), "")
			}
			time.Sleep(2 * time.Second)
			text := look(behind, "1")
			require.NotContains(t, text, "history")
			inOrder(t, text, "event: figures\n", `"processed":1.5`)
		}
		require.Equal(t, 1, strings.Count(log.String(), "Unwrap"), log.String())
		require.NoError(t, x.Stop(t.Context()))
	})
}

// HEAD asks what is there, and is no watcher.
func TestLiveHEAD(t *testing.T) {
	x := open(t, executor.Config{})
	s := mount(t, x, dashboard.Config{MaxStreams: 1})
	for range 3 {
		a := s.do(http.MethodHead, "live", nil)
		require.Equal(t, http.StatusOK, a.StatusCode)
		require.Equal(t, "text/event-stream", a.Header.Get("Content-Type"))
	}
	next, _ := listen(t, started(t, s.mux))
	_, _, err := next()
	require.NoError(t, err)
}

func TestLiveConnectionsEndWithTheExecutor(t *testing.T) {
	t.Parallel()
	x := open(t, executor.Config{})
	server := started(t, mount(t, x, dashboard.Config{}).mux)
	next, _ := listen(t, server)
	_, _, err := next()
	require.NoError(t, err)
	require.NoError(t, x.Stop(t.Context()))
	for err == nil {
		_, _, err = next()
	}
	_, response := listen(t, server)
	require.Equal(t, http.StatusServiceUnavailable, response.StatusCode)
}

// A server that shuts down waits for its connections: a live one is not what it waits
// for.
func TestLiveConnectionsEndWithTheServer(t *testing.T) {
	x := open(t, executor.Config{})
	server := started(t, mount(t, x, dashboard.Config{}).mux)
	next, _ := listen(t, server)
	_, _, err := next()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, server.Config.Shutdown(ctx))
}

// TestH5_ASlowClientHoldsNothing: one that does not read is dropped when it is behind,
// while others are told, and its request ends.
func TestH5_ASlowClientHoldsNothing(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes some seconds until a client is behind")
	}
	x := open(t, executor.Config{})
	for i := range 400 { // what is told is large: about 100 KiB each second
		queue(t, x, fmt.Sprint("queue-", i), nil, executor.QueueConfig[string]{Share: executor.Share{Shards: 1}})
	}
	mux := http.NewServeMux()
	ended := make(chan struct{})
	board := dashboard.Handler(x, dashboard.Config{})
	mux.HandleFunc("/strand/", func(w http.ResponseWriter, r *http.Request) {
		board.ServeHTTP(w, r)
		if r.Header.Get("Slow") != "" {
			close(ended)
		}
	})
	server := started(t, mux)
	slow, err := net.Dial("tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	defer slow.Close()
	require.NoError(t, slow.(*net.TCPConn).SetReadBuffer(4<<10))
	_, err = fmt.Fprintf(slow, "GET /strand/live HTTP/1.1\r\nHost: localhost\r\nSlow: yes\r\n\r\n")
	require.NoError(t, err)
	next, _ := listen(t, server)
	for {
		_, _, err := next() // the other one is told all the time
		require.NoError(t, err)
		select {
		case <-ended:
			return
		default:
		}
	}
}
