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
	var all []*series
	for _, c := range full.cases() {
		all = append(all, c.of(peer.All())...)
	}
	for i, s := range all {
		for round := range 3 {
			all[i].rounds = append(all[i].rounds, sampleOutcome(s.task, round, factor, float64(i)))
		}
	}
	r.Peers, r.Against = merge(all), standings(all)
	for _, name := range []string{"scaling/shards@1", "scaling/shards@5", "scaling/workers@1", "scaling/producers@4", "cost/backlog@1000", "cost/payload@0", "cost/payload@100"} {
		r.Own = append(r.Own, figure{Name: name, Value: 5, Min: 4, Max: 6, Ratio: 2})
	}
	r.Own = append(r.Own, figure{Name: "durable/bulk", Value: 9, Ratio: 1.2, Goal: "ratio ≥ 1", Met: new(true)},
		figure{Name: "idle/wakeups", Value: 1, Ratio: 3, Slack: 2, Unit: "per s"})
	return r
}

func sampleOutcome(t task, round int, factor, i float64) outcome {
	p := byName(t.Peer)
	o := outcome{task: t, Promise: p.Promise, Workers: p.Workers, Round: round, Jobs: 10, Total: 10, Rate: 1000 + i + float64(round), Enqueue: 2000}
	if strings.HasPrefix(p.Name, "Strand") {
		o.Rate *= 30 * factor
	}
	switch {
	case t.Shape == idle:
		o.Rate, o.Latency = 0, newLatency([]float64{1, 12, 30, 40})
		for range 500 {
			o.Latency.Raw = append(o.Latency.Raw, 1, 12, 30, 40)
		}
	case t.Shape == inTurn && !p.Holds:
		o.Rate, o.Skipped = 0, "it takes no more"
	case p.Name == "backlite, FULL" && t.IDs == 1:
		o.Rate, o.Failed = 0, "it <broke>"
	}
	return o
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
	idleOne := rates("River, SQLite FULL", peer.Synced, 10)
	idleOne.task.Shape = idle
	got := standings([]*series{
		rates("Strand", peer.Synced, 1000, 1200, 900), rates("Strand, in memory", peer.Memory, 400), rates("Strand, Async", peer.Buffered, 9000),
		rates("River, SQLite FULL", peer.Synced, 10, 10, 10), rates("bbolt by hand", peer.Synced, 500, 300, 100), rates("pond", peer.Memory, 800),
		rates("ants", peer.Memory, 0), rates("backlite, README", peer.Buffered, 10), idleOne,
	})
	var lines []string
	for _, s := range got {
		line, err := json.Marshal([]any{s.Of, s.Peer, s.Ratio, s.RatioMin, s.RatioMax, s.Rounds, s.Goal})
		require.NoError(t, err)
		lines = append(lines, string(line))
	}
	assert.Equal(t, []string{`["Strand","River, SQLite FULL",100,90,120,3,20]`, `["Strand","bbolt by hand",4,2,9,3,0]`, `["Strand, in memory","pond",0.5,0.5,0.5,1,0.5]`}, lines,
		"only with those that promise the same, and did something")
}

func TestCompare(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	first, second := sampleReport(1), sampleReport(1.1)
	require.NoError(t, first.save(a))
	require.NoError(t, second.save(b))
	var out bytes.Buffer
	require.NoError(t, compare(&out, a+","+b), out.String())
	assert.True(t, strings.HasPrefix(out.String(), "0 of "), out.String())
	require.NoError(t, sampleReport(1.2).save(b))
	out.Reset()
	assert.ErrorIs(t, compare(&out, a+","+b), errApart)
	assert.Regexp(t, `Strand over River, SQLite FULL, produce while drain, 1000 ids +\S+ \[\S+ … \S+\] +\S+ \[\S+ … \S+\] +\+20 %`, out.String())
	out.Reset()
	assert.ErrorIs(t, compare(&out, b+","+a), errApart, "the other way round, too")

	second = sampleReport(1)
	second.Own[len(second.Own)-1].Value = 2.9 // three times as many, and near zero
	second.Own = second.Own[1:]
	require.NoError(t, second.save(b))
	out.Reset()
	require.NoError(t, compare(&out, a+","+b), out.String())
	assert.Contains(t, out.String(), "which 1 have that are near zero\n1 are in one report only")
	second.Own[len(second.Own)-1].Value = 3.1
	require.NoError(t, second.save(b))
	out.Reset()
	assert.ErrorIs(t, compare(&out, a+","+b), errApart)
	assert.Regexp(t, `idle/wakeups .*\+2.1, slack 2`, out.String())
	assert.ErrorContains(t, compare(&out, a), "not two directories")
	assert.ErrorContains(t, compare(&out, a+",/not/there"), "no such file")
}
