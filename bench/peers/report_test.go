package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/bench/peers/peer"
)

// sampleReport has an outcome for every peer in every case of a full run.
func sampleReport(factor float64) *report {
	r := &report{Machine: machine{CPU: "a <fast> one", Cores: 2, Commit: "abc1234", At: time.Unix(0, 0).UTC()}}
	for i, t := range full.tasks(peer.All()) {
		p := byName(t.Peer)
		o := outcome{task: t, Promise: p.Promise, Workers: p.Workers, Jobs: 10, Total: 10, Rate: 1000 + float64(i), Enqueue: 2000}
		if strings.HasPrefix(p.Name, "Strand") {
			o.Rate *= 30 * factor
		}
		switch {
		case t.Shape == idle:
			o.Rate, o.Latency = 0, &latency{Samples: 7, P50: 12, P99: 30, Max: 40, Steps: []step{{0, 1}, {0.5, 12}, {0.99, 30}, {1, 40}}}
		case t.Shape == inTurn && !p.Holds:
			o.Rate, o.Skipped = 0, "it takes no more"
		case p.Name == "backlite, FULL" && t.IDs == 1:
			o.Rate, o.Failed = 0, "it <broke>"
		}
		r.Peers = append(r.Peers, o)
	}
	r.Peers = medians(r.Peers)
	for _, name := range []string{"scaling/shards@1", "scaling/shards@5", "scaling/workers@1", "scaling/producers@4", "cost/backlog@1000", "cost/payload@0", "cost/payload@100"} {
		r.Own = append(r.Own, figure{Name: name, Value: 5, Ratio: 2})
	}
	r.Own = append(r.Own, figure{Name: "durable/bulk", Value: 9, Ratio: 1.2, Goal: "ratio ≥ 1", Met: new(true)})
	r.Against = standings(r.Peers)
	return r
}

func TestReportIsWritten(t *testing.T) {
	dir := t.TempDir()
	r := sampleReport(1)
	require.NoError(t, r.save(dir))
	page, err := os.ReadFile(filepath.Join(dir, "index.html"))
	require.NoError(t, err)
	pictures, err := r.pictures()
	require.NoError(t, err)
	assert.Len(t, pictures, 13)
	assert.Equal(t, len(pictures), strings.Count(string(page), "<svg"), "it needs no other file")
	assert.NotContains(t, string(page), "<?xml")
	for _, p := range pictures {
		assert.FileExists(t, filepath.Join(dir, p.Name+".svg"))
		assert.Contains(t, string(page), strings.ReplaceAll(p.Sentence, "'", "&#39;"))
	}
	for _, want := range []string{"a &lt;fast&gt; one", "abc1234", "skipped: it takes no more", "failed: it &lt;broke&gt;", "durable/bulk", "one pool, Go"} {
		assert.Contains(t, string(page), want)
	}
	for _, p := range peer.All() {
		assert.Contains(t, string(page), p.Name)
	}
	back, err := readReport(dir)
	require.NoError(t, err)
	assert.Equal(t, r, back)
}

// A report of a run in which next to nothing worked is still one.
func TestEmptyReport(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, (&report{}).save(dir))
	assert.FileExists(t, filepath.Join(dir, "index.html"))
}

func TestStandings(t *testing.T) {
	base := task{Shape: together, IDs: 1000}
	one := func(name string, promise peer.Promise, rate float64) outcome {
		o := outcome{task: base, Promise: promise, Rate: rate}
		o.Peer = name
		return o
	}
	got := standings([]outcome{
		one("Strand", peer.Synced, 1000), one("Strand, in memory", peer.Memory, 400), one("Strand, Async", peer.Buffered, 9000),
		one("River, SQLite FULL", peer.Synced, 10), one("bbolt by hand", peer.Synced, 500), one("pond", peer.Memory, 800),
		one("ants", peer.Memory, 0), one("backlite, README", peer.Buffered, 10),
	})
	var lines []string
	for _, s := range got {
		line, err := json.Marshal([]any{s.Of, s.Peer, s.Ratio, s.Goal})
		require.NoError(t, err)
		lines = append(lines, string(line))
	}
	assert.Equal(t, []string{`["Strand","River, SQLite FULL",100,20]`, `["Strand","bbolt by hand",2,0]`, `["Strand, in memory","pond",0.5,0.5]`}, lines,
		"only with those that promise the same, and did something")
}

func TestCompare(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	require.NoError(t, sampleReport(1).save(a))
	require.NoError(t, sampleReport(1.1).save(b))
	var out bytes.Buffer
	require.NoError(t, compare(&out, a+","+b))
	assert.True(t, strings.HasPrefix(out.String(), "0 of "), out.String())
	require.NoError(t, sampleReport(1.2).save(b))
	out.Reset()
	require.NoError(t, compare(&out, a+","+b))
	assert.Contains(t, out.String(), "Strand over River, SQLite FULL, produce while drain, 1000 ids")
	assert.ErrorContains(t, compare(&out, a), "not two directories")
	assert.ErrorContains(t, compare(&out, a+",/not/there"), "no such file")
}

func TestFollow(t *testing.T) {
	var progress bytes.Buffer
	said := follow(strings.NewReader("1/2 durable/bulk\nFAILED: no\n2/2 memory/bulk\nbench: no\n"), &progress)
	assert.Equal(t, "FAILED: no\nbench: no", said)
	assert.Contains(t, progress.String(), "memory/bulk")
}
