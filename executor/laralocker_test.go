package executor_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/lock"
)

func next(v int) int { return v + 1 }

// sold is a handler that remembers which job had which slot.
type sold struct {
	slots  *executor.Slots[int]
	decide func(ctx context.Context, job executor.Merged[string], slot int) error // nil: success

	mu   sync.Mutex
	runs []string // "id slot"
}

func (s *sold) handle(ctx context.Context, job executor.Merged[string]) error {
	slot, ok := s.slots.Of(job)
	if !ok {
		return errors.New("no slot")
	}
	s.mu.Lock()
	s.runs = append(s.runs, fmt.Sprint(job.ID, " ", slot))
	s.mu.Unlock()
	if s.decide == nil {
		return nil
	}
	return s.decide(ctx, job, slot)
}

func (s *sold) log() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.runs)
}

// shop registers a queue whose jobs have slots.
func (s *sold) shop(t *testing.T, x *executor.Executor, cfg executor.SlotsConfig[int], queue executor.QueueConfig[string]) *executor.Queue[string] {
	t.Helper()
	if cfg.Next == nil {
		cfg.Next = next
	}
	s.slots = must(executor.NewSlots(x, "serials", cfg))
	queue.Conditions.Slots = []executor.SlotSource{s.slots}
	if queue.RetryIn == nil {
		queue.RetryIn = always(time.Second)
	}
	return handle(t, x, "tickets", s.handle, queue)
}

func (s *sold) last(t *testing.T, want int, known bool) {
	t.Helper()
	state := s.slots.Snapshot()
	require.Equal(t, known, state.Known)
	require.Equal(t, want, state.Last)
}

// A01: each running job has the next free value.
func TestLaralocker_A01_NextFreeSlot(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 4})
		s := &sold{decide: func(context.Context, executor.Merged[string], int) error { time.Sleep(time.Second); return nil }}
		q := s.shop(t, x, executor.SlotsConfig[int]{}, executor.QueueConfig[string]{Share: executor.Share{Shards: 1, Concurrency: 4}})
		start(t, x)
		for id := range strings.FieldsSeq("a b c d e f") {
			enqueue(t, q, id, "")
			synctest.Wait()
		}
		require.Equal(t, []string{"a 1", "b 2", "c 3", "d 4"}, s.log())
		time.Sleep(time.Minute)
		require.Len(t, s.log(), 6)
		require.ElementsMatch(t, []string{"5", "6"}, []string{s.log()[4][2:], s.log()[5][2:]})
		s.last(t, 6, true)
		require.Empty(t, s.slots.Snapshot().Open)
		stop(t, x)
	})
}

// A02: StartFrom is asked when nothing is known, and never again, not even after a
// restart.
func TestLaralocker_A02_StartFrom(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk, asked := new(journal.Memory), 0
		cfg := executor.SlotsConfig[int]{}
		cfg.StartFrom = func(context.Context) (int, error) {
			if asked++; asked == 1 {
				return 0, errBoom
			}
			return 100, nil
		}
		for i := range 3 {
			x := openOn(t, disk, executor.Config{})
			s := new(sold)
			q := s.shop(t, x, cfg, executor.QueueConfig[string]{})
			enqueue(t, q, fmt.Sprint(i), "")
			start(t, x)
			time.Sleep(time.Minute)
			require.Equal(t, []string{fmt.Sprint(i, " ", 101+i)}, s.log())
			s.last(t, 101+i, true)
			stop(t, x)
			disk = disk.Crash()
		}
		require.Equal(t, 2, asked)
	})
}

