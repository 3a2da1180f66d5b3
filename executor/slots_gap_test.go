package executor_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
)

// A06: where nothing fails there is no gap, though many sell at a time and in any order,
// and though the process dies, at any commit, and comes back within the TTL: the serials of all sales are 1, 2, 3, ….
func TestLaralocker_A06_NoGapWhereNothingFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		var images []*journal.Memory
		const tickets = 40
		first := sellInAnyOrder(t, disk, tickets, func() {
			disk.OnCommit(func() { images = append(images, disk.Crash()) })
		})
		requireNoGap(t, first, tickets)
		require.Greater(t, len(images), 10)
		for _, image := range images {
			all := sellInAnyOrder(t, image, 0, func() {})
			for id, serial := range first {
				if all[id] == 0 {
					all[id] = serial // it was sold before the crash
				}
			}
			requireNoGap(t, all, tickets)
		}
	})
}

// A queue may have any bytes as its name: its jobs keep their values over a failure, and over a crash.
func TestSlotsOfAQueueThatIsNotUTF8(t *testing.T) {
	bubble(t, func(t *testing.T) {
		runs := make(map[string]int)
		live := func(disk *journal.Memory, end func(id string) error) (*executor.Executor, *executor.Queue[string]) {
			x := openOn(t, disk, executor.Config{Workers: 3})
			serials := must(executor.NewSlots(x, "serials", executor.SlotsConfig[int]{Next: next, TTL: time.Hour, KeepOnFailure: true}))
			return x, handle(t, x, "caf\xe9", func(_ context.Context, job executor.Merged[string]) error {
				runs[job.ID], _ = serials.Of(job)
				return end(job.ID)
			}, executor.QueueConfig[string]{
				Share: executor.Share{Shards: 1, Concurrency: 3}, RetryIn: always(time.Minute), Conditions: executor.Conditions[string]{Slots: []executor.SlotSource{serials}},
			})
		}
		disk, died := new(journal.Memory), make(chan struct{})
		x, q := live(disk, func(id string) error {
			if id == "runs" {
				<-died
			}
			return errBoom
		})
		start(t, x)
		for _, id := range []string{"fails", "runs"} {
			enqueue(t, q, id, "")
			synctest.Wait()
		}
		require.Equal(t, map[string]int{"fails": 1, "runs": 2}, runs)
		image := disk.Crash()
		close(died)
		stop(t, x)
		clear(runs)
		x, q = live(image, func(string) error { return nil })
		enqueue(t, q, "new", "")
		start(t, x)
		synctest.Wait()
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(t, map[string]int{"fails": 1, "runs": 2, "new": 3}, runs)
	})
}

func requireNoGap(t *testing.T, serials map[string]int, n int) {
	t.Helper()
	var sold []int
	for _, serial := range serials {
		sold = append(sold, serial)
	}
	slices.Sort(sold)
	require.Len(t, sold, n)
	for i, serial := range sold {
		require.Equal(t, i+1, serial)
	}
}

// sellInAnyOrder sells tickets, and what there is to sell on the disk, six at a time, each
// of which takes another time, and returns who has which serial.
func sellInAnyOrder(t *testing.T, disk *journal.Memory, tickets int, begins func()) map[string]int {
	x := openOn(t, disk, executor.Config{Workers: 6})
	by := make(map[string]int)
	s := new(sold)
	s.decide = func(_ context.Context, job executor.Merged[string], serial int) error {
		time.Sleep(time.Duration(serial*7%11) * time.Second)
		s.mu.Lock()
		defer s.mu.Unlock()
		by[job.ID] = serial
		return nil
	}
	q := s.shop(t, x, executor.SlotsConfig[int]{TTL: 1000 * time.Hour}, executor.QueueConfig[string]{})
	for i := range tickets {
		enqueue(t, q, fmt.Sprint("sale ", i), "")
	}
	begins()
	start(t, x)
	time.Sleep(time.Hour)
	synctest.Wait()
	require.Zero(t, stats(t, q).Jobs)
	stop(t, x)
	return by
}

