//go:build unix

package control

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type say struct {
	Text string `json:"text"`
}

// serve answers in a directory of its own: echo says what it is told, hang waits for the
// end of its call, burst panics, lines are a stream without end.
func serve(t *testing.T, verbs map[string]Handler) (dir string, s *Server) {
	t.Helper()
	dir = short(t)
	s = &Server{Verbs: map[string]Handler{
		"echo":  Verb(func(_ context.Context, v say) (say, error) { return v, nil }),
		"hang":  Verb(func(ctx context.Context, _ None) (None, error) { <-ctx.Done(); return None{}, context.Cause(ctx) }),
		"burst": Verb(func(context.Context, None) (None, error) { panic("boo") }),
		"wrong": Verb(func(context.Context, None) (None, error) { return None{}, errors.New("so wrong") }),
	}, Panicked: func(any, []byte) {}, Streams: map[string]Stream{
		"lines": func(ctx context.Context, _ func(any) error, send func(any) error) error {
			for ctx.Err() == nil {
				if err := send(say{strings.Repeat("x", 1<<16)}); err != nil {
					return err
				}
			}
			return nil
		},
	}}
	maps.Copy(s.Verbs, verbs)
	s.Serve(listen(t, dir))
	t.Cleanup(s.Close)
	return dir, s
}

func echo(t *testing.T, dir string) error {
	c := Connect(dir, time.Minute)
	defer c.Close()
	got, err := Call[say](t.Context(), c, "echo", say{"hello"})
	if err == nil && got.Text != "hello" {
		return fmt.Errorf("the echo is %q", got.Text)
	}
	return err
}

func TestAnswers(t *testing.T) {
	dir, _ := serve(t, nil)
	require.NoError(t, echo(t, dir))
	c := Connect(dir, time.Minute)
	defer c.Close()
	for verb, want := range map[string]string{"wrong": "so wrong", "burst": "the call panicked: boo", "no": `knows no "/v1/no"`} {
		_, err := Call[None](t.Context(), c, verb, None{})
		require.ErrorContains(t, err, want)
	}
	_, err := Call[None](t.Context(), c, "echo", map[string]any{"text": "x", "filter": "new"})
	require.ErrorContains(t, err, `unknown field "filter"`, "an older process must not overlook it")
	_, err = Call[None](t.Context(), c, "echo", say{strings.Repeat("x", maxRequest)})
	require.ErrorContains(t, err, "it may have 1048576 bytes")
	require.NoError(t, echo(t, dir))
}

