package executor_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
)

// A call that waits for room goes on when there is some, however little of the
// backlog ever ends.
func TestBacklogThatHardlyMoves(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{MaxBacklog: executor.BacklogLimit{Payloads: 100}, WaitForRoom: true})
		q := handle(t, x, "q", func(context.Context, executor.Merged[int]) error { return nil }, executor.QueueConfig[int]{})
		for i := range 98 {
			enqueue(t, q, fmt.Sprint(i), i, executor.In(365*24*time.Hour))
		}
		enqueue(t, q, "soon", 1, executor.In(time.Second))
		enqueue(t, q, "then", 1, executor.In(time.Minute))
		start(t, x)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		for i := range 10 {
			_, err := q.Enqueue(ctx, fmt.Sprint("waits ", i), i)
			require.NoError(t, err)
		}
		stop(t, x)
	})
}

// A call that needs more room than there is waits, at rest, until there is that
// much.
func TestBacklogManyAtOnceWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{MaxBacklog: executor.BacklogLimit{Payloads: 10}, WaitForRoom: true})
		q := handle(t, x, "q", func(context.Context, executor.Merged[int]) error { return nil }, executor.QueueConfig[int]{})
		for i := range 8 {
			enqueue(t, q, fmt.Sprint(i), i, executor.In(time.Duration(i+1)*time.Second))
		}
		start(t, x)
		begin := time.Now()
		many := make([]executor.Item[int], 5)
		for i := range many {
			many[i].ID = fmt.Sprint("many ", i)
		}
		_, err := q.EnqueueMany(t.Context(), many)
		require.NoError(t, err)
		require.Equal(t, 3*time.Second, time.Since(begin))
		synctest.Wait()
		stop(t, x)
	})
}

// kept is an executor with two queues, of which one has a limit of its own, whose
// jobs end when they are due.
func kept(t *testing.T, cfg executor.Config, own executor.QueueConfig[int]) (x *executor.Executor, small, other *executor.Queue[int]) {
	x = open(t, "", cfg)
	nothing := func(context.Context, executor.Merged[int]) error { return nil }
	small = handle(t, x, "small", nothing, own)
	other = handle(t, x, "other", nothing, executor.QueueConfig[int]{})
	return x, small, other
}

// arrivals are calls that wait, in the order in which they come.
type arrivals struct {
	t  *testing.T
	wg sync.WaitGroup

	mu       sync.Mutex
	accepted map[uint64]string // by position
}

// order is in which they were accepted.
func (a *arrivals) order() (ids []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, position := range slices.Sorted(maps.Keys(a.accepted)) {
		ids = append(ids, a.accepted[position])
	}
	return ids
}

func (a *arrivals) call(q *executor.Queue[int], id string) {
	a.wg.Go(func() {
		r := enqueue(a.t, q, id, 1, executor.In(time.Minute))
		a.mu.Lock()
		defer a.mu.Unlock()
		a.accepted[r.Position] = id
	})
	synctest.Wait() // until it waits
}

// The calls that wait go on in the order in which they came.
func TestBacklogIsFair(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x, small, other := kept(t, executor.Config{MaxBacklog: executor.BacklogLimit{Payloads: 1}, WaitForRoom: true}, executor.QueueConfig[int]{MaxBacklog: executor.BacklogLimit{Payloads: 1}})
		enqueue(t, other, "first", 1, executor.In(time.Minute))
		start(t, x)
		a, want := arrivals{t: t, accepted: map[uint64]string{}}, []string(nil)
		for i := range 10 {
			id := fmt.Sprint(i)
			a.call(pick(rand.New(rand.NewPCG(uint64(i), 1)), small, other), id)
			want = append(want, id)
		}
		require.Equal(t, 10, must(x.Stats(t.Context())).Backlog.Waiting)
		a.wg.Wait()
		require.Equal(t, want, a.order())
		stop(t, x)
	})
}

// Calls that wait for the limit of a queue leave to others what is free under the
// limit of all, and go on when there is room under both.
func TestBacklogOfTwoLimits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x, small, other := kept(t, executor.Config{MaxBacklog: executor.BacklogLimit{Payloads: 4}, WaitForRoom: true}, executor.QueueConfig[int]{MaxBacklog: executor.BacklogLimit{Payloads: 2}})
		enqueue(t, small, "0", 0, executor.In(90*time.Second))
		enqueue(t, small, "1", 1, executor.In(time.Hour))
		start(t, x)
		a := arrivals{t: t, accepted: map[uint64]string{}}
		a.call(small, "small a")
		a.call(small, "small b")
		require.Equal(t, 2, stats(t, small).Backlog.Waiting)
		a.call(other, "other a")
		a.call(other, "other b")
		require.Equal(t, []string{"other a", "other b"}, a.order(), "there is room for them")
		a.call(other, "other c")
		require.Equal(t, 1, must(x.Stats(t.Context())).Backlog.Waiting, "for the limit of all")
		time.Sleep(61 * time.Second) // other a and b are over
		require.Equal(t, "other c", a.order()[2])
		a.call(other, "other d")
		require.Len(t, a.order(), 4)
		time.Sleep(30 * time.Second) // so is the first of small
		require.Equal(t, "small a", a.order()[4])
		a.wg.Wait()
		require.Equal(t, "small b", a.order()[5])
		stop(t, x)
	})
}

