package journal

import (
	"errors"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What a View says about the past is what was there then, while blocks leave
// the log all the time; and what it can't know it does not make up.
func TestViewAt(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "past.strand")
	live := make(map[Position]Ref)
	cfg := Config{trimSlack: 4000, minCarry: 500, Deliver: func(d *Delivery) {
		var e Entry
		for i := range d.Len() {
			ref := must(d.Read(i, &e))
			live[e.Position] = ref
		}
		d.Done()
	}}
	l, err := Open(dir, cfg)
	require.NoError(t, err)
	queue, err := l.Queue(t.Context(), "q")
	require.NoError(t, err)
	random := rand.New(rand.NewPCG(3, 4))
	after := make(map[Position][]Position) // what was live when a position was the newest
	for i := range 300 {
		ticket, err := l.Append(t.Context(), []Entry{{Queue: queue, ID: []byte("id"), Payload: make([]byte, random.IntN(200))}})
		require.NoError(t, err)
		require.NoError(t, ticket.Wait(t.Context()))
		var ps []Position
		for p := range live {
			ps = append(ps, p)
		}
		slices.Sort(ps)
		after[ticket.Position(0)] = slices.Clone(ps)
		if i > 150 { // what is old stays, and is carried forward
			ps = slices.DeleteFunc(ps, func(p Position) bool { return p < ticket.Position(0)-20 })
		}
		random.Shuffle(len(ps), func(i, j int) { ps[i], ps[j] = ps[j], ps[i] })
		var c Change
		for _, p := range ps[:min(len(ps), random.IntN(3))] {
			c.Ended = append(c.Ended, live[p])
			delete(live, p)
		}
		l.Record(&c)
		require.NoError(t, l.Flush(t.Context()))
	}
	require.NoError(t, l.Close())
	before, err := youngest(filepath.Join(dir, fileName))
	require.NoError(t, err)

	v, err := OpenView(dir)
	require.NoError(t, err)
	require.Greater(t, v.Info().Oldest, uint64(10), "nothing has left the log")
	told := 0
	for p, want := range after {
		m, err := v.At(p)
		if history, ok := errors.AsType[*HistoryError](err); ok {
			assert.Less(t, p, history.First)
			continue
		}
		require.NoError(t, err)
		var got []Position
		for _, ref := range m.Live(queue) {
			var e Entry
			require.NoError(t, ref.Read(&e))
			assert.Equal(t, e.Position, ref.Position())
			got = append(got, e.Position)
		}
		assert.Equal(t, want, got, "position %d", p)
		told++
	}
	assert.Greater(t, told, 5)
	require.NoError(t, v.Close())
	now, err := youngest(filepath.Join(dir, fileName))
	require.NoError(t, err)
	assert.Equal(t, before, now, "looking has written something")
}

// An owner that starts while a journal is read is not held up, and the reader
// says that what it read does not count.
func TestViewGivesWay(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "shared.strand")
	l, err := Open(dir, Config{})
	require.NoError(t, err)
	_, err = OpenView(dir)
	require.ErrorIs(t, err, ErrLocked)
	require.NoError(t, l.Close())
	v, err := OpenView(dir)
	require.NoError(t, err)
	l, err = Open(dir, Config{})
	require.NoError(t, err)
	for _, err := range v.Morgue() {
		require.ErrorIs(t, err, ErrLocked)
	}
	require.NoError(t, l.Close())
	for _, err := range v.Morgue() {
		require.ErrorIs(t, err, ErrLocked, "it has changed since")
	}
	require.NoError(t, v.Close())
}