// A06: when there is a gap, and when there is none.
func TestLaralocker_A06_WhenThereIsAGap(t *testing.T) {
	const ttl = time.Minute
	kept := executor.SlotsConfig[int]{KeepOnFailure: true}
	retryIn := func(d time.Duration) func(*sold, executor.Merged[string]) error {
		return func(*sold, executor.Merged[string]) error { return executor.RetryAfter(d, errBoom) }
	}
	ends := func(end func() error) func(*sold, executor.Merged[string]) error {
		return func(*sold, executor.Merged[string]) error { return end() }
	}
	clears := func(s *sold, job executor.Merged[string]) error { return s.slots.Clear(job) }
	stands := func(_ *sold, job executor.Merged[string]) error {
		executor.StopHeart(job)
		time.Sleep(2 * ttl)
		return errBoom
	}
	for name, test := range map[string]struct {
		cfg    executor.SlotsConfig[int]
		end    func(*sold, executor.Merged[string]) error // of the first run of the first sale, which has 1
		beside bool                                       // another sale has 2 meanwhile, and succeeds before
		want   []int                                      // serials of all sales in the end
	}{
		"it succeeds":                     {executor.SlotsConfig[int]{}, ends(func() error { return nil }), true, []int{1, 2, 3}},
		"it fails alone":                  {executor.SlotsConfig[int]{}, retryIn(time.Second), false, []int{1, 2, 3}},
		"it fails beside another":         {executor.SlotsConfig[int]{}, retryIn(time.Second), true, []int{2, 3, 4}},
		"it panics":                       {executor.SlotsConfig[int]{}, ends(func() error { panic("boom") }), true, []int{2, 3, 4}},
		"it ends its goroutine":           {executor.SlotsConfig[int]{}, ends(func() error { runtime.Goexit(); return nil }), true, []int{2, 3, 4}},
		"it is snoozed":                   {executor.SlotsConfig[int]{}, ends(func() error { return executor.Snooze(time.Second) }), true, []int{2, 3, 4}},
		"it is snoozed, with the option":  {kept, ends(func() error { return executor.Snooze(time.Second) }), true, []int{2, 3, 4}},
		"it is discarded":                 {kept, ends(executor.Discard), true, []int{2, 3}},
		"it is buried":                    {kept, ends(func() error { return executor.Cancel(errBoom) }), true, []int{2, 3}},
		"it clears its slot":              {kept, clears, true, []int{2, 3}},
		"it keeps it for its retry":       {kept, retryIn(ttl - 1), true, []int{1, 2, 3}},
		"its retry is later than its TTL": {kept, retryIn(ttl), true, []int{2, 3, 4}},
		"it stands still":                 {kept, stands, true, []int{2, 3, 4}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := open(t, "", executor.Config{})
				var serials []int
				again, goOn := false, make(chan struct{})
				s := new(sold)
				s.decide = func(_ context.Context, job executor.Merged[string], serial int) error {
					if job.ID == "first" && !again {
						again = true
						<-goOn
						if err := test.end(s, job); err != nil {
							return err
						}
					}
					if value, ok := s.slots.Of(job); ok {
						serials = append(serials, value)
					}
					return nil
				}
				q := s.shop(t, x, test.cfg, executor.QueueConfig[string]{})
				start(t, x)
				enqueue(t, q, "first", "")
				synctest.Wait()
				if !test.beside {
					close(goOn)
					synctest.Wait()
				}
				enqueue(t, q, "second", "")
				synctest.Wait()
				if test.beside {
					close(goOn)
				}
				time.Sleep(time.Hour)
				enqueue(t, q, "third", "")
				synctest.Wait()
				slices.Sort(serials)
				require.Equal(t, test.want, serials)
				stop(t, x)
			})
		})
	}
}
