package executor_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
)

// tellers are a queue that folds, and one that gets what it has done, in the same
// commit. An update is a number, and to fold is to write one list behind the other: so
// at any moment each number is in one place on the disk, in its order.
type tellers struct {
	mu sync.Mutex
	r  *rand.Rand
	q  *executor.Queue[string]
}

func (f *tellers) draw(n int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.r.IntN(n)
}

func startTellers(t *testing.T, disk *journal.Memory, r *rand.Rand) (*tellers, *executor.Executor) {
	f := &tellers{r: rand.New(rand.NewPCG(r.Uint64(), 0))}
	x := openOn(t, disk, executor.Config{Workers: 2})
	done, err := executor.Handle(x, "done", func(context.Context, executor.Job[string]) error { return nil }, executor.QueueConfig[string]{
		Defaults: executor.Defaults[string]{
			Due: func(string) time.Time { return time.Now().Add(1e6 * time.Hour) },
		},
	})
	require.NoError(t, err)
	f.q = handle(t, x, "updates", func(_ context.Context, job executor.Merged[string]) error {
		if err := done.FollowUp(job, job.ID, job.Payloads[0].Value); err != nil {
			return err
		}
		switch f.draw(6) {
		case 0:
			return errBoom
		case 1:
			return executor.Snooze(time.Second)
		case 2:
			panic("boom")
		case 3:
			time.Sleep(3 * time.Second) // many come meanwhile
		}
		return nil
	}, executor.QueueConfig[string]{
		MaxRetries: 6, RetryIn: always(time.Second), Share: executor.Share{Shards: 2}, Gather: executor.Gather[string]{
			Block: r.IntN(2) == 1,
			Fold: func(waiting, next string) (string, error) {
				switch f.draw(200) {
				case 0:
					return "", errBoom
				case 1:
					panic("boom")
				}
				return waiting + "," + next, nil
			},
		},
	})
	start(t, x)
	return f, x
}

// numbersOn lists the updates on a disk by id: those that wait, as they stand in the
// journal, those that are done, and those in the morgue.
func numbersOn(t *testing.T, disk *journal.Memory) (waiting, done, dead map[string][]int) {
	t.Helper()
	l, err := journal.OpenMemory(disk.Crash(), journal.Config{})
	require.NoError(t, err)
	waiting, done, dead = make(map[string][]int), make(map[string][]int), make(map[string][]int)
	add := func(to map[string][]int, e *journal.Entry) {
		for s := range strings.SplitSeq(strings.Trim(string(e.Payload), `"`), ",") {
			var n int
			_, err := fmt.Sscan(s, &n)
			require.NoError(t, err)
			to[string(e.ID)] = append(to[string(e.ID)], n)
		}
	}
	for name, number := range l.Queues() {
		where := waiting
		if name == "done" {
			where = done
		}
		for _, ref := range slices.Concat(l.PendingPages(number)...) {
			var e journal.Entry
			require.NoError(t, ref.Read(&e))
			if e.Kind == journal.KindEnqueued {
				if add(where, &e); name != "done" && strings.Count(string(e.Payload), ",") > 100 {
					foldedWhereItWaits.Add(1)
				}
			}
		}
		for b, err := range l.Morgue(number, 0) {
			require.NoError(t, err)
			add(dead, &b.Entry)
		}
	}
	require.NoError(t, l.Close())
	return waiting, done, dead
}

// foldedWhereItWaits counts payloads that were folded before they ran.
var foldedWhereItWaits atomic.Int64

// whole checks that of each id all updates up to some number are on a disk, that of
// those that were accepted by then none is missing, and that all are in order.
func whole(t *testing.T, disk *journal.Memory, accepted map[string]int, note string) (last map[string]int) {
	waiting, done, dead := numbersOn(t, disk)
	last = make(map[string]int)
	for id := range waiting {
		last[id] = 0
	}
	for id := range done {
		last[id] = 0
	}
	for id := range accepted {
		last[id] = 0
	}
	for id := range last {
		require.IsIncreasing(t, append([]int{-1, 0}, waiting[id]...), "%s: %s waits", note, id)
		require.IsIncreasing(t, append([]int{-1, 0}, done[id]...), "%s: %s is done", note, id)
		all := slices.Concat(waiting[id], done[id], dead[id])
		slices.Sort(all)
		for i, n := range all {
			require.Equal(t, i+1, n, "%s: %s is lost or there twice", note, id)
		}
		require.GreaterOrEqual(t, len(all), accepted[id], "%s: %s", note, id)
		last[id] = len(all)
	}
	return last
}

// After a crash at any commit, on a disk that is full at times, each update that was
// acknowledged is in the journal once: done, dead, or in what waits, in its order.
func TestFoldAfterACrashAtEveryCommit(t *testing.T) {
	bubbles(t, 3, 21, func(t *testing.T, r *rand.Rand) {
		type image struct {
			disk     *journal.Memory
			accepted map[string]int
		}
		var mu sync.Mutex
		var images []image
		accepted := make(map[string]int)
		disk := new(journal.Memory)
		watch := func() {
			disk.OnCommit(func() {
				mu.Lock()
				defer mu.Unlock()
				images = append(images, image{disk.Crash(), maps.Clone(accepted)})
			})
		}
		watch()
		f, x := startTellers(t, disk, r)
		for range 3 {
			for range 25 {
				id := fmt.Sprint("id ", r.IntN(2))
				if r.IntN(8) == 0 {
					disk.Limit(3000 + r.IntN(40_000))
				}
				var list []executor.Item[string]
				for i := range 1 + r.IntN(150) {
					list = append(list, executor.Item[string]{ID: id, Payload: fmt.Sprint(accepted[id] + 1 + i)})
				}
				_, err := f.q.EnqueueMany(t.Context(), list)
				if err == nil {
					mu.Lock()
					accepted[id] += len(list)
					mu.Unlock()
				} else {
					require.ErrorIs(t, err, executor.ErrFull)
				}
				if r.IntN(4) == 0 {
					time.Sleep(time.Second)
					disk.Limit(0)
					time.Sleep(time.Second)
				}
			}
			disk.Limit(0)
			time.Sleep(time.Duration(r.IntN(20)) * time.Second)
			synctest.Wait()
			mu.Lock()
			taken := images
			mu.Unlock()
			for i, image := range taken {
				whole(t, image.disk, image.accepted, fmt.Sprint("image ", i))
			}
			next := taken[r.IntN(len(taken))].disk // a crash
			stop(t, x)
			whole(t, disk, accepted, "stopped")
			disk.OnCommit(nil)
			disk, images = next.Crash(), nil
			accepted = whole(t, disk, nil, "next life")
			watch()
			f, x = startTellers(t, disk, r)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		stop(t, x)
		last := whole(t, disk, accepted, "end")
		waiting, _, _ := numbersOn(t, disk)
		require.Empty(t, waiting)
		require.Equal(t, accepted, last)
	})
	require.NotZero(t, foldedWhereItWaits.Load())
}
