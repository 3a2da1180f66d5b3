package journal

import (
	"slices"
	"sync"
	"testing"

	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/stretchr/testify/require"
)

// Everything in an open block may end before more is added to it. What ended
// must stay ended when the block is carried forward later.
func TestWhatEndsInAnOpenBlockIsNotCarried(t *testing.T) {
	disk := new(Memory)
	var payload Ref
	l, err := OpenMemory(disk, Config{trimSlack: 1, minCarry: 1 << 20, Deliver: func(d *Delivery) {
		var e Entry
		payload = must(d.Read(0, &e))
		d.Done()
	}})
	require.NoError(t, err)

	// The first commit is held, so that all the rest meets in one open block.
	held, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	disk.OnCommit(func() {
		once.Do(func() {
			close(held)
			<-release
		})
	})
	ticket, err := l.Append(t.Context(), []Entry{{Queue: 1, ID: []byte("id"), Payload: []byte("payload")}}, nil)
	require.NoError(t, err)
	<-held
	state := func(retry int) *Change {
		return &Change{States: []JobState{{Entry: Entry{Queue: 1, ID: []byte("id"), Retry: retry}}}}
	}
	first := state(0)
	l.Record(first)
	l.Record(&Change{Ended: []Ref{first.States[0].Ref}})
	l.Record(state(1))
	close(release)
	require.NoError(t, ticket.Wait(t.Context()))
	require.NoError(t, l.Flush(t.Context()))
	require.False(t, payload.IsZero())

	// Dead weight on top makes the log carry its oldest blocks.
	before := l.Stats().Blocks
	for range 3 {
		dead := state(2)
		l.Record(dead)
		require.NoError(t, l.Flush(t.Context()))
		l.Record(&Change{Ended: []Ref{dead.States[0].Ref}})
		require.NoError(t, l.Flush(t.Context()))
	}
	require.LessOrEqual(t, l.Stats().Blocks, before+1, "nothing was carried: the test shows nothing")
	require.NoError(t, l.Close())

	l, err = OpenMemory(disk, Config{})
	require.NoError(t, err)
	var e Entry
	var retries []int
	for _, ref := range slices.Concat(l.PendingPages(1)...) {
		if require.NoError(t, ref.Read(&e)); e.Kind == KindState {
			retries = append(retries, e.Retry)
		}
	}
	require.Equal(t, []int{1}, retries)
	require.NoError(t, l.Close())
}

// TestBuffersOfABurst: the buffers of a block stay with its entries, and the next
// ones are made when they are needed.
func TestBuffersOfABurst(t *testing.T) {
	l, err := OpenMemory(nil, Config{})
	require.NoError(t, err)
	burst := make([]Entry, 1000)
	for i := range burst {
		burst[i] = Entry{Queue: 1, ID: []byte("id"), Payload: make([]byte, 100)}
	}
	for range 10 {
		ticket, err := l.Append(t.Context(), burst, nil)
		require.NoError(t, err)
		require.NoError(t, ticket.Wait(t.Context()))
	}
	l.committing.Lock() // it is done with what it does after a commit
	require.Less(t, cap(l.open.Entries)+cap(l.spare.Entries), 8<<10)
	l.committing.Unlock()
	require.NoError(t, l.Close())
}

// Below zero, blocks are as large as they can be.
func TestBlocksWithoutBound(t *testing.T) {
	l, err := OpenMemory(new(Memory), Config{MaxBlockBytes: -1})
	require.NoError(t, err)
	require.Equal(t, format.MaxAppendBytes, l.cfg.MaxBlockBytes)
	require.NoError(t, l.Close())
}
