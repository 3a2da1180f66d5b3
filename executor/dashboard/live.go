package dashboard

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/brief"
	"github.com/strandjobs/strand/executor/internal/serving"
)

// What a page that stays open is told.
const (
	beat        = time.Second // between two samples, and two requests of a page
	gap         = 5 * beat    // behind which there are no rates, and live.js draws no line
	remembered  = 300         // samples that a page begins with
	cellsAtMost = 500         // queues whose figures move
)

// shared is what is looked up once for all who ask within a while.
type shared[T any] struct {
	turn *serving.Room // of one, who may look anew; guards what follows
	at   time.Time     // when that was; zero: never
	was  T
}

func newShared[T any]() *shared[T] { return &shared[T]{turn: serving.NewRoom(1)} }

// get returns what there was at a moment, or what look finds if that is longer ago.
func (s *shared[T]) get(ctx context.Context, ago time.Duration, look func() (T, error)) (v T, at time.Time, err error) {
	turn, err := s.turn.Enter(ctx, 1)
	if err != nil {
		return v, at, err
	}
	defer turn.Leave()
	if time.Since(s.at) >= ago {
		if v, err = look(); err != nil {
			return v, at, err
		}
		s.was, s.at = v, time.Now()
	}
	return s.was, s.at, nil
}

// sample are the figures of a moment.
type sample struct {
	At    int64   // Unix ms
	Lag   float64 // seconds
	Rates *rates
}

// rates are those since the sample before. The first one has none, nor has one behind a
// gap: what happened while nobody watched did not happen in a moment.
type rates struct {
	Processed, Failed float64
	Commit            float64 // milliseconds, the mean
}

// reading are the figures of a moment, and those before them.
type reading struct {
	stats, before inspect.Stats
	at, since     time.Time
	past          []sample // the oldest first; the last one is of all queues now
}

// read takes the figures behind those of another reading.
func (b *board) read(ctx context.Context, last reading) (m reading, err error) {
	m = reading{before: last.stats, since: last.at}
	if m.stats, err = b.x.Stats(ctx); err != nil {
		return m, err
	}
	m.at = time.Now()
	m.past = append(last.past[max(len(last.past)+1-remembered, 0):], m.sample()) // behind what others have
	return m, nil
}

// live tells a page the figures that move, and the samples behind the one that it has had last. They
// are taken once for all pages, and only while there is one.
func (b *board) live(r *http.Request, p *params) (any, error) {
	after, err := strconv.ParseInt(cmp.Or(p.Get("after"), "0"), 10, 64)
	if err != nil {
		return nil, wrong("after is %q; it must be the at of a sample", clip(p.Get("after"), 40))
	}
	m, _, err := b.figures.get(r.Context(), beat, func() (reading, error) { return b.read(r.Context(), b.figures.was) })
	if err != nil {
		return nil, err
	}
	some, err := seen(b.gate, r, m.stats.Queues, statsName)
	if err == nil && len(some) < len(m.stats.Queues) { // figures and rates are those of these
		m.stats.Queues = some
		m.before.Queues, err = seen(b.gate, r, m.before.Queues, statsName)
		m.past = []sample{m.sample()}
	}
	if err != nil {
		return nil, err
	}
	moving := totalCells(m.stats)
	for _, q := range some[:min(len(some), cellsAtMost)] {
		moving.add(place(q.Name), q)
	}
	first, _ := slices.BinarySearchFunc(m.past, after+1, func(s sample, at int64) int { return cmp.Compare(s.At, at) })
	return struct {
		Past  []sample
		Cells cells
		Shape string
	}{m.past[first:], moving, shapeOf(m.stats)}, nil
}

func (m *reading) sample() sample {
	before, journal, stats := m.before.Total(), m.before.Journal, m.stats
	t := stats.Total()
	s := sample{At: m.at.UnixMilli(), Lag: t.Lag.Seconds()}
	passed := m.at.Sub(m.since)
	if m.since.IsZero() || passed <= 0 || passed > gap {
		return s
	}
	s.Rates = &rates{Processed: float64(t.Processed-min(before.Processed, t.Processed)) / passed.Seconds(),
		Failed: float64(t.Failed-min(before.Failed, t.Failed)) / passed.Seconds()}
	if commits := stats.Journal.Commits - journal.Commits; commits > 0 {
		s.Rates.Commit = (stats.Journal.CommitTime - journal.CommitTime).Seconds() * 1000 / float64(commits)
	}
	// One that the disk hangs at shows before it is over.
	s.Rates.Commit = max(s.Rates.Commit, stats.Journal.CommitAge.Seconds()*1000)
	return s
}

