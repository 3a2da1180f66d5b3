package followup

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/executor/internal/attempt"
	"github.com/strandjobs/strand/executor/internal/backlog"
	"github.com/strandjobs/strand/executor/internal/engine"
	"github.com/strandjobs/strand/executor/internal/keylock"
	"github.com/strandjobs/strand/executor/internal/lane"
	"github.com/strandjobs/strand/executor/internal/submit"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// rig is a log, and a queue for follow-ups.
type rig struct {
	*engine.Engine
	door      *submit.Door
	delivered []string // ids
}

func newRig(t *testing.T) *rig {
	r := new(rig)
	log, err := journal.OpenMemory(new(journal.Memory), journal.Config{Deliver: func(d *journal.Delivery) {
		for i := range d.Len() {
			var e journal.Entry
			_, err := d.Read(i, &e)
			require.NoError(t, err)
			r.delivered = append(r.delivered, string(e.ID))
		}
		d.Done()
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, log.Close()) })
	ledger := &admit.Ledger{Log: log}
	keys, err := keylock.Open(ledger, log, time.Now, true)
	require.NoError(t, err)
	number, err := log.Queue(t.Context(), "q")
	require.NoError(t, err)
	e := &engine.Engine{Log: log, Handlers: t.Context(), Keys: keys, Ledger: ledger, Now: func() int64 { return 7e9 }}
	e.Graph = &admit.Graph{Lists: func(string) *admit.List { return nil }}
	to := &engine.Queue{Name: "q", Number: number}
	all := backlog.New(shard.Weight{}, func(backlog.Stall) {})
	r.Engine, r.door = e, &submit.Door{
		Engine: &submit.Engine{Engine: e}, To: to, Backlog: all.Join("q", shard.Weight{Payloads: 10}),
		Locks: &keylock.Condition{Keys: keys, Queue: "q"},
	}
	return r
}

// staged is what a handler has staged.
func (r *rig) staged(t *testing.T, all ...*FollowUp) *attempt.Stage {
	a := (&attempt.Pool{Parent: t.Context()}).Next()
	for _, f := range all {
		f.Queue, f.Entry.Queue = r.door, r.door.To.Number
		require.NoError(t, a.Stage(nil, 0, f, shard.Announced(&f.Entry).Bytes))
	}
	return a.Over()
}

// A job that has staged nothing needs no room, and what is staged needs room for itself and its keys.
func TestTake(t *testing.T) {
	r := newRig(t)
	l, ok := Take(r.Engine, r.staged(t, &FollowUp{Entry: journal.Entry{ID: []byte("a")}, Keys: []string{"k"}}), nil)
	require.True(t, ok)
	require.Greater(t, l.Room, keyRoom)
	l, ok = Take(r.Engine, r.staged(t, &FollowUp{}), new(shard.Item))
	require.Equal(t, []any{Landing{}, true}, []any{l, ok}, "another job")
}

// What is handed on has its times from then, unless it was given others.
func TestHandOn(t *testing.T) {
	r := newRig(t)
	open := &FollowUp{Entry: journal.Entry{ID: []byte("open"), Due: Unstamped, Score: 1, Floor: new(journal.Floor)}}
	given := &FollowUp{Entry: journal.Entry{ID: []byte("given"), Due: 9e9, Score: 1}}
	l, ok := Take(r.Engine, r.staged(t, open, given), nil)
	require.True(t, ok)
	l.HandOn(new(shard.Item), r.Now)
	require.Equal(t, []any{int64(7e9), int64(7e9), 7.0}, []any{open.Entry.Accepted, open.Entry.Due, open.Entry.Score})
	require.Equal(t, []any{int64(7e9), int64(9e9), 1.0}, []any{given.Entry.Accepted, given.Entry.Due, given.Entry.Score})
}

// All that was staged is in the change with the room for it: what is of another partition as a state
// key, the others as entries, with the locks of their positions.
func TestLand(t *testing.T) {
	r := newRig(t)
	elsewhere := &FollowUp{Entry: journal.Entry{ID: []byte("b")}, Elsewhere: journal.Set{Key: "elsewhere", Value: []byte("b")}}
	var c shard.Change
	room := 0
	for _, all := range [][]*FollowUp{{{Entry: journal.Entry{ID: []byte("a")}}, elsewhere}, {{Entry: journal.Entry{ID: []byte("c")}, Keys: []string{"k"}}}} {
		l, ok := Take(r.Engine, r.staged(t, all...), nil)
		require.True(t, ok)
		c.Staged = append(c.Staged, l)
		room += l.Room
	}
	require.True(t, Land(&c), "one of them locks something")
	require.Equal(t, room, c.Room)
	require.Equal(t, []journal.Set{elsewhere.Elsewhere}, c.Sets)
	require.False(t, r.door.Backlog.Take(shard.Weight{Payloads: 9}), "two count, of ten")

	lanes := new(lane.Lanes)
	r.door.Lanes = &lane.Condition{Lanes: lanes, Number: r.door.To.Number}
	r.Ledger.Do(&c.Change, func() { Lock(&c, r.Keys) })
	Locked(&c)
	require.NoError(t, r.Log.Settled(t.Context()))
	require.Equal(t, []string{"a", "c"}, r.delivered)
	require.False(t, lanes.Enter("c", 3, 0, nil))
	lanes.Remove(2)
	require.True(t, lanes.Enter("c", 3, 0, nil))
	require.Len(t, r.Keys.Keys(), 1)
	value, err := r.Log.Get("elsewhere")
	require.NoError(t, err)
	require.Equal(t, "b", string(value))
}

// A change in which nothing was staged locks nothing.
func TestNothingLands(t *testing.T) {
	var c shard.Change
	require.False(t, Land(&c))
	Lock(&c, nil)
	Locked(&c)
	require.Nil(t, c.With)
}
