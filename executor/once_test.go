package executor_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
)

// requireMark expects what is written under a name.
func requireMark(t testing.TB, x *executor.Executor, name string, want int64) {
	t.Helper()
	offset, found, err := x.SourceOffset(name)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, want, offset)
}

func TestOnce(t *testing.T) {
	for _, mode := range []string{"memory", "file", "async"} {
		t.Run(mode, func(t *testing.T) {
			dir, cfg := "", executor.Config{}
			if mode != "memory" {
				dir = t.TempDir() + "/journal"
			}
			if mode == "async" {
				cfg.Durability = executor.DurabilityAsync
			}
			x := open(t, dir, cfg)
			q := handle(t, x, "jobs", (&probe{}).handle, executor.QueueConfig[string]{})
			_, found, err := x.SourceOffset("ticks")
			require.NoError(t, err)
			require.False(t, found)

			r := enqueue(t, q, "a", "1", executor.FromSource("ticks", math.MinInt64))
			require.Equal(t, mode != "memory", r.Durable, "it waits for the commit, under Async too")
			requireMark(t, x, "ticks", math.MinInt64)
			enqueue(t, q, "a", "2", executor.FromSource("ticks", 7))
			enqueue(t, q, "a", "3", executor.FromSource("others", 1))

			for _, offset := range []int64{7, 6, -1} {
				_, err = q.Enqueue(t.Context(), "a", "late", executor.FromSource("ticks", offset))
				require.ErrorAs(t, err, new(*executor.StaleError))
				var stale *executor.StaleError
				require.ErrorAs(t, err, &stale)
				require.Equal(t, executor.StaleError{Source: "ticks", Offset: offset, Last: 7}, *stale)
			}
			_, err = enqueueRaw(t.Context(), x, "jobs", "a", []byte("{}"), executor.FromSource("ticks", 7))
			require.ErrorAs(t, err, new(*executor.StaleError), "by the name of the queue, too")

			require.NoError(t, x.SetSourceOffset(t.Context(), "ticks", 3))
			requireMark(t, x, "ticks", 3)
			enqueue(t, q, "a", "4", executor.FromSource("ticks", 4))
			require.NoError(t, x.DeleteSourceOffset(t.Context(), "ticks"))
			enqueue(t, q, "a", "5", executor.FromSource("ticks", 1))
			require.Equal(t, 5, stats(t, q).Payloads)
			stop(t, x)
			require.ErrorIs(t, x.SetSourceOffset(t.Context(), "ticks", 1), executor.ErrClosed)
			if mode == "memory" {
				return
			}
			x = open(t, dir, cfg)
			requireMark(t, x, "ticks", 1)
			requireMark(t, x, "others", 1)
		})
	}
}

func TestOnceOfMany(t *testing.T) {
	x := open(t, "", executor.Config{})
	q := handle(t, x, "jobs", (&probe{}).handle, executor.QueueConfig[string]{})
	items := []executor.Item[string]{{ID: "a", Payload: "1"}, {ID: "b", Payload: "2", Due: time.Now().Add(time.Minute)}}
	_, err := q.EnqueueMany(t.Context(), items, executor.FromSource("offsets", 2), executor.In(time.Hour))
	require.NoError(t, err)
	_, err = q.EnqueueMany(t.Context(), items, executor.FromSource("offsets", 2))
	require.ErrorAs(t, err, new(*executor.StaleError))
	require.Equal(t, 2, stats(t, q).Payloads)

	p := &probe{}
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		q := handle(t, x, "jobs", p.handle, executor.QueueConfig[string]{})
		begin := time.Now()
		items[1].Due = begin.Add(time.Minute)
		_, err := q.EnqueueMany(t.Context(), items, executor.In(time.Hour))
		require.NoError(t, err)
		start(t, x)
		time.Sleep(2 * time.Hour)
		stop(t, x)
		require.Equal(t, []string{"b[2]", "a[1]"}, p.log(), "an option is for the items that don't say it themselves")
		require.Equal(t, time.Hour, p.seen()[1].at.Sub(begin))
	})
}

