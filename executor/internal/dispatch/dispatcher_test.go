package dispatch

import (
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/shard"
)

// room is a dispatcher with seats that have looked once.
type room struct {
	t *testing.T
	*Dispatcher
	seats []*Seat
}

func newRoom(t *testing.T, p Policy, seats int) *room {
	r := &room{t, New(p), nil}
	r.Expect(seats)
	for range seats {
		s := r.Seat()
		require.Nil(t, r.next(s, true))
		r.seats = append(r.seats, s)
	}
	return r
}

// offer offers a shard of a queue, and says whether it has got a seat at once.
func (r *room) offer(q *Queue, due int64) (*shard.Shard, *Seat) {
	s := new(shard.Shard)
	w := (&Port{Queue: q, Index: int(due)}).Offer(s, due)
	if w == nil {
		return s, nil
	}
	require.Same(r.t, q, w.(*Seat).Queue)
	return s, w.(*Seat)
}

func TestASeatIsIdleOrAShardWaits(t *testing.T) {
	r := newRoom(t, OldestFirst(), 1)
	q := r.Join("q", nil, Share{})
	_, seat := r.offer(q, 1)
	require.NotNil(t, seat)
	late, none := r.offer(q, 3)
	require.Nil(t, none)
	early, _ := r.offer(q, 2)
	require.Same(t, early, r.next(seat, true))
	require.Same(t, late, r.next(seat, true))
	require.Equal(t, 1, q.Running())
	require.Nil(t, r.next(seat, true))
	seats, busy := r.Load()
	require.Equal(t, [3]int{1, 0, 0}, [3]int{seats, busy, q.Running()})
}

// What a limit holds back is ready when a seat leaves the queue, and when it goes up.
func TestLimit(t *testing.T) {
	r := newRoom(t, Fair(), 3)
	q := r.Join("q", nil, Share{MaxConcurrent: 1})
	_, seat := r.offer(q, 1)
	require.NotNil(t, seat)
	held, none := r.offer(q, 2)
	require.Nil(t, none, "two seats are idle, and the queue is full")
	require.Equal(t, &inspect.Turn{Reason: "max concurrent", Running: 1, Of: 1}, r.Turn(q, 1, 9))
	require.Same(t, held, r.next(seat, true))

	more, _ := r.offer(q, 3)
	grants := q.tune(Share{MaxConcurrent: 2})
	require.Len(t, grants, 1)
	var other *Seat
	for other = range grants {
		require.Same(t, more, grants[other])
	}
	require.Equal(t, Share{1, 2, 0}, q.Share())
	q.tune(Share{MaxConcurrent: 1})
	last, _ := r.offer(q, 4)
	require.Nil(t, r.next(seat, true), "the limit has come down")
	require.Same(t, last, r.next(other, true))
}

// A queue gets worker time by its weight, and none from before it had something to do.
func TestFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(t, Fair(), 1)
		names := map[*shard.Shard]string{}
		queues := map[string]*Queue{"a": r.Join("a", nil, Share{}), "b": r.Join("b", nil, Share{Weight: 3})}
		offer := func(name string) {
			s, _ := r.offer(queues[name], 1)
			names[s] = name
		}
		_, seat := r.offer(r.Join("first", nil, Share{}), 1)
		time.Sleep(time.Hour)
		offer("a")
		offer("b")
		var ran strings.Builder
		for range 8 {
			name := names[r.next(seat, true)]
			ran.WriteString(name)
			time.Sleep(time.Second)
			offer(name)
		}
		require.Equal(t, "abbbabbb", ran.String())
		urgent := r.Join("urgent", nil, Share{Priority: 1})
		s, _ := r.offer(urgent, 9)
		require.Equal(t, &inspect.Turn{Reason: "priority", Running: 1, Of: 1, Before: []string{"urgent"}}, r.Turn(queues["a"], 0, 9))
		require.True(t, r.strict.Load())
		require.Same(t, s, r.next(seat, true))
	})
}

func TestHoldAndClose(t *testing.T) {
	r := newRoom(t, RoundRobin(), 2)
	q := r.Join("q", nil, Share{})
	r.Hold()
	s, none := r.offer(q, 1)
	require.Nil(t, none)
	r.Release()
	for _, seat := range r.seats {
		require.Nil(t, <-seat.Runs, "it is to look")
	}
	require.Same(t, s, r.next(r.seats[0], true))
	require.Nil(t, r.next(r.seats[1], true))
	quiet := r.Close()
	_, none = r.offer(q, 2)
	require.Nil(t, none)
	select {
	case <-quiet:
		t.Fatal("a seat is at work")
	default:
	}
	require.Nil(t, r.next(r.seats[0], true))
	<-quiet
}

// A policy of the program's that ends its goroutine or names no shard leaves the lock free.
func TestAsked(t *testing.T) {
	pick := func(ready []Ready) int { return len(ready) - 1 }
	r := newRoom(t, Asked(func(ready []Ready) int { return pick(ready) }), 1)
	q := r.Join("q", nil, Share{})
	_, seat := r.offer(q, 1)
	var shards []*shard.Shard
	for due := range int64(4) {
		s, _ := r.offer(q, 2+due)
		shards = append(shards, s)
	}
	require.Same(t, shards[3], r.next(seat, true))
	require.Same(t, shards[0], r.next(seat, false), "on an actor it is not asked")
	pick = func([]Ready) int { return 99 }
	require.Same(t, shards[1], r.next(seat, true))
	pick = func([]Ready) int { runtime.Goexit(); return 0 }
	over := make(chan struct{})
	go func() {
		defer close(over)
		r.next(seat, true)
	}()
	<-over
	require.Same(t, shards[2], r.next(seat, false))
}

// Workers may be hired while the first of them have ended the executor. They are idle at once.
func TestHiredAfterTheClose(t *testing.T) {
	d := New(Fair())
	d.Expect(1)
	quiet := d.Close()
	d.Seat().Next(true)
	<-quiet
	d.Expect(2)
	d.Seat().Next(true)
	_, busy := d.Load()
	require.Zero(t, busy)
}
