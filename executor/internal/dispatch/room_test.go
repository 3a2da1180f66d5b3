package dispatch

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/shard"
)

// staff are the workers of a dispatcher: a run takes a while, and one that is offered is done once.
type staff struct {
	*Dispatcher
	q    *Queue
	done atomic.Int64
}

func newStaff(in *Room, seats int, busy, most *atomic.Int64) *staff {
	s := &staff{Dispatcher: New(Fair())}
	s.Share(in)
	s.q = s.Join("q", nil, Share{})
	s.Expect(seats)
	for range seats {
		seat := s.Seat()
		go func() {
			for {
				for s.next(seat, true) != nil {
					s.run(busy, most)
				}
				for run := range seat.Runs { // until it is told to look
					if run == nil {
						break
					}
					s.run(busy, most)
					for s.next(seat, true) != nil {
						s.run(busy, most)
					}
				}
				if s.Dispatcher.isClosed() {
					return
				}
			}
		}()
	}
	return s
}

func (d *Dispatcher) isClosed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.closed
}

// leave ends its workers.
func (s *staff) leave() {
	<-s.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, seat := range s.idle {
		close(seat.Runs)
	}
}

func (s *staff) run(busy, most *atomic.Int64) {
	now := busy.Add(1)
	for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
	}
	time.Sleep(time.Duration(rand.IntN(3)) * time.Millisecond)
	busy.Add(-1)
	s.done.Add(1)
}

func (s *staff) offer() {
	if w := (&Port{Queue: s.q}).Offer(new(shard.Shard), int64(rand.IntN(100))); w != nil {
		w.(*Seat).Runs <- new(shard.Run)
	}
}

// Dispatchers that share room never work with more seats than it has, all that is offered is done, and
// what one of them has left to do does not keep another from its turn.
func TestDispatchersShareRoom(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			seats := 1 + rand.IntN(4)
			in := NewRoom(seats)
			var busy, most atomic.Int64
			all := make([]*staff, 1+rand.IntN(4))
			for i := range all {
				all[i] = newStaff(in, seats, &busy, &most)
			}
			offered := make([]int64, len(all))
			for range 200 {
				i := rand.IntN(len(all))
				all[i].offer()
				offered[i]++
				if rand.IntN(4) == 0 {
					time.Sleep(time.Duration(rand.IntN(2)) * time.Millisecond)
				}
			}
			time.Sleep(time.Hour)
			for i, s := range all {
				require.Equal(t, offered[i], s.done.Load())
			}
			require.LessOrEqual(t, most.Load(), int64(seats))
			for _, s := range all {
				s.leave()
			}
			synctest.Wait()
			require.Equal(t, seats, in.left)
		})
	}
}

// A policy of the program's is asked by one of them at a time.
func TestDispatchersAskOneAfterTheOther(t *testing.T) {
	in := NewRoom(2)
	var inside atomic.Int32
	var both atomic.Bool
	var asking sync.WaitGroup
	for range 2 {
		d := New(Asked(func([]Ready) int {
			both.CompareAndSwap(false, inside.Add(1) > 1)
			time.Sleep(10 * time.Millisecond)
			inside.Add(-1)
			return 0
		}))
		d.Share(in)
		d.Expect(1)
		(&Port{Queue: d.Join("q", nil, Share{})}).Offer(new(shard.Shard), 1)
		asking.Go(func() { d.next(d.Seat(), true) })
	}
	asking.Wait()
	require.False(t, both.Load())
}

func TestAPlaceGoesRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := NewRoom(1)
		var busy, most atomic.Int64
		long, short := newStaff(in, 1, &busy, &most), newStaff(in, 1, &busy, &most)
		synctest.Wait()
		for range 1000 {
			long.offer()
		}
		short.offer()
		for short.done.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
		require.Less(t, long.done.Load(), int64(20))
		time.Sleep(time.Hour)
		require.EqualValues(t, 1000, long.done.Load())
		long.leave()
		short.leave()
	})
}
