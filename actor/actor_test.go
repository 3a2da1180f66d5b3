package actor_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/actor"
)

func TestMessagesOfOneSenderKeepTheirOrder(t *testing.T) {
	testOrder(t, 8, 2_000, func(ref *actor.Ref[step], s step) bool { return ref.Send(s) })
}

type step struct{ sender, n int }

// testOrder has each of some senders send its numbers, and looks whether the actor
// gets them one at a time and in order.
func testOrder(t *testing.T, senders, each int, send func(*actor.Ref[step], step) bool) {
	t.Helper()
	system := newSystem(t, actor.Config{})
	last := make([]int, senders) // owned by the actor: the race detector would see two calls at once
	ref := spawn(t, system, "order", func(s step) {
		assert.Equal(t, last[s.sender]+1, s.n)
		last[s.sender] = s.n
	})
	var wg sync.WaitGroup
	for sender := range senders {
		wg.Go(func() {
			for n := range each {
				assert.True(t, send(ref, step{sender, n + 1}))
			}
		})
	}
	wg.Wait()
	require.NoError(t, ref.Stop(t.Context()))
	for sender := range senders {
		assert.Equal(t, each, last[sender])
	}
}

func TestStopRacingSendHandlesWhatWasAccepted(t *testing.T) {
	shared := newSystem(t, actor.Config{})
	for range 200 {
		raceStop(t, shared, (*actor.Ref[*message]).Send, (*actor.Ref[*message]).Stop)
	}
	for range 40 { // a new System each: it is what stops
		system := newSystem(t, actor.Config{})
		raceStop(t, system, (*actor.Ref[*message]).Send, func(_ *actor.Ref[*message], ctx context.Context) error { return system.Stop(ctx) })
	}
}

func raceStop(t *testing.T, system *actor.System, send func(*actor.Ref[*message], *message) bool, stop func(*actor.Ref[*message], context.Context) error) {
	t.Helper()
	var accepted, handled atomic.Int64
	ref := spawn(t, system, "race", func(*message) { handled.Add(1) })
	var senders sync.WaitGroup
	for range 4 {
		senders.Go(func() {
			for send(ref, new(message)) {
				accepted.Add(1)
			}
		})
	}
	require.NoError(t, stop(ref, t.Context()))
	atStop := handled.Load()
	senders.Wait()
	require.Equal(t, accepted.Load(), atStop)
	require.Equal(t, accepted.Load(), handled.Load())
}

func TestStopWaitsForEveryCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		system := newSystem(t, actor.Config{})
		ref := spawn(t, system, "slow", func(*message) { time.Sleep(time.Minute) })
		require.True(t, ref.Send(new(message)))
		start := time.Now()
		var callers sync.WaitGroup
		for range 3 {
			callers.Go(func() {
				assert.NoError(t, ref.Stop(t.Context()))
				assert.Equal(t, time.Minute, time.Since(start))
			})
			callers.Go(func() {
				assert.NoError(t, system.Stop(t.Context()))
				assert.Equal(t, time.Minute, time.Since(start))
			})
		}
		callers.Wait()
		require.NoError(t, ref.Stop(t.Context()), "again")
		require.NoError(t, system.Stop(t.Context()), "again")
	})
}

func TestStopReturnsTheCauseAndDrainsOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		system := newSystem(t, actor.Config{})
		handled := 0
		ref := spawn(t, system, "slow", func(*message) { time.Sleep(time.Second); handled++ })
		for range 5 {
			require.True(t, ref.Send(new(message)))
		}
		patience := errors.New("out of patience")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 1500*time.Millisecond, patience)
		defer cancel()
		err := ref.Stop(ctx)
		require.ErrorIs(t, err, patience)
		require.ErrorContains(t, err, `"slow" still draining 4 messages`)
		require.ErrorIs(t, system.Stop(ctx), patience)
		require.False(t, ref.Send(new(message)))

		require.NoError(t, system.Stop(t.Context()))
		require.NoError(t, ref.Stop(ctx), "it is drained, whatever ctx says")
		require.Equal(t, 5, handled)
	})
}

// An executor may be opened only to be looked at, and then needs none of the 3 MB.
func TestSystemWithoutActorsIsSmall(t *testing.T) {
	assert.Less(t, testing.AllocsPerRun(10, func() { actor.New(actor.Config{}) }), 30.0)
}

func TestStoppedSystemSpawnsNothing(t *testing.T) {
	system := newSystem(t, actor.Config{})
	require.NoError(t, system.Stop(t.Context()))
	_, err := actor.Spawn(system, "late", func(*message) {})
	require.ErrorIs(t, err, actor.ErrStopped)
}

func TestSpawnRacingStop(t *testing.T) {
	for range 40 {
		system := newSystem(t, actor.Config{})
		var handled, accepted atomic.Int64
		var spawners sync.WaitGroup
		for i := range 4 {
			spawners.Go(func() {
				ref, err := actor.Spawn(system, fmt.Sprint(i), func(*message) { handled.Add(1) })
				if err != nil {
					assert.ErrorIs(t, err, actor.ErrStopped)
				} else if ref.Send(new(message)) {
					accepted.Add(1)
				}
			})
		}
		require.NoError(t, system.Stop(t.Context()))
		spawners.Wait()
		assert.Equal(t, accepted.Load(), handled.Load())
	}
}

