package dashboard_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/dashboard"
)

// house is a server in a bubble, and what connects to it.
type house struct {
	t *testing.T
	l pipes
}

// inBubble has a server of a dashboard serve a test.
func inBubble(t *testing.T, setUp func(t *testing.T) (*executor.Executor, dashboard.Config), test func(t *testing.T, h house)) {
	synctest.Test(t, func(t *testing.T) {
		x, cfg := setUp(t)
		server := &http.Server{Handler: mount(t, x, cfg).mux, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
		l, ended := make(pipes), make(chan error, 1)
		go func() { ended <- server.Serve(l) }()
		defer func() {
			_ = server.Close()
			require.ErrorIs(t, <-ended, http.ErrServerClosed)
			require.NoError(t, x.Stop(context.Background()))
		}()
		test(t, house{t, l})
	})
}

// says connects, and says something; nobody reads the answer yet.
func (h house) says(text string) net.Conn {
	here, there := net.Pipe()
	h.l <- there
	go func() { _, _ = io.WriteString(here, text) }() // or the server has no use for more
	return here
}

// asks returns the answer to a request.
func (h house) asks(text string) (status int, body string) {
	h.t.Helper()
	conn := h.says(text)
	defer conn.Close()
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(h.t, err)
	content, err := io.ReadAll(answer.Body)
	require.NoError(h.t, err)
	return answer.StatusCode, string(content)
}

func get(path string) string { return "GET /strand/" + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n" }

func post(path, form string) string {
	return fmt.Sprintf("POST /strand/%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n"+
		"Content-Length: %d\r\n\r\n%s", path, len(form), form)
}

// However many clients ask, one request behind the other, for answers that they do not
// read: so many answers are made at a time, and there are so many bytes of them. Who acts
// does not wait for that, the clients are cut off, and who reads gets an answer.
func TestAnswersUnderWayAreBounded(t *testing.T) {
	t.Parallel()
	slow(t)
	var making, made atomic.Int32
	var wait atomic.Pointer[chan struct{}]
	inBubble(t, func(t *testing.T) (*executor.Executor, dashboard.Config) {
		x := open(t, executor.Config{})
		q := queue(t, x, "q", nil, executor.QueueConfig[string]{})
		receipt, err := q.Enqueue(t.Context(), "a", "x", executor.In(time.Hour))
		require.NoError(t, err)
		first := receipt.Position
		for range 20 { // an answer has a MiB of them
			enqueue(t, q, "a", "x", executor.In(time.Hour))
		}
		return x, dashboard.Config{Authorize: dashboard.Insecure, ShowPayload: func(r *http.Request, p dashboard.Payload) string {
			if p.Position == first {
				making.Add(1)
				made.Add(1)
				if w := wait.Load(); w != nil {
					<-*w
				}
				making.Add(-1)
			}
			return strings.Repeat("x", 64<<10)
		}}
	}, func(t *testing.T, h house) {
		for _, path := range []string{"api/v1/job?queue=q&id=a", "job?queue=q&id=a"} {
			made.Store(0)
			until := make(chan struct{})
			wait.Store(&until)
			for range 100 {
				defer h.says(strings.Repeat(get(path), 40)).Close()
			}
			synctest.Wait()
			require.LessOrEqual(t, making.Load(), int32(8), "answers at a time")
			require.NotZero(t, making.Load())
			wait.Store(nil)
			close(until)
			synctest.Wait()
			require.LessOrEqual(t, made.Load(), int32(64), "MiB of answers that nobody reads")
			began := time.Now()
			status, text := h.asks(post("api/v1/actions", "verb=pause&scope=all&queue=q"))
			require.Equal(t, http.StatusOK, status, text)
			require.Zero(t, time.Since(began))
			for status = 0; status != http.StatusOK; { // each that does not read is cut off after some seconds
				status, text = h.asks(get(path))
				require.Less(t, time.Since(began), time.Minute)
			}
			require.Greater(t, len(text), 1<<20)
			status, _ = h.asks(post("api/v1/actions", "verb=resume&scope=all&queue=q"))
			require.Equal(t, http.StatusOK, status)
			time.Sleep(time.Minute)
		}
	})
}

// A viewer who hangs up, at whatever moment, is no error of the dashboard.
func TestAViewerWhoHangsUp(t *testing.T) {
	var log strings.Builder
	var mu sync.Mutex
	asked := make(chan struct{})
	inBubble(t, func(t *testing.T) (*executor.Executor, dashboard.Config) {
		asked = make(chan struct{}, 1)
		x := waiting(t)
		return x, dashboard.Config{
			Logger: slog.New(slog.NewTextHandler(locked{&mu, &log}, nil)),
			Authorize: func(r *http.Request, _ dashboard.Action) error {
				select {
				case asked <- struct{}{}:
					<-r.Context().Done() // when it looks the viewer has gone
				default:
				}
				return nil
			},
		}
	}, func(t *testing.T, h house) {
		var paths []string
		for _, path := range append([]string{"live", "api/v1/stats", "api/v1/queues", "api/v1/jobs?queue=q", "api/v1/dead?queue=q",
			"api/v1/job?queue=q&id=a", "api/v1/explain?queue=q&id=a", "api/v1/find?id=a", "api/v1/running", "api/v1/journal"}, every...) {
			paths = append(paths, get(path))
		}
		paths = append(paths, post("do", "verb=run&queue=q&scope=id&id=a"), post("api/v1/actions", "verb=run&queue=q&scope=id&id=a"),
			post("do", "verb=delete&queue=q&scope=id&id=a"))
		for _, request := range paths {
			for len(asked) > 0 {
				<-asked
			}
			conn := h.says(request)
			synctest.Wait()
			require.NotEmpty(t, asked, request)
			require.NoError(t, conn.Close())
			synctest.Wait()
			mu.Lock()
			assert.NotContains(t, log.String(), "ERROR", request)
			log.Reset()
			mu.Unlock()
		}
	})
}

// locked is a writer for many goroutines.
type locked struct {
	mu *sync.Mutex
	to io.Writer
}

func (l locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.to.Write(b)
}
