package journaltest

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal"
)

var reopenTests = map[string]func(*testing.T, Disk){
	"reopen/the living come back in order":  opened(testReopenLive),
	"reopen/states":                         opened(testReopenStates),
	"reopen/queue numbers":                  opened(testReopenQueues),
	"reopen/positions are never used twice": opened(testReopenPositions),
	"reopen/epoch grows":                    opened(testReopenEpoch),
	"reopen/fields":                         opened(testReopenFields),
	"reopen/unclaimed queues":               opened(testReopenUnclaimed),
}

func testReopenLive(t *testing.T, f *fixture) {
	var want []journal.Entry
	for i := range 10 {
		f.append(f.entries(i*10, 10, 50)...)
	}
	got := f.taken()
	rand.Shuffle(len(got), func(i, j int) { got[i], got[j] = got[j], got[i] })
	var over []journal.Ref
	for i, g := range got {
		if i%3 == 0 {
			want = append(want, g.Entry)
		} else {
			over = append(over, g.Ref)
		}
	}
	for part := range slices.Chunk(over, 7) {
		f.end(part...)
	}
	slices.SortFunc(want, func(a, b journal.Entry) int { return int(a.Position) - int(b.Position) })
	for range 3 {
		f = f.again()
		assert.Equal(t, want, f.pending())
		assert.Empty(t, f.pending(), "handed over once")
	}
}

func testReopenStates(t *testing.T, f *fixture) {
	f.append(f.entries(0, 2, 10)...)
	jobs := f.taken()
	state := journal.JobState{Entry: journal.Entry{
		Queue: f.queue, ID: []byte("id-0"), Due: 12345, Retry: -1,
		Failed: []journal.Position{1, 1 << 50}, Error: []byte("it broke"),
	}}
	var refs []journal.Ref
	for retry := range 5 {
		state.Entry.Retry = retry - 1
		c := journal.Change{States: []journal.JobState{state}, Ended: refs}
		f.record(c)
		refs = []journal.Ref{c.States[0].Ref}
		assert.Equal(t, refs[0].Position(), c.States[0].Entry.Position)
		assert.Equal(t, retry-1, f.read(refs[0]).Retry, "readable after its commit")
	}
	f = f.again()
	got := f.pending()
	require.Len(t, got, 3, "two payloads and the last state")
	assert.Equal(t, jobs[0].Entry.Position, got[0].Position)
	state.Entry.Kind, state.Entry.Position = journal.KindState, refs[0].Position()
	assert.Equal(t, state.Entry, got[2])
	assert.Equal(t, 3, got[2].Retry)
}

func testReopenQueues(t *testing.T, f *fixture) {
	names := []string{"b", "a", "ü\x00", "zz"}
	want := map[string]uint32{queueName: f.queue}
	for i, name := range names {
		n, err := f.Queue(t.Context(), name)
		require.NoError(t, err)
		again, err := f.Queue(t.Context(), name)
		require.NoError(t, err)
		assert.Equal(t, n, again)
		want[name] = n
		f = f.again()
		assert.Equal(t, want, f.Queues(), "after %d names", i+2)
	}
	numbers := make(map[uint32]bool)
	for _, n := range want {
		numbers[n] = true
	}
	assert.Len(t, numbers, len(want), "each has its own number")
}

func testReopenPositions(t *testing.T, f *fixture) {
	used := journal.Position(0)
	for range 4 {
		ticket := f.append(f.entries(0, 3, 10)...)
		require.Greater(t, ticket.Position(0), used)
		used = ticket.Position(2)
		f.end(refsOf(f.taken())...)
		f.record(journal.Change{States: []journal.JobState{{Entry: journal.Entry{Queue: f.queue}}}}) // drops what ran empty
		used++
		f = f.again()
		refs := slices.Concat(f.PendingPages(f.queue)...)
		require.Len(t, refs, 1)
		f.end(refs...)
		f = f.again()
		require.Empty(t, f.pending(), "the log ran empty")
	}
}

func testReopenEpoch(t *testing.T, f *fixture) {
	epoch := f.Stats().Epoch
	for range 3 {
		f = f.again()
		require.Equal(t, epoch+1, f.Stats().Epoch)
		crashed := f.crashed()
		require.Equal(t, epoch+2, crashed.Stats().Epoch, "also when nothing was committed")
		epoch++
	}
}

func testReopenFields(t *testing.T, f *fixture) {
	list := []journal.Entry{
		{},
		{ID: []byte{}, Payload: []byte{}},
		{ID: []byte("\x00"), Payload: []byte{0}},
		{ID: []byte("\xff\xfe"), Payload: []byte("\x00\xff")},
		{Due: math.MinInt64, Score: math.Inf(-1)},
		{Due: math.MaxInt64, Score: math.SmallestNonzeroFloat64},
		{Due: 0, Score: math.Copysign(0, -1)},
		{Due: 5e9, Score: journal.ScoreOf(5e9)},
		{Payload: payload(1, 1<<20)},
	}
	for i := range list {
		list[i].Queue = f.queue
	}
	f.append(list...)
	check := func(got []journal.Entry) {
		require.Len(t, got, len(list))
		for i, want := range list {
			assert.Equal(t, journal.KindEnqueued, got[i].Kind)
			assert.Equal(t, string(want.ID), string(got[i].ID))
			assert.Equal(t, string(want.Payload), string(got[i].Payload))
			assert.NotNil(t, got[i].ID, "an empty id is empty, not nil")
			assert.NotNil(t, got[i].Payload, "an empty payload is empty, not nil")
			assert.Equal(t, want.Due, got[i].Due)
			assert.Equal(t, math.Float64bits(want.Score), math.Float64bits(got[i].Score))
			assert.False(t, got[i].Restored)
		}
	}
	check(entriesOf(f.taken()))
	check(f.again().pending())
}

func testReopenUnclaimed(t *testing.T, f *fixture) {
	other, err := f.Queue(t.Context(), "gone")
	require.NoError(t, err)
	list := f.entries(0, 5, 1)
	list[1].Queue, list[3].Queue = other, other
	f.append(list...)
	f = f.again()
	assert.Equal(t, map[uint32]int{f.queue: 3, other: 2}, f.Unclaimed())
	assert.Len(t, f.pending(), 3)
	assert.Equal(t, map[uint32]int{other: 2}, f.Unclaimed())
	f = f.again()
	assert.Equal(t, map[uint32]int{f.queue: 3, other: 2}, f.Unclaimed(), "nothing is lost")
}
