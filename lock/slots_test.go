package lock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/lock"
)

func plusOne(v int) int { return v + 1 }

func newSlots(t *testing.T, cfg lock.SlotsConfig[int]) *lock.Slots[int] {
	t.Helper()
	if cfg.Next == nil {
		cfg.Next = plusOne
	}
	s, err := lock.NewSlots(cfg)
	require.NoError(t, err)
	return s
}

func reserve(t *testing.T, s *lock.Slots[int], want int) *lock.Reservation[int] {
	t.Helper()
	r, err := s.Reserve(t.Context(), lock.Options{})
	require.NoError(t, err)
	require.Equal(t, want, r.Value())
	return r
}

func TestLaralocker_A01_ReservesTheNextFreeValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(t, lock.SlotsConfig[int]{})
		reserve(t, s, 1)
		second := reserve(t, s, 2)
		reserve(t, s, 3)
		require.NoError(t, second.Unlock())
		reserve(t, s, 2)
		time.Sleep(60*time.Second - 1)
		reserve(t, s, 4)
		time.Sleep(time.Nanosecond)
		reserve(t, s, 1) // the default TTL is 60 s
	})
}

func TestLaralocker_A02_StartFromIsAskedOnlyWhileNothingIsKnown(t *testing.T) {
	asked := 0
	down := errors.New("database down")
	s := newSlots(t, lock.SlotsConfig[int]{StartFrom: func(context.Context) (int, error) {
		if asked++; asked == 1 {
			return 0, down
		}
		return 100, nil
	}})
	_, err := s.Reserve(t.Context(), lock.Options{})
	require.ErrorIs(t, err, down)
	_, _, known := s.Last()
	require.False(t, known)
	require.NoError(t, reserve(t, s, 101).Unlock())
	require.NoError(t, reserve(t, s, 101).Commit())
	reserve(t, s, 102)
	require.Equal(t, 2, asked)
}

func TestLaralocker_A03_CommitRemembersAndNeverGoesBack(t *testing.T) {
	s := newSlots(t, lock.SlotsConfig[int]{})
	one, two, three := reserve(t, s, 1), reserve(t, s, 2), reserve(t, s, 3)
	require.NoError(t, two.Commit())
	last, position, known := s.Last()
	require.Equal(t, []any{2, uint64(2), true}, []any{last, position, known})
	require.NoError(t, one.Commit())
	last, _, _ = s.Last()
	require.Equal(t, 2, last, "a later one has moved it on")
	require.ErrorIs(t, two.Commit(), lock.ErrLockLost)
	reserve(t, s, 4)
	require.NoError(t, three.Commit())
	last, _, _ = s.Last()
	require.Equal(t, 3, last)
}

// "Later" is the place in the sequence. 1 is released and reserved again after 2;
// its commit must not undo that of 2.
func TestLaralocker_A03_ReservedAgainIsNotLater(t *testing.T) {
	s := newSlots(t, lock.SlotsConfig[int]{})
	one, two := reserve(t, s, 1), reserve(t, s, 2)
	require.NoError(t, one.Unlock())
	again := reserve(t, s, 1)
	require.NoError(t, two.Commit())
	require.NoError(t, again.Commit())
	reserve(t, s, 3)
}

func TestLaralocker_A04_FailureMovesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(t, lock.SlotsConfig[int]{})
		require.NoError(t, reserve(t, s, 1).Commit())
		failed := reserve(t, s, 2)
		require.NoError(t, failed.Unlock())
		require.ErrorIs(t, failed.Unlock(), lock.ErrLockLost)
		last, _, _ := s.Last()
		require.Equal(t, 1, last)

		vanished := reserve(t, s, 2)
		time.Sleep(time.Minute)
		now := reserve(t, s, 2)
		require.ErrorIs(t, vanished.Commit(), lock.ErrLockLost, "too late: another holder has it")
		last, _, _ = s.Last()
		require.Equal(t, 1, last)
		require.NoError(t, now.Extend(time.Hour))
		time.Sleep(30 * time.Minute)
		require.NoError(t, now.Commit())
	})
}

