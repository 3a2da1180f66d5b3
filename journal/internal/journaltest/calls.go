package journaltest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal"
)

func testContextBefore(t *testing.T, f *fixture) {
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	next := f.Stats().Next
	_, err := f.Append(ctx, f.entries(0, 1, 1), nil)
	assert.ErrorIs(t, err, why)
	assert.NotErrorIs(t, err, journal.ErrUnknown)
	_, err = f.Queue(ctx, "new")
	assert.ErrorIs(t, err, why)
	assert.Equal(t, next, f.Stats().Next)
	f = f.again()
	assert.Empty(t, f.pending())
	assert.Len(t, f.Queues(), 1)
}

// testRoom keeps the committer busy, so that the open block stays full.
func testRoom(t *testing.T, disk Disk) {
	busy, release := make(chan struct{}, 10), make(chan struct{})
	f := start(t, disk, func(f *fixture, cfg *journal.Config) {
		cfg.MaxBlockBytes = 2000
		f.take = func(d *journal.Delivery) { busy <- struct{}{}; <-release; d.Done() }
	})
	f.post(f.entries(0, 1, 100)...)
	<-busy
	f.post(f.entries(1, 1, 1500)...) // there is room for one more

	next := f.Stats().Next
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := f.Append(ctx, f.entries(2, 1, 1500), nil)
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Equal(t, next, f.Stats().Next, "nothing was accepted")

	accepted := make(chan error)
	go func() {
		_, err := f.Append(t.Context(), f.entries(2, 1, 1500), nil)
		accepted <- err
	}()
	close(release)
	require.NoError(t, <-accepted)
	assert.Len(t, f.again().pending(), 3)
}

func testTooLarge(t *testing.T, f *fixture) {
	list := f.entries(0, 5, 1)
	large := make([]byte, 256<<20)
	for i := range list {
		list[i].Payload = large
	}
	_, err := f.Append(t.Context(), list, nil)
	assert.ErrorIs(t, err, journal.ErrTooLarge)
	f.append(f.entries(0, 1, 1)...)
	assert.Len(t, f.again().pending(), 1)
}

func testLargerThanBlock(t *testing.T, disk Disk) {
	f := start(t, disk, func(_ *fixture, cfg *journal.Config) { cfg.MaxBlockBytes = 100 })
	for i := range 5 {
		f.post(f.entries(i, 1, 5000)...)
		f.Record(&journal.Change{States: []journal.JobState{{Entry: journal.Entry{Queue: f.queue}}}})
	}
	assert.Len(t, f.again().pending(), 10)
}

func testAppendNothing(t *testing.T, f *fixture) {
	blocks := f.Stats().Blocks
	f.append()
	f.record(journal.Change{})
	assert.Equal(t, blocks, f.Stats().Blocks, "no commit for nothing")
}

func testQueueNames(t *testing.T, f *fixture) {
	for _, name := range []string{"", strings.Repeat("x", 4097)} {
		_, err := f.Queue(t.Context(), name)
		assert.ErrorContains(t, err, "1 to 4096 bytes")
	}
	long := strings.Repeat("x", 4096)
	n, err := f.Queue(t.Context(), long)
	require.NoError(t, err)
	f.append(f.entries(0, 1, 1)...)
	assert.Equal(t, n, f.again().Queues()[long])
}

func testEntriesReused(t *testing.T, f *fixture) {
	list := f.entries(0, 1, 100)
	for i := range 20 {
		copy(list[0].Payload, payload(i, 100))
		f.post(list...)
	}
	clear(list[0].Payload)
	require.NoError(t, f.Flush(t.Context()))
	for i, g := range f.taken() {
		assert.Equal(t, payload(i, 100), g.Entry.Payload)
	}
}

func testPayloadCapacity(t *testing.T, f *fixture) {
	f.append(f.entries(0, 2, 10)...)
	got := f.taken()
	_ = append(got[0].Entry.Payload, "overwrites the next entry"...)
	_ = append(got[0].Entry.ID, "overwrites the payload"...)
	assert.Equal(t, got[1].Entry, f.read(got[1].Ref))
	assert.Equal(t, payload(0, 10), f.read(got[0].Ref).Payload)
}

func testCloseCommits(t *testing.T, f *fixture) {
	var last journal.Ticket
	for i := range 50 {
		last = f.post(f.entries(i, 1, 10)...)
	}
	f.Record(&journal.Change{States: []journal.JobState{{Entry: journal.Entry{Queue: f.queue}}}})
	require.NoError(t, f.Close())
	require.NoError(t, last.Wait(ended(t)), "done when Close returns")
	assert.Len(t, start(t, f.disk).pending(), 51)
}

func testCloseRace(t *testing.T, disk Disk) {
	for range 20 {
		f := start(t, disk)
		had := len(f.pending())
		accepted := make([]int, 4)
		var group, running sync.WaitGroup
		running.Add(len(accepted))
		for p := range accepted {
			group.Go(func() {
				for i := 0; ; i++ {
					ticket, err := f.Append(t.Context(), f.entries(i, 1, 10), nil)
					if err != nil {
						assert.ErrorIs(t, err, journal.ErrClosed)
						return
					}
					if accepted[p]++; i == 2 {
						running.Done()
					}
					assert.NoError(t, ticket.Wait(t.Context()))
					runtime.Gosched() // who closes is not to come ten thousand commits later
				}
			})
		}
		running.Wait()
		require.NoError(t, f.Close())
		group.Wait()
		for _, n := range accepted {
			had += n
		}
		f = start(t, disk)
		require.Len(t, f.pending(), had)
		require.NoError(t, f.Close())
	}
}

