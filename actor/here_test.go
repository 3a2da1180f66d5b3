package actor_test

import (
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/actor"
)

func TestAnIdleActorHandlesTheMessageHere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		system := newSystem(t, actor.Config{})
		handled := 0
		ref := spawn(t, system, "here", func(*message) { handled++ })
		synctest.Wait() // it may be starting
		for n := range 100 {
			require.True(t, ref.SendHere(new(message)))
			require.Equal(t, n+1, handled, "on this goroutine")
		}
		require.Empty(t, goroutines())
		m := new(message)
		require.Zero(t, testing.AllocsPerRun(1000, func() { ref.SendHere(m) }))
		require.NoError(t, ref.Stop(t.Context()))
		require.False(t, ref.SendHere(new(message)))
		require.PanicsWithValue(t, "actor: bug: nil message sent to here", func() { ref.SendHere(nil) })
	})
}

// TestSendHereWaitsForNobody: while the actor is busy, on whichever goroutine,
// messages stay in the mailbox.
func TestSendHereWaitsForNobody(t *testing.T) {
	for name, first := range map[string]func(*actor.Ref[*message], *message) bool{
		"in its goroutine": (*actor.Ref[*message]).Send,
		"here":             (*actor.Ref[*message]).SendHere,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				system := newSystem(t, actor.Config{})
				var got []int
				ref := spawn(t, system, "slow", func(m *message) { time.Sleep(time.Minute); got = append(got, m.n) })
				synctest.Wait()
				go first(ref, &message{1})
				synctest.Wait()
				start := time.Now()
				for n := range 5 {
					require.True(t, ref.SendHere(&message{n + 2}))
				}
				require.Zero(t, time.Since(start))
				require.NoError(t, ref.Stop(t.Context()))
				require.Equal(t, 6*time.Minute, time.Since(start))
				require.Equal(t, []int{1, 2, 3, 4, 5, 6}, got)
			})
		})
	}
}

// TestSendHereKeepsTheOrder: what one goroutine sends is handled in order and never
// at the same time, in whichever way each message was sent; and what was accepted
// is handled.
func TestSendHereKeepsTheOrder(t *testing.T) {
	testOrder(t, 6, 5_000, func(ref *actor.Ref[step], s step) bool {
		if s.n%8 == 0 {
			runtime.Gosched() // so that the actor is idle at times
		}
		if s.sender%2 == 0 && s.n%3 == 0 {
			return ref.Send(s)
		}
		return ref.SendHere(s)
	})
}

func TestStopRacingSendHere(t *testing.T) {
	system := newSystem(t, actor.Config{})
	for range 300 {
		raceStop(t, system, (*actor.Ref[*message]).SendHere, (*actor.Ref[*message]).Stop)
	}
}

// TestSendHereIsNoRecursion: what an actor sends to itself comes later.
func TestSendHereIsNoRecursion(t *testing.T) {
	system := newSystem(t, actor.Config{})
	depth, calls := 0, 0
	var ref *actor.Ref[*message]
	done := make(chan struct{})
	ref = spawn(t, system, "loop", func(*message) {
		depth++
		assert.Equal(t, 1, depth)
		if calls++; calls < 1000 {
			ref.SendHere(new(message))
		} else {
			close(done)
		}
		depth--
	})
	require.True(t, ref.SendHere(new(message)))
	<-done
	require.NoError(t, ref.Stop(t.Context()))
	require.Equal(t, 1000, calls)
}

func TestAPanicHereEndsInTheActor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		system := newSystem(t, actor.Config{})
		boom := errors.New("boom")
		ref := spawn(t, system, "bad", func(*message) { explode(boom) })
		synctest.Wait()
		require.True(t, ref.SendHere(new(message)), "accepted, and no panic here")
		require.False(t, ref.SendHere(new(message)))
		require.ErrorIs(t, system.Err(), boom)
		require.ErrorContains(t, ref.Stop(t.Context()), `"bad" panicked: boom; 0 accepted messages lost`)
	})
}

// TestGoexitHere: the goroutine of the sender is gone, but the actor is not wedged.
func TestGoexitHere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		system := newSystem(t, actor.Config{})
		hold, ended := make(chan struct{}), false
		ref := spawn(t, system, "exit", func(*message) { <-hold; runtime.Goexit() })
		synctest.Wait()
		go func() {
			defer func() { ended = true }()
			ref.SendHere(new(message))
			t.Error("receive ended this goroutine")
		}()
		synctest.Wait()
		require.True(t, ref.Send(new(message)), "it is still busy")
		close(hold)
		err := ref.Stop(t.Context())
		require.ErrorIs(t, err, actor.ErrGoexit)
		require.ErrorContains(t, err, "1 accepted messages lost")
		synctest.Wait()
		require.True(t, ended)
	})
}
