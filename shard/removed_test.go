package shard

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal"
)

// What is left of a job is due when the job was, also after a crash: the due time may
// have come from a payload that a person has removed.
func TestRemovedPayloadsLeaveTheirDueTime(t *testing.T) {
	for name, cfg := range map[string]Config{"kept": {}, "pulled": {FreshDue: FreshDuePull}, "pushed": {FreshDue: FreshDuePush}} {
		t.Run(name, func(t *testing.T) {
			cfg.Merge = MergeKeepAll
			g := newRig(t, cfg, 1)
			t.Cleanup(func() { g.close() })
			payload := func(data string, due int64) journal.Position {
				return g.put(journal.Entry{ID: []byte("a"), Payload: []byte(data), Due: due})[0].ref.Position()
			}
			payload("middle", 20)
			source := map[string]journal.Position{"pulled": payload("early", 10), "pushed": payload("late", 30)}[name]
			if source == 0 {
				source = g.cores[0].lanes.find([]byte("a")).first().Ref.Position()
			}
			due := g.cores[0].NextDue()
			ended, _ := g.cores[0].Remove(1, "a", &Removal{Verdict: VerdictDeleted, Of: []journal.Position{source}})
			require.Equal(t, 1, ended)
			g.cores[0].Record(g)
			require.Equal(t, due, g.cores[0].NextDue())
			g.check()
			g.flush()
			g.crash(1)
			require.Equal(t, due, g.cores[0].NextDue(), "after a crash")
			require.Equal(t, map[string]int64{"kept": 20, "pulled": 10, "pushed": 30}[name], due)
		})
	}
}
