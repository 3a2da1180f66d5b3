package dashboard_test

import (
	"flag"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor/dashboard"
)

// Wherever it is mounted, a page is there, and what it links to.
func TestUnderAnyPrefix(t *testing.T) {
	t.Parallel()
	slow(t)
	x := waiting(t)
	h := dashboard.Handler(x, dashboard.Config{})
	handle := func(pattern string, h http.Handler) http.Handler {
		mux := http.NewServeMux()
		mux.Handle(pattern, h)
		return mux
	}
	for name, root := range map[string]struct {
		http.Handler
		at string
	}{
		"a path":           {handle("/strand/", h), "/strand/"},
		"two":              {handle("/admin/jobs/", h), "/admin/jobs/"},
		"the root":         {handle("/", h), "/"},
		"a wildcard":       {handle("/{rest...}", h), "/"},
		"a segment":        {handle("/wild/{tenant}/", h), "/wild/acme/"},
		"two of them":      {handle("GET /{a}/jobs/{b}/{rest...}", h), "/x%2Fy/jobs/%C3%A4%20/"},
		"percent-encoded":  {handle("/a%20b/%C3%BC/", h), "/a%20b/%C3%BC/"},
		"a slash in it":    {handle("/a%2Fb/", h), "/a%2Fb/"},
		"after a wildcard": {handle("/{x}/a%20b/{rest...}", h), "/y/a%20b/"},
		"one, stripped":    {handle("/wild/{tenant}/", http.StripPrefix("/wild/acme", h)), "/wild/acme/"},
		"StripPrefix":      {handle("/strand/", http.StripPrefix("/strand", h)), "/strand/"},
		"with its slash":   {handle("/strand/", http.StripPrefix("/strand/", h)), "/strand/"},
		"a mux in a mux":   {handle("/admin/", http.StripPrefix("/admin", handle("/strand/", h))), "/admin/strand/"},
		"no mux":           {dashboard.Handler(x, dashboard.Config{Prefix: "/strand"}), "/strand/"},
		"no mux, stripped": {http.StripPrefix("/strand", dashboard.Handler(x, dashboard.Config{Prefix: "/strand"})), "/strand/"},
	} {
		server := httptest.NewServer(root)
		get := func(path string) string {
			response, err := server.Client().Get(server.URL + path)
			require.NoError(t, err)
			defer response.Body.Close()
			text, err := io.ReadAll(response.Body)
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, response.StatusCode, "%s: %s: %s", name, path, text)
			return string(text)
		}
		text := get(root.at)
		require.Contains(t, text, "<h1>Overview</h1>", name)
		for _, link := range regexp.MustCompile(`(?:href|src)="([^"#][^"]*)"`).FindAllStringSubmatch(text, -1) {
			if link[1] != "./" {
				get(root.at + regexp.MustCompile(`&amp;`).ReplaceAllString(link[1], "&"))
			}
		}
		server.Close()
	}
	// Without the slash, relative links would lead elsewhere.
	server := httptest.NewServer(dashboard.Handler(x, dashboard.Config{Prefix: "/strand"}))
	defer server.Close()
	response, err := server.Client().Get(server.URL + "/strand")
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, "/strand/", response.Request.URL.Path)
}

// All pages and what they load are less than 200 KB on the wire.
func TestTransferred(t *testing.T) {
	s := mount(t, waiting(t), dashboard.Config{})
	sum := 0
	seen := map[string]bool{}
	for _, path := range every {
		a := s.do(http.MethodGet, path, nil, "Accept-Encoding", "gzip")
		sum += len(a.text)
		for _, link := range regexp.MustCompile(`(?:href|src)="(assets/[^"]*)"`).FindAllStringSubmatch(s.get(path), -1) {
			if seen[link[1]] {
				continue
			}
			seen[link[1]] = true
			a := s.do(http.MethodGet, link[1], nil, "Accept-Encoding", "gzip")
			require.Equal(t, "public, max-age=31536000, immutable", a.Header.Get("Cache-Control"))
			sum += len(a.text)
		}
	}
	require.GreaterOrEqual(t, len(seen), 6)
	require.Less(t, sum, 200_000)
	t.Logf("%d bytes", sum)
}

// Behind a router that leaves no pattern, what is not found says what to do.
func TestWithoutAPrefix(t *testing.T) {
	board := dashboard.Handler(waiting(t), dashboard.Config{Logger: slog.New(slog.DiscardHandler)})
	for path, hint := range map[string]bool{"/admin/strand/": true, "/admin/strand/queue": true, "/admin/strand/api/v1/stats": true, "/": false} {
		w := httptest.NewRecorder()
		board.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		require.Equal(t, hint, w.Code == http.StatusNotFound, path)
		require.Equal(t, hint, strings.Contains(w.Body.String(), "Config.Prefix"), path)
	}
	s := mount(t, waiting(t), dashboard.Config{})
	require.NotContains(t, s.refused(http.StatusNotFound, http.MethodGet, "nowhere", nil), "Config.Prefix")
}

// slow leaves a test that takes seconds to .ci/run, which sets CI, and to those who name tests.
func slow(t *testing.T) {
	t.Helper()
	if flag.Lookup("test.run").Value.String() == "" && os.Getenv("CI") == "" && os.Getenv("STRAND_LONG") == "" {
		t.Skip("takes seconds: CI=1 makes it")
	}
}
