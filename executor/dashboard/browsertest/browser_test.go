// Package browsertest drives the dashboard in a real browser, as a person does: it
// reads what is on the screen and clicks on what is there. It is a module of its own,
// because of the library that speaks with the browser.
//
//	go test .
//
// It needs chromium, and is skipped, with a message, where there is none.
package browsertest

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/dashboard"
)

// patience is for the browser, on a machine that is busy with other tests.
const patience = time.Minute

var (
	browser  context.Context
	chromium = sync.OnceValue(func() string {
		for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
			if path, err := exec.LookPath(name); err == nil {
				return path
			}
		}
		return ""
	})
)

func TestMain(m *testing.M) {
	if chromium() == "" {
		os.Exit(m.Run())
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium()), chromedp.NoSandbox)
	all, end := chromedp.NewExecAllocator(context.Background(), options...)
	var close context.CancelFunc
	browser, close = chromedp.NewContext(all)
	if err := chromedp.Run(browser); err != nil {
		fmt.Fprintln(os.Stderr, "no browser:", err)
		os.Exit(1)
	}
	status := m.Run()
	close()
	end()
	os.Exit(status)
}

// tab is a tab of the browser that shows a dashboard.
type tab struct {
	t    *testing.T
	ctx  context.Context
	base string

	mu       sync.Mutex
	troubles []string // what the browser complains about, and dialogs
}

// show opens a tab on the dashboard of an executor, behind middlewares.
func show(t *testing.T, x *executor.Executor, cfg dashboard.Config, behind ...func(http.Handler) http.Handler) *tab {
	t.Helper()
	if chromium() == "" {
		t.Skip("there is no chromium to show the dashboard in")
	}
	cfg.Logger = slog.New(slog.DiscardHandler)
	h := dashboard.Handler(x, cfg)
	for _, each := range behind {
		h = each(h)
	}
	mux := http.NewServeMux()
	mux.Handle("/strand/", h)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	ctx, end := chromedp.NewContext(browser)
	t.Cleanup(end)
	ctx, cancel := context.WithTimeout(ctx, patience)
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx, base: server.URL + "/strand/"}
	chromedp.ListenTarget(ctx, func(event any) {
		switch e := event.(type) {
		case *log.EventEntryAdded:
			b.trouble(e.Entry.Text)
		case *runtime.EventExceptionThrown:
			b.trouble(e.ExceptionDetails.Error())
		case *page.EventJavascriptDialogOpening:
			b.trouble("dialog: " + e.Message)
			go func() { _ = chromedp.Run(ctx, page.HandleJavaScriptDialog(true)) }()
		}
	})
	b.run(log.Enable(), runtime.Enable())
	return b
}

func (b *tab) trouble(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.troubles = append(b.troubles, text)
}

// calm holds that the browser has had nothing to complain about.
func (b *tab) calm() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	require.Empty(b.t, b.troubles)
}

func (b *tab) run(actions ...chromedp.Action) {
	b.t.Helper()
	require.NoError(b.t, chromedp.Run(b.ctx, actions...))
}

func (b *tab) open(path string) {
	b.t.Helper()
	b.run(chromedp.Navigate(b.base + path))
}

// text is what is to be read in a part of the page.
func (b *tab) text(selector string) (text string) {
	b.t.Helper()
	b.run(chromedp.Text(selector, &text, chromedp.ByQuery))
	return text
}

// until waits until there is something to be read. What the page says is asked again
// and again, because it may be another page the next time.
func (b *tab) until(selector, text string) {
	b.t.Helper()
	expression := fmt.Sprintf("(document.querySelector(%q)?.innerText ?? '').includes(%q)", selector, text)
	for there := false; !there; time.Sleep(20 * time.Millisecond) {
		err := chromedp.Run(b.ctx, chromedp.Evaluate(expression, &there))
		if b.ctx.Err() != nil {
			b.mu.Lock()
			defer b.mu.Unlock()
			require.NoError(b.t, err, "%s has not become %q; the browser says %q", selector, text, b.troubles)
		}
	}
}

// press presses a button of that text, and waits for the page that comes.
func (b *tab) press(text string) {
	b.t.Helper()
	response, err := chromedp.RunResponse(b.ctx, chromedp.Click(fmt.Sprintf(`//button[normalize-space()=%q]`, text),
		chromedp.BySearch))
	require.NoError(b.t, err, text)
	require.Less(b.t, response.Status, int64(400), text)
}

func (b *tab) count(selector string) (n int) {
	b.t.Helper()
	b.run(chromedp.Evaluate(fmt.Sprintf("document.querySelectorAll(%q).length", selector), &n))
	return n
}

// open returns an executor in memory with a queue of that name.
func open(t *testing.T, name string, do func(context.Context, executor.Job[string]) error) (*executor.Executor,
	*executor.Queue[string]) {
	t.Helper()
	x, err := executor.Open("", executor.Config{Workers: 4, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	q, err := executor.Handle(x, name, do, executor.QueueConfig[string]{RetryIn: func(int) time.Duration { return time.Hour }})
	require.NoError(t, err)
	t.Cleanup(func() { _ = x.Stop(context.Background()) })
	return x, q
}

func enqueue(t *testing.T, q *executor.Queue[string], id, payload string, options ...executor.Option) {
	t.Helper()
	_, err := q.Enqueue(t.Context(), id, payload, options...)
	require.NoError(t, err)
}

// digits are those of a number, as people read it.
func digits(text string) string {
	return strings.Map(func(r rune) rune {
		if r < '0' || r > '9' {
			return -1
		}
		return r
	}, text)
}

// awaited waits for a promise.
func awaited(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }
