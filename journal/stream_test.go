package journal

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// onBoth runs a test on a log in memory only, and on one that commits all that it gets.
func onBoth(t *testing.T, test func(t *testing.T, open func(Config) *Log)) {
	for name, disk := range map[string]func() *Memory{"in memory": func() *Memory { return nil }, "on a disk": func() *Memory { return new(Memory) }} {
		t.Run(name, func(t *testing.T) {
			test(t, func(cfg Config) *Log {
				l, err := OpenMemory(disk(), cfg)
				require.NoError(t, err)
				t.Cleanup(func() { _ = l.Close() })
				return l
			})
		})
	}
}

func lone(route uint32, text string) []Entry {
	return []Entry{{Queue: 1, ID: []byte("id"), Payload: []byte(text), Route: route, Due: 1}}
}

// arrivals is a consumer that checks the order of each route, and that no two
// deliveries of it are at a time.
type arrivals struct {
	t      *testing.T
	inside [4]atomic.Int32
	mu     sync.Mutex
	last   [4]Position
	refs   map[Position]Ref
	seen   int
	after  func(Ref, *Entry) // called under mu
}

func (a *arrivals) deliver(d *Delivery) {
	assert.EqualValues(a.t, 1, a.inside[d.Route].Add(1), "one at a time")
	a.mu.Lock()
	for i := range d.Len() {
		var e Entry
		ref, err := d.Read(i, &e)
		assert.NoError(a.t, err)
		assert.Greater(a.t, e.Position, a.last[d.Route], "route %d", d.Route)
		assert.Equal(a.t, a.text(e.Position, e.Payload), string(e.Payload))
		a.last[d.Route] = e.Position
		a.refs[e.Position] = ref
		a.seen++
		if e.Position%3 == 0 {
			d.Merged(e.Position, e.Position-1)
		}
		if a.after != nil {
			a.after(ref, &e)
		}
	}
	a.mu.Unlock()
	a.inside[d.Route].Add(-1)
	d.Done()
}

// text is what the payload that begins as this one does has to be.
func (a *arrivals) text(_ Position, payload []byte) string {
	var size int
	var tail byte
	_, err := fmt.Sscanf(string(payload), "%d %c", &size, &tail)
	assert.NoError(a.t, err)
	return sized(size, tail)
}

func sized(size int, tail byte) string {
	head := fmt.Sprintf("%d ", size)
	return head + string(bytes.Repeat([]byte{tail}, size))
}

// TestEveryWayIntoALogIsInOrder: payloads that come alone, together, with keys, as
// follow-ups and out of the morgue reach their routes in position order, whole, one
// delivery at a time, and those who wait for them learn what became of them.
func TestEveryWayIntoALogIsInOrder(t *testing.T) {
	onBoth(t, func(t *testing.T, open func(Config) *Log) {
		a := &arrivals{t: t, refs: make(map[Position]Ref)}
		l := open(Config{Deliver: a.deliver})
		var group sync.WaitGroup
		var sent atomic.Int64
		for p := range 4 {
			group.Go(func() {
				random := rand.New(rand.NewPCG(uint64(p), 7))
				for n := range 400 {
					list := lone(random.Uint32N(4), sized(1+random.IntN(2000), byte('a'+p)))
					key := fmt.Sprintf("k/%d/%d", p, n)
					var ticket Ticket
					var err error
					switch random.IntN(16) {
					case 0:
						list = append(list, lone(random.Uint32N(4), sized(1+random.IntN(30_000), 'x'))...)
						ticket, err = l.Append(t.Context(), list, nil)
					case 1:
						ticket, err = l.Append(t.Context(), list, func(Position) []Set { return []Set{{Key: key, Value: []byte("1")}} })
					case 2:
						ticket, err = l.Append(t.Context(), list, func(Position) []Set { return nil })
					case 3:
						l.Record(&Change{FollowUps: list})
						sent.Add(1)
						continue
					case 4:
						ticket, err = l.Post(t.Context(), list, nil)
					default:
						ticket, err = l.Append(t.Context(), list, nil)
					}
					if !assert.NoError(t, err) {
						return
					}
					sent.Add(int64(len(list)))
					if random.IntN(3) == 0 {
						continue // its ticket is let go
					}
					if !assert.NoError(t, ticket.Wait(t.Context())) {
						return
					}
					for i := range list {
						pos := ticket.Position(i)
						want := Position(0)
						if pos%3 == 0 {
							want = pos - 1
						}
						assert.Equal(t, want, ticket.Merged(i))
						a.mu.Lock()
						ref, there := a.refs[pos]
						a.mu.Unlock()
						var e Entry
						if assert.True(t, there, "it is taken in") && assert.NoError(t, ref.Read(&e)) {
							assert.Equal(t, list[i].Payload, e.Payload)
						}
					}
				}
			})
		}
		group.Wait()
		require.NoError(t, l.Flush(t.Context()))
		require.EqualValues(t, sent.Load(), a.seen)
		ended := 0
		for pos, ref := range maps.Clone(a.refs) { // all are still there, and in whatever order they end
			var e Entry
			require.NoError(t, ref.Read(&e))
			require.Equal(t, pos, e.Position)
			require.Equal(t, a.text(pos, e.Payload), string(e.Payload))
			l.Record(&Change{Ended: []Ref{ref}})
			if ended++; ended%50 == 0 {
				_, err := l.Append(t.Context(), lone(0, sized(9, 'z')), nil)
				require.NoError(t, err)
			}
		}
	})
}

