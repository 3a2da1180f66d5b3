package dashboard_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

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

func TestLiveConnectionsEndWithTheExecutor(t *testing.T) {
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
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	require.NoError(t, server.Config.Shutdown(ctx))
}

// TestH5_ASlowClientHoldsNothing: one that does not read is dropped when it is behind,
// while others are told, and its request ends.
func TestH5_ASlowClientHoldsNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes some seconds until a client is behind")
	}
	x := open(t, executor.Config{})
	for i := range 400 { // what is told is large: about 100 KiB each second
		queue(t, x, fmt.Sprint("queue-", i), nil, executor.QueueConfig[string]{Shards: 1})
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
