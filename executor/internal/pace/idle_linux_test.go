package pace

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestIdleOf(t *testing.T) {
	idle, ok := idleOf([]byte("cpu  6161924 1236688 1615757 2187307 134260 0 41650 43714 0 0\ncpu0 3095924 647"))
	require.True(t, ok)
	require.Equal(t, (2187307+134260)*10*time.Millisecond, idle)
	for _, text := range []string{"", "cpu", "intr 1 2 3 4 5 6", "cpu 1 2 3 x 5", "cpu 1 2 3 4 x"} {
		_, ok = idleOf([]byte(text))
		require.False(t, ok, text)
	}
}

// A process that computes on all processors that it may use has none to spare.
func TestNothingIsIdleBesideWhoComputes(t *testing.T) {
	var i Idle
	require.Zero(t, i.Lately(), "it has just begun to look")
	var over atomic.Bool
	var busy sync.WaitGroup
	defer busy.Wait()
	defer over.Store(true)
	for range runtime.GOMAXPROCS(0) {
		busy.Go(func() {
			for !over.Load() {
			}
		})
	}
	var lately []float64
	for began := time.Now(); time.Since(began) < 4*window; {
		time.Sleep(window)
		lately = append(lately, i.Lately())
	}
	require.Less(t, lately[len(lately)-1], 0.3*float64(runtime.GOMAXPROCS(0)), lately)
	i.at = i.at.Add(-oldWindow)
	require.Zero(t, i.Lately(), "of a moment long ago it says nothing")
}
