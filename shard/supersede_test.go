package shard

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal"
)

// A state that was written of a payload before the newer one of its id was delivered, and
// after that was accepted, says nothing about the newer one, also after a crash.
func TestSupersedeStateOfAnOlderPayloadIsStale(t *testing.T) {
	g := newRig(t, Config{Merge: MergeSupersede, MaxRetries: 5}, 1)
	defer func() { g.close() }()
	g.put(journal.Entry{ID: []byte("a"), Payload: []byte("1"), Due: 0})
	c := g.cores[0]
	r := c.NewRun()
	require.True(t, c.Take(0, r))
	r.Next(nil, 1)
	ticket, err := g.log.Append(context.Background(), []journal.Entry{{Queue: g.queue, ID: []byte("a"), Payload: []byte("2"), Due: 5}}, nil)
	require.NoError(t, err)
	require.NoError(t, ticket.Wait(context.Background())) // accepted, and on its way to the core
	r.Items[0].Outcome = Outcome{Verdict: VerdictFailed, Delay: time.Hour, Error: "down"}
	c.Finish(1, r)
	c.Record(g)
	g.flush()
	g.crash(1)
	require.Equal(t, []string{"a: due 5e-09, retry -1, waiting [2#2/NaN]"}, g.lanes())
	g.checkJournal()
}

// An older version that was accepted while a newer one ran, and had not ended when the
// process died, is superseded by the next start, which finds it before the version that
// was done. So it is beside a state of its own, and whatever it is due.
func TestSupersedeOlderOneBeforeTheVersionThatWasDone(t *testing.T) {
	for _, due := range []int64{0, 5, int64(time.Hour)} {
		g := newRig(t, Config{Merge: MergeSupersede}, 1)
		g.put(journal.Entry{ID: []byte("a"), Payload: []byte("10"), Score: 10}, journal.Entry{ID: []byte("b"), Due: due})
		c := g.cores[0]
		r := c.NewRun()
		require.True(t, c.Take(0, r))
		r.Next(nil, 1)
		ticket, err := g.log.Append(context.Background(), []journal.Entry{{Queue: g.queue, ID: []byte("a"), Payload: []byte("5"), Score: 5, Due: due}}, nil)
		require.NoError(t, err)
		require.NoError(t, ticket.Wait(context.Background())) // accepted, and on its way to the core
		r.Items[0].Outcome = Outcome{Verdict: VerdictDone}
		c.Finish(1, r)
		c.Record(g)
		g.flush()
		g.crash(1)
		require.EqualValues(t, 1, g.cores[0].Counts().Payloads)
		require.EqualValues(t, 1, g.cores[0].Counts().Superseded)
		r = g.cores[0].NewRun()
		require.True(t, g.cores[0].Take(due, r))
		require.Equal(t, "b", r.Items[0].ID)
		g.flush()
		require.Len(t, g.live(), 2, "b, and the version of a")
		g.close()
	}
}

// What a job holds hears that its state was canceled, also if that is said of the payload alone, and it gave way.
func TestSupersedeHoldsHearOfACancelThatGaveWay(t *testing.T) {
	g := newRig(t, Config{Merge: MergeSupersede}, 1)
	defer func() { g.close() }()
	g.put(journal.Entry{ID: []byte("a"), Payload: []byte("1")})
	r := g.begin(1)
	r.Items[0].Claim = struct{ Held }{}
	g.put(journal.Entry{ID: []byte("a"), Payload: []byte("2")})
	r.Items[0].Outcome = Outcome{Verdict: VerdictDone, Parts: []Part{{Verdict: VerdictCanceled, Error: "no"}}}
	g.cores[0].Finish(1, r)
	require.Equal(t, VerdictCanceled, g.cores[0].change.Claims[0].Verdict)
	g.cores[0].change.Claims = nil
	g.cores[0].Record(g)
	g.check()
}

// An id that changes all the time has its turn: what is due at once keeps its place.
func TestSupersedeKeepsThePlaceInLine(t *testing.T) {
	g := newRig(t, Config{Merge: MergeSupersede}, 1)
	defer func() { g.close() }()
	put := func(id string, due int64) {
		g.now++
		g.cores[0].Tick(g.now)
		g.put(journal.Entry{ID: []byte(id), Due: due, Score: float64(g.now)})
	}
	put("a", 1)
	put("b", 2)
	put("a", 3)
	r := g.cores[0].NewRun()
	require.True(t, g.cores[0].Take(g.now, r))
	require.Equal(t, "a", r.Items[0].ID)
}

// A million updates of a thousand ids weigh what a thousand do: in the shard, and as
// what is live in the journal.
func TestSupersedeWeighsWhatTheNewestWeigh(t *testing.T) {
	const ids = 100
	updates := 30
	if long {
		updates = 1000
	}
	g := newRig(t, Config{Merge: MergeSupersede}, 1)
	defer func() { g.close() }()
	for range updates {
		var all []journal.Entry
		for i := range ids {
			g.now++
			all = append(all, journal.Entry{ID: fmt.Append(nil, "id", i), Payload: make([]byte, 1000), Score: float64(g.now)})
		}
		g.put(all...)
	}
	require.Equal(t, ids, g.cores[0].Counts().Payloads)
	require.EqualValues(t, ids*(updates-1), g.cores[0].Counts().Superseded)
	require.Len(t, g.live(), ids)
	for _, l := range g.cores[0].lanes.named() {
		require.Nil(t, l.rest, "a lane that waits for its first run is one line of the cache")
	}
}
