package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor/inspect"
)

const asProgram = "STRAND_SERVICE_AS_PROGRAM"

// TestMain lets the test binary be the program: tests kill it.
func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// life is one process of the service.
type life struct {
	t      *testing.T
	cmd    *exec.Cmd
	stderr words
	target *httptest.Server
	url    string
	ready  time.Duration // from its start until it said that it is healthy
}

// begin starts the service and waits until it is ready.
func begin(t *testing.T, journal string, r *receiver) *life {
	l := &life{t: t, target: r.begin()}
	l.cmd = exec.CommandContext(t.Context(), os.Args[0], "-listen", "127.0.0.1:0", "-journal", journal, "-to", l.target.URL)
	l.cmd.Env = append(os.Environ(), asProgram+"=1", "GORACE=atexit_sleep_ms=0")
	l.cmd.Stderr = &l.stderr
	start := time.Now()
	require.NoError(t, l.cmd.Start())
	for l.url == "" || l.get("/healthz", nil) != nil {
		require.Less(t, time.Since(start), time.Minute, "not ready:\n%s", &l.stderr)
		time.Sleep(time.Millisecond)
		if said := regexp.MustCompile(`ready address=(\S+)`).FindStringSubmatch(l.stderr.String()); said != nil {
			l.url = "http://" + said[1]
		}
	}
	l.ready = time.Since(start)
	return l
}

// get asks the service for something, and wants a 200.
func (l *life) get(path string, answer any) error {
	response, err := http.Get(l.url + path)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return &httpError{response.Status}
	}
	if answer == nil {
		return nil
	}
	return json.NewDecoder(response.Body).Decode(answer)
}

type httpError struct{ status string }

func (e *httpError) Error() string { return e.status }

// left returns what the only queue has, when nothing runs.
func (l *life) left() inspect.QueueStats {
	var s inspect.Stats
	require.NoError(l.t, l.get("/stats", &s))
	require.Len(l.t, s.Queues, 1)
	return s.Queues[0]
}

// kill ends the service as kill -9 does. Nothing of it arrives any more after that.
func (l *life) kill(r *receiver) {
	r.kill()
	require.NoError(l.t, l.cmd.Process.Kill())
	require.Error(l.t, l.cmd.Wait())
	l.target.Close()
}

// stop ends the service in order.
func (l *life) stop() {
	l.t.Helper()
	defer l.target.Close()
	require.NoError(l.t, l.cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(l.t, l.cmd.Wait(), "%s", &l.stderr)
}

// words are what a process says.
type words struct {
	mu   sync.Mutex
	said bytes.Buffer
}

func (w *words) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.said.Write(p)
}

func (w *words) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.said.String()
}
