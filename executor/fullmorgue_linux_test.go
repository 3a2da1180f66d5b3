package executor_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/journal"
)

// A file has free pages here and there, and bbolt writes a whole leaf of the morgue in one piece when a dead
// letter comes or goes: what dies, and what a person cancels, must not take the pages that results need, on a
// disk that only the journal fills.
func TestTheMorgueOnAFullDisk(t *testing.T) {
	onSmallDisks(t, t.TempDir, func(t *testing.T, dir string) {
		sizes := []int{300, 600, 4000, 20_000, 60_000}
		parts := []func(dir string){
			func(dir string) {
				require.NoError(t, os.Mkdir(dir, 0o700))
				for _, i := range rand.Perm(len(sizes))[:sampled(len(sizes))] {
					outageAndCancel(t, filepath.Join(dir, fmt.Sprint(sizes[i])), sizes[i])
				}
			},
			func(dir string) { cancelScattered(t, dir) },
			func(dir string) { openedAgain(t, dir, 0) },
			func(dir string) { openedAgain(t, dir, 1000) },
			func(dir string) { freeInside(t, dir) },
		}
		n := len(parts)
		if !pushed() {
			n = 1
		}
		for _, i := range rand.Perm(len(parts))[:n] {
			parts[i](filepath.Join(dir, fmt.Sprint(i)))
		}
	})
}

func outageAndCancel(t *testing.T, dir string, size int) {
	require.NoError(t, os.Mkdir(dir, 0o700))
	if !smallDisk(dir, "4m") {
		return
	}
	var down atomic.Bool
	again := func() (*executor.Executor, *executor.Queue[string]) {
		x := open(t, filepath.Join(dir, "journal"), executor.Config{Workers: 4})
		q, err := executor.Handle(x, "q", func(_ context.Context, job executor.Job[string]) error {
			switch {
			case !down.Load():
				return nil
			case job.Position%2 == 0:
				return executor.Cancel(errBoom)
			}
			return errBoom
		}, executor.QueueConfig[string]{MaxRetries: 2, RetryIn: always(100 * time.Millisecond)})
		require.NoError(t, err)
		start(t, x)
		return x, q
	}
	down.Store(true)
	x, q := again()
	fillDisk(t, q, 50, size)
	down.Store(false)
	require.Eventually(t, func() bool { return stats(t, q).Payloads == 0 }, time.Minute, 10*time.Millisecond, "%d", size)
	stop(t, x)

	x, q = again()
	require.Zero(t, stats(t, q).Payloads)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	in, all := x.Inspect(), inspect.SelectQueue("q")
	_, err := in.DeleteDead(ctx, all)
	require.NoError(t, err)
	fillDisk(t, q, 1<<20, size, executor.In(time.Hour))
	_, err = in.Cancel(ctx, all, "")
	require.True(t, err == nil || errors.Is(err, executor.ErrFull), "%v", err)
	dead := stats(t, q).Dead
	_, err = in.Delete(ctx, all)
	require.NoError(t, err, "%d", size)
	n, err := in.DeleteDead(ctx, all)
	require.NoError(t, err, "%d", size)
	require.Equal(t, dead, n)
	stop(t, x)

	fillUpBeside(t, dir)
	require.Error(t, journal.Clone(filepath.Join(dir, "journal"), filepath.Join(dir, "copy")))
	drafts, err := filepath.Glob(filepath.Join(dir, "copy*"))
	require.NoError(t, err)
	require.Empty(t, drafts)
}

// Each dead letter of the id that is canceled comes between others, into a page of its own.
func cancelScattered(t *testing.T, dir string) {
	require.NoError(t, os.Mkdir(dir, 0o700))
	if !smallDisk(dir, "4m") {
		return
	}
	x := open(t, filepath.Join(dir, "journal"), executor.Config{})
	q, err := executor.Handle(x, "q", func(context.Context, executor.Job[string]) error {
		return executor.Cancel(errBoom)
	}, executor.QueueConfig[string]{})
	require.NoError(t, err)
	start(t, x)
	later := executor.In(time.Hour)
	for i := range 300 {
		enqueue(t, q, "scattered", "small", later)
		for j := range 6 {
			enqueue(t, q, fmt.Sprint(i, j), strings.Repeat("x", 100))
		}
	}
	require.Eventually(t, func() bool { return stats(t, q).Dead == 1800 }, time.Minute, 10*time.Millisecond)
	fillDisk(t, q, 1<<20, 200, later)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	in := x.Inspect()
	_, err = in.Cancel(ctx, inspect.SelectIDs("q", "scattered"), "")
	require.True(t, err == nil || errors.Is(err, executor.ErrFull), "%v", err)
	_, err = in.Delete(ctx, inspect.SelectQueue("q"))
	require.NoError(t, err)
	stop(t, x)
}

