package pace_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor/internal/pace"
)

func always() bool { return true }

func work(d time.Duration) func() (time.Duration, error) {
	return func() (time.Duration, error) { time.Sleep(d); return d, nil }
}

// nothing lies idle.
func nothing() float64 { return 0 }

// Ten who look get the share of one, together, beyond the burst.
func TestShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pace.New(0.05, 50*time.Millisecond, nothing)
		began := time.Now()
		var readers sync.WaitGroup
		for range 10 {
			readers.Go(func() {
				for range 100 {
					require.NoError(t, p.Do(t.Context(), always, work(time.Millisecond)))
				}
			})
		}
		readers.Wait()
		// A second of work, less the burst, at a twentieth.
		took := time.Since(began)
		require.InDelta(t, 19, took.Seconds(), 0.5)
		time.Sleep(time.Hour)
		began = time.Now()
		for range 50 {
			require.NoError(t, p.Do(t.Context(), always, work(time.Millisecond)))
		}
		require.Equal(t, 50*time.Millisecond, time.Since(began), "a burst is free, and saved up once")
	})
}

func TestNoPauseWhileNobodyWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pace.New(0.05, 0, nothing)
		began := time.Now()
		for range 100 {
			require.NoError(t, p.Do(t.Context(), func() bool { return false }, work(time.Millisecond)))
		}
		require.Equal(t, 100*time.Millisecond, time.Since(began))
	})
}

func TestContextEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pace.New(0.001, 0, nothing)
		require.NoError(t, p.Do(t.Context(), always, work(time.Second)))
		errEnough := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errEnough)
		defer cancel()
		var readers sync.WaitGroup
		for range 2 { // one pauses, the other waits for its turn
			readers.Go(func() {
				require.ErrorIs(t, p.Do(ctx, always, func() (time.Duration, error) { t.Error("called"); return 0, nil }), errEnough)
			})
		}
		readers.Wait()
		errBoom := errors.New("boom")
		require.ErrorIs(t, p.Do(t.Context(), func() bool { return false }, func() (time.Duration, error) { return 0, errBoom }), errBoom)
	})
}

// Half of what lies idle is for those who look, and no less than their share.
func TestHalfOfWhatLiesIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		idle := 0.0
		p := pace.New(0.05, 0, func() float64 { return idle })
		took := func() time.Duration {
			time.Sleep(time.Hour)
			began := time.Now()
			for range 101 {
				require.NoError(t, p.Do(t.Context(), always, func() (time.Duration, error) { return time.Millisecond, nil }))
			}
			return time.Since(began)
		}
		require.Equal(t, 2*time.Second, took())
		idle = 0.05
		require.Equal(t, 2*time.Second, took())
		idle = 1
		require.Equal(t, 200*time.Millisecond, took())
		idle = 64
		require.Equal(t, 100*time.Millisecond, took())
	})
}
