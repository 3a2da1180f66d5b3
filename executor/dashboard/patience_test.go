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
	"strings"
	"testing"
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
		board := dashboard.Handler(x, dashboard.Config{Prefix: "/strand", Authorize: slow, PageTimeout: time.Minute,
			Logger: slog.New(slog.DiscardHandler)})
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
		began := time.Now()
		require.GreaterOrEqual(t, send(request("POST", "do", "verb=", 28)).StatusCode, 400)
		require.Equal(t, 10*time.Second, time.Since(began))
		require.NoError(t, server.Close())
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Fatal(err)
		}
		require.NoError(t, x.Stop(t.Context()))
	})
}
