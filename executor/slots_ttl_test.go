package executor_test

import (
	"context"
	"fmt"
	"math"
	"strings"
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

// peek is a handler of jobs that look which slot they would get: they are discarded. The
// first run of bad ends as a test says.
func peek(end func() error) func(context.Context, executor.Merged[string], int) error {
	bad := true
	return func(_ context.Context, job executor.Merged[string], _ int) error {
		if job.ID == "bad" && bad {
			bad = false
			return end()
		}
		return executor.Discard()
	}
}

// A04: by an option the slot of a buried job stays reserved until its TTL has passed,
// however the job was buried, over a crash, too: no job gets the value before, and the
// next one does then.
func TestLaralocker_A04_BuriedJobKeepsItsSlotByOption(t *testing.T) {
	failed := func() error { return executor.RetryAfter(time.Hour, errBoom) }
	for name, test := range map[string]struct {
		end    func() error
		cfg    executor.QueueConfig[string]
		byHand bool // while it waits for its retry
	}{
		"exhausted":             {func() error { return errBoom }, executor.QueueConfig[string]{MaxRetries: -1}, false},
		"bury all":              {func() error { return errBoom }, executor.QueueConfig[string]{MaxRetries: -1, DeadLetters: executor.DeadLetters[string]{OnExhausted: executor.OnExhaustedBuryAll}}, false},
		"cancelled":             {func() error { return executor.Cancel(errBoom) }, executor.QueueConfig[string]{}, false},
		"cancelled by a person": {failed, executor.QueueConfig[string]{}, true},
	} {
		for _, crash := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", crash ", crash), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					disk := new(journal.Memory)
					x := openOn(t, disk, executor.Config{})
					slots := executor.SlotsConfig[int]{KeepOnFailure: test.byHand, KeepOnBurial: true}
					s := &sold{decide: peek(test.end)}
					q := s.shop(t, x, slots, test.cfg)
					start(t, x)
					enqueue(t, q, "bad", "")
					synctest.Wait()
					if test.byHand {
						n, err := x.Inspect().Cancel(t.Context(), inspect.SelectIDs("tickets", "bad"), "")
						require.NoError(t, err)
						require.Equal(t, 1, n)
					}
					require.Equal(t, []string{"bad 1"}, s.log())
					require.Len(t, morgue(t, q), 1)
					if crash {
						x = openOn(t, disk.Crash(), executor.Config{})
						s = &sold{decide: peek(executor.Discard)}
						q = s.shop(t, x, slots, test.cfg)
						start(t, x)
					}
					before := len(s.log())
					time.Sleep(30 * time.Second)
					n, err := backOf(x.Inspect().Requeue(t.Context(), inspect.SelectIDs(q.Name(), "bad")))
					require.NoError(t, err)
					require.Equal(t, 1, n)
					time.Sleep(30*time.Second - 1)
					enqueue(t, q, "bad", "of its id")
					synctest.Wait()
					enqueue(t, q, "other", "")
					synctest.Wait()
					require.Equal(t, []string{"bad 2", "bad 2", "other 2"}, s.log()[before:])
					require.Equal(t, 1, x.SlotsOnDisk())
					time.Sleep(time.Nanosecond)
					synctest.Wait()
					enqueue(t, q, "other", "")
					synctest.Wait()
					require.Equal(t, "other 1", s.log()[before+3])
					require.Zero(t, x.SlotsOnDisk())
					require.Empty(t, s.slots.Snapshot().Open)
					stop(t, x)
				})
			})
		}
	}
}

// A04: what a person deletes gives its slot back at once, with the option, too.
func TestLaralocker_A04_DeletedJobKeepsNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		s := &sold{decide: peek(func() error { return errBoom })}
		q := s.shop(t, x, executor.SlotsConfig[int]{KeepOnFailure: true, KeepOnBurial: true}, executor.QueueConfig[string]{RetryIn: always(time.Hour)})
		start(t, x)
		enqueue(t, q, "bad", "")
		synctest.Wait()
		require.Len(t, s.slots.Snapshot().Open, 1)
		_, err := x.Inspect().Delete(t.Context(), inspect.SelectIDs("tickets", "bad"))
		require.NoError(t, err)
		require.Empty(t, s.slots.Snapshot().Open)
		stop(t, x)
	})
}

