package shard

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

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

// What failed or was put off while the disk was short of room is written down when it has some: as the
// shard handles messages, and the rest when it stops. A start finds it then.
func TestCatchUp(t *testing.T) {
	for name, messages := range map[string]int{"by messages": 3, "by a stop": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const n = 2*owedAtOnce + 1
				var short atomic.Bool
				short.Store(true)
				cfg := Config{MaxRetries: 9, Short: short.Load}
				h := newHouse(t, 1, 1, cfg, func(it *Item) Outcome {
					if it.ID == "0" {
						return Outcome{Verdict: VerdictSnoozed, Delay: 24 * time.Hour}
					}
					return Outcome{Verdict: VerdictFailed, Delay: time.Hour, Error: "e"}
				})
				for i := range n {
					h.put(fmt.Sprint(i), "", time.Now())
				}
				synctest.Wait()
				found := func(c *Core) (all []string) {
					for i := range n {
						v, _ := c.view(fmt.Sprint(i))
						all = append(all, fmt.Sprint(v.due, v.retry, v.err, len(v.failures)))
					}
					return all
				}
				var want []string
				require.NoError(t, h.shards[0].Do(t.Context(), func(c *Core) { want = found(c) }))
				written := func() []string {
					log, err := journal.OpenMemory(h.mem.Crash(), journal.Config{})
					require.NoError(t, err)
					defer func() { require.NoError(t, log.Close()) }()
					c := NewCore(h.queue, cfg)
					_, err = LoadAll([]*Core{c}, log.PendingPages(h.queue), func([]byte) int { return 0 }, func([]journal.Entry) {})
					require.NoError(t, err)
					return found(c)
				}
				require.NoError(t, h.log.Flush(t.Context()))
				require.NotContains(t, written(), want[0])
				short.Store(false)
				for range messages {
					time.Sleep(catchUpPause)
					require.NoError(t, h.shards[0].Do(t.Context(), func(*Core) {}))
				}
				synctest.Wait() // what a message has written down is recorded after its call
				require.NoError(t, h.log.Flush(t.Context()))
				if messages == 0 {
					h.close()
				} else {
					defer h.close()
				}
				require.Equal(t, want, written())
			})
		})
	}
}

// What the disk had no room for is written down of what runs meanwhile, too, as a crash is to find it, and
// not of what has ended.
func TestCatchUpWithWhatRuns(t *testing.T) {
	for _, block := range []bool{false, true} {
		short := true
		g := newRig(t, Config{MaxRetries: 9, Block: block, Merge: MergeKeepAll, Short: func() bool { return short }}, 1)
		c := g.cores[0]
		for i, id := range []string{"over", "runs"} {
			g.put(journal.Entry{ID: []byte(id)})
			g.run(0, Outcome{Verdict: VerdictFailed, Error: "e", Delay: time.Duration(10 + i)})
		}
		g.put(journal.Entry{ID: []byte("runs"), Due: 7})
		g.run(10, Outcome{Verdict: VerdictDone})
		g.begin(11)
		require.Len(t, c.owed, 1)
		short = false
		require.False(t, c.catchUp())
		c.Record(g)
		g.check()
		g.crash(1)
		v, _ := g.cores[0].view("runs")
		require.Equal(t, []any{int64(11), 0, "e", 1}, []any{v.due, v.retry, v.err, len(v.failures)})
		require.Len(t, v.held, map[bool]int{true: 1}[block])
		require.False(t, g.cores[0].Has("over"))
		g.close()
	}
}