// A03: a success moves the sequence on, and never back.
func TestLaralocker_A03_SuccessMovesOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		s := &sold{decide: func(_ context.Context, job executor.Merged[string], _ int) error {
			if job.ID == "slow" {
				time.Sleep(time.Minute)
			}
			return nil
		}}
		q := s.shop(t, x, executor.SlotsConfig[int]{}, executor.QueueConfig[string]{Share: executor.Share{Shards: 1, Concurrency: 4}})
		start(t, x)
		for _, id := range []string{"slow", "fast", "faster"} {
			enqueue(t, q, id, "")
			synctest.Wait()
		}
		s.last(t, 3, true)
		time.Sleep(2 * time.Minute)
		s.last(t, 3, true)
		enqueue(t, q, "next", "")
		synctest.Wait()
		require.Equal(t, []string{"slow 1", "fast 2", "faster 3", "next 4"}, s.log())
		stop(t, x)
	})
}

// A04: a failure leaves the sequence where it was; the slot is free at once, or by
// option kept for the retry.
func TestLaralocker_A04_Failure(t *testing.T) {
	for name, end := range map[string]func() error{
		"error": func() error { return errBoom }, "panic": func() error { panic("boom") },
		"Goexit": func() error { runtime.Goexit(); return nil }, "cancel": func() error { return executor.Cancel(errBoom) },
		"snooze": func() error { return executor.Snooze(time.Hour) }, "discard": executor.Discard,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := open(t, "", executor.Config{})
				s := &sold{decide: func(_ context.Context, job executor.Merged[string], _ int) error {
					if job.ID == "bad" {
						return end()
					}
					return nil
				}}
				q := s.shop(t, x, executor.SlotsConfig[int]{}, executor.QueueConfig[string]{RetryIn: always(time.Hour)})
				start(t, x)
				enqueue(t, q, "bad", "")
				synctest.Wait()
				s.last(t, 0, true)
				require.Empty(t, s.slots.Snapshot().Open)
				enqueue(t, q, "good", "")
				synctest.Wait()
				require.Equal(t, []string{"bad 1", "good 1"}, s.log())
				stop(t, x)
			})
		})
	}
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		fails := map[string]int{"kept": 1, "late": 1}
		s := &sold{decide: func(_ context.Context, job executor.Merged[string], _ int) error {
			if fails[job.ID]--; fails[job.ID] >= 0 {
				return executor.RetryAfter(map[string]time.Duration{"kept": 30 * time.Second, "late": 90 * time.Second}[job.ID], errBoom)
			}
			return nil
		}}
		cfg := executor.SlotsConfig[int]{KeepOnFailure: true}
		q := s.shop(t, x, cfg, executor.QueueConfig[string]{Share: executor.Share{Shards: 1}})
		start(t, x)
		for _, id := range []string{"kept", "late", "other"} {
			enqueue(t, q, id, "")
			synctest.Wait()
		}
		require.Equal(t, []string{"kept 1", "late 2", "other 3"}, s.log())
		time.Sleep(2 * time.Minute)
		require.Equal(t, []string{"kept 1", "late 4"}, s.log()[3:], "its own, within the TTL of 60 s")
		stop(t, x)
	})
}

// A03: it keeps its value, too, when its retry has to wait for something else.
func TestLaralocker_A03_KeptSlotOfARetryThatWaits(t *testing.T) {
	for name, skip := range map[string]bool{"limit": false, "pause": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := open(t, "", executor.Config{})
				s := &sold{decide: func(_ context.Context, job executor.Merged[string], _ int) error {
					switch {
					case job.ID == "a" && job.Attempt == 1:
						return errBoom
					case job.ID == "b":
						time.Sleep(10 * time.Minute)
					}
					return nil
				}}
				cfg := executor.QueueConfig[string]{RetryIn: always(time.Minute)}
				limit := must(executor.NewLimit(x, "l", executor.LimitConfig{Concurrent: 1}))
				var slow atomic.Bool
				cfg.Conditions.Limits = []executor.LimitOf[string]{{Limit: limit, Key: func(id, _ string) string {
					if id == "a" && slow.Load() {
						time.Sleep(time.Second)
					}
					return map[bool]string{true: id, false: "k"}[skip || id == "c"]
				}}}
				q := s.shop(t, x, executor.SlotsConfig[int]{KeepOnFailure: true, TTL: time.Hour}, cfg)
				start(t, x)
				enqueue(t, q, "a", "")
				synctest.Wait()
				enqueue(t, q, "b", "")
				time.Sleep(30 * time.Second)
				if skip {
					slow.Store(true) // its retry is paused in the function
					time.Sleep(30*time.Second + 500*time.Millisecond)
					_, err := x.Inspect().Pause(t.Context(), inspect.SelectIDs("tickets", "a"))
					require.NoError(t, err)
				}
				time.Sleep(time.Minute)
				enqueue(t, q, "c", "")
				time.Sleep(20 * time.Minute)
				_, err := x.Inspect().Resume(t.Context(), inspect.SelectIDs("tickets", "a"))
				require.NoError(t, err)
				time.Sleep(time.Minute)
				require.Equal(t, []string{"a 1", "b 2", "c 3", "a 1"}, s.log())
				stop(t, x)
			})
		})
	}
}

