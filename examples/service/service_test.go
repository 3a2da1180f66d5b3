package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// begin starts the service in this process. The function that it returns stops it.
func begin(t *testing.T, cfg config) (url string, stop func()) {
	t.Helper()
	cfg.listen = "localhost:0"
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan string, 1), make(chan error, 1)
	go func() { ended <- run(ctx, cfg, func(addr string) { ready <- "http://" + addr }) }()
	select {
	case url = <-ready:
	case err := <-ended:
		require.NoError(t, err)
	}
	return url, func() {
		t.Helper()
		cancel()
		require.NoError(t, <-ended)
	}
}

// call makes a request and returns what came.
func call(t *testing.T, method, url, body string, header ...string) (status int, answer map[string]any, got http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	response, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer response.Body.Close()
	all, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	if bytes.HasPrefix(all, []byte("{")) {
		require.NoError(t, json.Unmarshal(all, &answer))
	} else {
		answer = map[string]any{"text": string(all)}
	}
	return response.StatusCode, answer, response.Header
}

// An event is answered when it is on disk, applied once and in order, over a restart, and one that comes again by its
// key is not applied again.
func TestOrders(t *testing.T) {
	cfg := config{dir: t.TempDir(), backlog: 100}
	url, stop := begin(t, cfg)
	for i, kind := range []string{"created", "paid", "paid", "shipped"} {
		status, answer, _ := call(t, http.MethodPost, url+"/orders/a%2Fb", `{"kind": "`+kind+`", "cents": 5}`, "Idempotency-Key", kind)
		require.Equal(t, http.StatusAccepted, status, answer)
		require.Equal(t, i == 2, answer["duplicate"])
		require.Equal(t, true, answer["durable"])
	}
	stop()
	url, stop = begin(t, cfg)
	require.Eventually(t, func() bool {
		_, answer, _ := call(t, http.MethodGet, url+"/orders/a%2Fb", "")
		return answer["pending"] == false
	}, time.Minute, 10*time.Millisecond)
	status, answer, _ := call(t, http.MethodGet, url+"/orders/a%2Fb", "")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, map[string]any{"id": "a/b", "state": "shipped", "cents": 15.0, "pending": false}, answer)
	status, _, _ = call(t, http.MethodGet, url+"/orders/none", "")
	require.Equal(t, http.StatusNotFound, status)
	stop()
	db, err := openStore(cfg.dir + "/orders.db")
	require.NoError(t, err)
	kinds, err := db.history(t.Context(), "a/b")
	require.NoError(t, err)
	require.Equal(t, []string{"created", "paid", "shipped"}, kinds)
	require.NoError(t, db.close())
}

// A journal that was restored from a copy, or begun anew, gives positions again. What it accepts is applied all the same,
// and what comes again by its key is not.
func TestRestored(t *testing.T) {
	cfg := config{dir: t.TempDir(), backlog: 100}
	accept := func(order string) {
		url, stop := begin(t, cfg)
		for range 2 {
			status, answer, _ := call(t, http.MethodPost, url+"/orders/"+order, `{"kind": "created", "cents": 1}`, "Idempotency-Key", "1")
			require.Equal(t, http.StatusAccepted, status, answer)
		}
		status, answer, _ := call(t, http.MethodPost, url+"/orders/"+order, `{"kind": "paid", "cents": 1}`)
		require.Equal(t, http.StatusAccepted, status, answer)
		require.Eventually(t, func() bool {
			_, answer, _ = call(t, http.MethodGet, url+"/orders/"+order, "")
			return answer["state"] == "paid" && answer["pending"] == false
		}, time.Minute, 10*time.Millisecond)
		require.InDelta(t, 2, answer["cents"], 0)
		stop()
	}
	journal, copied := cfg.dir+"/journal", cfg.dir+"/copy"
	accept("a")
	require.NoError(t, os.CopyFS(copied, os.DirFS(journal)))
	accept("b")
	require.NoError(t, os.RemoveAll(journal))
	require.NoError(t, os.Rename(copied, journal))
	accept("c")
	require.NoError(t, os.RemoveAll(journal))
	accept("d")
}

