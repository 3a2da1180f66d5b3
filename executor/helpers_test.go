package executor_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/journal"
)

var errBoom = errors.New("boom")

// sampled is how often a test does what it repeats: n times with STRAND_PUSH=1, a third of that
// under the race detector, where it takes several times as long, and a ninth in a go test of every day.
func sampled(n int) int {
	switch {
	case long():
		return n
	case !pushed():
		return (n + 8) / 9
	case raceEnabled:
		return (n + 2) / 3
	}
	return n
}

// bubbles runs f in a bubble for so many seeds, sampled, and in the long tier for
// 5000. Each test has a stream of its own.
func bubbles(t *testing.T, seeds int, stream uint64, f func(*testing.T, *rand.Rand)) {
	if seeds = sampled(seeds); long() {
		seeds = 5000
	}
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			bubble(t, func(t *testing.T) { f(t, rand.New(rand.NewPCG(seed, stream))) })
		})
	}
}

// pushed reports whether more is asked for than a test makes every day.
func pushed() bool { return os.Getenv("STRAND_PUSH") != "" || long() }

// long reports whether the long tiers are asked for.
func long() bool { return os.Getenv("STRAND_LONG") != "" }

// open opens an executor and stops it at the end of the test. An empty dir means
// memory.
func open(t testing.TB, dir string, cfg executor.Config) *executor.Executor {
	t.Helper()
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	x, err := executor.Open(dir, cfg)
	require.NoError(t, err)
	stopAtEnd(t, x)
	return x
}

// openOn is open on a disk in memory.
func openOn(t testing.TB, disk *journal.Memory, cfg executor.Config) *executor.Executor {
	t.Helper()
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	x, err := executor.OpenOn(disk, cfg)
	require.NoError(t, err)
	stopAtEnd(t, x)
	return x
}

func stopAtEnd(t testing.TB, x *executor.Executor) {
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = x.Stop(ctx) // what Stop returns is for the tests that are about it
	})
}

// handle registers a queue that must be all right.
func handle[T any](t testing.TB, x *executor.Executor, name string, h func(context.Context, executor.Merged[T]) error, cfg executor.QueueConfig[T]) *executor.Queue[T] {
	t.Helper()
	q, err := executor.HandleMerged(x, name, h, cfg)
	require.NoError(t, err)
	return q
}

func start(t testing.TB, x *executor.Executor) {
	t.Helper()
	require.NoError(t, x.Start(t.Context()))
}

// stop stops x and expects a clean end.
func stop(t testing.TB, x *executor.Executor) {
	t.Helper()
	require.NoError(t, x.Stop(context.Background()))
}

func enqueue[T any](t testing.TB, q *executor.Queue[T], id string, payload T, options ...executor.Option) executor.Receipt {
	t.Helper()
	r, err := q.Enqueue(context.Background(), id, payload, options...)
	require.NoError(t, err)
	return r
}

// bubble runs a test in which time stands still while any goroutine has something
// to do.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// await waits outside a bubble for what a handler is about to do.
func await[T any](t testing.TB, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(time.Minute):
		require.FailNow(t, "nothing happened for a minute")
	}
	return v
}

// seen is one run as its handler saw it.
type seen struct {
	id     string
	values []string
	retry  int
	last   string // the last error
	at     time.Time
}

func (s seen) String() string { return fmt.Sprintf("%s%v", s.id, s.values) }

// probe is a handler that remembers its runs and notices when two of one id
// overlap.
type probe struct {
	decide func(ctx context.Context, s seen) error // nil: every run succeeds

	mu       sync.Mutex
	runs     []seen
	active   map[string]bool
	overlaps int
}

func (p *probe) handle(ctx context.Context, job executor.Merged[string]) error {
	s := seen{id: job.ID, retry: job.Attempt - 2, last: job.LastError, at: time.Now()}
	for _, payload := range job.Payloads {
		s.values = append(s.values, payload.Value)
	}
	p.enter(s)
	defer p.leave(s.id)
	if p.decide == nil {
		return nil
	}
	return p.decide(ctx, s)
}

func (p *probe) enter(s seen) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.active == nil {
		p.active = make(map[string]bool)
	}
	if p.active[s.id] {
		p.overlaps++
	}
	p.active[s.id] = true
	p.runs = append(p.runs, s)
}

func (p *probe) leave(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.active, id)
}

func (p *probe) seen() []seen {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.runs)
}

// log is what ran, in order.
func (p *probe) log() (lines []string) {
	for _, s := range p.seen() {
		lines = append(lines, s.String())
	}
	return lines
}

// of returns the values that an id was run with, in order.
func (p *probe) of(id string) (values []string) {
	for _, s := range p.seen() {
		if s.id == id {
			values = append(values, s.values...)
		}
	}
	return values
}

func (p *probe) assertNoOverlap(t testing.TB) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	assert.Zero(t, p.overlaps, "two runs of one id overlapped")
}

// stats of one queue.
func stats[T any](t testing.TB, q *executor.Queue[T]) inspect.QueueStats {
	t.Helper()
	s, err := q.Stats(context.Background())
	require.NoError(t, err)
	return s
}

// settled makes what handlers of finished jobs did visible to the test.
func settled[T any](t testing.TB, q *executor.Queue[T]) {
	t.Helper()
	stats(t, q) // asks every shard, which has heard from its workers
}

// drained waits until a queue has nothing to do. Time must not be faked.
func drained[T any](t testing.TB, q *executor.Queue[T]) inspect.QueueStats {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Millisecond) {
		s := stats(t, q) // a round trip to every shard
		if s.Jobs == 0 {
			return s
		}
		require.True(t, time.Now().Before(deadline), "still %d jobs after two minutes: %+v", s.Jobs, s)
	}
}

// morgue lists the dead payloads of a queue.
func morgue[T any](t testing.TB, q *executor.Queue[T]) (dead []executor.Dead[T]) {
	t.Helper()
	for d, err := range q.Morgue() {
		require.NoError(t, err)
		dead = append(dead, d)
	}
	return dead
}

// at returns a retry policy with the same pause each time.
func always(d time.Duration) func(int) time.Duration {
	return func(int) time.Duration { return d }
}

// shared is a value that a handler writes and the test reads.
type shared[T any] struct {
	mu    sync.Mutex
	value T
}

func (s *shared[T]) set(v T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.value = v
}

func (s *shared[T]) get() T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.value
}

// backOf returns how many dead letters a Requeue has put back.
func backOf(r inspect.Requeued, err error) (int, error) { return r.Back, err }

// requeueOf is Inspector.Requeue as the other actions are.
func requeueOf(i inspect.Inspector) func(context.Context, inspect.Selection) (int, error) {
	return func(ctx context.Context, which inspect.Selection) (int, error) { return backOf(i.Requeue(ctx, which)) }
}

// enqueueRaw enqueues bytes for a queue by its name.
func enqueueRaw(ctx context.Context, x *executor.Executor, queue, id string, payload []byte, options ...executor.Option) (executor.Receipt, error) {
	q, err := x.Lookup(queue)
	if err != nil {
		return executor.Receipt{}, err
	}
	return q.Enqueue(ctx, id, payload, options...)
}

// slow leaves a test that takes seconds to .ci/run, which sets CI, and to those who name tests.
func slow(t *testing.T) {
	t.Helper()
	if flag.Lookup("test.run").Value.String() == "" && os.Getenv("CI") == "" && os.Getenv("STRAND_LONG") == "" {
		t.Skip("takes seconds: CI=1 makes it")
	}
}
