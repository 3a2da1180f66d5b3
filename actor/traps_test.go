package actor_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	proto "github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/actor"
)

// One test for each sharp edge of protoactor-go that this package closes. newSystem
// adds to all of them that nothing reached supervision or the dead letters.

// Trap: a panic loses the message and restarts the actor; the eleventh in 10 s
// stops it and drops its queue.
func TestTrapPanicIsSupervised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var reports []error
		system := newSystem(t, actor.Config{
			Logger:    slog.New(slog.NewTextHandler(&log, nil)),
			OnFailure: func(err error) { reports = append(reports, err) },
		})
		boom, calls := errors.New("boom"), 0
		hold := make(chan struct{})
		bad := spawn(t, system, "bad", func(m *message) {
			<-hold
			if calls++; m.n == 3 {
				explode(boom)
			}
		})
		good := spawn(t, system, "good", func(*message) { calls++ })
		require.NoError(t, system.Err())
		send(t, bad, 10)
		close(hold)

		err := bad.Stop(t.Context())
		require.ErrorContains(t, err, `"bad" panicked: boom; 7 accepted messages lost`)
		require.Equal(t, 3, calls, "no message after the failure")
		require.False(t, bad.Send(new(message)))

		synctest.Wait()
		failure, ok := errors.AsType[*actor.PanicError](system.Err())
		require.True(t, ok)
		require.Equal(t, "bad", failure.Actor)
		require.ErrorIs(t, failure, boom)
		require.Contains(t, string(failure.Stack), "actor_test.explode", "the frame of the bug")
		require.Equal(t, []error{system.Err()}, reports)
		require.Contains(t, log.String(), `level=ERROR msg="actor failed" actor=bad panic=boom stack=`)

		require.True(t, good.Send(new(message)), "the others run on")
		require.NoError(t, good.Stop(t.Context()))
		require.Equal(t, 4, calls)
		require.ErrorContains(t, system.Stop(t.Context()), "7 accepted messages lost")
	})
}

func TestOnlyTheFirstFailureIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reports atomic.Int32
		system := newSystem(t, actor.Config{OnFailure: func(error) { reports.Add(1) }})
		first := spawn(t, system, "first", func(*message) { panic("first") })
		second := spawn(t, system, "second", func(*message) { panic("second") })
		first.Send(new(message))
		synctest.Wait()
		second.Send(new(message))
		require.ErrorContains(t, second.Stop(t.Context()), `"second" panicked: second; 0 accepted`)
		require.ErrorContains(t, system.Stop(t.Context()), `"first" panicked: first; 0 accepted`)
		require.EqualValues(t, 1, reports.Load())
	})
}

func TestPanicNilIsAPanic(t *testing.T) {
	system := newSystem(t, actor.Config{})
	ref := spawn(t, system, "nil", func(*message) { panic(nil) })
	ref.Send(new(message))
	_, ok := errors.AsType[*runtime.PanicNilError](ref.Stop(t.Context()))
	require.True(t, ok)
}

// Trap: Goexit leaves the mailbox marked as running, so it is never run again.
func TestTrapGoexitWedgesTheMailbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		system := newSystem(t, actor.Config{})
		hold := make(chan struct{})
		ref := spawn(t, system, "exit", func(m *message) {
			<-hold
			if m.n == 3 {
				runtime.Goexit()
			}
		})
		send(t, ref, 10)
		close(hold)
		err := ref.Stop(t.Context())
		require.ErrorIs(t, err, actor.ErrGoexit)
		require.ErrorContains(t, err, "7 accepted messages lost")
		require.ErrorIs(t, system.Err(), actor.ErrGoexit)
		require.ErrorIs(t, system.Stop(t.Context()), actor.ErrGoexit)
	})
}

// Trap: the mailbox takes a nil interface for "empty" without counting it as
// handled, and spins.
func TestTrapNilMessageSpins(t *testing.T) {
	system := newSystem(t, actor.Config{})
	const bug = "actor: bug: nil message sent to x"
	pointers := spawn(t, system, "x", func(*message) { t.Error("handled") })
	require.PanicsWithValue(t, bug, func() { pointers.Send(nil) })
	require.NoError(t, pointers.Stop(t.Context()))

	interfaces := spawn(t, system, "x", func(any) { t.Error("handled") })
	require.PanicsWithValue(t, bug, func() { interfaces.Send(nil) })
	require.NoError(t, interfaces.Stop(t.Context()))

	var got []func() // cannot be compared: delivered, and harmless
	funcs := spawn(t, system, "x", func(f func()) { got = append(got, f) })
	require.True(t, funcs.Send(nil))
	require.NoError(t, funcs.Stop(t.Context()))
	require.Len(t, got, 1)

	values := spawn(t, system, "x", func(int) {}) // the zero value is not nil
	require.True(t, values.Send(0))
}

