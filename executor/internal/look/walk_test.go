package look

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/actor"
	"github.com/strandjobs/strand/executor/internal/engine"
	"github.com/strandjobs/strand/executor/internal/shards"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// idle is what a shard is around: a log, and no worker.
type idle struct{ *journal.Log }

func (l idle) Record(c *shard.Change)               { l.Log.Record(&c.Change) }
func (idle) Offer(*shard.Shard, int64) shard.Worker { return nil }

// A job whose payload ended behind the visit that found it, and whose place another one has now, is taken in its place:
// a page that ends with a row goes on behind that, and would show again what was taken before it.
func TestWhatIsLookedAtAgainKeepsItsPlace(t *testing.T) {
	var s *shard.Shard
	log, err := journal.OpenMemory(new(journal.Memory), journal.Config{Deliver: func(d *journal.Delivery) { s.Deliver(d) }})
	require.NoError(t, err)
	number, err := log.Queue(t.Context(), "q")
	require.NoError(t, err)
	s, err = shard.New(actor.New(actor.Config{}), "shard", shard.NewCore(number, shard.Config{}), idle{log}, idle{}, nil)
	require.NoError(t, err)
	put := func(id string) {
		ticket, err := log.Append(t.Context(), []journal.Entry{{Queue: number, ID: []byte(id), Due: time.Now().UnixNano()}}, nil)
		require.NoError(t, err)
		require.NoError(t, ticket.Wait(t.Context()))
	}
	for i := range 10 {
		put(strconv.Itoa(i))
	}
	now := func() int64 { return time.Now().UnixNano() }
	w := NewWalk(Queue{&engine.Queue{Name: "q", Shards: &shards.Set{All: []*shard.Shard{s}, N: 1}}, &Inspector{Engine: &engine.Engine{Now: now}}})
	w.Want = func(*shard.View) bool { return true }
	var ids []string
	var last shard.Cursor
	w.take = func(_ int, v *shard.View) error {
		require.Greater(t, v.Cursor, last)
		ids, last = append(ids, v.ID), v.Cursor
		return nil
	}
	v := &visit{Walk: w, n: 10}
	require.NoError(t, s.Do(t.Context(), v.scan))
	require.Len(t, v.found, 10)
	require.NoError(t, s.Do(t.Context(), func(c *shard.Core) {
		c.Remove(now(), "3", &shard.Removal{Verdict: shard.VerdictDeleted})
		c.Remove(now(), "5", &shard.Removal{Verdict: shard.VerdictDeleted})
	}))
	require.NoError(t, log.Flush(t.Context()))
	put("new")
	require.NoError(t, w.takeAll(t.Context(), 0, v.found))
	require.Equal(t, []string{"0", "1", "2", "new", "4", "6", "7", "8", "9"}, ids)
	require.NoError(t, s.Stop(context.Background()))
	require.NoError(t, log.Close())
}
