package journaltest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal"
)

var limitTests = map[string]func(*testing.T, Disk){
	"limits/context ended before":   opened(testContextBefore),
	"limits/append waits for room":  testRoom,
	"limits/too large":              opened(testTooLarge),
	"limits/larger than a block":    testLargerThanBlock,
	"limits/nothing":                opened(testAppendNothing),
	"limits/names of queues":        opened(testQueueNames),
	"limits/entries may be reused":  opened(testEntriesReused),
	"limits/payloads are read only": opened(testPayloadCapacity),
}

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
