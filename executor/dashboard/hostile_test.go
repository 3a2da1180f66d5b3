package dashboard_test

import (
	"context"
	"encoding/xml"
	"errors"
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/dashboard"
)

var hostile = []string{
	"<script>alert(1)</script>", `"><img src=x onerror=alert(1)>`, `' autofocus onfocus='alert(1)`,
	"</title></textarea></style></pre><svg/onload=alert(1)>", "javascript:alert(1)",
	"{{.}}${7*7}<!--", "]]><x>", "a/../../b//c/./", "..", "?x=1&y=2#z", "%00%2f%ff", "\u202egnp.exe\u2066",
	"שלום/عليكم", "\xff\xfe\x00\x1b[31m", "\r\nSet-Cookie: x=1", "+ +",
	strings.Repeat("é", 256), strings.Repeat("\x80", 512), "\u2028\ufeff\u00a0",
}

// shape is what a page is made of: its elements, each with its attributes.
func shape(t testing.TB, text string) (all []string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(text))
	d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return slices.Compact(slices.Sorted(slices.Values(all)))
		}
		require.NoError(t, err)
		start, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		for _, a := range start.Attr {
			all = append(all, start.Name.Local+" "+a.Name.Local)
			if a.Name.Local == "href" || a.Name.Local == "src" || a.Name.Local == "action" || a.Name.Local == "formaction" {
				u, err := url.Parse(a.Value)
				require.NoError(t, err, a.Value)
				require.True(t, u.Scheme == "" && u.Host == "" && !strings.HasPrefix(u.Path, "/"), a.Value)
			}
		}
		all = append(all, start.Name.Local)
	}
}

// village is an executor in which a text is an id, a payload, an error, a key, a value
// of metadata and a part of the name of a queue; its pages follow.
func village(t *testing.T, text string) (x *executor.Executor, pages []string) {
	id := text
	if len(id) > executor.MaxIDBytes || id == "" {
		id = "x" + text[:min(len(text), executor.MaxIDBytes-1)]
	}
	name := "q" + id[:min(len(id), 100)]
	if !utf8.ValidString(name) {
		name = "q"
	}
	x = open(t, executor.Config{Workers: 2})
	q, err := executor.Handle(x, name, func(ctx context.Context, job executor.Job[string]) error {
		executor.Progress(ctx, 1, 2, text)
		if job.Payload == "stays" {
			<-ctx.Done()
		}
		return executor.Cancel(errors.New(text))
	}, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{
		Locks: executor.Locks[string]{OnEnqueue: func(string,
			string) []string {
			return []string{id}
		}},
	}})
	if err != nil {
		t.Skip("no name of a queue: ", err)
	}
	blocked, err := executor.Handle(x, "blocked", func(context.Context, executor.Job[string]) error { return nil },
		executor.QueueConfig[string]{Conditions: executor.Conditions[string]{
			Locks: executor.Locks[string]{BlockedBy: func(string,
				string) []string {
				return []string{id}
			}},
		}})
	require.NoError(t, err)
	require.NoError(t, x.Start(t.Context()))
	for _, each := range []struct {
		q           *executor.Queue[string]
		id, payload string
		delay       time.Duration
	}{{q, id, text, 0}, {q, id + "", "stays", time.Second}, {blocked, id, text, time.Second}} {
		_, err := each.q.Enqueue(t.Context(), each.id, each.payload, executor.In(each.delay),
			executor.Metadata(map[string]string{"trace": strings.ToValidUTF8(text[:min(len(text), 500)], "")}))
		require.NoError(t, err)
		time.Sleep(2 * time.Second)
		synctest.Wait()
	}
	at := func(path string, pairs ...string) string { return address(path, pairs...) }
	return x, []string{
		"", at("queue", "name", name), at("queue", "name", name, "tab", "running"), at("queue", "name", name, "tab",
			"morgue"), at("queue", "name", "blocked", "tab", "parked"),
		at("queue", "name", name, "prefix", id, "error", text[:min(len(text), 1000)]), at("hot", "name", name), at("job",
			"queue", name, "id", id),
		at("job", "queue", "blocked", "id", id), at("find", "id", id), "running", "locks",
	}
}

