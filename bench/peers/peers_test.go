package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/bench/peers/peer"
)

// The test binary is also its own child.
func TestMain(m *testing.M) {
	if !childMain() {
		os.Exit(m.Run())
	}
}

// Every peer that can be had here runs every job once, in its own process, with
// every shape.
func TestPeers(t *testing.T) {
	for _, p := range append(peer.All(), peer.OnPostgres()[:3]...) {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for parent := range 2 { // PostgreSQL's user has to pass
				require.NoError(t, os.Chmod(dir+strings.Repeat("/..", parent), 0o711))
			}
			for _, shape := range []string{together, inTurn} {
				o, err := task{Peer: p.Name, Shape: shape, IDs: 7, Target: 10 * time.Second, Most: 150}.inChild(t.Context(), dir)
				require.NoError(t, err)
				if o.Skipped != "" {
					t.Log(shape, "skipped:", o.Skipped)
					continue
				}
				assert.False(t, o.CutShort)
				assert.Equal(t, 150, o.Jobs)
				assert.EqualValues(t, 2*150, o.Total, "what warmed up, too")
				assert.Zero(t, o.Repeated)
				assert.Positive(t, o.Rate)
				assert.Positive(t, o.Enqueue)
				if strings.HasPrefix(p.Order, "per ") {
					assert.Zero(t, o.Violations)
					assert.Zero(t, o.Overlaps)
				}
				assert.Equal(t, p.Promise != peer.Memory, o.Usage.DiskBytes > 0, "files are where they belong")
			}
			left, err := os.ReadDir(dir)
			require.NoError(t, err)
			assert.Empty(t, left)
		})
	}
}

func TestIdleLatency(t *testing.T) {
	o, err := task{Peer: "Strand, in memory", Shape: idle, IDs: 3, Target: time.Second, Most: 20}.inChild(t.Context(), t.TempDir())
	require.NoError(t, err)
	require.NotNil(t, o.Latency)
	assert.EqualValues(t, 20, o.Latency.Samples)
	assert.Len(t, o.Latency.Raw, 20)
	assert.Positive(t, o.Latency.P50)
}

// What few samples can't say is not said.
func TestLatencyTellsWhatItKnows(t *testing.T) {
	for _, c := range []struct {
		samples int
		highest float64 // share that is told
		p99     float64
	}{{5, -1, 0}, {20, 0.5, 0}, {100, 0.9, 0}, {999, 0.95, 0}, {1000, 0.99, 990}, {9999, 0.99, 9900}, {10000, 0.999, 9900}} {
		var samples []float64
		for i := range c.samples {
			samples = append(samples, float64(i+1))
		}
		l := newLatency(samples)
		assert.Equal(t, c.samples, l.Samples)
		assert.InDelta(t, float64(c.samples)/2, l.P50, 0.01*float64(c.samples)+0.5)
		assert.InDelta(t, c.p99, l.P99, 0.01*float64(c.samples), c.samples)
		highest := -1.0
		for _, s := range l.Steps {
			highest = s.Share
		}
		assert.Equal(t, c.highest, highest, c.samples)
	}
}

// script is a system that runs jobs as a test says.
type script struct {
	work  *load
	order func(items []peer.Item) []peer.Item
	held  []peer.Item
	mu    sync.Mutex
}

func (s *script) Enqueue(_ context.Context, items []peer.Item) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = append(s.held, items...)
	return nil
}

func (s *script) Close() error { return nil }

func (s *script) run() {
	for _, item := range s.order(s.held) {
		s.work.handle(item.ID, item.Payload)
	}
}

// What goes wrong is seen and counted.
func TestLoadCounts(t *testing.T) {
	type counts struct{ ran, violations, repeated, strange int64 }
	for name, c := range map[string]struct {
		order func([]peer.Item) []peer.Item
		want  counts
	}{
		"in order":  {func(i []peer.Item) []peer.Item { return i }, counts{ran: 6}},
		"lost":      {func(i []peer.Item) []peer.Item { return i[:5] }, counts{ran: 5}},
		"twice":     {func(i []peer.Item) []peer.Item { return append(i, i[5]) }, counts{ran: 6, repeated: 1}},
		"overtaken": {func(i []peer.Item) []peer.Item { i[0], i[2], i[4] = i[4], i[0], i[2]; return i }, counts{ran: 6, violations: 2}},
		"id":        {func(i []peer.Item) []peer.Item { i[3].ID = i[2].ID; return i }, counts{ran: 5, strange: 1}},
		"payload":   {func(i []peer.Item) []peer.Item { i[3].Payload = i[3].Payload[:99]; return i }, counts{ran: 5, strange: 1}},
	} {
		work := newLoad(2, 100, 0)
		s := &script{work: work, order: c.order}
		require.NoError(t, work.enqueue(t.Context(), s, 0, 6, 1, 4), name)
		s.run()
		assert.Equal(t, c.want, counts{work.ran.Load(), work.violations.Load(), work.repeated.Load(), work.strange.Load()}, name)
	}
}

func TestLoadSeesOverlaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		work := newLoad(1, 100, time.Second)
		s := &script{work: work}
		require.NoError(t, work.enqueue(t.Context(), s, 0, 2, 1, 2))
		for _, item := range s.held {
			go work.handle(item.ID, item.Payload)
		}
		time.Sleep(time.Minute)
		assert.EqualValues(t, 1, work.overlaps.Load())
		assert.EqualValues(t, 2, work.ran.Load())
	})
}

func TestGateHoldsHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		work := newLoad(1, 100, 0)
		s := &script{work: work, order: func(i []peer.Item) []peer.Item { return i }}
		work.target.Store(3)
		release := work.hold()
		require.NoError(t, work.enqueue(t.Context(), s, 0, 3, 1, 1000))
		go s.run()
		synctest.Wait()
		assert.Zero(t, work.ran.Load())
		assert.Equal(t, 1, release())
		assert.Equal(t, 1, release(), "a second time it does nothing")
		all, err := work.wait(t.Context(), time.Minute)
		require.NoError(t, err)
		assert.True(t, all)
	})
}

// All jobs of an id come from one producer, each job once, over several rounds.
func TestEnqueueSplits(t *testing.T) {
	for _, c := range []struct{ ids, producers, size int }{{1, 4, 10}, {7, 3, 4}, {100, 256, 1}, {1000, 2, 1000}} {
		work := newLoad(c.ids, 1000, 0)
		s := &script{work: work, order: func(i []peer.Item) []peer.Item { return i }}
		for _, part := range [][2]int{{0, 13}, {13, 130}, {130, 131}, {131, 500}} {
			require.NoError(t, work.enqueue(t.Context(), s, part[0], part[1], c.producers, c.size))
		}
		s.run()
		assert.Len(t, s.held, 500)
		assert.EqualValues(t, 500, work.ran.Load())
		assert.Zero(t, work.violations.Load(), "one producer sends all jobs of an id, in order")
	}
}

func TestChildThatFails(t *testing.T) {
	o, err := task{Peer: "Strand", Shape: together, IDs: 0, Most: 10}.inChild(t.Context(), t.TempDir())
	assert.Error(t, err)
	assert.Equal(t, err.Error(), o.Failed)
	_, err = task{Peer: "Strand", Shape: together, IDs: 1, Most: 10}.inChild(t.Context(), "/not/there")
	assert.ErrorContains(t, err, "no such file")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = task{Peer: "Strand", Shape: together, IDs: 1, Most: 10}.inChild(ctx, t.TempDir())
	assert.ErrorIs(t, err, context.Canceled)
}

func TestCommandLine(t *testing.T) {
	for args, want := range map[string]string{
		"-run (":         "missing closing )",
		"-run nobody":    "no peer has a name",
		"-case (":        "missing closing )",
		"-case weekly":   "no case has a description",
		"asynq":          `unexpected argument "asynq"`,
		"-dir /not/here": "no such file",
	} {
		var out bytes.Buffer
		assert.ErrorContains(t, run(t.Context(), strings.Fields(args), &out, &out), want)
	}
	var out, progress bytes.Buffer
	require.NoError(t, run(t.Context(), []string{"-quick", "-json", "-run", "channels", "-dir", t.TempDir()}, &out, &progress))
	decoder := json.NewDecoder(&out)
	var first, single, second outcome
	require.NoError(t, decoder.Decode(&first))
	require.NoError(t, decoder.Decode(&single))
	require.NoError(t, decoder.Decode(&second))
	assert.Equal(t, together, first.Shape)
	assert.Positive(t, first.Rate)
	assert.True(t, single.asks(alone))
	assert.Positive(t, single.Rate)
	assert.Equal(t, idle, second.Shape)
	out.Reset()
	require.NoError(t, table(&out, []outcome{first, second, {Skipped: "apt-get install x"}, {Failed: "broken"}}))
	for _, text := range []string{"channels by hand", "memory", "skipped: apt-get install x", `FAILED: "broken"`} {
		assert.Contains(t, out.String(), text)
	}
}
