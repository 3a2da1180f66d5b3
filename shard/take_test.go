package shard

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal"
)

// While the disk is short of room a run is one call of a handler, however fast the
// handlers are: what they bury takes room, and what made room for it has to be
// written first.
func TestShortOfRoom(t *testing.T) {
	for _, tc := range []struct {
		name        string
		cfg         Config
		roomy, calm int // jobs of a run: with room, without
	}{
		{"one payload per call", Config{Single: true}, 8, 1},
		{"a job per call", Config{}, 8, 1},
		{"a batch per call", Config{BatchSize: 3}, 20, 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			short := false
			tc.cfg.Short = func() bool { return short }
			g := newRig(t, tc.cfg, 1)
			for i := range 20 {
				g.put(journal.Entry{ID: []byte{'a' + byte(i)}})
			}
			c := g.cores[0]
			for _, short = range []bool{false, true, false} {
				c.pace = 8
				r := c.NewRun()
				require.True(t, c.Take(0, r))
				require.Len(t, r.Items, map[bool]int{false: tc.roomy, true: tc.calm}[short])
				c.Finish(0, r) // not run at all: it goes back
				c.Record(g)
			}
		})
	}
}