// A04: a holder clears its reservation by hand: others get the value, and its own
// success is one, but does not move the sequence.
func TestLaralocker_A04_ClearByHand(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		s := new(sold)
		s.decide = func(ctx context.Context, job executor.Merged[string], _ int) error {
			if job.ID != "clears" {
				return nil
			}
			require.NoError(t, s.slots.Clear(job))
			require.ErrorIs(t, s.slots.Clear(job), lock.ErrLockLost)
			_, has := s.slots.Of(job)
			require.False(t, has)
			time.Sleep(10 * time.Second)
			if job.Attempt == 1 {
				return errBoom // counts: nothing was lost
			}
			return ctx.Err()
		}
		q := s.shop(t, x, executor.SlotsConfig[int]{}, executor.QueueConfig[string]{Share: executor.Share{Shards: 1, Concurrency: 2}})
		require.ErrorIs(t, s.slots.Clear(executor.Merged[string]{}), lock.ErrLockLost)
		start(t, x)
		enqueue(t, q, "clears", "")
		synctest.Wait()
		enqueue(t, q, "other", "")
		synctest.Wait()
		time.Sleep(time.Minute)
		require.Equal(t, []string{"clears 1", "other 1", "clears 2"}, s.log())
		require.EqualValues(t, 2, stats(t, q).Done)
		require.EqualValues(t, 1, stats(t, q).Failed)
		s.last(t, 1, true)
		stop(t, x)
	})
}

// A04: kept for the retry means for a retry: a job that goes to the morgue gives
// its slot back at once, however it got there.
func TestLaralocker_A04_BuriedJobKeepsNothing(t *testing.T) {
	for name, test := range map[string]struct {
		end       error
		exhausted executor.OnExhausted
		kept      bool
	}{
		"exhausted": {errBoom, executor.OnExhaustedBuryOldest, false},
		"bury all":  {errBoom, executor.OnExhaustedBuryAll, false},
		"cancelled": {executor.Cancel(errBoom), executor.OnExhaustedBuryOldest, false},
		"halted":    {errBoom, executor.OnExhaustedHalt, true}, // it runs again when a person says so
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				disk := new(journal.Memory)
				x := openOn(t, disk, executor.Config{})
				s := &sold{decide: func(_ context.Context, job executor.Merged[string], _ int) error {
					if job.ID == "bad" {
						return test.end
					}
					return nil
				}}
				cfg := executor.SlotsConfig[int]{KeepOnFailure: true}
				q := s.shop(t, x, cfg, executor.QueueConfig[string]{MaxRetries: -1, DeadLetters: executor.DeadLetters[string]{OnExhausted: test.exhausted}})
				start(t, x)
				enqueue(t, q, "bad", "")
				synctest.Wait()
				require.Equal(t, !test.kept, len(morgue(t, q)) == 1)
				require.Equal(t, test.kept, len(s.slots.Snapshot().Open) == 1)
				y := openOn(t, disk.Crash(), executor.Config{})
				after := must(executor.NewSlots(y, "serials", executor.SlotsConfig[int]{Next: next}))
				require.Equal(t, test.kept, len(after.Snapshot().Open) == 1, "on disk, too")
				stop(t, y)
				s.last(t, 0, true)
				enqueue(t, q, "good", "")
				synctest.Wait()
				want := map[bool]string{false: "good 1", true: "good 2"}
				require.Equal(t, []string{"bad 1", want[test.kept]}, s.log())
				stop(t, x)
			})
		})
	}
}

