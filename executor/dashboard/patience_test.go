package dashboard_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/dashboard"
)

// pipes is a listener in a bubble.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, open := <-p; open {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (p pipes) Close() error { close(p); return nil }
func (pipes) Addr() net.Addr { return new(net.TCPAddr) }

// Pages and actions have the time that the configuration gives them, and a client that
// sends slowly has not.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, err := executor.Open("", executor.Config{})
		require.NoError(t, err)
		queue(t, x, "q", nil, executor.QueueConfig[string]{})
		ended := make(chan error, 1)
		slow := func(r *http.Request, a dashboard.Action) error {
			if a.Verb != dashboard.Pause && a.Verb != dashboard.CopyJournal {
				return nil
			}
			select {
			case <-time.After(50 * time.Second):
				return nil
			case <-r.Context().Done():
				return context.Cause(r.Context())
			}
		}
		l := make(pipes)
		var log strings.Builder
		board := dashboard.Handler(x, dashboard.Config{Prefix: "/strand", Authorize: slow, PageTimeout: time.Minute,
			Logger: slog.New(slog.NewTextHandler(&log, nil))})
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Audited") != "" { // by a middleware, which reads it first
				body, err := io.ReadAll(r.Body)
				if r.Body = io.NopCloser(bytes.NewReader(body)); err != nil {
					panic(err)
				}
			}
			board.ServeHTTP(w, r)
		})}
		go func() { ended <- server.Serve(l) }()
		send := func(text string) *http.Response {
			here, there := net.Pipe()
			defer here.Close()
			l <- there
			_, err := here.Write([]byte(text))
			require.NoError(t, err)
			response, err := http.ReadResponse(bufio.NewReader(here), nil)
			require.NoError(t, err)
			return response
		}
		request := func(method, path, body string, length int) string {
			return fmt.Sprintf("%s /strand/%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n"+
				"Content-Length: %d\r\n\r\n%s", method, path, length, body)
		}
		for text, status := range map[string]int{
			request("POST", "do", "verb=pause&queue=q&scope=all", 28):          http.StatusSeeOther,
			request("POST", "api/v1/actions", "verb=pause&scope=executor", 25): http.StatusOK,
			request("POST", "do?verb=pause&queue=q&scope=all", "", 0):          http.StatusSeeOther,
			request("GET", "queue?name=q", "", 0):                              http.StatusOK,
			request("POST", "copy", "", 0):                                     http.StatusConflict, // in memory
		} {
			for _, text := range []string{text, strings.Replace(text, "\r\n", "\r\nAudited: yes\r\n", 1)} {
				began := time.Now()
				require.Equal(t, status, send(text).StatusCode, text)
				require.Equal(t, 50*time.Second, time.Since(began), text)
			}
		}
		for _, path := range []string{"do", "api/v1/actions"} {
			began := time.Now()
			require.Equal(t, http.StatusRequestTimeout, send(request("POST", path, "verb=", 28)).StatusCode, path)
			require.Equal(t, time.Minute, time.Since(began), path)
		}
		require.NotContains(t, log.String(), "ERROR")
		require.NoError(t, server.Close())
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Fatal(err)
		}
		require.NoError(t, x.Stop(t.Context()))
	})
}

// A client that goes in the middle of what it sends has made the mistake, and the log
// need not know.
func TestABodyThatIsCutOff(t *testing.T) {
	x := waiting(t)
	var log strings.Builder
	s := mount(t, x, dashboard.Config{Authorize: dashboard.Insecure, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for _, path := range []string{"do", "copy", "api/v1/actions", "api/v1/copy"} {
		for _, kind := range []string{"application/json", "application/x-www-form-urlencoded"} {
			body := io.MultiReader(strings.NewReader("verb=pause&scope=all"), iotest.ErrReader(io.ErrUnexpectedEOF))
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/strand/"+path, body)
			r.Header.Set("Content-Type", kind)
			w := httptest.NewRecorder()
			s.mux.ServeHTTP(w, r)
			require.Less(t, w.Code, 500, "%s %s", path, kind)
			require.GreaterOrEqual(t, w.Code, 400, "%s %s", path, kind)
		}
	}
	require.NotContains(t, log.String(), "ERROR")
	untouched(t, x)
}
