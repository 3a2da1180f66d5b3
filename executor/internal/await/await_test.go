package await

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/lock"
	"github.com/strandjobs/strand/shard"
)

func job(id string) lock.Owner { return lock.Owner{Queue: "q", ID: id} }

// Waits make a graph; the edge that would close a cycle is refused, with its jobs,
// and so is the one that the last worker would wait at.
func TestGraph(t *testing.T) {
	var g Graph
	edge := func(call int, from, to string) *Edge {
		return &Edge{Call: call, From: []lock.Owner{job(from)}, To: job(to), Waiter: NewWaiter(), Asker: "q", Asked: "q"}
	}
	ab, bc := edge(1, "a", "b"), edge(2, "b", "c")
	for _, e := range []*Edge{ab, bc} {
		_, ok := g.Enter(e, 9)
		require.True(t, ok)
	}
	cycle, ok := g.Enter(edge(3, "c", "a"), 9)
	require.False(t, ok)
	require.Equal(t, []lock.Owner{job("c"), job("a"), job("b"), job("c")}, cycle)
	cycle, _ = g.Enter(edge(1, "d", "d"), 9)
	require.Equal(t, []lock.Owner{job("d"), job("d")}, cycle)

	_, ok = g.Enter(edge(2, "b", "x"), 3)
	require.True(t, ok, "a second wait of one call")
	cycle, ok = g.Enter(edge(3, "e", "f"), 3)
	require.False(t, ok)
	require.Nil(t, cycle)
	other := edge(4, "y", "c")
	other.Asker, other.Asked = "r", "s"
	other.From = append(other.From, job("a"))
	cycle, _ = g.Enter(other, 9)
	require.Nil(t, cycle)
	back := edge(5, "c", "y")
	back.Asked = "t"
	cycle, _ = g.Enter(back, 9)
	require.Equal(t, []lock.Owner{job("c"), {Queue: "t", ID: "y"}, {Queue: "s", ID: "c"}}, cycle, "as each was asked for")
	g.Leave(other)
	close(ab.Waiter.Done)
	_, ok = g.Enter(edge(3, "c", "a"), 3)
	require.True(t, ok, "what has ended waits for nothing")
	g.Leave(bc)
	require.Equal(t, 2, g.Len())
}

// Waiters move with payloads that become one, and are forgotten with them.
func TestBook(t *testing.T) {
	var b Book
	first, second, gone := NewWaiter(), NewWaiter(), NewWaiter()
	require.False(t, b.Any())
	b.Add(first, 1)
	b.Add(second, 2)
	b.Add(gone, 2)
	boom := errors.New("boom")
	b.Failed(2, boom)
	require.Same(t, boom, b.Leave(gone))
	require.NoError(t, b.Leave(gone), "it has gone")
	b.Record(&shard.Change{Merged: []shard.Merged{{Position: 1, Into: 2}, {Position: 2, Into: 3}, {Position: 8, Into: 9}}}, journal.Ticket{})
	require.Equal(t, 1, b.Len())
	b.Returned(1, "old")
	b.Returned(3, "new")
	require.Same(t, boom, b.Leave(second))
	require.True(t, b.Any())
	require.NoError(t, b.Leave(NewWaiter()))
	require.Same(t, boom, b.Leave(first))
	require.False(t, b.Any())
}
