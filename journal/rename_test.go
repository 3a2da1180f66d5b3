package journal

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRename(t *testing.T) {
	dir := t.TempDir() + "/journal"
	open := func() *Log {
		l, err := Open(dir, Config{})
		require.NoError(t, err)
		return l
	}
	l := open()
	number := func(name string) uint32 {
		n, err := l.Queue(t.Context(), name)
		require.NoError(t, err)
		return n
	}
	a, b := number("a"), number("b")
	ticket, err := l.Append(t.Context(), []Entry{{Queue: a, ID: []byte("x")}, {Queue: b, ID: []byte("y")}}, nil)
	require.NoError(t, err)
	require.NoError(t, ticket.Wait(t.Context()))

	require.NoError(t, l.Close())

	l = open()
	require.ErrorContains(t, l.Rename(t.Context(), "nobody", "c"), "1 to 4096 bytes")
	require.ErrorContains(t, l.Rename(t.Context(), "a", ""), "1 to 4096 bytes")
	require.NoError(t, l.Rename(t.Context(), "a", "a"))
	require.NoError(t, l.Rename(t.Context(), "a", "c"), "a new name")
	require.Equal(t, map[string]uint32{"b": b, "c": a}, l.Queues())
	require.Equal(t, uint32(3), number("d"), "no number is given twice")
	require.NoError(t, l.Rename(t.Context(), "c", "d"), "a known one, which has nothing")
	require.Equal(t, map[string]uint32{"b": b, "c": 3, "d": a}, l.Queues())
	require.NoError(t, l.Rename(t.Context(), "c", "d"), "there is nothing any more")
	require.Equal(t, map[string]uint32{"b": b, "c": 3, "d": a}, l.Queues())
	require.NoError(t, l.Close())

	_, err = Check(dir)
	require.NoError(t, err)
	l = open()
	require.Equal(t, map[string]uint32{"b": b, "c": 3, "d": a}, l.Queues())
	require.Len(t, slices.Concat(l.PendingPages(number("b"))...), 1)
	require.Len(t, slices.Concat(l.PendingPages(number("d"))...), 1)
	require.NoError(t, l.Close())
}

// Of two names that have something, all goes to one of them, in position order, whatever
// it is, and whatever part of it a crash has left behind.
func TestRenameToAnother(t *testing.T) {
	disk := new(Memory)
	l, err := OpenMemory(disk, Config{})
	require.NoError(t, err)
	a, err := l.Queue(t.Context(), "a")
	require.NoError(t, err)
	b, err := l.Queue(t.Context(), "b")
	require.NoError(t, err)
	const n = 200
	var entries []Entry
	for i := range n {
		entries = append(entries, Entry{Queue: []uint32{a, b}[i%2], ID: fmt.Append(nil, i), Payload: bytes.Repeat([]byte{byte(i)}, 30_000), Score: float64(i)})
	}
	for some := range slices.Chunk(entries, 20) {
		ticket, err := l.Append(t.Context(), some, nil)
		require.NoError(t, err)
		require.NoError(t, ticket.Wait(t.Context()))
	}
	require.NoError(t, l.Close())

	l, err = OpenMemory(disk, Config{})
	require.NoError(t, err)
	var c Change
	for _, queue := range []uint32{a, b} {
		for i, ref := range slices.Concat(l.PendingPages(queue)...) {
			if i%5 == 0 {
				c.Buried = append(c.Buried, Burial{Ref: ref, Reason: "no", Crashed: ref.Position()%2 == 1})
			} else if i%5 == 1 {
				id, err := ref.ID()
				require.NoError(t, err)
				c.States = append(c.States, JobState{Entry: Entry{Queue: queue, ID: id, Failed: []Position{ref.Position()}}})
			}
		}
	}
	l.Record(&c)
	require.NoError(t, l.Close())

	images := []*Memory{disk.Crash()}
	disk.OnCommit(func() { images = append(images, disk.Crash()) })
	l, err = OpenMemory(disk, Config{})
	require.NoError(t, err)
	require.NoError(t, l.Rename(t.Context(), "a", "b"))
	require.NoError(t, l.Close())
	require.Greater(t, len(images), 3, "some at a time")
	for _, image := range append(images, disk) {
		l, err := OpenMemory(image, Config{MemoryBudget: 500_000})
		require.NoError(t, err)
		require.NoError(t, l.Rename(t.Context(), "a", "b"))
		for range 2 {
			require.Equal(t, map[string]uint32{"a": a, "b": b}, l.Queues())
			require.Equal(t, n*4/5, l.Unclaimed()[b])
			require.Zero(t, l.Unclaimed()[a]+l.Buried(a))
			require.Equal(t, n/5, l.Buried(b))
			refs := slices.Concat(l.PendingPages(b)...)
			require.True(t, slices.IsSortedFunc(refs, func(a, b Ref) int { return cmp.Compare(a.Position(), b.Position()) }))
			payloads, states := 0, 0
			var e Entry
			for _, ref := range refs {
				require.NoError(t, ref.Read(&e))
				require.Equal(t, b, e.Queue)
				i, err := strconv.Atoi(string(e.ID))
				require.NoError(t, err)
				if e.Kind == KindState {
					states++
					continue
				}
				payloads++
				require.Equal(t, Position(i+1), e.Position)
				require.Equal(t, entries[i].Payload, e.Payload)
				require.Equal(t, float64(i), e.Score)
			}
			require.Equal(t, []int{n * 4 / 5, n / 5}, []int{payloads, states})
			for dead, err := range l.Morgue(b, 0) {
				require.NoError(t, err)
				require.Equal(t, dead.Entry.Position%2 == 1, dead.Crashed)
				require.Equal(t, b, dead.Entry.Queue)
			}
			require.NoError(t, l.Close())
			l, err = OpenMemory(image, Config{})
			require.NoError(t, err)
		}
		require.NoError(t, l.Close())
	}
}

// So it is on a full disk: what is written again makes room.
func TestRenameToAnotherOnAFullDisk(t *testing.T) {
	first := new(Memory)
	l, err := OpenMemory(first, Config{})
	require.NoError(t, err)
	for _, name := range []string{"a", "b"} {
		queue, err := l.Queue(t.Context(), name)
		require.NoError(t, err)
		for i := range 100 {
			ticket, err := l.Append(t.Context(), []Entry{{Queue: queue, ID: fmt.Append(nil, i), Payload: make([]byte, 1000)}}, nil)
			require.NoError(t, err)
			require.NoError(t, ticket.Wait(t.Context()))
		}
	}
	disk := first.Crash()
	require.NoError(t, l.Close())
	l, err = OpenMemory(disk, Config{})
	require.NoError(t, err)
	disk.Limit(disk.Content() + 1500)
	ticket, err := l.Append(t.Context(), []Entry{{Queue: 1, ID: []byte("x"), Payload: make([]byte, 5000)}}, nil)
	require.NoError(t, err)
	require.ErrorIs(t, ticket.Wait(t.Context()), ErrFull)
	require.NoError(t, l.Rename(t.Context(), "a", "b"))
	require.Equal(t, map[uint32]int{2: 200}, l.Unclaimed())
	require.NoError(t, l.Close())
}
