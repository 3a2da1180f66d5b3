package attempt

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/shard"
)

// A process that stood still wakes with all timers over: its handlers have their time for a sign of life, and to
// hear of their timeout, from then on.
func TestProcessThatStoodStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		beats, slow := new(Hand), new(Hand)
		var stuck atomic.Int32
		d := NewWatchdog(Config{
			After: 5 * time.Second, Hands: func() []*Hand { return []*Hand{beats, slow} },
			Replace: func(Stuck) {}, Report: func(Stuck) { stuck.Add(1) },
		})
		defer d.Stop()
		d.Expect(8 * time.Second)
		a := new(Pool).Next(t.Context(), nil)
		wait := func(d time.Duration) {
			time.Sleep(d)
			synctest.Wait()
		}
		take := func(h *Hand, timeout, heartbeat time.Duration) {
			h.Lock()
			h.Begin(d, new(shard.Run), a, timeout, heartbeat)
			h.Unlock()
			d.Wake()
		}
		take(beats, 0, 8*time.Second)
		take(slow, time.Minute, 0)
		wait(7500 * time.Millisecond)
		a.Heartbeat()
		d.timer.Stop()
		time.Sleep(10 * time.Minute) // it stands still
		goesOn := time.Now()
		d.look()
		wait(4500 * time.Millisecond)
		require.Zero(t, stuck.Load())
		wait(time.Second)
		require.EqualValues(t, 1, stuck.Load(), "its time is over, and it had five seconds to hear of that")
		require.NoError(t, a.Err())
		wait(goesOn.Add(7500 * time.Millisecond).Sub(time.Now()))
		require.NoError(t, a.Err())
		wait(time.Second)
		cause, _ := a.Ended()
		require.Equal(t, ErrNoHeartbeat, cause)
		wait(time.Minute)
		require.EqualValues(t, 2, stuck.Load())
	})
}
