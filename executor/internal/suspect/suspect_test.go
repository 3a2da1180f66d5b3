package suspect

import (
	"bytes"
	"context"
	"hash/maphash"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/actor"
	"github.com/strandjobs/strand/executor/internal/engine"
	"github.com/strandjobs/strand/executor/internal/quarantine"
	"github.com/strandjobs/strand/executor/internal/shards"
	"github.com/strandjobs/strand/executor/internal/tally"
	"github.com/strandjobs/strand/executor/internal/tell"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// rig is a queue with one shard, whose id "a" waits, parked, on a disk with a limit.
type rig struct {
	*Queue
	disk  *journal.Memory
	shard *shard.Shard
	at    journal.Position
	log   bytes.Buffer
}

// Record implements [shard.Recorder].
func (r *rig) Record(c *shard.Change) {
	r.Follow(c)
	r.Log.Record(&c.Change)
}

// Offer implements [shard.Dispatcher]: there is no worker.
func (*rig) Offer(*shard.Shard, int64) shard.Worker { return nil }

func newRig(t *testing.T, cfg shard.Config) *rig {
	r := &rig{disk: new(journal.Memory)}
	log, err := journal.OpenMemory(r.disk, journal.Config{Deliver: func(d *journal.Delivery) { r.shard.Deliver(d) }})
	require.NoError(t, err)
	number, err := log.Queue(t.Context(), "q")
	require.NoError(t, err)
	core := shard.NewCore(number, cfg)
	actors := actor.New(actor.Config{})
	r.shard, err = shard.New(actors, "shard", core, r, r, nil)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, r.shard.Stop(context.Background()))
		require.NoError(t, actors.Stop(context.Background()))
		require.NoError(t, log.Close())
	})
	e := &engine.Engine{Log: log, Handlers: t.Context(), Quarantine: new(quarantine.Quarantine), Crashes: 3, Now: func() int64 { return time.Now().UnixNano() }}
	logger := slog.New(slog.NewTextHandler(&r.log, nil))
	q := &engine.Queue{Name: "q", Number: number, Shards: shards.New(maphash.MakeSeed(), 1), Lines: tally.Queue{Name: "q", Logger: logger, Context: t.Context()}}
	q.Shards.All = []*shard.Shard{r.shard}
	r.Queue = &Queue{Engine: e, Queue: q, Events: new(tell.Source)}
	r.at = r.put(t, 50_000)
	require.NoError(t, r.shard.Do(t.Context(), func(c *shard.Core) { c.Hold("a", shard.HoldSuspect) }))
	return r
}

// put accepts a payload of so many bytes, and returns its position.
func (r *rig) put(t *testing.T, size int) journal.Position {
	t.Helper()
	ticket, err := r.Log.Append(t.Context(), []journal.Entry{{Queue: r.Number, ID: []byte("a"), Payload: make([]byte, size), Score: float64(r.at)}}, nil)
	require.NoError(t, err)
	require.NoError(t, ticket.Wait(t.Context()))
	return ticket.Position(0)
}

// state describes the id when all is settled.
func (r *rig) state(t *testing.T) (s shard.Status, dead int) {
	synctest.Wait()
	require.NoError(t, r.shard.Do(t.Context(), func(c *shard.Core) { s = c.Status("a") }))
	require.NoError(t, r.Log.Settled(t.Context()))
	return s, r.Log.Buried(r.Number)
}

// marks counts what the journal has against anybody.
func (r *rig) marks(t *testing.T) (n int) {
	for _, err := range r.Log.Keys("suspect/", "") {
		require.NoError(t, err)
		n++
	}
	return n
}

var guilty = journal.Suspicion{Deaths: 3, Odds: 1e9}

// Who is given up goes to the morgue at once, or is halted, and its id is free.
func TestCondemned(t *testing.T) {
	for halt, line := range map[bool]string{false: "job went to the morgue", true: "job is halted"} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, shard.Config{BuryAll: !halt, Halt: halt})
			s := r.New(guilty, "a", r.at)
			r.Admit(s)
			status, dead := r.state(t)
			require.Equal(t, []any{halt, false}, []any{status.Halted, status.Parked})
			require.Equal(t, !halt, dead == 1)
			require.True(t, s.Over.Load())
			require.Contains(t, r.log.String(), line)
			require.Equal(t, []string{"q/a was running at 3 deaths and is the cause: given up"}, r.Quarantine.Named())
		})
	}
}

// Without room it is held, and is given up once there is some.
func TestCondemnedOnAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, shard.Config{BuryAll: true})
		r.disk.Limit(1)
		_, err := r.Log.Append(t.Context(), []journal.Entry{{Queue: r.Number, ID: []byte("b"), Payload: make([]byte, 1<<20)}}, nil)
		require.NoError(t, err)
		synctest.Wait()
		s := r.New(guilty, "a", r.at)
		r.Admit(s)
		time.Sleep(time.Minute)
		status, dead := r.state(t)
		require.Equal(t, []any{true, 0, false}, []any{status.Parked, dead, s.Over.Load()})
		require.Equal(t, 1, strings.Count(r.log.String(), "job is held"))
		require.Equal(t, s, r.Quarantine.Holds("q", "a"))

		r.disk.Limit(0)
		time.Sleep(time.Second)
		status, dead = r.state(t)
		require.Equal(t, []any{false, 1, true}, []any{status.Parked, dead, s.Over.Load()})
	})
}

// A person may be quicker.
func TestASuspectThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, shard.Config{})
		s := r.New(guilty, "a", r.at)
		s.Over.Store(true)
		r.Admit(s)
		status, dead := r.state(t)
		require.Equal(t, []any{true, 0}, []any{status.Parked, dead})
	})
}

// What speaks against a payload speaks against the one that takes its place, in the journal, too.
func TestTheSuspicionFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, shard.Config{Merge: shard.MergeSupersede})
		s := r.New(journal.Suspicion{Deaths: 2, Age: time.Second}, "a", r.at)
		r.Log.Record(&journal.Change{Sets: []journal.Set{s.Set(r.at)}})
		r.Admit(s)
		next := r.put(t, 10)
		status, _ := r.state(t)
		require.Equal(t, []any{next, true, 1}, []any{s.Position, status.Parked, r.marks(t)})
		s.Release()
		s.Clear()
		status, _ = r.state(t)
		require.Equal(t, []any{false, 0}, []any{status.Parked, r.marks(t)})
	})
}

// A process that did not die suspects nobody.
func TestNobodyIsSuspected(t *testing.T) {
	r := newRig(t, shard.Config{})
	found, err := r.Find(r.Log.PendingPages(r.Number))
	require.NoError(t, err)
	require.Empty(t, found)
	require.Zero(t, r.Again)
}
