package journaltest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal"
)

type faulty struct {
	Disk
	Faults
}

// withFaults is a test of a disk that fails on demand.
func withFaults(test func(*testing.T, faulty)) func(*testing.T, Disk) {
	return func(t *testing.T, disk Disk) {
		below := disk
		if frugal, is := disk.(Frugal); is {
			below = frugal.Disk
		}
		faults, ok := below.(Faults)
		if !ok {
			t.Skip("this disk can't be made to fail")
		}
		test(t, faulty{disk, faults})
	}
}

var errDisk = errors.New("the disk is gone")

func testLatch(t *testing.T, disk faulty) {
	var told atomic.Int32
	f := start(t, disk, func(_ *fixture, cfg *journal.Config) {
		cfg.Failed = func(err error) {
			told.Add(1)
			assert.ErrorIs(t, err, journal.ErrFailed)
			assert.ErrorIs(t, err, errDisk)
		}
	})
	f.append(f.entries(0, 2, 10)...)
	var commits atomic.Int32
	disk.OnCommit(func() { commits.Add(1) })
	disk.FailNext(errDisk)
	err := f.post(f.entries(2, 1, 10)...).Wait(t.Context())
	assert.ErrorIs(t, err, journal.ErrUnknown)
	assert.ErrorIs(t, err, errDisk)

	_, err = f.Append(t.Context(), f.entries(3, 1, 10), nil)
	assert.ErrorIs(t, err, journal.ErrFailed)
	assert.ErrorIs(t, err, errDisk)
	_, err = f.Queue(t.Context(), "new")
	assert.ErrorIs(t, err, journal.ErrFailed)
	f.Record(&journal.Change{Ended: refsOf(f.taken())})
	assert.ErrorIs(t, f.Flush(t.Context()), journal.ErrFailed)
	assert.ErrorIs(t, f.Err(), journal.ErrFailed)
	assert.Equal(t, f.taken()[0].Entry, f.read(f.taken()[0].Ref), "what is in memory can still be read")

	assert.ErrorIs(t, f.Close(), errDisk)
	assert.NoError(t, f.Close())
	assert.Equal(t, int32(1), told.Load())
	assert.Zero(t, commits.Load(), "no further commit reaches the disk")
	disk.OnCommit(nil)
	assert.Len(t, start(t, disk).pending(), 2)
}

func testLatchAtClose(t *testing.T, disk faulty) {
	f := start(t, disk)
	disk.FailNext(errDisk)
	ticket := f.post(f.entries(0, 1, 10)...)
	assert.ErrorIs(t, f.Close(), errDisk)
	assert.ErrorIs(t, ticket.Wait(ended(t)), journal.ErrUnknown)
}

// eventually polls, because no call tells when there is room again.
func eventually(t *testing.T, f func() bool) {
	t.Helper()
	require.Eventually(t, f, 5*time.Second, time.Millisecond)
}

func testFull(t *testing.T, disk faulty) {
	f := start(t, disk)
	f.append(f.entries(0, 3, 10)...)
	got := f.taken()
	state := journal.Change{
		Ended:  []journal.Ref{got[0].Ref},
		States: []journal.JobState{{Entry: journal.Entry{Queue: f.queue, ID: []byte("id-1"), Retry: 3}}},
	}
	// One commit takes Record and Append together and is refused, and so are the
	// results alone, at once and in pieces.
	hold, held := make(chan struct{}), make(chan struct{})
	f.take = func(d *journal.Delivery) { close(held); <-hold; f.take = (*journal.Delivery).Done; d.Done() }
	f.post(f.entries(3, 1, 10)...)
	<-held
	disk.FailNext(journal.ErrFull, journal.ErrFull, journal.ErrFull)
	f.Record(&state)
	ticket := f.post(f.entries(4, 2, 10)...)
	close(hold)
	assert.ErrorIs(t, ticket.Wait(t.Context()), journal.ErrFull)

	_, err := f.Append(t.Context(), f.entries(6, 1, 10), nil)
	assert.ErrorIs(t, err, journal.ErrFull)
	assert.ErrorIs(t, f.Flush(t.Context()), journal.ErrFull)
	assert.ErrorIs(t, f.Err(), journal.ErrFull)
	f.Record(&journal.Change{Ended: []journal.Ref{got[1].Ref}}) // is kept

	eventually(t, func() bool { return f.Err() == nil })
	require.NoError(t, f.Flush(t.Context()))
	f.append(f.entries(7, 1, 10)...)
	require.Len(t, f.taken(), 5, "the refused ones are never delivered")
	want := []journal.Position{3, 4, state.States[0].Entry.Position, f.taken()[4].Entry.Position}
	assert.Equal(t, want, positionsOf(f.crashed().pending()))
	f.checkSize()
	assert.Equal(t, want, positionsOf(f.again().pending()))
}

