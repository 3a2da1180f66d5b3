package journaltest

import (
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal"
)

var orderTests = map[string]func(*testing.T, Disk){
	"order/positions are dense":         opened(testPositionsDense),
	"order/positions of many appenders": opened(testPositionsConcurrent),
	"order/deliveries by route":         opened(testDeliveryOrder),
	"order/durable before delivered":    opened(testDurableBeforeDelivered),
	"order/wait for the consumer":       opened(testWaitForConsumer),
	"order/wait for no other consumer":  opened(testWaitForNoOther),
	"order/merged reaches the ticket":   opened(testMerged),
}

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
