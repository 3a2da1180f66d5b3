//go:build unix

package control

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor/internal/serving"
)

type say struct {
	Text string `wire:",must"`
}

// serve answers in a directory of its own: echo says what it is told, large has 2 MiB,
// hang waits for the end of its call, burst panics, lines are a stream without end; act and
// chore fail. Of verbs all are looks but hold.
func serve(t *testing.T, verbs map[string]Handler) (dir string, s *Server) {
	t.Helper()
	dir = short(t)
	s = &Server{Looks: map[string]Handler{
		"echo":  Verb(func(_ context.Context, v say) (say, error) { return v, nil }),
		"large": Verb(func(context.Context, None) (say, error) { return say{strings.Repeat("x", 2<<20)}, nil }),
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
	s.Acts, s.Chores = map[string]Handler{"act": s.Looks["wrong"]}, map[string]Handler{"chore": s.Looks["wrong"]}
	for name, f := range verbs {
		if s.Looks[name] = f; name == "hold" {
			s.Acts[name] = f
			delete(s.Looks, name)
		}
	}
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
	_, err := Call[None](t.Context(), c, "echo", struct{ Text, Filter string }{"x", "new"})
	require.ErrorContains(t, err, `there is no field "filter"`, "an older process must not overlook it")
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
	require.Less(t, time.Since(began), time.Minute, "with a call and a stream that nobody reads")
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

// So many looks are worked on at a time, and one more waits. Who acts, who asks who is there, and what takes minutes have room of their own.
func TestCallsAtATime(t *testing.T) {
	in, out := make(chan struct{}, 99), make(chan struct{})
	waits := Verb(func(context.Context, None) (None, error) {
		in <- struct{}{}
		<-out
		return None{}, nil
	})
	dir, _ := serve(t, map[string]Handler{"wait": waits, "hold": waits})
	var all sync.WaitGroup
	fill := func(verb string, n int) {
		for range n {
			all.Go(func() {
				_, err := Call[None](context.Background(), Connect(dir, time.Minute), verb, None{})
				assert.NoError(t, err)
			})
		}
		for range n {
			<-in
		}
	}
	fill("wait", maxLooks/serving.Making)
	late := make(chan error, 1)
	go func() { late <- echo(t, dir) }()
	for _, verb := range []string{"act", "chore"} {
		_, err := Call[None](t.Context(), Connect(dir, time.Minute), verb, None{})
		require.ErrorContains(t, err, "so wrong")
	}
	fill("hold", maxActs)
	_, err := Call[None](t.Context(), Connect(dir, time.Minute), "chore", None{})
	require.ErrorContains(t, err, "so wrong")
	_, err = Call[Hello](t.Context(), Connect(dir, time.Minute), VerbHello, None{})
	require.NoError(t, err)
	require.Empty(t, late)
	close(out)
	require.NoError(t, <-late, "as soon as there is room")
	all.Wait()
}

// Connections that never read what they have asked for, one request behind the other, are
// in nobody's way: neither as connections, nor with their answers.
func TestAnswersThatAreNotRead(t *testing.T) {
	dir, _ := serve(t, nil)
	for range maxConnections {
		conn := dial(t, dir)
		_, err := io.WriteString(conn, strings.Repeat("POST /v1/large HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}", 10))
		require.NoError(t, err)
	}
	_, err := Call[None](t.Context(), Connect(dir, time.Minute), "act", None{})
	require.ErrorContains(t, err, "so wrong")
	if os.Getenv("STRAND_LONG") != "" {
		require.Eventually(t, func() bool { return echo(t, dir) == nil }, time.Minute, time.Millisecond)
	}
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
		if err == nil {
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
	// Those of connections that were refused or cut end by and by.
	require.Eventually(t, func() bool { return runtime.NumGoroutine()-before < 3*maxConnections }, time.Minute, time.Millisecond)
}

// A stream ends when its reader has gone, or does not read.
func TestStreams(t *testing.T) {
	dir, _ := serve(t, nil)
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
	for range maxStreams {
		_, err := io.WriteString(dial(t, dir), "POST /v1/lines HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
		require.NoError(t, err)
	}
	require.NoError(t, echo(t, dir), "calls have room of their own")
	if os.Getenv("STRAND_LONG") != "" { // none of them reads
		require.ErrorIs(t, Follow(t.Context(), c, "lines", None{}, func(say) error { return enough }), enough)
	}
}
