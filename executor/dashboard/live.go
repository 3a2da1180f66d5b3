package dashboard

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/serving"
)

// What a live connection gets and gives.
const (
	beat         = time.Second // between two figures
	gap          = 5 * beat    // behind which there are no rates, and live.js draws no line
	remembered   = 300         // figures that a page begins with
	fallenBehind = 8           // figures that a client may be behind
	cellsAtMost  = 500         // queues whose figures move
	turn         = 10 * beat   // that a browser may watch for while others want its place
	verdictTime  = 5 * beat    // after which the authorizer is asked again
)

// sample are the figures of a moment.
type sample struct {
	At  int64   `json:"at"`  // Unix ms
	Lag float64 `json:"lag"` // seconds
	*rates
}

// rates are those since the sample before. The first one has none, nor has one behind a
// gap: what happened while nobody watched did not happen in a moment.
type rates struct {
	Processed float64 `json:"processed"`
	Failed    float64 `json:"failed"`
	Commit    float64 `json:"commit"` // milliseconds, the mean
}

// figures is what all who watch are told.
type figures struct {
	sample
	Cells cells  `json:"cells"`
	Shape string `json:"shape"`
}

// live tells browsers the figures, which are taken once for all of them, and only
// while one of them watches.
type live struct {
	*board
	warn sync.Once // of a middleware

	mu       sync.Mutex
	watchers map[chan reading]time.Time // since when; closed for those that are behind, and at the end
	servers  map[*http.Server]bool
	past     []sample // oldest first
	before   inspect.Stats
	at       time.Time // of before
	stop     context.CancelFunc
}

// enter lets a client of a server in, and returns what was before it came, and of which queues.
// When there are as many as there may be, the one that has watched longest has had its turn; see
// Config.MaxStreams. When the server shuts down, which waits for them, the live connections end.
func (l *live) enter(server *http.Server) (told chan reading, past []sample, of []inspect.QueueStats, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.watchers) >= l.cfg.MaxStreams {
		oldest := slices.MinFunc(slices.Collect(maps.Keys(l.watchers)), func(a, b chan reading) int { return l.watchers[a].Compare(l.watchers[b]) })
		if time.Since(l.watchers[oldest]) < turn {
			return nil, nil, nil, problem{http.StatusServiceUnavailable, "too many browsers watch already: Config.MaxStreams"}
		}
		l.drop(oldest)
	}
	told = make(chan reading, fallenBehind)
	if l.watchers[told] = time.Now(); len(l.watchers) == 1 {
		ctx, cancel := context.WithCancel(context.Background())
		l.stop = cancel
		go l.sampleUntil(ctx) // ends with the last watcher, or the executor
	}
	if server != nil && !l.servers[server] {
		l.servers[server] = true
		server.RegisterOnShutdown(l.dropAll)
	}
	return told, slices.Clone(l.past), l.before.Queues, nil
}

// drop ends a watcher that there is. mu is held.
func (l *live) drop(told chan reading) {
	delete(l.watchers, told)
	close(told)
	if len(l.watchers) == 0 {
		l.stop()
	}
}

// leave lets a client go, if that was not done before.
func (l *live) leave(told chan reading) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.watchers[told].IsZero() {
		l.drop(told)
	}
}

// dropAll ends all of them.
func (l *live) dropAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for told := range l.watchers {
		l.drop(told)
	}
}

