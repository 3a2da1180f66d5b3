package shard

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal"
)

// Payloads that come while a job runs gather for its next run, also if what runs is a retry.
func TestDebounceBehindARetry(t *testing.T) {
	g := newRig(t, Config{MaxRetries: 5, Quiet: 3 * time.Second, MaxWait: 30 * time.Second}, 1)
	come := func(after time.Duration) {
		g.now += int64(after)
		g.put(journal.Entry{ID: []byte("a"), Due: g.now})
	}
	come(0)
	g.now += int64(3 * time.Second)
	g.run(g.now, Outcome{Verdict: VerdictFailed})
	r := g.begin(g.now)
	come(0)
	come(2 * time.Second)
	g.finish(g.now, r, Outcome{Verdict: VerdictDone})
	require.Equal(t, g.now+int64(3*time.Second), g.cores[0].Status("a").Due)
}
