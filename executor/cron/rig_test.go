package cron_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/cron"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/lock"
)

// bubble runs a test in which time stands still while any goroutine does something.
// It begins at midnight UTC on 2000-01-01.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// record is what ran, of all executors of a test.
type record struct {
	mu   sync.Mutex
	runs []string // payloads
	ids  []string
}

func (r *record) handle(_ context.Context, job executor.Merged[string]) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range job.Payloads {
		r.runs = append(r.runs, p.Value)
		r.ids = append(r.ids, job.ID)
	}
	return nil
}

// take returns what ran since the last call.
func (r *record) take() (runs []string) {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	runs, r.runs, r.ids = r.runs, nil, nil
	return runs
}

// side is an executor with its Cron.
type side struct {
	x *executor.Executor
	q *executor.Queue[string]
	c *cron.Cron
	r *record
}

// rig is how a side is made.
type rig struct {
	r       *record
	dir     string          // empty: in memory
	disk    *journal.Memory // instead of dir
	idle    bool            // run no jobs yet
	cfg     executor.Config
	queue   executor.QueueConfig[string]
	handler func(context.Context, executor.Merged[string]) error // default: the record's
	cron    cron.Config
	now     func() time.Time
}

func (r rig) open(t testing.TB) side {
	t.Helper()
	if r.r == nil {
		r.r = new(record)
	}
	if r.handler == nil {
		r.handler = r.r.handle
	}
	open := func() (*executor.Executor, error) { return executor.Open(r.dir, r.cfg) }
	if r.disk != nil {
		open = func() (*executor.Executor, error) {
			return executor.OpenLog("a disk in memory", func(c journal.Config) (*journal.Log, error) { return journal.OpenMemory(r.disk, c) }, r.cfg)
		}
	}
	x, err := open()
	require.NoError(t, err)
	q, err := executor.HandleMerged(x, "jobs", r.handler, r.queue)
	require.NoError(t, err)
	s := side{x: x, q: q, r: r.r}
	s.c = r.join(t, x)
	t.Cleanup(func() { // a second time it does nothing
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = s.c.Stop(ctx)
		_ = x.Stop(ctx)
	})
	if !r.idle {
		require.NoError(t, x.Start(t.Context()))
	}
	return s
}

// join makes a Cron for an executor.
func (r rig) join(t testing.TB, x *executor.Executor) *cron.Cron {
	t.Helper()
	c, err := cron.New(x, r.cron)
	require.NoError(t, err)
	if r.now != nil {
		c.SetClock(r.now)
	}
	return c
}

// add adds a schedule whose payloads say what ticked, and when.
func (s side) add(t testing.TB, name, spec string, change ...func(*cron.Schedule[string])) {
	t.Helper()
	require.NoError(t, cron.Add(t.Context(), s.c, s.schedule(name, spec, change...)))
}

func (s side) schedule(name, spec string, change ...func(*cron.Schedule[string])) cron.Schedule[string] {
	made := cron.Schedule[string]{Name: name, Spec: spec, Queue: s.q, Payload: func(tick time.Time) string { return label(name, tick) }}
	for _, c := range change {
		c(&made)
	}
	return made
}

func label(name string, tick time.Time) string {
	return name + "@" + tick.UTC().Format("01-02T15:04:05")
}

func missed(m cron.Missed) func(*cron.Schedule[string]) {
	return func(s *cron.Schedule[string]) { s.Missed = m }
}

func overlap(o cron.Overlap) func(*cron.Schedule[string]) {
	return func(s *cron.Schedule[string]) { s.Overlap = o }
}

func (s side) start(t testing.TB) {
	t.Helper()
	require.NoError(t, s.c.Start())
}

// stop ends both, and expects that cleanly.
func (s side) stop(t testing.TB) {
	t.Helper()
	require.NoError(t, s.c.Stop(context.Background()))
	require.NoError(t, s.x.Stop(context.Background()))
}

// entry is one line of the list.
func (s side) entry(t testing.TB, name string) cron.Entry {
	t.Helper()
	synctest.Wait()
	list := s.c.List()
	i := slices.IndexFunc(list, func(e cron.Entry) bool { return e.Name == name })
	require.GreaterOrEqual(t, i, 0, "%q is not in the list", name)
	return list[i]
}

// pair is two sides, each with its own executor, in one group.
func pair(t testing.TB, cfg lock.ElectionConfig) (table *lock.Table, a, b side) {
	t.Helper()
	table = new(lock.Table)
	election, err := table.NewElection("cron", cfg)
	require.NoError(t, err)
	g, err := cron.NewGroup(election)
	require.NoError(t, err)
	r := new(record)
	a = rig{r: r, cron: cron.Config{Group: g, Member: "a"}}.open(t)
	b = rig{r: r, cron: cron.Config{Group: g, Member: "b"}}.open(t)
	return table, a, b
}

// ticks are the labels of a schedule every minute from one moment to another.
func ticks(name string, from, until time.Time) (labels []string) {
	for at := from.Truncate(time.Minute).Add(time.Minute); !at.After(until); at = at.Add(time.Minute) {
		labels = append(labels, label(name, at))
	}
	return labels
}

// clock may be set.
type clock struct {
	mu   sync.Mutex
	skew time.Duration
	asks int
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asks++
	return time.Now().Round(0).Add(c.skew)
}

func (c *clock) set(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.skew += by
}

func (c *clock) asked() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asks
}
