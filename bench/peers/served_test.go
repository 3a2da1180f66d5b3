package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/bench/peers/peer"
)

// Those on a server do what they are asked, with a standby, too, and say what it has cost.
func TestServed(t *testing.T) {
	if os.Getenv("STRAND_LONG") == "" {
		t.Skip("it starts nine servers, and TestPeers all that it measures: STRAND_LONG=1 does it")
	}
	var all []*series
	for _, name := range []string{"Strand, PostgreSQL", "Strand, PostgreSQL, owner", river} {
		p := byName(name)
		require.NotNil(t, p)
		if missing := p.Needs(); missing != "" {
			t.Skip("install " + missing)
		}
		dir := t.TempDir()
		for parent := range 2 { // PostgreSQL's user has to pass
			require.NoError(t, os.Chmod(dir+strings.Repeat("/..", parent), 0o711))
		}
		for _, ask := range []task{
			{Shape: together, Single: true, Callers: 4, Tx: true, Standby: true},
			{Shape: idle},
		} {
			ask.Peer, ask.IDs, ask.Target, ask.Most = name, 7, 10*time.Second, 100
			o, err := ask.inChild(t.Context(), dir)
			require.NoError(t, err)
			s := &series{task: ask, rounds: []outcome{o}}
			all = append(all, s)
			if ask.Shape == idle {
				require.NotNil(t, o.Commit)
				assert.Positive(t, o.Commit.P50)
				assert.Equal(t, o.Latency.Samples, o.Commit.Samples)
				continue
			}
			assert.EqualValues(t, 200, o.Total)
			c := costs(s)
			require.NotNil(t, c)
			assert.GreaterOrEqual(t, c.Writes, 1.0, "each is a transaction")
			assert.Greater(t, c.WAL, 2.0*payloadBytes, "the job and the row")
			assert.Positive(t, c.Client)
			assert.Greater(t, c.Sent, 2.0*payloadBytes)
			assert.Positive(t, c.Received)
			assert.GreaterOrEqual(t, c.Requests, 3.0, "begin, row, job, commit")
		}
	}
	var out bytes.Buffer
	require.NoError(t, serverTable(&out, thisMachine("."), thisMachine("."), all))
	for _, text := range []string{"load average", "transactional, 4 callers, synchronous standby", "idle latency", "over River", "Strand, PostgreSQL, owner"} {
		assert.Contains(t, out.String(), text)
	}
}

// What is asked with -postgres, of whom.
func TestServedCases(t *testing.T) {
	asked := make(map[string]int)
	for _, c := range served.cases() {
		for _, s := range c.of(peer.OnPostgres()) {
			asked[s.task.Peer]++
		}
	}
	assert.Equal(t, map[string]int{"Strand, PostgreSQL": 7, "Strand, PostgreSQL, owner": 7, "Strand, PostgreSQL, one log": 2, river: 7, bolt: 4}, asked)
	o, err := parse([]string{"-postgres", "-quick", "-case", "idle latency$", "-run", "owner|River"}, os.Stderr)
	require.NoError(t, err)
	assert.Len(t, o.peers, 2)
	assert.Len(t, o.cases.cases(), 1)
	assert.Equal(t, 1, o.cases.rounds)
}