// TestEndsMeanwhile: what ends while the block that it is in is still open, and is read
// by others, is freed with the rest of it.
func TestEndsMeanwhile(t *testing.T) {
	onBoth(t, func(t *testing.T, open func(Config) *Log) {
		var l *Log
		var waiting []Ref
		l = open(Config{trimSlack: 1 << 10, Deliver: func(d *Delivery) {
			var e Entry
			for i := range d.Len() {
				ref, err := d.Read(i, &e)
				assert.NoError(t, err)
				waiting = append(waiting, ref)
			}
			d.Done()
		}})
		for n := range 4000 {
			ticket, err := l.Append(t.Context(), lone(0, sized(500, byte('a'+n%26))), nil)
			require.NoError(t, err)
			require.NoError(t, ticket.Wait(t.Context()))
			for len(waiting) > 20 { // but for the first one
				var e Entry
				require.NoError(t, waiting[1].Read(&e))
				require.NoError(t, waiting[0].Read(&e))
				require.Equal(t, sized(500, 'a'), string(e.Payload))
				ended := waiting[1]
				waiting = append(waiting[:1], waiting[2:]...)
				l.Record(&Change{Ended: []Ref{ended}})
				_, err := ended.Peek(&e) // there or not: it does no harm
				require.NoError(t, err)
			}
		}
		require.NoError(t, l.Flush(t.Context()))
		require.Less(t, l.Stats().Bytes, 400<<10, "what ended is gone")
		require.Panics(t, func() { l.chain.End(waiting[3], &l.open.Writer); l.chain.End(waiting[3], &l.open.Writer) }, "it ends once")
	})
}