// A refused call moves no offset and takes no key, whatever the reason.
func TestRefusedMovesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		x := openOn(t, disk, executor.Config{MaxBacklog: executor.BacklogLimit{Payloads: 2}, Advanced: executor.Advanced{MaxPayloadBytes: 100}})
		q := handle(t, x, "jobs", (&probe{}).handle, executor.QueueConfig[string]{})
		both := []executor.Option{executor.FromSource("m", 5), executor.IdempotencyKey("k")}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		long := strings.Repeat("x", 513)
		for _, c := range []struct {
			ctx     context.Context
			id      string
			payload string
			options []executor.Option
			want    error
		}{
			{t.Context(), "", "x", nil, executor.ErrInvalidID},
			{t.Context(), "a", strings.Repeat("x", 200), nil, executor.ErrTooLarge},
			{t.Context(), "a", "x", []executor.Option{executor.Score(math.NaN())}, executor.ErrInvalidItem},
			{ended, "a", "x", nil, context.Canceled},
			{t.Context(), "a", "x", []executor.Option{executor.FromSource("m", 6)}, executor.ErrInvalidKey},
			{t.Context(), "a", "x", []executor.Option{executor.IdempotencyKey("l")}, executor.ErrInvalidKey},
			{t.Context(), "a", "x", []executor.Option{executor.FromSource("", 1)}, executor.ErrInvalidKey},
			{t.Context(), "a", "x", []executor.Option{executor.IdempotencyKey("")}, executor.ErrInvalidKey},
			{t.Context(), "a", "x", []executor.Option{executor.IdempotencyKey(long)}, executor.ErrInvalidKey},
		} {
			_, err := q.Enqueue(c.ctx, c.id, c.payload, append(both, c.options...)...)
			require.ErrorIs(t, err, c.want)
		}
		disk.FailNext(journal.ErrFull)
		_, err := q.Enqueue(t.Context(), "a", "x", both...)
		require.ErrorIs(t, err, executor.ErrFull)
		time.Sleep(time.Second) // until there is room
		enqueue(t, q, "a", "1")
		enqueue(t, q, "a", "2")
		_, err = q.Enqueue(t.Context(), "a", "x", both...)
		require.ErrorIs(t, err, executor.ErrFull)
		_, found, err := x.SourceOffset("m")
		require.NoError(t, err)
		require.False(t, found)
		start(t, x)
		synctest.Wait()
		require.False(t, enqueue(t, q, "a", "3", both...).Duplicate)
		requireMark(t, x, "m", 5)
		require.ErrorIs(t, x.SetSourceOffset(t.Context(), "", 1), executor.ErrInvalidKey)
		require.ErrorIs(t, x.DeleteSourceOffset(t.Context(), long), executor.ErrInvalidKey)
		_, _, err = x.SourceOffset(long)
		require.ErrorIs(t, err, executor.ErrInvalidKey)

		synctest.Wait() // until the results of what ran are written
		disk.FailNext(journal.ErrFull)
		require.ErrorIs(t, x.SetSourceOffset(t.Context(), "m", 9), executor.ErrFull)
		time.Sleep(time.Second)
		requireMark(t, x, "m", 5)
	})
}

// A call of several sources is accepted if its offset is new in each, and moves all or none.
func TestOnceOfSeveralSources(t *testing.T) {
	x := open(t, t.TempDir()+"/journal", executor.Config{})
	q := handle(t, x, "jobs", (&probe{}).handle, executor.QueueConfig[string]{})
	enqueue(t, q, "a", "1", executor.FromSource("n", 5), executor.FromSource("m", 1))
	requireMark(t, x, "m", 1)
	requireMark(t, x, "n", 5)
	for _, offsets := range [][2]int64{{2, 5}, {1, 6}} {
		_, err := q.Enqueue(t.Context(), "a", "2", executor.FromSource("m", offsets[0]), executor.FromSource("n", offsets[1]))
		require.ErrorAs(t, err, new(*executor.StaleError))
	}
	requireMark(t, x, "m", 1)
	requireMark(t, x, "n", 5)
	var calls sync.WaitGroup
	for i := range int64(100) { // in both orders at once: none waits for another one
		calls.Go(func() {
			options := []executor.Option{executor.FromSource("m", 10+i), executor.FromSource("n", 10+i)}
			if i%2 == 0 {
				options[0], options[1] = options[1], options[0]
			}
			if _, err := q.Enqueue(t.Context(), "a", "3", options...); err != nil {
				assert.ErrorAs(t, err, new(*executor.StaleError))
			}
		})
	}
	calls.Wait()
	requireMark(t, x, "m", 109)
	requireMark(t, x, "n", 109)
}

