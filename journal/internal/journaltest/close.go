package journaltest

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal"
)

var closeTests = map[string]func(*testing.T, Disk){
	"close/commits what was accepted": opened(testCloseCommits),
	"close/against appenders":         testCloseRace,
	"close/everything is refused":     opened(testClosed),
	"flush":                           opened(testFlush),
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