// What makes no sense is refused, what there is no room for may come again, and when is said.
func TestRefusals(t *testing.T) {
	url, stop := begin(t, config{dir: t.TempDir(), backlog: 3, password: "secret"})
	for body, want := range map[string]int{
		`{"kind": "lost"}`: http.StatusBadRequest, `{`: http.StatusBadRequest, `{"cents": 1}`: http.StatusBadRequest,
		`{"kind": "created", "x": 1}`:                      http.StatusBadRequest,
		`{"kind": "` + strings.Repeat("x", maxBody) + `"}`: http.StatusRequestEntityTooLarge,
		`{"kind": "created", "cents": -1}`:                 http.StatusBadRequest,
	} {
		status, answer, _ := call(t, http.MethodPost, url+"/orders/1", body)
		require.Equal(t, want, status, answer)
		require.NotEmpty(t, answer["error"])
	}
	for _, header := range [][]string{nil, {"Authorization", "Basic YWRtaW46d3Jvbmc="}, {"Authorization", "Basic cm9vdDpzZWNyZXQ="}} {
		for _, path := range []string{"", "do?verb=pause&queue=orders&scope=all"} {
			status, _, got := call(t, http.MethodPost, url+"/strand/"+path, "", header...)
			require.Equal(t, http.StatusUnauthorized, status)
			require.Contains(t, got.Get("WWW-Authenticate"), "Basic") // or a browser would not ask again
		}
	}
	admin := []string{"Authorization", "Basic YWRtaW46c2VjcmV0"}
	status, answer, _ := call(t, http.MethodPost, url+"/strand/do?verb=pause&queue=orders&scope=all&confirm=yes", "", admin...)
	require.Equal(t, http.StatusOK, status, answer) // after 303
	for range 3 {
		status, answer, _ = call(t, http.MethodPost, url+"/orders/1", `{"kind": "created"}`)
		require.Equal(t, http.StatusAccepted, status, answer)
	}
	status, _, header := call(t, http.MethodPost, url+"/orders/1", `{"kind": "created"}`)
	require.Equal(t, http.StatusTooManyRequests, status)
	require.Regexp(t, `^[1-9]\d*$`, header.Get("Retry-After"))
	status, answer, _ = call(t, http.MethodGet, url+"/healthz", "")
	require.Equal(t, http.StatusOK, status, "a backlog that is full is no failure: %v", answer)
	stop()
}

// The alerts say what is wrong, and no more, as promtool sees it.
func TestAlerts(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool, which comes with Prometheus, is not installed")
	}
	said, err := exec.CommandContext(t.Context(), promtool, "test", "rules", "alerts_test.yml").CombinedOutput()
	require.NoError(t, err, "%s", said)
}

// The load goes on while the service is watched, and each alert and each panel is about a figure that there is.
func TestObserved(t *testing.T) {
	url, stop := begin(t, config{dir: t.TempDir(), backlog: 10_000, load: 200})
	var figures string
	require.Eventually(t, func() bool {
		_, answer, _ := call(t, http.MethodGet, url+"/metrics", "")
		figures = answer["text"].(string)
		return regexp.MustCompile(`strand_payloads_ended_total\{outcome="done",queue="mails"\} [1-9]`).MatchString(figures) &&
			strings.Contains(figures, `strand_enqueue_duration_seconds_count`)
	}, time.Minute, 50*time.Millisecond)
	status, answer, _ := call(t, http.MethodGet, url+"/healthz", "")
	require.Equal(t, http.StatusOK, status, answer)
	status, answer, _ = call(t, http.MethodGet, url+"/", "")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, answer["text"], "orders")
	for _, file := range []string{"alerts.yml", "grafana.json"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		names := regexp.MustCompile(`\bstrand_\w+`).FindAllString(string(text), -1)
		require.NotEmpty(t, names)
		for _, name := range names {
			assert.Contains(t, figures, name, file)
		}
	}
	stop()
}
