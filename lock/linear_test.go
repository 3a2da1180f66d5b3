package lock_test

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/lock"
)

// How many histories, and of what size. STRAND_LONG=1 checks 20,000 of them.
const (
	histories = 80
	clients   = 8
	perClient = 200
	linKeys   = 6
)

// call is the input of one operation, result its output. A set of keys is a bit
// mask.
type call struct {
	kind  string // try, acquire, unlock, extend, break
	keys  uint8
	token uint64 // unlock, extend
	ttl   time.Duration
}

type result struct {
	at    time.Duration // time of the bubble at the return; no operation but a waiting one takes any
	ok    bool
	token uint64 // granted
}

// tableState is the state of the model: who has each key, until when. An expiry is
// no operation of its own: the time of the bubble stands still while any goroutine
// runs, so each operation knows exactly which leases have ended before it.
type tableState struct {
	now   time.Duration
	last  uint64 // token
	token [linKeys]uint64
	end   [linKeys]time.Duration // 0 = none
}

func step(s tableState, c call, r result) (bool, tableState) {
	if r.at < s.now {
		return false, s
	}
	s.now = r.at
	for k := range s.token {
		if s.end[k] > 0 && s.end[k] <= r.at {
			s.token[k], s.end[k] = 0, 0
		}
	}
	switch c.kind {
	case "acquire":
		if !r.ok { // gave up
			return true, s
		}
		fallthrough
	case "try":
		return s.take(c, r)
	case "break":
		var token uint64
		for k, holder := range s.token {
			if c.keys&(1<<k) != 0 {
				token = holder
			}
		}
		return r.ok == (token > 0), s.set(token, 0, 0)
	}
	held := c.token > 0 && slices.Contains(s.token[:], c.token)
	switch {
	case r.ok != held:
		return false, s
	case held && c.kind == "unlock":
		s = s.set(c.token, 0, 0)
	case held:
		s = s.set(c.token, c.token, r.at+c.ttl)
	}
	return true, s
}

// take is the step of a try or an acquire that returned r.
func (s tableState) take(c call, r result) (bool, tableState) {
	before := s
	for k, holder := range s.token {
		if c.keys&(1<<k) == 0 {
			continue
		}
		if holder > 0 {
			return !r.ok, before
		}
		s.token[k] = r.token
		if c.ttl > 0 {
			s.end[k] = r.at + c.ttl
		}
	}
	if !r.ok {
		return false, before
	}
	legal := r.token > s.last
	s.last = r.token
	return legal, s
}

func (s tableState) set(old, token uint64, end time.Duration) tableState {
	for k := range s.token {
		if s.token[k] == old && old > 0 {
			s.token[k], s.end[k] = token, end
		}
	}
	return s
}

var hashSeed = maphash.MakeSeed()

var model = porcupine.Model{
	Init: func() any { return tableState{} },
	Step: func(state, input, output any) (bool, any) {
		return step(state.(tableState), input.(call), output.(result))
	},
	Hash: func(state any) uint64 { return maphash.Comparable(hashSeed, state.(tableState)) },
	DescribeOperation: func(input, output any) string {
		return fmt.Sprintf("%+v -> %+v", input, output)
	},
}

// history runs the clients in a bubble. waiting lets some of them wait, and keeps
// the others from trying, since a waiter's promise is not in the model.
func history(t *testing.T, seed uint64, waiting bool) []porcupine.Operation {
	var all [clients][]porcupine.Operation
	synctest.Test(t, func(t *testing.T) {
		var wg sync.WaitGroup
		var order atomic.Int64
		table, start := new(lock.Table), time.Now()
		for id := range clients {
			wg.Go(func() {
				c := client{id: id, rand: rand.New(rand.NewPCG(seed, uint64(id))), table: table, start: start, order: &order, waiting: waiting}
				for range perClient {
					c.step(t.Context())
				}
				all[id] = c.ops
			})
		}
		wg.Wait()
	})
	return slices.Concat(all[:]...)
}

type client struct {
	id      int
	rand    *rand.Rand
	table   *lock.Table
	start   time.Time
	order   *atomic.Int64
	waiting bool
	lease   lock.Lease // the last one, held or not
	ops     []porcupine.Operation
}