func (l *live) sampleUntil(ctx context.Context) {
	defer func() { // as a page's, a panic here is none of the program's
		if v := recover(); v != nil {
			l.cfg.Logger.Error("live figures of the dashboard panicked", slog.Any("panic", v))
			l.dropAll()
		}
	}()
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for ctx.Err() == nil {
		if errors.Is(l.take(ctx), executor.ErrClosed) {
			l.dropAll() // with the last one ctx ends
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// take takes the figures, and tells them. A moment at which there are none is left
// out.
func (l *live) take(ctx context.Context) error {
	if err := l.x.Err(); errors.Is(err, executor.ErrClosed) {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, 5*beat)
	defer cancel()
	stats, err := l.x.Stats(limited)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	m := reading{stats: stats, at: time.Now(), before: l.before, since: l.at}
	f := m.figures()
	if m.text, err = json.Marshal(f); err != nil {
		return err
	}
	l.before, l.at = m.stats, m.at
	if l.past = append(l.past, f.sample); len(l.past) > remembered {
		l.past = l.past[1:]
	}
	for told := range l.watchers {
		select {
		case told <- m:
		default:
			l.drop(told)
		}
	}
	return nil
}

// reading is what there is to tell, with the figures of all queues as text.
type reading struct {
	stats, before inspect.Stats
	at, since     time.Time
	text          []byte
}

func (m *reading) figures() figures {
	f := figures{sample: m.sample(), Cells: totalCells(m.stats), Shape: shapeOf(m.stats)}
	for _, q := range m.stats.Queues[:min(len(m.stats.Queues), cellsAtMost)] {
		f.Cells.add(place(q.Name), q)
	}
	return f
}

// textFor returns the text for who may look at some queues: figures and rates are those of
// these.
func (l *live) textFor(r *http.Request, m reading) ([]byte, error) {
	some, err := seen(l.board, r, m.stats.Queues, statsName)
	if err != nil || len(some) == len(m.stats.Queues) {
		return m.text, err
	}
	m.stats.Queues = some
	if m.before.Queues, err = seen(l.board, r, m.before.Queues, statsName); err != nil {
		return nil, err
	}
	return json.Marshal(m.figures())
}

func (m *reading) sample() sample {
	before, journal, stats := m.before.Total(), m.before.Journal, m.stats
	t := stats.Total()
	s := sample{At: m.at.UnixMilli(), Lag: t.Lag.Seconds()}
	passed := m.at.Sub(m.since)
	if m.since.IsZero() || passed <= 0 || passed > gap {
		return s
	}
	s.rates = &rates{Processed: float64(t.Processed-min(before.Processed, t.Processed)) / passed.Seconds(),
		Failed: float64(t.Failed-min(before.Failed, t.Failed)) / passed.Seconds()}
	if commits := stats.Journal.Commits - journal.Commits; commits > 0 {
		s.Commit = (stats.Journal.CommitTime - journal.CommitTime).Seconds() * 1000 / float64(commits)
	}
	// One that the disk hangs at shows before it is over.
	s.Commit = max(s.Commit, stats.Journal.CommitAge.Seconds()*1000)
	return s
}

// watch answers a browser with figures until it goes.
func (l *live) watch(w http.ResponseWriter, r *http.Request) error {
	if err := l.x.Err(); errors.Is(err, executor.ErrClosed) {
		return err
	}
	if w.Header().Set("Content-Type", "text/event-stream"); r.Method == http.MethodHead {
		return nil // it would be told nothing, for ever
	}
	server, _ := r.Context().Value(http.ServerContextKey).(*http.Server)
	told, past, queues, err := l.enter(server)
	if err != nil {
		return err
	}
	defer l.leave(told)
	w.Header().Set("X-Accel-Buffering", "no") // or nginx collects them
	heard(w)
	some, err := seen(l.board, r, queues, statsName)
	if err != nil {
		return err
	}
	if len(some) < len(queues) {
		past = nil // it is of all of them
	}
	history, err := json.Marshal(past)
	if err != nil {
		return err
	}
	if errors.Is(http.NewResponseController(w).Flush(), http.ErrNotSupported) {
		l.warn.Do(func() { l.cfg.Logger.Warn(unflushed) })
		return l.glance(w, r, told, history)
	}
	l.tell(w, r, told, history)
	return nil
}

// tell sends figures until the client goes, or does not read, or may not look any more:
// of that the authorizer is asked every few seconds.
func (l *live) tell(w http.ResponseWriter, r *http.Request, told chan reading, history []byte) {
	out, control := serving.Endless(w), http.NewResponseController(w)
	say := func(event string, text []byte) error {
		_, err := out.Write([]byte("event: " + event + "\ndata: " + string(text) + "\n\n"))
		return cmp.Or(err, control.Flush())
	}
	again := time.NewTicker(verdictTime)
	defer again.Stop()
	for err := say("history", history); err == nil; {
		select {
		case m, ok := <-told:
			if !ok {
				return // it was too slow, its turn is over, or all is
			}
			var text []byte
			if text, err = l.textFor(r, m); err == nil {
				err = say("figures", text)
			}
		case <-again.C:
			r = withVerdicts(r, l.cfg.PageTimeout)
			err = l.may(r, Action{Verb: View})
		case <-r.Context().Done():
			return
		}
	}
}

const unflushed = "live figures of the dashboard move only every few seconds: the http.ResponseWriter of a " +
	"middleware, as that of http.TimeoutHandler, has neither Flush nor Unwrap; give it one of them, or mount the " +
	"dashboard outside of it"

// glance answers a browser with the newest figures alone, and has it come again soon: a
// middleware keeps from it what is written until all is. The id of the event comes back
// with the browser, which knows the history then.
func (l *live) glance(w http.ResponseWriter, r *http.Request, told chan reading, history []byte) error {
	var b bytes.Buffer
	if r.Header.Get("Last-Event-ID") == "" {
		fmt.Fprintf(&b, "event: history\ndata: %s\n\n", history)
	}
	limit := time.NewTimer(gap)
	defer limit.Stop()
	select {
	case m, open := <-told:
		if !open {
			break
		}
		text, err := l.textFor(r, m)
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "event: glance\nretry: %d\nid: 1\ndata: 1\n\nevent: figures\ndata: %s\n\n",
			2*beat.Milliseconds(), text)
	case <-limit.C:
	case <-r.Context().Done():
	}
	_, _ = serving.Patient(w).Write(b.Bytes()) // or the client has gone
	return nil
}
