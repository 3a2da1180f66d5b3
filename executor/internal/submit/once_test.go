package submit

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor/internal/engine"
	"github.com/strandjobs/strand/executor/internal/statekey"
	"github.com/strandjobs/strand/journal"
)

func newBook(t *testing.T) *Book {
	log, err := journal.OpenMemory(nil, journal.Config{Deliver: func(*journal.Delivery) {}, Failed: func(err error) { t.Error(err) }})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, log.Close()) })
	return &Book{Engine: &engine.Engine{Log: log, Failed: make(chan struct{})}, TTL: time.Hour, Now: time.Now}
}

// accept writes what a call says of itself, as if it had been accepted.
func accept(t *testing.T, b *Book, c *Conditions, first journal.Position, n int) {
	b.Log.Record(&journal.Change{Sets: c.sets(b.Now(), first, n)})
	require.NoError(t, b.Log.Settled(t.Context()))
}

// A call that does not know its outcome yet keeps the next one waiting until it does.
func TestTheNextCallWaitsForTheOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBook(t)
		first, second := Conditions{Sources: []Source{{"s", 1}}}, Conditions{Sources: []Source{{"s", 2}}}
		first.SetKey("q", "k")
		second.SetKey("q", "k")
		require.NoError(t, b.enter(t.Context(), &first))
		require.Equal(t, 2, b.Gates())

		over, cancel := context.WithCancelCause(t.Context())
		cancel(io.EOF)
		require.ErrorIs(t, b.enter(over, &second), io.EOF)
		b.leave(&second)

		entered := make(chan error, 1)
		go func() { entered <- b.enter(t.Context(), &second) }()
		synctest.Wait()
		require.Empty(t, entered)
		accept(t, b, &first, 7, 2)
		b.leave(&first)
		require.NoError(t, <-entered)
		k, err := b.before(&second)
		require.NoError(t, err)
		require.Equal(t, [2]int{7, 2}, [2]int{int(k.First), k.N})
		last, found, err := b.Offset("s")
		require.NoError(t, err)
		require.True(t, found)
		require.EqualValues(t, 1, last)
		b.leave(&second)
		require.Zero(t, b.Gates())
	})
}

// An expired key counts no more, and goes; one that is in use stays.
func TestSweepTakesExpiredKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBook(t)
		var old, used Conditions
		old.SetKey("q", "old")
		used.SetKey("q", "used")
		accept(t, b, &old, 1, 1)
		accept(t, b, &used, 2, 1)
		time.Sleep(b.TTL)
		k, err := b.before(&old)
		require.NoError(t, err)
		require.Zero(t, k.N)
		require.NoError(t, b.enter(t.Context(), &used))
		b.sweep()
		b.leave(&used)
		require.NoError(t, b.Log.Settled(t.Context()))
		_, found, err := read(b.Log, old.stateKey, statekey.ParseIdempotency)
		require.NoError(t, err)
		require.False(t, found)
		_, found, err = read(b.Log, used.stateKey, statekey.ParseIdempotency)
		require.NoError(t, err)
		require.True(t, found)
	})
}
