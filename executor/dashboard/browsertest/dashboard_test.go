package browsertest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/dashboard"
)

func nothing(context.Context, executor.Job[string]) error { return nil }

func TestFiguresMoveWithoutReload(t *testing.T) {
	x, q := open(t, "orders", nothing)
	b := show(t, x, dashboard.Config{})
	b.open("")
	b.run(chromedp.Evaluate("window.stays = 1", nil))
	b.until("[data-live=enqueued]", "0")
	for i := range 7 {
		enqueue(t, q, fmt.Sprint("order-", i), "")
	}
	b.until("[data-live=enqueued]", "7")
	b.until("#queues tbody tr", "7")
	require.NoError(t, x.Start(t.Context()))
	b.until("[data-live=processed]", "7")
	var stays int
	b.run(chromedp.Evaluate("window.stays", &stays))
	require.Equal(t, 1, stays)
	require.Equal(t, 3, b.count(".chart canvas"))
	// A queue that comes is there by itself, too.
	_, err := executor.Handle(x, "late", nothing, executor.QueueConfig[string]{})
	require.NoError(t, err)
	b.until("#queues", "late")
	b.calm()
}

// Behind a middleware that holds back what is written until all is, figures move, too,
// and the light stays on from one connection to the next.
func TestFiguresMoveBehindAMiddleware(t *testing.T) {
	x, q := open(t, "orders", nothing)
	b := show(t, x, dashboard.Config{}, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h.ServeHTTP(struct{ http.ResponseWriter }{w}, r)
		})
	})
	b.open("")
	b.until("#pulse", "live")
	b.run(chromedp.Evaluate(`window.off = 0;
		new MutationObserver(() => { if (document.querySelector("#pulse.off")) window.off++; }).observe(
			document.getElementById("pulse"), { attributes: true })`, nil))
	for i := range 3 {
		enqueue(t, q, fmt.Sprint("order-", i), "")
		b.until("[data-live=enqueued]", fmt.Sprint(i+1))
	}
	require.Zero(t, b.count("#pulse.off"))
	var off int
	b.run(chromedp.Evaluate("window.off", &off))
	require.Zero(t, off)
	b.calm()
}

// What a page says as seen from now goes on with the clock, as the next page would say it.
func TestTimesGoOn(t *testing.T) {
	x, q := open(t, "orders", nothing)
	enqueue(t, q, "order-1", "", executor.In(time.Hour+2*time.Minute))
	b := show(t, x, dashboard.Config{})
	b.open("queue?name=orders")
	b.until("#list time", "in 1 h 1 min")
	for was := b.text("#list td:last-child time"); b.text("#list td:last-child time") == was; {
		time.Sleep(100 * time.Millisecond)
	}
	require.Regexp(t, `^\d+(\.\d)? (s|min.*) ago$`, b.text("#list td:last-child time"))
	b.calm()
}

// graveyard is an executor with so many in the morgue; when it is revived, all that
// runs is done.
func graveyard(t *testing.T, n int) (x *executor.Executor, q *executor.Queue[string], revive func()) {
	var alive atomic.Bool
	x, q = open(t, "orders", func(context.Context, executor.Job[string]) error {
		if alive.Load() {
			return nil
		}
		return executor.Cancel(errors.New("card declined"))
	})
	items := make([]executor.Item[string], n)
	for i := range items {
		items[i].ID = fmt.Sprintf("order-%05d", i)
	}
	_, err := q.EnqueueMany(t.Context(), items)
	require.NoError(t, err)
	require.NoError(t, x.Start(t.Context()))
	dead(t, q, n)
	return x, q, func() { alive.Store(true) }
}

// dead waits until so many are in the morgue.
func dead(t *testing.T, q *executor.Queue[string], n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		stats, err := q.Stats(t.Context())
		return err == nil && stats.Dead == n && stats.Jobs == 0
	}, patience, 10*time.Millisecond)
}

func TestFindOneAndPutTheMorgueBack(t *testing.T) {
	x, q, revive := graveyard(t, 10_000)
	revive()
	b := show(t, x, dashboard.Config{Authorize: dashboard.Insecure})
	// By its id, with the keyboard alone.
	b.open("")
	var focused bool
	b.run(chromedp.KeyEvent("/"), chromedp.Evaluate(`document.activeElement.matches(".find input")`, &focused))
	require.True(t, focused)
	// The slash itself is typed by the driver, although the page prevents it.
	b.run(chromedp.Evaluate(`document.activeElement.value = ""`, nil), chromedp.KeyEvent("order-04711\r"))
	b.until("h1", "order-04711")
	b.until(".line", "card declined")
	b.press("Requeue dead")
	b.until(".banner.good", "1 payload is back in the queue.")
	dead(t, q, 9_999)
	// A selection.
	b.open("queue?name=orders&tab=morgue&sort=id")
	b.until(".tabs [aria-current] .count", "9\u202f999") // the page may be of a moment before
	for i := range 3 {
		b.run(chromedp.Click(fmt.Sprintf("tbody tr:nth-child(%d) [name=sel]", i+1), chromedp.ByQuery))
	}
	b.press("Requeue selected")
	b.until(".banner.good", "3 payloads are back in the queue.")
	dead(t, q, 9_996)
	// A page of it, by the box at the top, and after a question.
	b.run(chromedp.Click("[data-all]", chromedp.ByQuery))
	b.press("Delete selected")
	b.until("h1", "Delete 50 payloads of orders for good?")
	b.press("Delete for good")
	b.until(".banner.good", "50 payloads deleted from the morgue.")
	dead(t, q, 9_946)
	// All.
	b.press("Requeue all")
	b.until("h1", "dead payloads of orders back?")
	b.press("Requeue")
	b.until(".banner.good", "payloads are back in the queue.")
	require.Equal(t, "9946", digits(b.text(".banner.good")))
	dead(t, q, 0)
	b.calm()
}