func testFullWaiting(t *testing.T, disk faulty) {
	f := start(t, disk, func(_ *fixture, cfg *journal.Config) { cfg.MaxBlockBytes = 1000 })
	hold, held := make(chan struct{}), make(chan struct{})
	f.take = func(d *journal.Delivery) { close(held); <-hold; f.take = (*journal.Delivery).Done; d.Done() }
	f.post(f.entries(0, 1, 10)...)
	<-held
	f.post(f.entries(1, 1, 500)...)
	// While that block is refused, one appender is in the next block, and one
	// waits for that to have room.
	disk.FailNext(journal.ErrFull, journal.ErrFull)
	answers := make(chan error, 2)
	for number := 2; number <= 3; number++ {
		go func() {
			ticket, err := f.Append(t.Context(), f.entries(number, 1, 900), nil)
			if err == nil {
				err = ticket.Wait(t.Context())
			}
			answers <- err
		}()
	}
	close(hold)
	for range cap(answers) {
		if err := <-answers; err != nil {
			assert.ErrorIs(t, err, journal.ErrFull)
		}
	}
	eventually(t, func() bool {
		ticket, err := f.Append(t.Context(), f.entries(4, 1, 10), nil)
		return err == nil && ticket.Wait(t.Context()) == nil
	})
	require.Equal(t, len(f.taken()), len(f.again().pending()))
}

func testFullAtClose(t *testing.T, disk faulty) {
	for _, lasting := range []bool{false, true} {
		f := start(t, disk)
		f.append(f.entries(0, 1, 10)...)
		got := f.taken()
		disk.FailNext(journal.ErrFull)
		if lasting {
			disk.FailNext(journal.ErrFull, journal.ErrFull, journal.ErrFull, journal.ErrFull)
		}
		f.Record(&journal.Change{Ended: []journal.Ref{got[0].Ref}})
		eventually(t, func() bool { return errors.Is(f.Err(), journal.ErrFull) || !lasting })
		err := f.Close()
		if !lasting {
			require.NoError(t, err)
			f = start(t, disk)
			assert.Empty(t, f.pending(), "one last attempt was made")
			require.NoError(t, f.Close())
			continue
		}
		assert.ErrorIs(t, err, journal.ErrFull)
		assert.ErrorIs(t, err, journal.ErrFailed)
	}
}

func testFullMorgue(t *testing.T, disk faulty) {
	f := start(t, disk)
	p := f.bury(2)[0].Entry.Position
	disk.FailNext(journal.ErrFull)
	assert.ErrorIs(t, f.restore(p), journal.ErrFull)
	eventually(t, func() bool { return f.Err() == nil })
	assert.Empty(t, f.got[5])
	assert.Len(t, f.morgue(), 2)
	require.NoError(t, f.restore(p))
	assert.Len(t, f.got[5], 1)
	f = f.again()
	assert.Len(t, f.morgue(), 1)
	assert.Len(t, f.pending(), 1)

	// A new queue that found no room is there once there is some.
	disk.FailNext(journal.ErrFull)
	_, err := f.Queue(t.Context(), "new")
	assert.ErrorIs(t, err, journal.ErrFull)
	eventually(t, func() bool { return f.Err() == nil })
	n, err := f.Queue(context.Background(), "new")
	require.NoError(t, err)
	assert.Equal(t, n, f.again().Queues()["new"])
}

func testOpenFails(t *testing.T, disk faulty) {
	disk.FailNext(errDisk)
	_, err := disk.Open(journal.Config{})
	require.ErrorIs(t, err, errDisk)
	assert.Equal(t, uint64(1), start(t, disk).Stats().Epoch)
}