// A03: a job that failed keeps its value when its retry is snoozed, and one whose success a full disk has undone
// keeps it, too: it may have printed it.
func TestLaralocker_A03_KeptByMoreThanAFailure(t *testing.T) {
	for name, full := range map[string]bool{"a snooze in the retry": false, "a full disk": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				disk := new(journal.Memory)
				x := openOn(t, disk, executor.Config{})
				next := newTail(t, x, "next", executor.QueueConfig[string]{})
				s, calls := new(sold), 0
				s.decide = func(_ context.Context, job executor.Merged[string], _ int) error {
					if job.ID != "keeps" {
						return nil
					}
					switch calls++; {
					case full:
						return next.FollowUp(job, job.ID, strings.Repeat("x", 200_000))
					case calls == 1:
						return errBoom
					case calls == 2:
						return executor.Snooze(10 * time.Second)
					}
					return nil
				}
				q := s.shop(t, x, executor.SlotsConfig[int]{KeepOnFailure: true}, executor.QueueConfig[string]{})
				start(t, x)
				if full {
					disk.Limit(100_000)
				}
				enqueue(t, q, "keeps", "")
				time.Sleep(5 * time.Second)
				enqueue(t, q, "other", "")
				synctest.Wait()
				require.Empty(t, next.all())
				disk.Limit(0)
				time.Sleep(time.Minute)
				all := s.log()
				require.Contains(t, all, "other 2")
				require.Equal(t, "keeps 1", all[len(all)-1])
				require.EqualValues(t, 2, stats(t, q).Done)
				stop(t, x)
			})
		})
	}
}

// A04: a job whose payloads are discarded one by one is no dead letter, and keeps nothing.
func TestLaralocker_A04_DiscardedPayloadsKeepNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		s := &sold{decide: func(_ context.Context, job executor.Merged[string], _ int) error {
			return executor.PayloadErrors{job.Payloads[0].Position: executor.Discard()}
		}}
		q := s.shop(t, x, executor.SlotsConfig[int]{KeepOnBurial: true}, executor.QueueConfig[string]{})
		start(t, x)
		for _, id := range []string{"a", "b"} {
			enqueue(t, q, id, "")
			synctest.Wait()
		}
		require.Equal(t, []string{"a 1", "b 1"}, s.log())
		require.EqualValues(t, 2, stats(t, q).Discarded)
		stop(t, x)
	})
}

// A04: of a job that a person cancels before its handler is called only what it has kept of a failed run stays kept.
func TestLaralocker_A04_CancelledBeforeTheHandler(t *testing.T) {
	for name, retry := range map[string]bool{"the first": false, "a retry": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := open(t, "", executor.Config{})
				var slow atomic.Bool
				s := &sold{decide: peek(func() error { slow.Store(true); return errBoom })}
				cfg := executor.QueueConfig[string]{}
				cfg.Conditions.Limits = []executor.LimitOf[string]{{Limit: must(executor.NewLimit(x, "l", executor.LimitConfig{})), Key: func(id, _ string) string {
					if id == "bad" && slow.Load() {
						time.Sleep(time.Second)
					}
					return id
				}}}
				q := s.shop(t, x, executor.SlotsConfig[int]{KeepOnFailure: true, KeepOnBurial: true}, cfg)
				enqueue(t, q, "bad", "")
				slow.Store(!retry)
				start(t, x)
				if retry {
					time.Sleep(time.Second)
				}
				time.Sleep(500 * time.Millisecond) // in the key function
				_, err := x.Inspect().Cancel(t.Context(), inspect.SelectIDs("tickets", "bad"), "")
				require.NoError(t, err)
				time.Sleep(time.Second)
				require.Len(t, morgue(t, q), 1)
				enqueue(t, q, "other", "")
				synctest.Wait()
				require.Equal(t, map[bool][]string{false: {"other 1"}, true: {"bad 1", "other 2"}}[retry], s.log())
				stop(t, x)
			})
		})
	}
}