func TestLaralocker_A05_StoreTTLAndAnyValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := new(lock.Table)
		seats, err := lock.NewSlots(lock.SlotsConfig[string]{
			Store: "seats", TTL: time.Second, Table: table,
			StartFrom: func(context.Context) (string, error) { return "A0", nil },
			Next:      func(v string) string { return fmt.Sprintf("A%d", int(v[1]-'0')+1) },
		})
		require.NoError(t, err)
		tickets := newSlots(t, lock.SlotsConfig[int]{Table: table})
		r, err := seats.Reserve(t.Context(), lock.Options{Owner: "web"})
		require.NoError(t, err)
		require.Equal(t, "A1", r.Value())
		require.Equal(t, []string{"seats/A1"}, r.Keys())
		require.Equal(t, []string{"slots/1"}, reserve(t, tickets, 1).Keys())
		own, err := seats.Reserve(t.Context(), lock.Options{TTL: time.Hour})
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.False(t, r.Held())
		require.True(t, own.Held())
	})
}

// A05: a reset by hand begins the sequence anew. What is reserved stays its holder's alone,
// and moves the sequence no more.
func TestLaralocker_A05_Reset(t *testing.T) {
	from := 0
	s := newSlots(t, lock.SlotsConfig[int]{StartFrom: func(context.Context) (int, error) { return from, nil }})
	for v := range 5 {
		require.NoError(t, reserve(t, s, v+1).Commit())
	}
	held := reserve(t, s, 6)
	from = 3
	woken := 0
	s.Watch(func() { woken++ })
	s.Reset()
	require.Equal(t, 1, woken, "there are values again")
	_, _, known := s.Last()
	require.False(t, known)
	require.Zero(t, held.Position())
	require.Len(t, s.Snapshot().Open, 1)
	again := reserve(t, s, 4)
	require.EqualValues(t, 1, again.Position())
	require.NoError(t, held.Commit())
	last, position, known := s.Last()
	require.Equal(t, []any{3, uint64(0), true}, []any{last, position, known})
	require.NoError(t, again.Commit())
	require.NoError(t, reserve(t, s, 5).Commit())
	held = reserve(t, s, 6)
	s.Reset()
	for v := range 2 {
		require.NoError(t, reserve(t, s, v+4).Commit())
	}
	require.NoError(t, reserve(t, s, 7).Unlock(), "6 is its holder's")
	require.NoError(t, held.Unlock())
	reserve(t, s, 6)
}

// A05: a reset beside one who looks for a value: it begins where the reset says.
func TestLaralocker_A05_ResetMeanwhile(t *testing.T) {
	for name, at := range map[string]string{"in Next": "next", "in StartFrom": "start"} {
		t.Run(name, func(t *testing.T) {
			var s *lock.Slots[int]
			asked, from := 0, 10
			reset := func(where string) {
				if asked++; where == at && asked < 3 {
					from = 20
					s.Reset()
				}
			}
			s = newSlots(t, lock.SlotsConfig[int]{
				StartFrom: func(context.Context) (int, error) { was := from; reset("start"); return was, nil },
				Next:      func(v int) int { reset("next"); return v + 1 },
			})
			reserve(t, s, 21)
		})
	}
}

// A06: sequential serials sold at the same time: where nothing fails they are all there,
// each once, without a gap.
func TestLaralocker_A06_TicketsSoldConcurrently(t *testing.T) {
	const n = 1_000
	s := newSlots(t, lock.SlotsConfig[int]{})
	sold := sell(t, s, n, func(int) bool { return false })
	for v := range n {
		require.Equal(t, 1, sold[v+1], "ticket %d", v+1)
	}
	last, _, _ := s.Last()
	require.Equal(t, n, last)
}

// A06: where sales fail none is sold twice, and each has one. A value that was given back
// beside a later one that was sold is a gap.
func TestLaralocker_A06_TicketsThatFail(t *testing.T) {
	const n = 1_000
	s := newSlots(t, lock.SlotsConfig[int]{})
	sold := sell(t, s, n, func(i int) bool { return i%7 == 0 })
	require.Len(t, sold, n)
	for v, times := range sold {
		require.Equal(t, 1, times, "ticket %d", v)
	}
	last, _, _ := s.Last()
	failed, next := reserve(t, s, last+1), reserve(t, s, last+2)
	require.NoError(t, next.Commit())
	require.NoError(t, failed.Unlock())
	reserve(t, s, last+3)
}