// Offsets of one source are accepted in growing order, and each once, however many
// offer them at once.
func TestOnceUnderRace(t *testing.T) {
	x := open(t, "", executor.Config{})
	q := handle(t, x, "jobs", (&probe{}).handle, executor.QueueConfig[string]{Merge: executor.MergeKeepAll})
	const marks, sources = 50, 8
	var mu sync.Mutex
	positions := make(map[int64]uint64)
	var wg sync.WaitGroup
	for range sources {
		wg.Go(func() {
			for offset := range int64(marks) {
				if rand.IntN(4) == 0 {
					continue
				}
				r, err := q.Enqueue(t.Context(), "a", "x", executor.FromSource("m", offset))
				if err != nil {
					assert.ErrorAs(t, err, new(*executor.StaleError))
					continue
				}
				mu.Lock()
				assert.NotContains(t, positions, offset, "accepted twice")
				positions[offset] = r.Position
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	require.Equal(t, len(positions), stats(t, q).Payloads)
	last := uint64(0)
	for offset := range int64(marks) {
		if p, accepted := positions[offset]; accepted {
			require.Greater(t, p, last)
			last = p
		}
	}
	require.Zero(t, x.Gates())
}

// brake holds the commits of a disk: they are done, but do not return.
type brake struct {
	mu   sync.Mutex
	held chan struct{}
}

func hang(disk *journal.Memory) *brake {
	b := &brake{held: make(chan struct{})}
	disk.OnCommit(func() {
		b.mu.Lock()
		held := b.held
		b.mu.Unlock()
		<-held
	})
	return b
}

// step lets the present commit go on, and holds the next.
func (b *brake) step() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.held)
	b.held = make(chan struct{})
}

// release lets all commits go on.
func (b *brake) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-b.held:
	default:
		close(b.held)
	}
}

func within(d time.Duration, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	return f(ctx)
}

// While it is not known whether a call was accepted, the next one with the same
// name waits.
func TestUnknownOutcomeIsWaitedFor(t *testing.T) {
	for _, accepted := range []bool{true, false} {
		t.Run(fmt.Sprint(accepted), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				disk := new(journal.Memory)
				x := openOn(t, disk, executor.Config{})
				q := handle(t, x, "jobs", (&probe{}).handle, executor.QueueConfig[string]{})
				brake := hang(disk)
				defer brake.release()
				if !accepted { // what hangs is another commit, and ours is refused
					disk.FailNext(nil, journal.ErrFull)
					require.ErrorIs(t, within(time.Second, func(ctx context.Context) error {
						_, err := q.Enqueue(ctx, "b", "x")
						return err
					}), executor.ErrUnknown)
				}
				try := func(ctx context.Context) error {
					_, err := q.Enqueue(ctx, "a", "x", executor.FromSource("m", 5), executor.IdempotencyKey("k"))
					return err
				}
				require.ErrorIs(t, within(time.Second, try), executor.ErrUnknown)
				for range 3 {
					err := within(time.Second, try)
					require.ErrorIs(t, err, context.DeadlineExceeded)
					require.NotErrorIs(t, err, executor.ErrUnknown, "nothing was handed over")
				}
				require.ErrorIs(t, within(time.Second, func(ctx context.Context) error {
					return x.SetSourceOffset(ctx, "m", 1)
				}), context.DeadlineExceeded)
				require.Equal(t, 2, x.Gates(), "known until the outcome is")
				brake.release()
				time.Sleep(time.Second) // for the full disk
				r, err := q.Enqueue(t.Context(), "a", "x", executor.IdempotencyKey("k"), executor.FromSource("m", 5))
				require.NoError(t, err)
				require.Equal(t, accepted, r.Duplicate)
				_, err = q.Enqueue(t.Context(), "a", "x", executor.FromSource("m", 5))
				require.ErrorAs(t, err, new(*executor.StaleError))
				require.Zero(t, x.Gates())
			})
		})
	}
}

// A call that is not repeated is forgotten, too.
func TestGatesAreForgotten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		x := openOn(t, disk, executor.Config{})
		q := handle(t, x, "jobs", (&probe{}).handle, executor.QueueConfig[string]{})
		brake := hang(disk)
		defer brake.release()
		for i := range 10 {
			_ = within(time.Second, func(ctx context.Context) error {
				_, err := q.Enqueue(ctx, "a", "x", executor.IdempotencyKey(fmt.Sprint(i)))
				require.ErrorIs(t, err, executor.ErrUnknown)
				return err
			})
		}
		require.Equal(t, 10, x.Gates())
		brake.release()
		synctest.Wait()
		enqueue(t, q, "a", "x", executor.IdempotencyKey("other"))
		require.Zero(t, x.Gates())
	})
}