// A05: the TTL is computed from the job, else the sequence's, else the timeout of its
// queue, else the executor's, else 60 s.
func TestLaralocker_A05_TTLOfAJob(t *testing.T) {
	const own, timeout, all = 3 * time.Minute, 2 * time.Minute, 5 * time.Minute
	for name, test := range map[string]struct {
		own, timeout, all time.Duration
		payload           string
		want              time.Duration
	}{
		"the job":               {own, timeout, all, "7m", 7 * time.Minute},
		"the sequence":          {own, timeout, all, "0s", own},
		"the job says nonsense": {own, timeout, all, "-1h", own},
		"the queue":             {0, timeout, all, "0s", timeout},
		"the executor":          {0, 0, all, "0s", all},
		"nobody":                {0, 0, 0, "0s", time.Minute},
		"only the job":          {0, 0, 0, "7m", 7 * time.Minute},
	} {
		for _, single := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", single ", single), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					x := open(t, "", executor.Config{Advanced: executor.Advanced{SlotTTL: test.all}})
					var asked []lock.Job
					slots := must(executor.NewSlots(x, "serials", executor.SlotsConfig[int]{Next: next, TTL: test.own, TTLOf: func(job lock.Job) time.Duration {
						asked = append(asked, job)
						ttl, err := time.ParseDuration(job.Payloads[0].(string))
						if err != nil {
							panic(err)
						}
						return ttl
					}}))
					look := func() error {
						require.Equal(t, test.want, slots.Snapshot().Open[0].Held.TTL)
						time.Sleep(test.want / 3)
						synctest.Wait()
						require.Equal(t, test.want, time.Until(slots.Snapshot().Open[0].Held.Until), "its heartbeat")
						return nil
					}
					cfg := executor.QueueConfig[string]{Timeout: test.timeout, Conditions: executor.Conditions[string]{Slots: []executor.SlotSource{slots}}, MaxRetries: -1}
					handle := func() (*executor.Queue[string], error) {
						return executor.HandleMerged(x, "q", func(context.Context, executor.Merged[string]) error { return look() }, cfg)
					}
					if single {
						handle = func() (*executor.Queue[string], error) {
							return executor.Handle(x, "q", func(context.Context, executor.Job[string]) error { return look() }, cfg)
						}
					}
					q, err := handle()
					require.NoError(t, err)
					enqueue(t, q, "a", test.payload)
					start(t, x)
					time.Sleep(time.Hour)
					require.EqualValues(t, 1, stats(t, q).Done)
					require.Equal(t, []lock.Job{{Queue: "q", ID: "a", Attempt: 1, Payloads: []any{test.payload}}}, asked)
					enqueue(t, q, "bad", "no duration")
					synctest.Wait()
					require.Contains(t, morgue(t, q)[0].Error, "no duration")
					require.Empty(t, slots.Snapshot().Open)
					stop(t, x)
				})
			})
		}
	}
	_, err := executor.Open("", executor.Config{Advanced: executor.Advanced{SlotTTL: -time.Second}})
	require.ErrorIs(t, err, executor.ErrConfig)
	require.ErrorContains(t, err, "SlotTTL is -1s")
}

// A04: what has expired of the buried is forgotten with the next slot, however long others
// are kept that were buried before.
func TestLaralocker_A04_TheLongestKeepsNoOther(t *testing.T) {
	for _, crash := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			disk := new(journal.Memory)
			s := &sold{decide: func(_ context.Context, job executor.Merged[string], _ int) error {
				if job.ID == "good" {
					return nil
				}
				return executor.Cancel(errBoom)
			}}
			slots := executor.SlotsConfig[int]{KeepOnBurial: true, TTLOf: func(job lock.Job) time.Duration {
				return time.Minute * time.Duration(len(job.ID))
			}}
			x := openOn(t, disk, executor.Config{})
			q := s.shop(t, x, slots, executor.QueueConfig[string]{})
			start(t, x)
			for _, id := range []string{"very long", "long", "a", "b", "c"} {
				enqueue(t, q, id, "")
				synctest.Wait()
			}
			if crash {
				x = openOn(t, disk.Crash(), executor.Config{})
				q = s.shop(t, x, slots, executor.QueueConfig[string]{})
				start(t, x)
			}
			require.Equal(t, 5, x.SlotsOnDisk())
			time.Sleep(time.Minute)
			enqueue(t, q, "good", "")
			synctest.Wait()
			require.Equal(t, 2, x.SlotsOnDisk())
			require.Len(t, s.slots.Snapshot().Open, 2)
			stop(t, x)
		})
	}
}

// A05: a value that is kept for as long as there are numbers is its job's after a crash, whether
// that had failed or ran then.
func TestLaralocker_A05_ATTLWithoutEndOverACrash(t *testing.T) {
	for name, fails := range map[string]bool{"failed": true, "running": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				disk, dies := new(journal.Memory), make(chan struct{})
				x := openOn(t, disk, executor.Config{})
				s := &sold{decide: func(context.Context, executor.Merged[string], int) error {
					if fails {
						return executor.RetryAfter(time.Hour, errBoom)
					}
					<-dies
					return nil
				}}
				cfg := executor.SlotsConfig[int]{KeepOnFailure: true, TTL: math.MaxInt64}
				q := s.shop(t, x, cfg, executor.QueueConfig[string]{})
				start(t, x)
				enqueue(t, q, "a", "")
				synctest.Wait()
				y, after := openOn(t, disk.Crash(), executor.Config{}), new(sold)
				close(dies)
				stop(t, x)
				q = after.shop(t, y, cfg, executor.QueueConfig[string]{})
				require.Len(t, after.slots.Snapshot().Open, 1)
				enqueue(t, q, "b", "")
				start(t, y)
				time.Sleep(2 * time.Hour)
				require.ElementsMatch(t, []string{"a 1", "b 2"}, after.log())
				after.last(t, 2, true)
				stop(t, y)
			})
		})
	}
}