// Trap: Stop overtakes the queue and drops it; PoisonFuture waits for the queue,
// but gives up after 10 s.
func TestTrapStopDropsAndPoisonFutureGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		system := newSystem(t, actor.Config{})
		start, handled := time.Now(), 0
		ref := spawn(t, system, "slow", func(*message) { time.Sleep(time.Hour); handled++ })
		for range 24 {
			require.True(t, ref.Send(new(message)))
		}
		require.NoError(t, ref.Stop(t.Context()))
		require.Equal(t, 24, handled)
		require.Equal(t, 24*time.Hour, time.Since(start))
	})
}

// Trap: Shutdown stops nothing.
func TestTrapShutdownStopsNothing(t *testing.T) {
	system := newSystem(t, actor.Config{})
	ref := spawn(t, system, "any", func(*message) {})
	require.True(t, ref.Send(new(message)))
	require.NoError(t, system.Stop(t.Context()))
	require.False(t, ref.Send(new(message)))
	_, alive := actor.Proto().ProcessRegistry.GetLocal(system.InProcess("any"))
	require.False(t, alive)
}

// Trap: the default logger writes coloured text to stderr, and tells of each start.
func TestTrapLoggerWritesToStderr(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "written"))
	require.NoError(t, err)
	defer file.Close()
	stderr, stdout := os.Stderr, os.Stdout
	os.Stderr, os.Stdout = file, file
	defer func() { os.Stderr, os.Stdout = stderr, stdout }()

	var log bytes.Buffer
	everything := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	before := slog.Default()
	slog.SetDefault(everything)
	defer slog.SetDefault(before)
	for _, logger := range []*slog.Logger{nil, everything} {
		log.Reset()
		system := newSystem(t, actor.Config{Logger: logger})
		ref := spawn(t, system, "any", func(*message) {})
		require.True(t, ref.Send(new(message)))
		require.NoError(t, ref.Stop(t.Context()))
		actor.Proto().Logger().Info("told")
		assert.Empty(t, log.String(), "of a start, a stop and what protoactor-go tells")
		actor.Proto().Logger().Warn("warned")
		assert.Contains(t, log.String(), "msg=warned lib=protoactor")
	}
	_, err = file.Seek(0, io.SeekStart)
	require.NoError(t, err)
	written, err := io.ReadAll(file)
	require.NoError(t, err)
	assert.Empty(t, string(written))
}

// Trap: a sender spins when a bounded mailbox is full. Ours has no bound: Send
// returns while the actor is stuck.
func TestTrapBoundedMailboxSpins(t *testing.T) {
	system := newSystem(t, actor.Config{})
	hold, handled := make(chan struct{}), 0
	ref := spawn(t, system, "stuck", func(*message) { <-hold; handled++ })
	for range 100_000 {
		require.True(t, ref.Send(new(message)))
	}
	close(hold)
	require.NoError(t, ref.Stop(t.Context()))
	require.Equal(t, 100_000, handled)
}

// Trap: some messages mean something to protoactor-go. A batch is delivered item by
// item and then once more as a whole; a poison pill stops the actor; an envelope is
// opened.
func TestTrapMessagesWithAMeaning(t *testing.T) {
	system := newSystem(t, actor.Config{})
	var got []any
	ref := spawn(t, system, "any", func(m any) { got = append(got, m) })
	sent := []any{batch{1, 2}, &proto.PoisonPill{}, &proto.Touch{}, &proto.Stopped{}, proto.WrapEnvelope(3), 4}
	for _, m := range sent {
		require.True(t, ref.Send(m))
	}
	require.NoError(t, ref.Stop(t.Context()))
	require.Equal(t, sent, got)
}

type batch []any

func (b batch) GetMessages() []any { return b }

// send sends the messages 1 to n.
func send(t *testing.T, ref *actor.Ref[*message], n int) {
	t.Helper()
	for i := range n {
		require.True(t, ref.Send(&message{i + 1}))
	}
}

func explode(err error) { panic(err) }