// A04: so it is with one that a person ends before its retry, whatever waits behind it: that has a slot of its own.
func TestLaralocker_A04_EndedByAPerson(t *testing.T) {
	for name, test := range map[string]struct {
		end  func(inspect.Inspector, inspect.Selection) (int, error)
		keep bool // on burial
		open int
		runs []string
	}{
		"cancelled":       {cancel, false, 0, []string{"bad 1", "good 1"}},
		"cancelled, kept": {cancel, true, 1, []string{"bad 1", "good 2"}},
		"deleted":         {remove, true, 0, []string{"bad 1", "good 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := open(t, "", executor.Config{})
				slots := must(executor.NewSlots(x, "serials", executor.SlotsConfig[int]{Next: next, TTL: time.Hour, KeepOnFailure: true, KeepOnBurial: test.keep}))
				var runs []string
				q, err := executor.Handle(x, "tickets", func(_ context.Context, job executor.Job[string]) error {
					slot, _ := slots.Of(job)
					if runs = append(runs, fmt.Sprint(job.Payload, " ", slot)); job.Payload == "bad" {
						return errBoom
					}
					return nil
				}, executor.QueueConfig[string]{RetryIn: always(time.Hour), Conditions: executor.Conditions[string]{Slots: []executor.SlotSource{slots}}})
				require.NoError(t, err)
				start(t, x)
				bad := enqueue(t, q, "a", "bad")
				synctest.Wait()
				enqueue(t, q, "a", "good", executor.In(time.Minute))
				did(t, 1)(test.end(x.Inspect(), inspect.SelectIDs("tickets", "a").At(bad.Position)))
				require.Len(t, slots.Snapshot().Open, test.open)
				time.Sleep(time.Minute)
				synctest.Wait()
				require.Equal(t, test.runs, runs)
				stop(t, x)
			})
		})
	}
}

// A04: when the holder vanishes, its slot is free after the TTL, not before: so it
// is in one process, where nothing beats any more, and over a crash.
func TestLaralocker_A04_TTLFreesTheSlot(t *testing.T) {
	for name, keep := range map[string]bool{"default": false, "KeepOnFailure": true} {
		for _, crash := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, crash %v", name, crash), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					disk := new(journal.Memory)
					x := openOn(t, disk, executor.Config{})
					hangs := func(ctx context.Context, job executor.Merged[string], _ int) error {
						if job.ID != "holder" {
							return nil
						}
						if !crash {
							executor.StopHeart(job)
						}
						<-ctx.Done()
						return errBoom
					}
					s := &sold{decide: hangs}
					cfg := executor.SlotsConfig[int]{KeepOnFailure: keep}
					queue := executor.QueueConfig[string]{Share: executor.Share{Shards: 1, Concurrency: 5}}
					q := s.shop(t, x, cfg, queue)
					start(t, x)
					enqueue(t, q, "holder", "")
					synctest.Wait()
					if crash {
						x = openOn(t, disk.Crash(), executor.Config{})
						s = new(sold)
						// The queue of the job is not there.
						s.slots = must(executor.NewSlots(x, "serials", executor.SlotsConfig[int]{Next: next}))
						q = handle(t, x, "others", s.handle, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Slots: []executor.SlotSource{s.slots}}})
						start(t, x)
					}
					before := len(s.log())
					time.Sleep(time.Minute - 1)
					require.Len(t, s.slots.Snapshot().Open, 1)
					enqueue(t, q, "before", "")
					synctest.Wait()
					require.Equal(t, []string{"before 2"}, s.log()[before:])
					time.Sleep(time.Nanosecond)
					synctest.Wait()
					s.last(t, 2, true)
					if !crash { // it runs again, with the next one: nothing goes back
						require.Equal(t, "holder 3", s.log()[before+1])
					}
					for _, open := range s.slots.Snapshot().Open {
						require.NotEqual(t, 1, open.Value)
					}
				})
			})
		}
	}
}