func visit(t *testing.T, text string) (all []string) {
	synctest.Test(t, func(t *testing.T) {
		x, pages := village(t, text)
		s := mount(t, x, dashboard.Config{Authorize: dashboard.Insecure, ShowPayload: dashboard.PlainPayload})
		for _, path := range pages {
			page := s.get(path)
			require.True(t, utf8.ValidString(page), path)
			require.NotRegexp(t, `[\x{202a}-\x{202e}\x{2066}-\x{2069}\x00-\x08\x1b]`, page, path)
			all = append(all, shape(t, page)...)
		}
		for _, path := range []string{"queue?name=" + url.QueryEscape(text), "job?queue=q&id=" + url.QueryEscape(text),
			"queue?name=blocked&sort=" + url.QueryEscape(text)} {
			a := s.do(http.MethodGet, path, nil)
			require.Less(t, a.StatusCode, 500, path)
			all = append(all, shape(t, a.text)...)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_ = x.Stop(ctx) // ends the handler that stays
	})
	return slices.Compact(slices.Sorted(slices.Values(all)))
}

// TestH3_HostileTextsAreText: whatever an id, a payload, an error, a key or the name
// of a queue says, the pages have the elements and attributes that they have for a
// harmless one.
func TestH3_HostileTextsAreText(t *testing.T) {
	t.Parallel()
	harmless := visit(t, "harmless")
	for _, text := range append(hostile, strings.Repeat("<b>", 75_000)) {
		require.Subset(t, harmless, visit(t, text), "%.100q", text)
	}
}

// An id of any bytes is found, acted upon by what its page offers, and by a row.
func TestH3_AnyIDCanBeActedUpon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := open(t, executor.Config{})
		q := queue(t, x, "a queue/with ÄÖÜ & more?", nil, executor.QueueConfig[string]{})
		s := writable(t, x)
		for _, id := range hostile {
			enqueue(t, q, id, "", executor.In(time.Hour))
			text := s.get("job", "queue", "a queue/with ÄÖÜ & more?", "id", id)
			do := regexp.MustCompile(`action="do\?([^"]*)"`).FindStringSubmatch(text)[1]
			values, err := url.ParseQuery(html.UnescapeString(do))
			require.NoError(t, err)
			require.Equal(t, id, values.Get("id"))
			require.Contains(t, s.post(url.Values{"verb": {"pause"}}, pairsOf(values)...), "1 id is paused.", "%q", id)
			list := s.get("queue", "name", "a queue/with ÄÖÜ & more?")
			pick := regexp.MustCompile(`name="sel" value="([^"]*)"`).FindStringSubmatch(list)
			require.Len(t, pick, 2)
			form := url.Values{"sel": {html.UnescapeString(pick[1])}, "confirm": {"yes"}}
			require.Contains(t, s.post(form, "verb", "delete", "scope", "selected", "queue", "a queue/with ÄÖÜ & more?",
				"tab", "waiting"), "1 payload deleted.", "%q", id)
		}
		require.NoError(t, x.Stop(t.Context()))
	})
}

// A link needs a text, and a heading too.
func TestABlankIDCanBeSeen(t *testing.T) {
	x := open(t, executor.Config{})
	q := queue(t, x, "q", nil, executor.QueueConfig[string]{})
	site := writable(t, x)
	for id, want := range map[string]string{" ": `&#34; &#34;`, "\n\r\tnl": `&#34;\n\r\tnl&#34;`, "\t\n": `&#34;\t\n&#34;`} {
		enqueue(t, q, id, "", executor.In(time.Hour))
		require.Contains(t, site.get("queue", "name", "q"), "<bdi>"+want+"</bdi></a>", "%q", id)
		require.NotContains(t, site.get("job", "queue", "q", "id", id), `<h1><bdi class="id"> </bdi>`, "%q", id)
	}
}

func pairsOf(v url.Values) (all []string) {
	for name, values := range v {
		all = append(all, name, values[0])
	}
	return all
}