func TestPauseAndResume(t *testing.T) {
	x, q := open(t, "orders", nothing)
	require.NoError(t, x.Start(t.Context()))
	b := show(t, x, dashboard.Config{Authorize: dashboard.Insecure})
	b.open("queue?name=orders")
	b.press("Pause queue")
	b.until(".title", "paused")
	b.until("#hot", "No id has anything to do.") // what came later changes no title
	var title string
	b.run(chromedp.Title(&title))
	require.Equal(t, "orders · Strand", title)
	enqueue(t, q, "a", "")
	b.until(".tabs [aria-current] .count", "1")
	b.press("Resume queue")
	b.until(".banner.good", "1 queue resumed.")
	b.until(".tabs [aria-current] .count", "0")
	b.calm()
}

var hostile = []string{
	"<script>alert(1)</script>", `"><img src=x onerror=alert(1)>`, "' autofocus onfocus='alert(1)",
	"</title></textarea><svg/onload=alert(1)>", "javascript:alert(1)",
	"a/../../b//c", "\u202egnp.exe", "שלום", "\xff\xfe\x00", "?x=1&y=2#z",
}

func TestHostileTextsAreInert(t *testing.T) {
	x, q := open(t, "orders", func(_ context.Context, job executor.Job[string]) error { return errors.New(job.Payload) })
	for _, id := range hostile {
		enqueue(t, q, id, id)
		enqueue(t, q, "later "+id, id, executor.In(time.Hour))
	}
	enqueue(t, q, "large", strings.Repeat("<img src=x onerror=alert(1)>", 12_000), executor.In(time.Hour))
	require.NoError(t, x.Start(t.Context()))
	require.Eventually(t, func() bool {
		stats, err := q.Stats(t.Context())
		return err == nil && stats.Retrying == len(hostile)
	}, patience, 10*time.Millisecond)
	b := show(t, x, dashboard.Config{Authorize: dashboard.Insecure, ShowPayload: dashboard.PlainPayload})
	b.open("queue?name=orders&limit=100")
	require.Equal(t, 2*len(hostile)+1, b.count("tbody th a.id"))
	require.Zero(t, b.count("main script, main img, main svg, main [onerror], main [onfocus]"))
	for _, id := range append([]string{"large"}, hostile...) {
		b.open("job?" + url.Values{"queue": {"orders"}, "id": {id}}.Encode())
		b.until("h2", "Why it does not run")
		require.Equal(t, 1, b.count("main tbody tr"), "%q", id)
		require.Zero(t, b.count("main script, main img, main svg, main [onerror], main [onfocus]"), "%q", id)
	}
	b.calm()
}

func TestForgedPostIsRefused(t *testing.T) {
	x, q := open(t, "orders", nothing)
	b := show(t, x, dashboard.Config{Authorize: dashboard.Insecure})
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `<!doctype html><form method="post" action="%sdo?verb=pause&queue=orders&scope=all"><button id="go">Win</button></form>`, b.base)
	}))
	defer evil.Close()
	b.run(chromedp.Navigate(strings.Replace(evil.URL, "127.0.0.1", "localhost", 1)))
	b.run(chromedp.Click("#go", chromedp.ByQuery))
	b.until("h1", "Forbidden")
	b.until("main", "another site")
	stats, err := q.Stats(t.Context())
	require.NoError(t, err)
	require.False(t, stats.Paused)
}

var pages = []string{
	"", "queue?name=orders", "queue?name=orders&tab=morgue", "queue?name=orders&tab=halted", "hot?name=orders",
	"job?queue=orders&id=order-00001", "running", "running?stacks=1", "locks", "schedules", "journal", "find?id=none",
}

func TestReadOnlyOffersNoAction(t *testing.T) {
	x, q, _ := graveyard(t, 3)
	b := show(t, x, dashboard.Config{})
	for _, path := range pages {
		b.open(path)
		require.Zero(t, b.count("form[method=post], main button[name], [data-hx-post]"), path)
	}
	b.calm()
	var status int
	b.run(chromedp.Evaluate(`fetch("do?verb=requeue&queue=orders&tab=morgue&scope=all&confirm=yes", {method: "POST"}).then(r => r.status)`, &status, awaited))
	require.Equal(t, http.StatusForbidden, status)
	dead(t, q, 3)
}

// No page makes a phone scroll to the side, and none has anything that the browser
// complains about.
func TestPagesOnAPhone(t *testing.T) {
	x, _, _ := graveyard(t, 60)
	b := show(t, x, dashboard.Config{Authorize: dashboard.Insecure, ShowPayload: dashboard.PlainPayload})
	for _, path := range pages {
		for _, width := range []int64{390, 1280} {
			b.run(chromedp.EmulateViewport(width, 844))
			b.open(path)
			var wide string
			b.run(chromedp.Evaluate("String(document.documentElement.scrollWidth)", &wide))
			n, err := strconv.ParseInt(wide, 10, 64)
			require.NoError(t, err)
			require.LessOrEqual(t, n, width, path)
		}
	}
	b.calm()
}