// A04: what is cleared by hand is not kept for the retry, either.
func TestLaralocker_A04_ClearedIsNotKept(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		s := new(sold)
		s.decide = func(_ context.Context, job executor.Merged[string], _ int) error {
			if job.Attempt == 1 && job.ID == "clears" {
				require.NoError(t, s.slots.Clear(job))
				return errBoom
			}
			return nil
		}
		q := s.shop(t, x, executor.SlotsConfig[int]{KeepOnFailure: true}, executor.QueueConfig[string]{})
		start(t, x)
		enqueue(t, q, "clears", "")
		synctest.Wait()
		require.Empty(t, s.slots.Snapshot().Open)
		enqueue(t, q, "other", "")
		time.Sleep(time.Minute)
		require.Equal(t, []string{"clears 1", "other 1", "clears 2"}, s.log())
		stop(t, x)
	})
}

// A success whose slot was lost meanwhile is none: another job has the value, and
// two jobs never end with the same one. It spends no retry.
func TestLaralocker_A03_SuccessWithALostSlot(t *testing.T) {
	for name, end := range map[string]func(executor.Merged[string]) error{
		"nil":           func(executor.Merged[string]) error { return nil },
		"PayloadErrors": func(job executor.Merged[string]) error { return executor.PayloadErrors{job.Payloads[0].Position: nil} },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := open(t, "", executor.Config{})
				s := new(sold)
				ended := map[int]string{}
				s.decide = func(_ context.Context, job executor.Merged[string], slot int) error {
					s.mu.Lock()
					first := len(ended) == 0
					s.mu.Unlock()
					if job.ID != "other" && first {
						executor.StopHeart(job)
						time.Sleep(2 * time.Minute) // and does not look at its context
						if job.ID == "discards" {
							return executor.Discard() // which is no success
						}
						return end(job)
					}
					s.mu.Lock()
					defer s.mu.Unlock()
					ended[slot] += job.ID
					return nil
				}
				q := s.shop(t, x, executor.SlotsConfig[int]{}, executor.QueueConfig[string]{Share: executor.Share{Shards: 1, Concurrency: 3}})
				start(t, x)
				for _, id := range []string{"stands still", "discards"} {
					enqueue(t, q, id, "")
					synctest.Wait()
				}
				time.Sleep(90 * time.Second)
				enqueue(t, q, "other", "")
				time.Sleep(time.Hour)
				require.Equal(t, []string{"stands still 1", "discards 2", "other 1", "stands still 2"}, s.log())
				s.mu.Lock()
				require.Equal(t, map[int]string{1: "other", 2: "stands still"}, ended)
				s.mu.Unlock()
				require.EqualValues(t, 2, stats(t, q).Done)
				require.EqualValues(t, 1, stats(t, q).Discarded)
				require.Zero(t, stats(t, q).Failed)
				require.EqualValues(t, 1, stats(t, q).Interrupted)
				s.last(t, 2, true)
				stop(t, x)
			})
		})
	}
}