// sell sells n tickets, eight at a time, each again that fails.
func sell(t *testing.T, s *lock.Slots[int], n int, fails func(i int) bool) (sold map[int]int) {
	var mu sync.Mutex
	sold = map[int]int{}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range n / 8 {
				r, err := s.Reserve(t.Context(), lock.Options{})
				if err == nil && fails(i+j) {
					if err = r.Unlock(); err == nil {
						r, err = s.Reserve(t.Context(), lock.Options{})
					}
				}
				if err == nil {
					err = r.Commit()
				}
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				sold[r.Value()]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	require.Empty(t, s.Snapshot().Open)
	return sold
}

// A sequence that goes round n values has at most n holders, and the rest is
// told so.
func TestNextThatNeverFindsAFreeValue(t *testing.T) {
	s := newSlots(t, lock.SlotsConfig[int]{Next: func(v int) int { return (v + 1) % 3 }, MaxSteps: 50})
	var holders, most, refused atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				r, err := s.Reserve(t.Context(), lock.Options{})
				if errors.Is(err, lock.ErrNoFreeSlot) {
					refused.Add(1)
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				now := holders.Add(1)
				for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
				}
				holders.Add(-1)
				if err := r.Unlock(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	require.LessOrEqual(t, most.Load(), int64(3))

	for range 3 {
		_, err := s.Reserve(t.Context(), lock.Options{})
		require.NoError(t, err)
	}
	before := s.Snapshot()
	_, err := s.Reserve(t.Context(), lock.Options{})
	require.ErrorIs(t, err, lock.ErrNoFreeSlot)
	require.EqualError(t, err, `lock: no free slot: "slots" after 50 steps`)
	require.Len(t, s.Snapshot().Open, len(before.Open), "nothing changed")

	ctx, cancel := context.WithCancel(t.Context())
	stuck := newSlots(t, lock.SlotsConfig[int]{MaxSteps: 1 << 40, Next: func(v int) int {
		cancel()
		return 7
	}})
	reserve(t, stuck, 7)
	_, err = stuck.Reserve(ctx, lock.Options{})
	require.ErrorIs(t, err, context.Canceled, "ctx ends the search")
}

func TestWatchSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(t, lock.SlotsConfig[int]{})
		woken := ""
		watch := func(name string) func() { return s.Watch(func() { woken += name }) }
		r := reserve(t, s, 1)
		watch("release ")
		watch("cancelled ")()
		require.NoError(t, r.Unlock())
		r = reserve(t, s, 1)
		watch("commit ")
		require.NoError(t, r.Commit())
		reserve(t, s, 2)
		watch("expiry ")
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, "release commit expiry ", woken)
	})
}

func TestSlotsConfigIsChecked(t *testing.T) {
	_, err := lock.NewSlots(lock.SlotsConfig[int]{})
	require.ErrorIs(t, err, lock.ErrConfig)
	_, err = lock.NewSlots(lock.SlotsConfig[int]{Next: plusOne, MaxSteps: -1})
	require.ErrorIs(t, err, lock.ErrConfig)
	_, err = lock.NewSlots(lock.SlotsConfig[int]{Next: plusOne, TTL: -1})
	require.ErrorIs(t, err, lock.ErrConfig)
	s := newSlots(t, lock.SlotsConfig[int]{})
	_, err = s.Reserve(t.Context(), lock.Options{TTL: -1})
	require.ErrorIs(t, err, lock.ErrConfig)
	require.Empty(t, s.Snapshot().Open)
}

func TestSlotsComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(t, lock.SlotsConfig[int]{})
		require.NoError(t, reserve(t, s, 1).Commit())
		require.NoError(t, reserve(t, s, 2).Commit())
		gone := reserve(t, s, 3)
		time.Sleep(30 * time.Second)
		kept := reserve(t, s, 4)
		state := s.Snapshot()
		require.Len(t, state.Open, 2)
		time.Sleep(30 * time.Second)

		s = newSlots(t, lock.SlotsConfig[int]{StartFrom: func(context.Context) (int, error) {
			return 0, errors.New("the last value is known")
		}})
		back, err := s.Restore(state)
		require.NoError(t, err)
		require.Nil(t, back[0], "expired: %v", gone.Value())
		require.Equal(t, kept.Token(), back[1].Token())
		_, err = s.Restore(state)
		require.ErrorIs(t, err, lock.ErrConfig)
		reserve(t, s, 3)
		reserve(t, s, 5)
		require.NoError(t, back[1].Commit())
		last, position, _ := s.Last()
		require.Equal(t, 4, last)
		require.Equal(t, uint64(4), position)
	})
}

// A value that one caller uses up while another is on its way to it is not the
// other's any more.
func TestSlotsThatAreUsedOnTheWay(t *testing.T) {
	var slots *lock.Slots[int]
	overtake := true
	slots, err := lock.NewSlots(lock.SlotsConfig[int]{Next: func(v int) int {
		if v == 0 && overtake {
			overtake = false
			first, err := slots.Reserve(t.Context(), lock.Options{})
			require.NoError(t, err)
			require.Equal(t, 1, first.Value())
			require.NoError(t, first.Commit())
		}
		return v + 1
	}})
	require.NoError(t, err)
	second, err := slots.Reserve(t.Context(), lock.Options{})
	require.NoError(t, err)
	require.Equal(t, 2, second.Value())
}

// While nothing comes back, nobody looks again at what is taken: neither to reserve the next value
// nor to hear that there is none. What comes back is found, whoever gives it back.
func TestLaralocker_A01_WhatIsTakenIsLookedAtOnce(t *testing.T) {
	const values = 1000
	table, steps := new(lock.Table), 0
	s := newSlots(t, lock.SlotsConfig[int]{Table: table, MaxSteps: values, Next: func(v int) int { steps++; return v + 1 }})
	var all []*lock.Reservation[int]
	stranger, err := table.TryAcquire(lock.Options{}, "slots/500")
	require.NoError(t, err)
	for v := range values {
		if v+1 != 500 {
			all = append(all, reserve(t, s, v+1))
		}
	}
	full := func() {
		t.Helper()
		_, err := s.Reserve(t.Context(), lock.Options{})
		require.ErrorIs(t, err, lock.ErrNoFreeSlot)
	}
	for range values {
		full()
	}
	require.Equal(t, values, steps)
	require.NoError(t, all[7].Unlock())
	reserve(t, s, 8)
	require.NoError(t, stranger.Unlock(), "it is no reservation")
	reserve(t, s, 500)
	full()
	waits, err := table.Queue(lock.Options{}, nil, "slots/20", "slots/30")
	require.NoError(t, err)
	require.NoError(t, all[19].Unlock())
	full() // 20 is for who waits
	require.True(t, waits.Cancel())
	reserve(t, s, 20)
	full()
	require.NoError(t, all[2].Commit())
	last, _, _ := s.Last()
	require.Equal(t, 3, last)
	require.NoError(t, all[0].Unlock(), "the sequence has passed it")
	for v := range 3 {
		reserve(t, s, values+v+1)
	}
	full()
	s.Reset()
	reserve(t, s, 1)
	reserve(t, s, 3)
	full()
	steps = 0
	full()
	require.Zero(t, steps)
}

// A value whose time is over is found at that very moment, before anybody has heard that it is free.
func TestLaralocker_A01_WhatExpiresIsNotTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(t, lock.SlotsConfig[int]{MaxSteps: 3})
		for v := range 3 {
			_, err := s.Reserve(t.Context(), lock.Options{TTL: time.Duration(3-v) * time.Minute})
			require.NoError(t, err)
		}
		for v := range 3 {
			_, err := s.Reserve(t.Context(), lock.Options{})
			require.ErrorIs(t, err, lock.ErrNoFreeSlot)
			time.Sleep(time.Minute)
			r, err := s.Reserve(t.Context(), lock.Options{TTL: time.Hour})
			require.NoError(t, err)
			require.Equal(t, 3-v, r.Value())
		}
	})
}