func (c *client) step(ctx context.Context) {
	if c.rand.IntN(3) == 0 {
		time.Sleep(time.Duration(c.rand.IntN(3)) * time.Millisecond)
	}
	in := call{keys: uint8(1) << c.rand.IntN(linKeys), token: c.lease.Token()}
	if c.rand.IntN(3) == 0 {
		in.keys |= uint8(1) << c.rand.IntN(linKeys)
	}
	switch n := c.rand.IntN(20); {
	case n < 9:
		in.kind, in.ttl = "try", time.Duration(c.rand.IntN(4))*time.Millisecond
		if c.waiting {
			in.kind = "acquire"
			in.ttl += time.Millisecond // so that each waiter's turn comes
		}
	case n < 15:
		in.kind = "unlock"
	case n < 19:
		in.kind, in.ttl = "extend", time.Duration(1+c.rand.IntN(3))*time.Millisecond
	default:
		in.kind, in.keys = "break", uint8(1)<<c.rand.IntN(linKeys)
	}
	called := c.order.Add(1)
	out := c.run(ctx, in)
	out.at = time.Since(c.start)
	c.ops = append(c.ops, porcupine.Operation{ClientId: c.id, Input: in, Call: called, Output: out, Return: c.order.Add(1)})
}

func (c *client) run(ctx context.Context, in call) result {
	var names []string
	for k := range linKeys {
		if in.keys&(1<<k) != 0 {
			names = append(names, fmt.Sprint("k", k))
		}
	}
	opt := lock.Options{TTL: in.ttl}
	var l lock.Lease
	var err error
	switch in.kind {
	case "try":
		l, err = c.table.TryAcquire(opt, names...)
	case "acquire":
		ctx, cancel := context.WithTimeout(ctx, time.Duration(c.rand.IntN(4))*time.Millisecond)
		defer cancel()
		l, err = c.table.Acquire(ctx, opt, names...)
	case "unlock":
		return result{ok: c.lease.Unlock() == nil}
	case "extend":
		return result{ok: c.lease.Extend(in.ttl) == nil}
	case "break":
		_, err = c.table.Break(names[0])
		return result{ok: err == nil}
	}
	if err == nil {
		c.lease = l
	}
	return result{ok: err == nil, token: l.Token()}
}

// Concurrent acquire, release, extend, break and expiry, one key or two, are
// linearizable.
func TestLocksAreLinearizable(t *testing.T) {
	n := histories
	if os.Getenv("STRAND_LONG") != "" {
		n = 20_000
	}
	base := rand.Uint64()
	var wg sync.WaitGroup
	for part := range 2 {
		wg.Go(func() {
			for i := part; i < n; i += 2 {
				ops := history(t, base+uint64(i), i%4 > 1)
				if got := porcupine.CheckOperationsTimeout(model, ops, time.Minute); got != porcupine.Ok {
					t.Errorf("history with seed %d, waiting %v: %s", base+uint64(i), i%4 > 1, got)
					return
				}
			}
		})
	}
	wg.Wait()
}

// The checker is awake: histories that break a rule by hand are refused.
func TestTheModelRefuses(t *testing.T) {
	granted := func(token uint64) result { return result{ok: true, token: token} }
	a := call{kind: "try", keys: 1}
	for name, ops := range map[string][]porcupine.Operation{
		"two holders":      {{Input: a, Output: granted(1)}, {Input: a, Output: granted(2)}},
		"same token":       {{Input: a, Output: granted(1)}, {Input: call{kind: "try", keys: 2}, Output: granted(1)}},
		"refused and free": {{Input: a, Output: result{}}},
		"stranger unlocks": {{Input: a, Output: granted(1)}, {Input: call{kind: "unlock", token: 7}, Output: result{ok: true}}},
		"late extension": {{Input: call{kind: "try", keys: 1, ttl: 5}, Output: granted(1)},
			{Input: call{kind: "extend", token: 1, ttl: 5}, Output: result{ok: true, at: 5}}},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range ops {
				ops[i].Call, ops[i].Return = int64(2*i), int64(2*i+1)
			}
			slices.SortFunc(ops, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
			require.False(t, porcupine.CheckOperations(model, ops))
		})
	}
}