// A05: the TTL is its own, else the queue's timeout, else 60 s; a heartbeat extends
// it by as much, three times in a TTL, while the job runs.
func TestLaralocker_A05_TTL(t *testing.T) {
	for want, test := range map[time.Duration]struct{ own, timeout time.Duration }{
		60 * time.Second: {}, 90 * time.Second: {timeout: 90 * time.Second}, 6 * time.Second: {6 * time.Second, 90 * time.Second},
	} {
		t.Run(want.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := open(t, "", executor.Config{})
				s := new(sold)
				ttl := executor.SlotsConfig[int]{}
				ttl.TTL = test.own
				s.decide = func(context.Context, executor.Merged[string], int) error {
					for i := range 8 {
						open := s.slots.Snapshot().Open
						require.Len(t, open, 1)
						require.Equal(t, want, open[0].Held.TTL)
						require.Equal(t, "tickets/a", open[0].Held.Owner)
						require.Equal(t, want, time.Until(open[0].Held.Until), "heartbeat %d", i)
						if test.timeout == want && i == 2 {
							return nil // before its time is over
						}
						time.Sleep(want/3 - 1)
						require.Equal(t, want-want/3+1, time.Until(s.slots.Snapshot().Open[0].Held.Until))
						time.Sleep(time.Nanosecond)
						synctest.Wait()
					}
					return nil
				}
				q := s.shop(t, x, ttl, executor.QueueConfig[string]{Timeout: test.timeout})
				enqueue(t, q, "a", "")
				start(t, x)
				time.Sleep(10 * time.Minute)
				require.EqualValues(t, 1, stats(t, q).Done)
				require.Len(t, s.log(), 1)
				stop(t, x)
			})
		})
	}
}

// A05: a heartbeat is on disk, too: a crash after many TTLs finds the slot still
// reserved, for what is left of the last one.
func TestLaralocker_A05_HeartbeatIsWrittenDown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		x := openOn(t, disk, executor.Config{})
		ends := make(chan struct{})
		s := &sold{decide: func(context.Context, executor.Merged[string], int) error { <-ends; return nil }}
		q := s.shop(t, x, executor.SlotsConfig[int]{}, executor.QueueConfig[string]{})
		start(t, x)
		enqueue(t, q, "a", "")
		for range 10 {
			time.Sleep(47 * time.Second)
			y := openOn(t, disk.Crash(), executor.Config{})
			after := must(executor.NewSlots(y, "serials", executor.SlotsConfig[int]{Next: next}))
			open := after.Snapshot().Open
			require.Len(t, open, 1)
			require.Equal(t, 1, open[0].Value)
			require.Equal(t, s.slots.Snapshot().Open[0].Held.Until.UTC(), open[0].Held.Until.UTC())
			stop(t, y)
		}
		close(ends)
		stop(t, x)
	})
}

// A05: a name is a store: sequences with different names know nothing of each
// other, and one that several queues use is one. A job may have a slot of each.
// Values are of any type that prints.
func TestLaralocker_A05_Stores(t *testing.T) {
	type seat struct{ Row, Number int }
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 9})
		serials := must(executor.NewSlots(x, "serials", executor.SlotsConfig[int]{Next: next}))
		words := must(executor.NewSlots(x, "words", executor.SlotsConfig[string]{
			Next: func(v string) string { return v + "x" },
		}))
		seats := must(executor.NewSlots(x, "seats", executor.SlotsConfig[seat]{
			Next: func(s seat) seat {
				if s.Number == 2 {
					return seat{s.Row + 1, 1}
				}
				return seat{max(s.Row, 1), s.Number + 1}
			},
		}))
		var mu sync.Mutex
		var got []string
		queue := func(name string, sources ...executor.SlotSource) *executor.Queue[string] {
			return handle(t, x, name, func(_ context.Context, job executor.Merged[string]) error {
				line := job.ID
				if v, ok := serials.Of(job); ok {
					line += fmt.Sprint(" ", v)
				}
				if v, ok := words.Of(job); ok {
					line += fmt.Sprint(" ", v)
				}
				if v, ok := seats.Of(job); ok {
					line += fmt.Sprint(" ", v)
				}
				mu.Lock()
				got = append(got, line)
				mu.Unlock()
				time.Sleep(time.Second)
				return nil
			}, executor.QueueConfig[string]{Share: executor.Share{Shards: 1, Concurrency: 9}, Conditions: executor.Conditions[string]{Slots: sources}})
		}
		one, other, three := queue("one", serials), queue("other", serials), queue("three", words, seats)
		all := queue("all", seats, serials, words)
		start(t, x)
		for i, q := range []*executor.Queue[string]{one, other, three, three, all, one} {
			enqueue(t, q, fmt.Sprint(q.Name(), i), "")
			synctest.Wait()
		}
		require.Equal(t, []string{"one0 1", "other1 2", "three2 x {1 1}", "three3 xx {1 2}", "all4 3 xxx {2 1}", "one5 4"}, got)
		for store, n := range map[string]int{"serials": 4, "words": 3, "seats": 3} {
			require.Equal(t, n, map[string]int{
				"serials": len(serials.Snapshot().Open), "words": len(words.Snapshot().Open), "seats": len(seats.Snapshot().Open),
			}[store])
		}
		time.Sleep(time.Minute)
		require.Equal(t, seat{2, 1}, seats.Snapshot().Last)
		stop(t, x)
	})
}