// TestASlowConsumerIsWaitedForByOne: who finds another one delivering to a route leaves
// its own to it and does not wait; other routes go on; no appender delivers for others
// for ever, and Close waits for all.
func TestASlowConsumerIsWaitedForByOne(t *testing.T) {
	held, goOn := make(chan struct{}), make(chan struct{})
	var got []Position
	hold := true
	var l *Log
	l, err := OpenMemory(nil, Config{Deliver: func(d *Delivery) {
		var e Entry
		if d.Route == 0 {
			if hold {
				hold = false
				held <- struct{}{}
				<-goOn
			}
			select {
			case <-l.done:
				t.Error("closed before all is delivered")
			default:
			}
			for i := range d.Len() {
				_, err := d.Read(i, &e)
				assert.NoError(t, err)
				got = append(got, e.Position)
			}
		}
		d.Done()
	}})
	require.NoError(t, err)
	first := make(chan Ticket, 1)
	go func() {
		ticket, err := l.Append(context.Background(), lone(0, "1 a"), nil)
		assert.NoError(t, err)
		first <- ticket
	}()
	<-held
	var left []Ticket
	for range streamTurn {
		ticket, err := l.Append(t.Context(), lone(0, "1 b"), nil)
		require.NoError(t, err)
		left = append(left, ticket)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for _, ticket := range left {
		require.ErrorIs(t, ticket.Wait(over), ErrUnknown, "it is not taken in")
	}
	other, err := l.Append(t.Context(), lone(1, "1 c"), nil)
	require.NoError(t, err)
	require.NoError(t, other.Wait(over), "another route")
	require.Len(t, l.streams[0].waiting, streamTurn)
	one, err := l.Append(t.Context(), lone(0, "1 d"), nil)
	require.NoError(t, err)
	require.True(t, l.open.pends(), "more than that is the committer's")
	behind, err := l.Append(t.Context(), lone(1, "1 e"), nil)
	require.NoError(t, err)
	require.ErrorIs(t, behind.Wait(over), ErrUnknown, "and what comes behind it")
	closed := make(chan struct{})
	go func() {
		assert.NoError(t, l.Close())
		close(closed)
	}()
	<-l.closing
	close(goOn)
	<-closed
	for _, ticket := range append(left, <-first, one, behind) {
		require.NoError(t, ticket.Wait(over))
	}
	require.Len(t, got, streamTurn+2)
	for i := range got[1:] {
		require.Less(t, got[i], got[i+1])
	}
}

// TestNothingOvertakesAKey: a payload with a key is delivered when the key is there, and
// before what comes after it; and what is before it comes first.
func TestNothingOvertakesAKey(t *testing.T) {
	var l *Log
	var got []string
	l, err := OpenMemory(nil, Config{Deliver: func(d *Delivery) {
		var e Entry
		for i := range d.Len() {
			_, err := d.Read(i, &e)
			assert.NoError(t, err)
			got = append(got, string(e.Payload))
			if string(e.Payload) == "key" {
				v, err := l.Get("k")
				assert.NoError(t, err)
				assert.Equal(t, "v", string(v))
			}
		}
		d.Done()
	}})
	require.NoError(t, err)
	l.committing.Lock() // a commit is under way
	var tickets []Ticket
	for _, text := range []string{"a", "key", "b"} {
		ticket, err := l.Append(t.Context(), lone(0, text), func(Position) []Set {
			if text != "key" {
				return nil
			}
			return []Set{{Key: "k", Value: []byte("v")}}
		})
		require.NoError(t, err)
		tickets = append(tickets, ticket)
	}
	require.Empty(t, got)
	l.committing.Unlock()
	for _, ticket := range tickets {
		require.NoError(t, ticket.Wait(t.Context()))
	}
	require.Equal(t, []string{"a", "key", "b"}, got)
	require.NoError(t, l.Close())
}

// TestWhatWasReadStaysAsItIs: what a reader has of an entry is its own for good, though
// the entry ends, its block is sealed and others come; and a block of which all has ended
// while it was open is read on.
func TestWhatWasReadStaysAsItIs(t *testing.T) {
	onBoth(t, func(t *testing.T, open func(Config) *Log) {
		var l *Log
		var ref Ref
		var e Entry
		l = open(Config{Deliver: func(d *Delivery) {
			var err error
			ref, err = d.Read(0, &e)
			assert.NoError(t, err)
			d.Done()
		}})
		var before [][]byte
		for n := range 100 {
			text := sized(9, byte('a'+n%26))
			ticket, err := l.Append(t.Context(), lone(0, text), func(Position) []Set {
				if n%10 == 9 { // which needs a commit
					return []Set{{Key: "k", Value: []byte("v")}}
				}
				return nil
			})
			require.NoError(t, err)
			require.NoError(t, ticket.Wait(t.Context()))
			require.Equal(t, text, string(e.Payload))
			require.NoError(t, ref.Read(&e))
			require.Equal(t, text, string(e.Payload))
			before = append(before, e.Payload)
			l.Record(&Change{Ended: []Ref{ref}})
		}
		for n, payload := range before {
			require.Equal(t, sized(9, byte('a'+n%26)), string(payload))
		}
	})
}