func testClosed(t *testing.T, f *fixture) {
	p := f.bury(1)[0].Entry.Position
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() { assert.NoError(t, f.Close()) })
	}
	group.Wait()
	require.NoError(t, f.Close())
	_, err := f.Append(t.Context(), f.entries(0, 1, 1), nil)
	assert.ErrorIs(t, err, journal.ErrClosed)
	_, err = f.Append(t.Context(), nil, nil)
	assert.ErrorIs(t, err, journal.ErrClosed)
	_, err = f.Queue(t.Context(), "new")
	assert.ErrorIs(t, err, journal.ErrClosed)
	assert.ErrorIs(t, f.Restore(t.Context(), f.queue, []journal.Position{p}, 0, toRoute(0)), journal.ErrClosed)
	for _, err := range f.Morgue(f.queue, 0) {
		assert.ErrorIs(t, err, journal.ErrClosed)
	}
	assert.ErrorIs(t, f.Err(), journal.ErrClosed)
	f.Record(&journal.Change{Ended: refsOf(f.taken())}) // does nothing
	assert.NoError(t, f.Flush(t.Context()))
	assert.Positive(t, f.Stats().Epoch)
	assert.Len(t, start(t, f.disk).morgue(), 1)
}

func testFlush(t *testing.T, f *fixture) {
	require.NoError(t, f.Flush(t.Context()), "nothing to do")
	ticket := f.post(f.entries(0, 3, 1)...)
	require.NoError(t, f.Flush(t.Context()))
	require.NoError(t, ticket.Wait(ended(t)))
	f.Record(&journal.Change{Ended: refsOf(f.taken()[:2])})
	require.NoError(t, f.Flush(t.Context()))
	assert.Len(t, f.crashed().pending(), 1)

	release := make(chan struct{})
	f.take = func(d *journal.Delivery) { <-release; d.Done() }
	f.post(f.entries(3, 1, 1)...)
	err := f.Flush(ended(t))
	assert.ErrorIs(t, err, journal.ErrUnknown)
	assert.True(t, errors.Is(err, context.Canceled))
	close(release)
	require.NoError(t, f.Flush(t.Context()))
}

func testCopy(t *testing.T, f *fixture) {
	f.bury(3)
	f.append(f.entries(0, 10, 3000)...)
	f.end(refsOf(f.taken()[4:6])...)
	dir := Dir(filepath.Join(t.TempDir(), "copy"))
	require.NoError(t, f.Copy(t.Context(), string(dir)))
	copied := start(t, dir)
	assert.Equal(t, f.Stats().Next, copied.Stats().Next)
	assert.Equal(t, f.Stats().Epoch+1, copied.Stats().Epoch)
	assert.Equal(t, f.Queues(), copied.Queues())
	assert.Equal(t, f.morgue(), copied.morgue())
	want := f.taken()
	want = append(want[3:4:4], want[6:]...)
	assert.Equal(t, entriesOf(want), copied.pending())
	copied.append(copied.entries(0, 1, 1)...) // goes its own way
	copied = copied.again()
	assert.Len(t, copied.pending(), len(want)+1)
	assert.Len(t, f.again().pending(), len(want))
}

// testCopyRunning copies while the file grows, again and again: each copy holds
// every commit up to one, from those before Copy began to those at its end.
func testCopyRunning(t *testing.T, f *fixture) {
	work, stopped := make(chan int, 10), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := range work {
			ticket, err := f.Append(t.Context(), f.entries(i*10, 10, 3000), nil)
			if assert.NoError(t, err) {
				assert.NoError(t, ticket.Wait(t.Context()))
			}
		}
	}()
	root := t.TempDir()
	for n := range 6 {
		for i := range 30 { // of which the last ten are still to be written
			work <- n*30 + i
		}
		before := len(f.taken())
		dir := Dir(filepath.Join(root, "copy"))
		require.NoError(t, f.Copy(t.Context(), string(dir)))
		after := int(f.Stats().Next) - 1
		copied := start(t, dir)
		got := copied.pending()
		assert.Zero(t, len(got)%10, "a commit is there whole or not at all")
		assert.LessOrEqual(t, before, len(got))
		assert.LessOrEqual(t, len(got), after)
		for i, e := range got {
			require.Equal(t, journal.Position(i+1), e.Position)
			require.Equal(t, payload(i, 3000), e.Payload)
		}
		require.NoError(t, copied.Close())
		require.NoError(t, os.RemoveAll(string(dir)))
	}
	close(work)
	<-stopped
}

func testCopyExists(t *testing.T, f *fixture) {
	dir := t.TempDir()
	assert.ErrorIs(t, f.Copy(t.Context(), dir), journal.ErrExists)
	assert.Error(t, f.Copy(t.Context(), filepath.Join(dir, "no", "parent")))
	names, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, names, "nothing is left behind")
	require.NoError(t, f.Close())
	assert.ErrorIs(t, f.Copy(t.Context(), filepath.Join(dir, "copy")), journal.ErrClosed)

	volatile, err := journal.OpenMemory(nil, journal.Config{})
	require.NoError(t, err)
	assert.ErrorIs(t, volatile.Copy(t.Context(), filepath.Join(dir, "copy")), errors.ErrUnsupported)
	require.NoError(t, volatile.Close())
}

func testCopyEmpty(t *testing.T, disk Disk) {
	l, err := disk.Open(journal.Config{})
	require.NoError(t, err)
	dir := Dir(filepath.Join(t.TempDir(), "copy"))
	require.NoError(t, l.Copy(t.Context(), string(dir)))
	require.NoError(t, l.Close())
	assert.Equal(t, uint64(2), start(t, dir).Stats().Epoch)
}
