package journaltest

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal"
)

func testPositionsDense(t *testing.T, f *fixture) {
	next := f.Stats().Next
	for n := range 20 {
		ticket := f.append(f.entries(0, n, 10)...)
		for i := range n {
			require.Equal(t, next, ticket.Position(i))
			next++
		}
	}
	assert.Equal(t, next, f.Stats().Next)
	got := f.taken()
	require.Len(t, got, int(next)-1)
	for i, g := range got {
		assert.Equal(t, journal.Position(i+1), g.Entry.Position)
		assert.Equal(t, journal.Position(i+1), g.Ref.Position())
		assert.False(t, g.Ref.IsZero())
	}
}

const producers, calls, perCall = 8, 40, 3

// produce appends from many goroutines and returns the positions that each got,
// in the order of its calls.
func produce(f *fixture, route func(producer int) uint32) [][]journal.Position {
	positions := make([][]journal.Position, producers)
	var group sync.WaitGroup
	for p := range producers {
		group.Go(func() {
			var last journal.Ticket
			for c := range calls {
				list := f.entries(p*1000+c*10, perCall, 20)
				for i := range list {
					list[i].Route = route(p)
				}
				ticket, err := f.Append(f.t.Context(), list, nil)
				if !assert.NoError(f.t, err) {
					return
				}
				for i := range perCall {
					positions[p] = append(positions[p], ticket.Position(i))
				}
				last = ticket
			}
			assert.NoError(f.t, last.Wait(f.t.Context()))
		})
	}
	group.Wait()
	return positions
}

func testPositionsConcurrent(t *testing.T, f *fixture) {
	var all []journal.Position
	for _, own := range produce(f, func(int) uint32 { return 0 }) {
		require.True(t, slices.IsSorted(own), "calls of one goroutine are in order")
		for i := range own {
			require.Equal(t, own[i/perCall*perCall]+journal.Position(i%perCall), own[i], "one call is in one piece")
		}
		all = append(all, own...)
	}
	slices.Sort(all)
	for i, p := range all {
		require.Equal(t, journal.Position(i+1), p)
	}
}

func testDeliveryOrder(t *testing.T, f *fixture) {
	positions := produce(f, func(p int) uint32 { return uint32(p) * 3 })
	require.NoError(t, f.Flush(t.Context()))
	for p, want := range positions {
		got := f.got[uint32(p)*3]
		require.Len(t, got, len(want))
		for i, g := range got {
			require.Equal(t, want[i], g.Entry.Position, "route %d", p*3)
			require.Equal(t, payload(p*1000+i/perCall*10+i%perCall, 20), g.Entry.Payload)
		}
	}
}

func testDurableBeforeDelivered(t *testing.T, f *fixture) {
	seen := 0
	f.take = func(d *journal.Delivery) {
		copied := f.crashed()
		f.mu.Lock()
		want := len(f.got[0])
		f.mu.Unlock()
		assert.Len(t, copied.pending(), want)
		seen++
		d.Done()
	}
	for i := range 3 {
		f.append(f.entries(i, 1, 100)...)
		assert.Len(t, f.crashed().pending(), i+1, "durable before Wait returns")
	}
	assert.Equal(t, 3, seen)
}

func testWaitForConsumer(t *testing.T, f *fixture) {
	deliveries := make(chan *journal.Delivery, 2)
	f.take = func(d *journal.Delivery) { deliveries <- d }
	list := f.entries(0, 2, 10)
	list[1].Route = 7
	ticket := f.post(list...)
	first, second := <-deliveries, <-deliveries
	assert.ErrorIs(t, ticket.Wait(ended(t)), journal.ErrUnknown)
	first.Done()
	assert.ErrorIs(t, ticket.Wait(ended(t)), journal.ErrUnknown, "one consumer is not through")
	second.Done()
	assert.NoError(t, ticket.Wait(ended(t)))
}

func testWaitForNoOther(t *testing.T, f *fixture) {
	deliveries, goOn := make(chan *journal.Delivery), make(chan struct{})
	f.take = func(d *journal.Delivery) {
		deliveries <- d
		<-goOn // holds up the committer
	}
	enqueue := func(routes ...uint32) journal.Ticket {
		list := f.entries(0, len(routes), 10)
		for i, route := range routes {
			list[i].Route = route
		}
		return f.post(list...)
	}
	enqueue(0)
	(<-deliveries).Done()
	one, both, other := enqueue(1), enqueue(2, 1), enqueue(2)
	goOn <- struct{}{}
	first := <-deliveries
	goOn <- struct{}{}
	second := <-deliveries
	goOn <- struct{}{}
	require.Equal(t, []int{2, 2}, []int{first.Len(), second.Len()}, "both are of one block")
	first.Done()
	assert.NoError(t, one.Wait(ended(t)))
	assert.ErrorIs(t, both.Wait(ended(t)), journal.ErrUnknown)
	assert.ErrorIs(t, other.Wait(ended(t)), journal.ErrUnknown)
	second.Done()
	assert.NoError(t, both.Wait(ended(t)))
	assert.NoError(t, other.Wait(ended(t)))
}

func testMerged(t *testing.T, f *fixture) {
	f.take = func(d *journal.Delivery) {
		var e journal.Entry
		for i := range d.Len() {
			if p := must(d.Read(i, &e)).Position(); p%2 == 0 {
				d.Merged(p, p-1)
			}
		}
		d.Merged(1<<40, 1) // of no entry here: no caller is told
		d.Done()
	}
	for range 3 {
		tickets := []journal.Ticket{f.append(f.entries(0, 3, 1)...), f.append(f.entries(3, 2, 1)...)}
		for k, n := range []int{3, 2} {
			for i := range n {
				p := tickets[k].Position(i)
				want := journal.Position(0)
				if p%2 == 0 {
					want = p - 1
				}
				assert.Equal(t, want, tickets[k].Merged(i), "position %d", p)
			}
		}
	}
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