// A handler that hangs holds up neither the command, which has its own time, nor Close.
func TestAHandlerThatHangs(t *testing.T) {
	dir, s := serve(t, nil)
	c := Connect(dir, 30*time.Millisecond)
	defer c.Close()
	_, err := Call[None](t.Context(), c, "hang", None{})
	require.ErrorContains(t, err, "did not answer hang within 30ms")
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	time.AfterFunc(10*time.Millisecond, func() { cancel(enough) })
	_, err = Call[None](ctx, Connect(dir, time.Minute), "hang", None{})
	require.ErrorIs(t, err, enough)

	for _, verb := range []string{"hang", "lines"} {
		conn := dial(t, dir)
		_, err := io.WriteString(conn, "POST /v1/"+verb+" HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
		require.NoError(t, err)
	}
	time.Sleep(10 * time.Millisecond) // for them to be at it; it makes no difference to what is asked
	began := time.Now()
	s.Close()
	require.Less(t, time.Since(began), time.Second, "with a call and a stream that nobody reads")
	require.ErrorIs(t, echo(t, dir), ErrNobody)
	require.Empty(t, names(t, dir))
}

func dial(t *testing.T, dir string) net.Conn {
	t.Helper()
	conn, err := net.Dial("unix", path(dir))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// So many calls are worked on at a time; one more is told so, and a command tries again.
func TestCallsAtATime(t *testing.T) {
	in, out := make(chan struct{}, maxCalls), make(chan struct{})
	dir, _ := serve(t, map[string]Handler{"wait": Verb(func(context.Context, None) (None, error) {
		in <- struct{}{}
		<-out
		return None{}, nil
	})})
	var all sync.WaitGroup
	for range maxCalls {
		all.Go(func() {
			_, err := Call[None](context.Background(), Connect(dir, time.Minute), "wait", None{})
			assert.NoError(t, err)
		})
	}
	for range maxCalls {
		<-in
	}
	answer, err := http.NewRequest(http.MethodPost, "http://x/v1/echo", strings.NewReader("{}"))
	require.NoError(t, err)
	c := Connect(dir, time.Minute)
	busy, err := c.http.Do(answer)
	require.NoError(t, err)
	require.Equal(t, http.StatusServiceUnavailable, busy.StatusCode)
	require.NoError(t, busy.Body.Close())
	time.AfterFunc(100*time.Millisecond, func() { close(out) })
	require.NoError(t, echo(t, dir), "as soon as there is room")
	all.Wait()
}

// What makes no sense gets an error, or its connection closed, and whatever thousands of
// connections do that say nothing, or half of something, another one gets its answer.
func TestHostileClients(t *testing.T) {
	dir, _ := serve(t, nil)
	for _, text := range []string{
		"\x00\x01\x02\r\n\r\n", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "GET /v1/echo HTTP/1.1\r\nHost: x\r\n\r\n",
		"POST /v1/echo HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n",
		"POST /v1/echo HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
		"POST /v1/echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n\"\xff\xfe",
		"POST /v1/echo HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nnull",
		"POST /v1/echo HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n{}{}",
		"POST /v1/echo HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n[]",
		"POST /v1/../../v1/echo HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
		"POST /v2/echo HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
		"POST /v1/echo HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("y", 1<<16) + "\r\n\r\n",
	} {
		conn := dial(t, dir)
		_, _ = io.WriteString(conn, text)
		require.NoError(t, conn.(*net.UnixConn).CloseWrite())
		answer, err := bufio.NewReader(conn).ReadString('\n')
		if err == nil && !strings.Contains(text, "null") {
			assert.Regexp(t, `^HTTP/1\.1 [45]\d\d `, answer, "%.60q", text)
		}
	}
	require.NoError(t, echo(t, dir))

	before := runtime.NumGoroutine()
	for i := range 3000 {
		conn, err := net.Dial("unix", path(dir))
		if err != nil {
			continue // the system's own queue is full
		}
		t.Cleanup(func() { _ = conn.Close() })
		_, _ = io.WriteString(conn, []string{
			"", "POST /v1/echo HTTP/1.1\r\nHost: ", "POST /v1/echo HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
		}[i%3])
		if i%500 == 0 {
			require.NoError(t, echo(t, dir), "beside %d that keep their connection", i)
		}
	}
	require.NoError(t, echo(t, dir))
	require.Less(t, runtime.NumGoroutine()-before, 3*maxConnections)
}

// A stream ends when its reader has gone, or does not read.
func TestStreams(t *testing.T) {
	dir, s := serve(t, nil)
	c := Connect(dir, time.Minute)
	defer c.Close()
	n, enough := 0, errors.New("enough")
	err := Follow(t.Context(), c, "lines", None{}, func(say) error {
		if n++; n == 3 {
			return enough
		}
		return nil
	})
	require.ErrorIs(t, err, enough)
	require.Eventually(t, func() bool { return len(s.streams) == 0 }, time.Minute, time.Millisecond)
	for range maxStreams {
		_, err := io.WriteString(dial(t, dir), "POST /v1/lines HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool { return len(s.streams) == maxStreams }, time.Minute, time.Millisecond)
	require.NoError(t, echo(t, dir), "calls have room of their own")
	if os.Getenv("STRAND_LONG") != "" {
		require.Eventually(t, func() bool { return len(s.streams) == 0 }, time.Minute, 100*time.Millisecond, "none of them reads")
	}
}
