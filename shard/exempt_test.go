package shard

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal"
)

// A run that was exempted leaves room for one more, and takes it along when it
// comes back.
func TestExemptRun(t *testing.T) {
	g := newRig(t, Config{Concurrency: 1}, 1)
	c := g.cores[0]
	for _, id := range []string{"a", "b", "c", "d"} {
		g.put(journal.Entry{ID: []byte(id), Due: 1})
	}
	take := func() *Run {
		r := c.NewRun()
		if !c.Take(1, r) {
			return nil
		}
		require.True(t, r.Items[0].start(0))
		return r
	}
	first := take()
	require.Nil(t, take())
	c.Exempt(first)
	c.Exempt(first) // twice is once
	second := take()
	require.NotNil(t, second)
	require.Nil(t, take(), "no more than one beside it")
	c.Finish(1, first)
	c.Record(g)
	require.Nil(t, take(), "the second one still runs")
	c.Exempt(first) // it came back meanwhile
	require.Nil(t, take())
	c.Finish(1, second)
	c.Record(g)
	require.NotNil(t, take())
	require.Nil(t, take())
}
