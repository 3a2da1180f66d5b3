package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
)

// inside starts the service in this process. The function returns what was delivered to whom.
func inside(t *testing.T, status func(body string) int) (x *executor.Executor, url string, delivered func() []string) {
	var mu sync.Mutex
	var got []string
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		got = append(got, r.URL.Query().Get("customer")+": "+string(body))
		w.Header().Set("Retry-After", "0")
		w.WriteHeader(status(string(body)))
	}))
	t.Cleanup(target.Close)
	x, err := executor.Open(filepath.Join(t.TempDir(), "journal"), executor.Config{})
	require.NoError(t, err)
	s, err := newService(x, target.URL)
	require.NoError(t, err)
	require.NoError(t, x.Start(t.Context()))
	t.Cleanup(func() { assert.NoError(t, x.Stop(t.Context())) })
	server := httptest.NewServer(s.routes())
	t.Cleanup(server.Close)
	return x, server.URL, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string(nil), got...)
	}
}

func TestEachKeyOfACustomerOnce(t *testing.T) {
	_, url, delivered := inside(t, func(string) int { return http.StatusOK })
	for range 3 {
		for _, customer := range []string{"ann", "bob"} {
			status, err := post(t.Context(), http.DefaultClient, url, customer, "1", "paid")
			require.NoError(t, err)
			require.Equal(t, http.StatusAccepted, status)
		}
	}
	status, err := post(t.Context(), http.DefaultClient, url, "ann", "2", "shipped")
	require.NoError(t, err)
	require.Equal(t, http.StatusAccepted, status)
	require.Eventually(t, func() bool { return len(delivered()) >= 3 }, time.Minute, time.Millisecond)
	assert.ElementsMatch(t, []string{"ann: paid", "bob: paid", "ann: shipped"}, delivered())
}

func TestWhatIsNotTaken(t *testing.T) {
	x, url, _ := inside(t, func(string) int { return http.StatusOK })
	for name, c := range map[string]struct {
		customer, key, body string
		want                int
	}{
		"no key":            {"ann", "", "paid", http.StatusBadRequest},
		"long key":          {"ann", strings.Repeat("k", 513), "paid", http.StatusBadRequest},
		"long customer":     {strings.Repeat("a", 513), "1", "paid", http.StatusBadRequest},
		"too much":          {"ann", "1", strings.Repeat("x", maxBody+1), http.StatusRequestEntityTooLarge},
		"as much as may be": {"ann", "1", strings.Repeat("x", maxBody), http.StatusAccepted},
	} {
		t.Run(name, func(t *testing.T) {
			status, err := post(t.Context(), http.DefaultClient, url, c.customer, c.key, c.body)
			require.NoError(t, err)
			assert.Equal(t, c.want, status)
		})
	}
	_, err := newService(x, "nowhere")
	require.ErrorContains(t, err, `-to is "nowhere"`)
	require.NoError(t, x.Stop(t.Context()))
	status, err := post(t.Context(), http.DefaultClient, url, "ann", "2", "paid")
	require.NoError(t, err)
	assert.Equal(t, http.StatusServiceUnavailable, status)
	for _, path := range []string{"/healthz", "/stats"} {
		response, err := http.Get(url + path)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		assert.Equal(t, http.StatusServiceUnavailable, response.StatusCode, path)
	}
}

// What its receiver does not want lies in the morgue, and holds up nothing.
func TestRefusedByItsReceiver(t *testing.T) {
	_, url, delivered := inside(t, func(body string) int {
		if body == "nonsense" {
			return http.StatusUnprocessableEntity
		}
		return http.StatusOK
	})
	for i, body := range []string{"paid", "nonsense", "shipped"} {
		status, err := post(t.Context(), http.DefaultClient, url, "ann", string(rune('1'+i)), body)
		require.NoError(t, err)
		require.Equal(t, http.StatusAccepted, status)
	}
	require.Eventually(t, func() bool { return len(delivered()) == 3 }, time.Minute, time.Millisecond)
	assert.Equal(t, []string{"ann: paid", "ann: nonsense", "ann: shipped"}, delivered())
	require.Eventually(t, func() bool {
		response, err := http.Get(url + "/stats")
		require.NoError(t, err)
		defer response.Body.Close()
		var s inspect.Stats
		require.NoError(t, json.NewDecoder(response.Body).Decode(&s))
		return s.Queues[0].Jobs == 0 && s.Queues[0].Dead == 1
	}, time.Minute, time.Millisecond)
}

// A receiver that says when to come again is obeyed: that is no failure.
func TestReceiverThatIsBusy(t *testing.T) {
	var asked atomic.Bool
	x, url, delivered := inside(t, func(string) int {
		if asked.Swap(true) {
			return http.StatusOK
		}
		return http.StatusTooManyRequests
	})
	status, err := post(t.Context(), http.DefaultClient, url, "ann", "1", "paid")
	require.NoError(t, err)
	require.Equal(t, http.StatusAccepted, status)
	require.Eventually(t, func() bool { return len(delivered()) == 2 }, time.Minute, time.Millisecond)
	require.Eventually(t, func() bool {
		stats, err := x.Stats(t.Context())
		require.NoError(t, err)
		require.Zero(t, stats.Queues[0].Failed)
		return stats.Queues[0].Snoozed == 1 && stats.Queues[0].Done == 1
	}, time.Minute, time.Millisecond)
}