// The pages that the disk gave a file are there for results when it is opened again, too. A disk is short of room
// no longer than it gives none, however much is live.
func openedAgain(t *testing.T, dir string, live int) {
	require.NoError(t, os.Mkdir(dir, 0o700))
	if !smallDisk(dir, "4m") {
		return
	}
	before := 0
	for life := range 3 {
		log, err := journal.Open(filepath.Join(dir, "journal"), journal.Config{})
		require.NoError(t, err)
		queue, err := log.Queue(t.Context(), "q")
		require.NoError(t, err)
		post := func() error {
			sent, err := log.Append(t.Context(), []journal.Entry{{Queue: queue, ID: []byte("id"), Payload: make([]byte, 1000)}}, nil)
			if err == nil {
				err = sent.Wait(t.Context())
			}
			return err
		}
		if life == 0 {
			for range live {
				require.NoError(t, post())
			}
			fillUpBeside(t, dir)
			for err == nil {
				err = post()
			}
			require.ErrorIs(t, err, journal.ErrFull)
		}
		n := 0
		for log.TakeRoom(t.Context().Done(), journal.Room{Bytes: 1000}) {
			n++
		}
		log.GiveRoomBack(1000 * n)
		require.Positive(t, n)
		require.GreaterOrEqual(t, n, before/2)
		before = max(n, before)
		require.True(t, log.Short())
		if life == 2 {
			require.NoError(t, os.Remove(filepath.Join(dir, "others")))
			require.Eventually(t, func() bool { return post() == nil && !log.Short() }, 10*time.Second, time.Millisecond)
		}
		require.NoError(t, log.Close())
	}
}

// Free pages side by side are room for large dead letters wherever they are, and small payloads need none that
// are side by side.
func freeInside(t *testing.T, dir string) {
	require.NoError(t, os.Mkdir(dir, 0o700))
	if !smallDisk(dir, "4m") {
		return
	}
	var refs []journal.Ref
	log, err := journal.Open(filepath.Join(dir, "journal"), journal.Config{Deliver: func(d *journal.Delivery) {
		for i := range d.Len() {
			var e journal.Entry
			ref, err := d.Read(i, &e)
			assert.NoError(t, err)
			refs = append(refs, ref)
		}
		d.Done()
	}})
	require.NoError(t, err)
	queue, err := log.Queue(t.Context(), "q")
	require.NoError(t, err)
	post := func(bytes int) error {
		sent, err := log.Append(t.Context(), []journal.Entry{{Queue: queue, ID: []byte("id"), Payload: make([]byte, bytes)}}, nil)
		if err == nil {
			err = sent.Wait(t.Context())
		}
		return err
	}
	for _, bytes := range []int{600_000, 600_000, 600_000, 100} {
		require.NoError(t, post(bytes))
	}
	fillUpBeside(t, dir)
	for err == nil {
		err = post(10_000)
	}
	require.ErrorIs(t, err, journal.ErrFull)
	log.Record(&journal.Change{Ended: refs[:3]})
	require.Eventually(t, func() bool { return post(100) == nil }, 10*time.Second, time.Millisecond)
	require.True(t, log.TakeRoom(t.Context().Done(), journal.Room{Bytes: 60_000, Letter: 50_000}))
	require.False(t, log.TakeRoom(t.Context().Done(), journal.Room{Bytes: 60_000, Letter: 1 << 20}))
	require.NoError(t, post(100))
	require.NoError(t, log.Err())
	require.NoError(t, log.Close())
}

// fillUpBeside fills the disk with a file of another program.
func fillUpBeside(t *testing.T, dir string) {
	others, err := os.Create(filepath.Join(dir, "others"))
	require.NoError(t, err)
	for err == nil {
		_, err = others.Write(make([]byte, 512))
	}
	require.NoError(t, others.Close())
}

// fillDisk enqueues until the disk has no room for anything.
func fillDisk(t *testing.T, q *executor.Queue[string], ids, size int, options ...executor.Option) {
	for n, refused := 0, 0; refused < 100; n++ {
		if _, err := q.Enqueue(t.Context(), fmt.Sprint(n%ids), strings.Repeat("x", 1+n*7919%size), options...); err != nil {
			require.ErrorIs(t, err, executor.ErrFull)
			refused++
			time.Sleep(time.Millisecond)
		}
	}
}
