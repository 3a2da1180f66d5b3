package dashboard

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/cron"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/brief"
	"github.com/strandjobs/strand/executor/internal/serving"
)

// board is what there is to see of an executor, to pages and to programs.
type board struct {
	*gate
	x       *executor.Executor
	stacks  *serving.Room    // of one request, while stacks are taken
	hots    sync.Map         // *shared[inspect.JobPage] by the name of its queue
	figures *shared[reading] // that move
}

// stats are the figures, with those queues that a request may look at.
func (b *board) stats(r *http.Request) (inspect.Stats, error) {
	s, err := b.x.Stats(r.Context())
	if err == nil {
		s.Queues, err = seen(b.gate, r, s.Queues, statsName)
	}
	return s, err
}

func (b *board) trouble() string {
	if err := b.x.Err(); err != nil {
		return err.Error()
	}
	return ""
}

// info returns the figures of a queue.
func (b *board) info(ctx context.Context, name string) (inspect.QueueStats, error) {
	all, err := b.x.Stats(ctx)
	if err != nil {
		return inspect.QueueStats{}, err
	}
	i := slices.IndexFunc(all.Queues, func(q inspect.QueueStats) bool { return q.Name == name && q.Registered })
	if i < 0 {
		return inspect.QueueStats{}, problem{http.StatusNotFound, "there is no queue \"" + clip(name, 80) + "\" in this process"}
	}
	return all.Queues[i], nil
}

// fill makes the list of a page that was begun at a time.
func (b *board) fill(ctx context.Context, p *queuePage, began time.Time) (err error) {
	look := b.x.Inspect().Jobs
	if p.Tab == morgue {
		look = b.x.Inspect().Dead
	}
	p.JobPage, err = look(ctx, p.query(began))
	return err
}

// inHand lists what workers have in hand, of the queues that a request may look at: More
// counts those of others, too, beyond the longest list. All goroutines of the process stand still
// while stacks are taken, so that is done for one request at a time.
func (b *board) inHand(r *http.Request, query inspect.RunningQuery) (inspect.RunningList, error) {
	ctx := r.Context()
	if query.Stacks {
		share, err := b.stacks.Enter(ctx, 1)
		if err != nil {
			return inspect.RunningList{}, err
		}
		defer share.Leave()
	}
	most := query.Limit
	query.Limit = brief.MaxRows // some may not be seen
	list, err := b.x.Inspect().Running(ctx, query)
	if err == nil {
		list.Running, err = seen(b.gate, r, list.Running, func(r inspect.Running) string { return r.Queue })
	}
	if more := max(len(list.Running)-most, 0); more > 0 {
		list.Running, list.More = list.Running[:most], list.More+more
	}
	return list, err
}

// lookFor asks the queues that a request may look at for an id, and says which these are.
func (b *board) lookFor(r *http.Request, queue, id string) (all []inspect.Explanation, queues []string, late bool, err error) {
	ctx := r.Context()
	stats, err := b.x.Stats(ctx)
	if err != nil {
		return nil, nil, false, err
	}
	some := slices.DeleteFunc(stats.Queues, func(s inspect.QueueStats) bool {
		return !s.Registered || queue != "" && queue != s.Name
	})
	if some, err = seen(b.gate, r, some, statsName); err != nil {
		return nil, nil, false, err
	}
	for _, s := range some {
		queues = append(queues, s.Name)
		if id == "" || len(id) > executor.MaxIDBytes {
			continue
		}
		e, err := b.x.Inspect().Explain(ctx, s.Name, id)
		if errors.Is(err, context.DeadlineExceeded) {
			return all, queues, true, nil
		}
		if err != nil {
			return nil, nil, false, err
		}
		if e.State != inspect.JobUnknown {
			all = append(all, e)
		}
	}
	return all, queues, false, nil
}

// scheduled is what ticks, and who leads.
type scheduled struct {
	Crons   []wireCron
	Leaders []wireLeader
}

type wireCron struct {
	Cron      int // in Config.Crons
	Leads     bool
	Schedules []cron.Entry
}

type wireLeader struct {
	Election     string
	Leader       string // "": there is none
	Epoch        uint64
	Since, Until time.Time
}

// Left is how long a reign goes on if it is not extended.
func (l wireLeader) Left(now time.Time) time.Duration { return max(l.Until.Sub(now), 0) }

func (b *board) scheduled() (s scheduled) {
	for i, c := range b.cfg.Crons {
		s.Crons = append(s.Crons, wireCron{i, c.Leads(), c.List()})
	}
	for _, e := range b.cfg.Elections {
		l, _ := e.Leader()
		s.Leaders = append(s.Leaders, wireLeader{e.Name, l.Owner, l.Token, l.Since, l.Until})
	}
	return s
}

// wireJournal is how the journal is doing.
type wireJournal struct {
	Trouble  string
	InMemory bool
	inspect.JournalStats
	Backlog inspect.Backlog
}

// Share is how much of the log is alive, in percent.
func (j wireJournal) Share() int {
	if j.Bytes == 0 {
		return 100
	}
	return 100 * j.LiveBytes / j.Bytes
}

// PerCommit is how long the disk took for one, on average.
func (j wireJournal) PerCommit() time.Duration {
	return j.CommitTime / time.Duration(max(j.Commits, 1))
}

func (b *board) journaled(r *http.Request) (wireJournal, error) {
	s, err := b.x.Stats(r.Context())
	return wireJournal{b.trouble(), s.Journal.UUID == "", s.Journal, s.Backlog}, err
}

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