// A call that waited for an unknown outcome goes on inside, and alone.
func TestWaitingForAnUnknownOutcome(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		x := openOn(t, disk, executor.Config{})
		q := handle(t, x, "jobs", (&probe{}).handle, executor.QueueConfig[string]{})
		try := func(ctx context.Context) error {
			_, err := q.Enqueue(ctx, "a", "x", executor.FromSource("m", time.Now().UnixNano()))
			return err
		}
		brake := hang(disk)
		require.ErrorIs(t, within(time.Second, try), executor.ErrUnknown)
		var wg sync.WaitGroup
		wg.Go(func() { require.ErrorIs(t, within(time.Second, try), context.DeadlineExceeded) })
		synctest.Wait() // inside, and waits for the outcome
		wg.Go(func() { require.NoError(t, try(t.Context())) })
		time.Sleep(2 * time.Second) // now the other one is inside
		require.ErrorIs(t, within(time.Second, try), context.DeadlineExceeded)
		brake.step()
		synctest.Wait() // it is about to commit
		require.ErrorIs(t, within(time.Second, func(ctx context.Context) error {
			_, err := q.Enqueue(ctx, "a", "x", executor.IdempotencyKey("another"))
			return err
		}), executor.ErrUnknown)
		err := within(time.Second, try)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, executor.ErrUnknown, "two inside")
		brake.release()
		wg.Wait()
		time.Sleep(time.Second) // the other one is on disk, too
		require.NoError(t, try(t.Context()))
		require.Zero(t, x.Gates())
	})
}

// A failed journal is never waited for.
func TestUnknownOutcomeOfAFailedJournal(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		x := openOn(t, disk, executor.Config{})
		q := handle(t, x, "jobs", (&probe{}).handle, executor.QueueConfig[string]{})
		disk.FailNext(errBoom)
		_, err := q.Enqueue(t.Context(), "a", "x", executor.FromSource("m", 1))
		require.ErrorIs(t, err, executor.ErrUnknown)
		_, err = q.Enqueue(t.Context(), "a", "x", executor.FromSource("m", 1))
		require.ErrorIs(t, err, executor.ErrFailed)
	})
}

// A call that waits for room does not keep a handler waiting that uses the same
// name.
func TestOnceDoesNotBlockHandlers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var q *executor.Queue[int]
		x, q := backlogged(t, executor.Config{WaitForRoom: true, Workers: 1}, func(ctx context.Context, job executor.Merged[int]) error {
			if job.ID == "id-0" {
				_, err := q.Enqueue(ctx, "from-handler", 1, executor.FromSource("m", 1))
				return err
			}
			return nil
		})
		for i := range 10 {
			enqueue(t, q, fmt.Sprint("id-", i), i)
			synctest.Wait() // so that id-0 is the first
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := q.Enqueue(t.Context(), "waits", 1, executor.FromSource("m", 2))
			require.NoError(t, err)
		})
		synctest.Wait()
		start(t, x)
		wg.Wait()
		synctest.Wait()
		requireMark(t, x, "m", 2)
		require.Zero(t, stats(t, q).Failed)
		stop(t, x)
	})
}

// The functions of a queue are called before a condition lets a call in: one that
// takes its time keeps no other call waiting.
func TestSlowKeysHoldUpNoCondition(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		goOn := make(chan struct{})
		q := handle(t, x, "q", (&probe{}).handle, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{
			Locks: executor.Locks[string]{
				OnEnqueue: func(id, _ string) []string {
					if id == "slow" {
						<-goOn
					}
					return nil
				},
			},
		}})
		slow := make(chan error, 1)
		go func() {
			_, err := q.Enqueue(t.Context(), "slow", "", executor.FromSource("source", 1), executor.IdempotencyKey("slow"))
			slow <- err
		}()
		synctest.Wait()
		enqueue(t, q, "fast", "", executor.FromSource("source", 2))
		close(goOn)
		require.ErrorAs(t, <-slow, new(*executor.StaleError))
	})
}