// A06: tickets are sold at the same time, some sales fail, and the process dies at
// every moment: no two sales that succeeded have one serial.
func TestLaralocker_A06_Serials(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		var images []*journal.Memory
		first := sell(t, disk, 40, func() {
			disk.OnCommit(func() { images = append(images, disk.Crash()) })
		})
		require.Len(t, first, 40)
		require.Greater(t, len(images), 10)
		for _, image := range images {
			again := make(map[string]bool) // their first success did not survive
			now := sell(t, image, 0, func() {})
			for _, id := range now {
				again[id] = true
			}
			for serial, id := range now {
				before, used := first[serial]
				require.False(t, used && !again[before], "serial %d of %s is %s's, too", serial, id, before)
			}
		}
	})
}

// sell sells tickets, and what there is to sell on the disk, and returns which job
// has which serial.
func sell(t *testing.T, disk *journal.Memory, tickets int, begins func()) map[int]string {
	x := openOn(t, disk, executor.Config{})
	failed := make(map[string]bool)
	by := make(map[int]string)
	s := new(sold)
	s.decide = func(_ context.Context, job executor.Merged[string], serial int) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if serial%5 == 0 && !failed[job.ID] {
			failed[job.ID] = true
			return errBoom
		}
		require.Empty(t, by[serial], "serial %d is sold twice", serial)
		by[serial] = job.ID
		return nil
	}
	q := s.shop(t, x, executor.SlotsConfig[int]{}, executor.QueueConfig[string]{Share: executor.Share{Shards: 2, Concurrency: 3}})
	for i := range tickets {
		enqueue(t, q, fmt.Sprint("sale ", i), "")
	}
	begins()
	waiting := stats(t, q).Jobs
	start(t, x)
	time.Sleep(time.Hour)
	synctest.Wait()
	require.Len(t, by, waiting)
	require.Zero(t, stats(t, q).Jobs)
	require.Empty(t, s.slots.Snapshot().Open)
	stop(t, x)
	return by
}

// Slots that run out: a job waits until one comes back, and none is missed; where
// none is out it fails, and nothing is reserved.
func TestLaralocker_NoFreeSlot(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		s := &sold{decide: func(_ context.Context, job executor.Merged[string], _ int) error {
			time.Sleep(10 * time.Second)
			return errBoom // which gives the slot back
		}}
		cfg := executor.SlotsConfig[int]{}
		cfg.Next, cfg.MaxSteps = func(v int) int { return min(v+1, 2) }, 10
		q := s.shop(t, x, cfg, executor.QueueConfig[string]{Share: executor.Share{Shards: 1, Concurrency: 9}, MaxRetries: -1})
		start(t, x)
		for _, id := range []string{"a", "b", "c", "d"} {
			enqueue(t, q, id, "")
			synctest.Wait()
		}
		require.Equal(t, []string{"a 1", "b 2"}, s.log())
		e := explain(t, x, "tickets", "c")
		require.Equal(t, inspect.JobWaiting, e.State)
		require.Equal(t, `tickets/c is waiting; slot "serials/1" is tickets/a's (1m0s left); slot "serials/2" is tickets/b's (1m0s left)`, e.String())
		time.Sleep(time.Minute)
		require.Len(t, s.log(), 4)
		require.EqualValues(t, 4, stats(t, q).Failed)
		stop(t, x)
	})
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		cfg := executor.SlotsConfig[int]{}
		cfg.Next, cfg.MaxSteps = func(int) int { panic("no next") }, 10
		s := new(sold)
		q := s.shop(t, x, cfg, executor.QueueConfig[string]{MaxRetries: -1})
		enqueue(t, q, "a", "")
		start(t, x)
		synctest.Wait()
		require.Contains(t, morgue(t, q)[0].Error, "no next")
		require.Empty(t, s.log())
		stop(t, x)
	})
}

