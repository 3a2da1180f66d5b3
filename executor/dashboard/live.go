package dashboard

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
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
	some, err := seen(b, r, m.stats.Queues, statsName)
	if err == nil && len(some) < len(m.stats.Queues) { // figures and rates are those of these
		m.stats.Queues = some
		m.before.Queues, err = seen(b, r, m.before.Queues, statsName)
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