func TestNamesAreUniqueUntilStop(t *testing.T) {
	system := newSystem(t, actor.Config{})
	first := spawn(t, system, "one", func(*message) {})
	for _, name := range []string{"one", ""} {
		_, err := actor.Spawn(system, name, func(*message) {})
		require.ErrorIs(t, err, actor.ErrName)
	}
	require.True(t, first.Send(new(message)), "the refused twin must not harm the first")
	require.NoError(t, first.Stop(t.Context()))
	second := spawn(t, system, "one", func(*message) {})
	require.False(t, first.Send(new(message)), "an old Ref must not reach its successor")
	require.True(t, second.Send(new(message)))
}

// All Systems of a process share one protoactor-go, which asks for other names.
func TestSystemsDoNotMeet(t *testing.T) {
	one, other := newSystem(t, actor.Config{}), newSystem(t, actor.Config{})
	handled := 0
	spawn(t, one, "deadletter", func(*message) { t.Error("of the other System") })
	ref := spawn(t, other, "deadletter", func(*message) { handled++ })
	require.NoError(t, one.Stop(t.Context()))
	require.True(t, ref.Send(new(message)))
	require.NoError(t, other.Stop(t.Context()))
	require.Equal(t, 1, handled)
	require.False(t, testing.AllocsPerRun(1, func() {
		system := actor.New(actor.Config{})
		spawn(t, system, "any", func(*message) {})
		require.NoError(t, system.Stop(t.Context()))
	}) > 200, "a System of its own has thousands of tables")
}

func TestActorsSendToOneAnother(t *testing.T) {
	system := newSystem(t, actor.Config{})
	sum := 0
	sink := spawn(t, system, "sink", func(n int) { sum += n })
	source := spawn(t, system, "source", func(n int) { assert.True(t, sink.Send(n)) })
	for n := range 100 {
		require.True(t, source.Send(n))
	}
	require.NoError(t, source.Stop(t.Context()), "upstream first")
	require.NoError(t, sink.Stop(t.Context()))
	require.Equal(t, 4950, sum)
}

func TestIdleActorHasNoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		system := newSystem(t, actor.Config{})
		for i := range 100 {
			require.True(t, spawn(t, system, fmt.Sprint(i), func(*message) {}).Send(new(message)))
		}
		synctest.Wait()
		require.Empty(t, goroutines(), "of this package or protoactor-go")
	})
}

func TestStopLeavesNoGoroutine(t *testing.T) {
	before := goroutines()
	for range 50 {
		system := actor.New(actor.Config{})
		var refs []*actor.Ref[*message]
		for i := range 4 {
			refs = append(refs, spawn(t, system, fmt.Sprint(i), func(*message) {}))
		}
		var senders sync.WaitGroup
		for _, ref := range refs {
			senders.Go(func() {
				for ref.Send(new(message)) {
				}
			})
		}
		require.NoError(t, system.Stop(t.Context()))
		senders.Wait()
	}
	// The last instructions of a goroutine run after it has said that it is done.
	require.Eventually(t, func() bool { return len(goroutines()) <= len(before) }, time.Minute, time.Millisecond)
}

func TestLateWakeUpStartsNothing(t *testing.T) {
	system := newSystem(t, actor.Config{})
	ref := spawn(t, system, "late", func(*message) {})
	require.NoError(t, ref.Stop(t.Context()))
	// What a sender does whose message was handled before it came to wake the
	// mailbox.
	ref.Wake(func() { t.Error("ran after Stop") })
	require.NoError(t, system.Stop(t.Context()))
}

func TestStopWaitsForTheReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reported := false
		system := newSystem(t, actor.Config{OnFailure: func(error) { time.Sleep(time.Hour); reported = true }})
		ref := spawn(t, system, "bad", func(*message) { panic("bad") })
		require.True(t, ref.Send(new(message)))
		require.Error(t, system.Stop(t.Context()))
		require.True(t, reported)
	})
}

func TestSendAllocatesNothing(t *testing.T) {
	system := newSystem(t, actor.Config{})
	hold := make(chan struct{})
	busy := spawn(t, system, "busy", func(*message) { <-hold })
	m := new(message)
	for range 10_000 { // makes room in the mailbox
		busy.Send(m)
	}
	assert.Zero(t, testing.AllocsPerRun(5_000, func() { busy.Send(m) }), "pointer")
	close(hold)

	calls := 0
	funcs := spawn(t, system, "funcs", func(f func()) { f() })
	f := func() { calls++ }
	for range 10_000 {
		funcs.Send(f)
	}
	require.NoError(t, funcs.Stop(t.Context()))
	assert.Zero(t, testing.AllocsPerRun(1_000, func() { funcs.Send(f) }), "refused")
	require.Equal(t, 10_000, calls)
}

func TestWakingAnActorAllocatesOnceAtMost(t *testing.T) {
	system := newSystem(t, actor.Config{})
	handled := make(chan struct{})
	ref := spawn(t, system, "idle", func(*message) { handled <- struct{}{} })
	m := new(message)
	allocs := testing.AllocsPerRun(1_000, func() { ref.Send(m); <-handled })
	assert.LessOrEqual(t, allocs, 1.0, "protoactor-go binds its method, we bind nothing")
}
