package shard

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A run may come back when its ids have long been run by others, and the last
// of many has taken the table of ids along.
func TestFinishOfWhatIsNoMore(t *testing.T) {
	const ids = 10 * keptSlots
	s := newStock(t, ids, numbered, numbered)
	again := newStock(t, 1, numbered, func(int) []byte { return []byte("fresh") })
	c := NewCore(1, Config{Concurrency: 2})
	s.deliver(c, 0, 0)
	stuck := c.NewRun()
	require.True(t, c.Take(0, stuck))
	again.deliver(c, 0, 0) // takes the id back
	for i := 1; i < ids; i++ {
		s.deliver(c, i, 0)
	}
	require.Equal(t, ids+1, work(c, 0, c.NewRun()))
	require.Nil(t, c.lanes.byID.dir)
	require.False(t, stuck.Items[0].start(0))
	c.Finish(0, stuck)
	require.Empty(t, c.runs)
}