// A call that stops waiting lets those behind it go on.
func TestBacklogWaiterThatLeaves(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x, _, q := kept(t, executor.Config{MaxBacklog: executor.BacklogLimit{Payloads: 4}, WaitForRoom: true}, executor.QueueConfig[int]{})
		for i := range 3 {
			enqueue(t, q, fmt.Sprint(i), i, executor.In(time.Hour))
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err := q.EnqueueMany(ctx, []executor.Item[int]{{ID: "a"}, {ID: "b"}})
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorIs(t, err, executor.ErrFull)
			require.ErrorContains(t, err, "while waiting for room")
		})
		synctest.Wait()
		begin := time.Now()
		enqueue(t, q, "behind", 1)
		require.Equal(t, time.Minute, time.Since(begin))
		wg.Wait()
		stop(t, x)
	})
}

// Contexts that end just when there is room: room that is handed to a call that has
// gone is the next one's, and in the end the backlog is empty.
func TestBacklogLosesNoWakeUp(t *testing.T) {
	for seed := range 20 {
		bubble(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(uint64(seed), 15))
			x, small, other := kept(t, executor.Config{MaxBacklog: executor.BacklogLimit{Payloads: 3}, WaitForRoom: true}, executor.QueueConfig[int]{MaxBacklog: executor.BacklogLimit{Payloads: 2}})
			start(t, x)
			var wg sync.WaitGroup
			for i := range 100 {
				q, patience, delay := pick(r, small, other), time.Duration(r.IntN(8))*time.Second, time.Duration(1+r.IntN(2))*time.Second
				items := []executor.Item[int]{{ID: fmt.Sprint(i)}, {ID: fmt.Sprint(i, " more")}}[:1+r.IntN(2)]
				var options []executor.Option
				if r.IntN(3) == 0 {
					options = append(options, executor.IdempotencyKey(fmt.Sprint(i/2)))
				}
				wg.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					defer cancel()
					if patience == 7*time.Second {
						ctx = t.Context()
					}
					_, err := q.EnqueueMany(ctx, items, append(options, executor.In(delay))...)
					if err != nil && ctx == t.Context() {
						require.ErrorIs(t, err, executor.ErrInvalidKey, "of another length than the first call")
					}
				})
			}
			wg.Wait()
			time.Sleep(time.Minute)
			synctest.Wait()
			require.Zero(t, must(x.Stats(t.Context())).Backlog)
			require.Zero(t, stats(t, small).Backlog)
			stop(t, x)
		})
	}
}

// Room that comes just when its waiter gives up is the next one's.
func TestBacklogRoomThatComesTooLate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x, q, _ := kept(t, executor.Config{MaxBacklog: executor.BacklogLimit{Payloads: 1}, WaitForRoom: true}, executor.QueueConfig[int]{})
		enqueue(t, q, "first", 1, executor.In(time.Minute))
		start(t, x)
		a := arrivals{t: t, accepted: map[uint64]string{}}
		x.WaitAndQuit("small", func() {
			a.call(q, "next")
			time.Sleep(time.Hour)
			require.Empty(t, a.order(), "the room is another's")
		})
		a.wg.Wait()
		require.Equal(t, []string{"next"}, a.order())
		time.Sleep(time.Hour)
		require.Zero(t, must(x.Stats(t.Context())).Backlog)
		stop(t, x)
	})
}

// Stop ends the waiting calls at once, not when the last handler has returned.
func TestBacklogWaitEndsWithStop(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{MaxBacklog: executor.BacklogLimit{Payloads: 1}, WaitForRoom: true})
		q := handle(t, x, "q", func(context.Context, executor.Merged[int]) error { time.Sleep(time.Minute); return nil }, executor.QueueConfig[int]{})
		enqueue(t, q, "runs", 1)
		start(t, x)
		var wg sync.WaitGroup
		begin := time.Now()
		wg.Go(func() {
			_, err := q.Enqueue(t.Context(), "waits", 1)
			require.ErrorIs(t, err, executor.ErrClosed)
			require.Less(t, time.Since(begin), time.Second)
		})
		synctest.Wait()
		stop(t, x)
		wg.Wait()
	})
}

// A call that did not wait for the disk to refuse it keeps no room.
func TestBacklogOfWhatIsRefusedLate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		x := openOn(t, disk, executor.Config{MaxBacklog: executor.BacklogLimit{Payloads: 2}})
		q := handle(t, x, "q", (&probe{}).handle, executor.QueueConfig[string]{})
		brake := hang(disk)
		for _, id := range []string{"on its way", "refused"} {
			err := within(time.Second, func(ctx context.Context) error {
				_, err := q.Enqueue(ctx, id, "x")
				return err
			})
			require.ErrorIs(t, err, executor.ErrUnknown)
		}
		_, err := q.Enqueue(t.Context(), "too many", "x")
		require.ErrorIs(t, err, executor.ErrFull, "it may be accepted yet")
		disk.FailNext(journal.ErrFull)
		brake.release()
		time.Sleep(time.Minute)
		require.Equal(t, 1, must(x.Stats(t.Context())).Backlog.Payloads)
		enqueue(t, q, "now", "x")
		stop(t, x)
	})
}