// A slot that comes back while a job is finding out that there is none is not
// missed.
func TestLaralocker_NoSlotIsMissed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		s := new(sold)
		var left int // steps until the first job gives its slot back
		var first executor.Merged[string]
		s.decide = func(_ context.Context, job executor.Merged[string], _ int) error {
			if job.ID == "a" {
				first = job
			}
			time.Sleep(time.Hour)
			return nil
		}
		cfg := executor.SlotsConfig[int]{}
		cfg.MaxSteps = 10
		cfg.Next = func(v int) int {
			if left--; left == 0 {
				require.NoError(t, s.slots.Clear(first))
			}
			return min(v+1, 2)
		}
		q := s.shop(t, x, cfg, executor.QueueConfig[string]{Share: executor.Share{Shards: 1, Concurrency: 9}})
		start(t, x)
		for _, id := range []string{"a", "b", "c"} {
			if left = 0; id == "c" {
				left = 8 // the last step of its first look: that 1 and 2 are taken is known
			}
			enqueue(t, q, id, "")
			synctest.Wait()
		}
		require.Equal(t, []string{"a 1", "b 2", "c 1"}, s.log())
		time.Sleep(2 * time.Hour)
		stop(t, x)
	})
}

// What makes no sense is refused.
func TestLaralocker_BadInput(t *testing.T) {
	x, y := open(t, "", executor.Config{}), open(t, "", executor.Config{})
	good := executor.SlotsConfig[int]{Next: next}
	_, err := executor.NewSlots(nil, "s", good)
	require.ErrorIs(t, err, executor.ErrConfig)
	_, err = executor.NewSlots(x, "s", executor.SlotsConfig[int]{})
	require.ErrorIs(t, err, executor.ErrConfig)
	bad := good
	bad.TTL = -1
	_, err = executor.NewSlots(x, "s", bad)
	require.ErrorIs(t, err, executor.ErrConfig)
	require.ErrorContains(t, err, "TTL is -1ns")
	_, err = executor.NewSlots(x, "", good)
	require.ErrorIs(t, err, executor.ErrInvalidKey)
	s := must(executor.NewSlots(x, "s", good))
	_, err = executor.NewSlots(x, "s", good)
	require.ErrorIs(t, err, executor.ErrConfig)
	for _, source := range []executor.SlotSource{nil, s} {
		_, err = executor.HandleMerged(y, "q", (&probe{}).handle, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Slots: []executor.SlotSource{source}}})
		require.ErrorIs(t, err, executor.ErrConfig)
	}
}

// A value that does not encode gives its reservation back.
type mute int

func (m mute) MarshalJSON() ([]byte, error) {
	if m > 0 {
		panic("I say nothing")
	}
	return []byte("0"), nil
}

func TestLaralocker_ValueThatDoesNotEncode(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		s := must(executor.NewSlots(x, "mute", executor.SlotsConfig[mute]{
			Next: func(m mute) mute { return m + 1 },
		}))
		q := handle(t, x, "q", (&probe{}).handle, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Slots: []executor.SlotSource{s}}, MaxRetries: -1})
		enqueue(t, q, "a", "")
		start(t, x)
		synctest.Wait()
		require.Contains(t, morgue(t, q)[0].Error, "I say nothing")
		require.Empty(t, s.Snapshot().Open)
		stop(t, x)
	})
}