// figure is what pages call a figure, and what that means. Text is how it is shown in its Place,
// where it moves.
type figure struct {
	Name, Meaning string
	Tab           string // of the queue's page that lists what is counted
	Tone          string // "bad" and "warn" are for what should be none
	Place, Text   string
}

// words are all figures.
var words = []figure{
	{Name: "Lag", Meaning: "How long the oldest job that could run has been due"},
	{Name: "Age", Meaning: "How long ago the oldest payload was accepted that is not over, whatever it waits for"},
	{Name: "Busy", Meaning: "Workers that have something in hand, of all"},
	{Name: "Enqueued", Meaning: "Ids with something to do: they wait, run, or come again", Tab: "waiting"},
	{Name: "Payloads", Meaning: "What these ids have to do: payloads that wait, run, or failed and wait"},
	{Name: "Running", Meaning: "Jobs in the hands of workers", Tab: "running"},
	{Name: "Fresh", Meaning: "Enqueued jobs that have not failed", Tab: "fresh"},
	{Name: "Retries", Meaning: "Jobs that failed, and wait for their next attempt", Tab: "retrying"},
	{Name: "Parked", Tab: "parked",
		Meaning: "Jobs that wait for a lock, a slot, a limit or their turn; the list has paused ids, too"},
	{Name: "Halted", Meaning: "Jobs whose retries are used up: they go on when a person runs them", Tab: "halted", Tone: "warn"},
	{Name: "Dead", Meaning: "Payloads that were given up: the morgue has them", Tab: morgue, Tone: "bad"},
	{Name: "Processed", Meaning: "Payloads that are done or discarded, since this process began"},
	{Name: "Failed", Meaning: "Runs that failed, since this process began"},
}

// figuresOf are some figures of all queues, or of one; of neither they are words alone.
func figuresOf(of any, names ...string) (row []figure) {
	c, at := make(cells), ""
	switch s := of.(type) {
	case inspect.Stats:
		c = totalCells(s)
	case inspect.QueueStats:
		at = place(s.Name)
		c.add(at, s)
	}
	for _, name := range names {
		f := words[slices.IndexFunc(words, func(f figure) bool { return f.Name == name })]
		f.Place = at + strings.ToLower(name)
		f.Text = c[f.Place]
		row = append(row, f)
	}
	return row
}

// Zero reports whether there is none.
func (f figure) Zero() bool { return f.Text == "0" || f.Text == "–" }

// cells are what moves on a page, by the name of its place, as it is shown there.
type cells map[string]string

// add adds the figures of a queue, or of all together.
func (c cells) add(at string, q inspect.QueueStats) cells {
	c[at+"lag"], c[at+"age"], c[at+"processed"], c[at+"failed"] = lag(q.Lag), lag(q.Age), number(q.Processed), number(q.Failed)
	c[at+"enqueued"], c[at+"payloads"] = number(q.Jobs), number(q.Payloads)
	for _, t := range tabs {
		c[at+t.Figure] = number(t.Count(q))
	}
	return c
}

// totalCells are those of all queues together.
func totalCells(s inspect.Stats) cells {
	return cells{"busy": fmt.Sprintf("%d / %d", s.Busy, s.Workers)}.add("", s.Total())
}

// place begins the names of a queue's cells.
func place(queue string) string {
	sum := fnv.New64a()
	sum.Write([]byte(queue))
	return hex.EncodeToString(sum.Sum(nil)) + "."
}

// lag is how late the oldest job is: where none is, a dash reads quicker than a zero.
func lag(d time.Duration) string {
	if d <= 0 {
		return "–"
	}
	return brief.Span(d)
}

func statsName(q inspect.QueueStats) string { return q.Name }

// shapeOf changes when the rows of the table do, or what is paused.
func shapeOf(s inspect.Stats) string {
	sum := fnv.New64a()
	for _, q := range s.Queues {
		sum.Write([]byte(strconv.Quote(q.Name) + strconv.FormatBool(q.Paused) + strconv.FormatBool(q.Registered)))
	}
	return hex.EncodeToString(sum.Sum(nil))
}
