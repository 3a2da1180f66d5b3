package executor_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
)

// A run for each burst, when it is quiet, and at the latest MaxWait after its first
// payload; so it is across a stop, and across a crash at any moment.
func TestDebounce(t *testing.T) {
	for _, merge := range []executor.Merge{executor.MergeKeepAll, executor.MergeKeepFirst, executor.MergeKeepLast} {
		for _, end := range []string{"none", "stop", "crash"} {
			if merge == executor.MergeKeepFirst && end != "none" {
				continue
			}
			t.Run(fmt.Sprint(merge, " ", end), func(t *testing.T) {
				bubble(t, func(t *testing.T) { debounced(t, merge, end) })
			})
		}
	}
}

func debounced(t *testing.T, merge executor.Merge, end string) {
	disk := new(journal.Memory)
	begin := time.Now()
	p := &probe{}
	life := func() (*executor.Executor, *executor.Queue[string]) {
		x := openOn(t, disk, executor.Config{})
		q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{
			Merge: merge, Gather: executor.Gather[string]{
				Debounce: executor.Debounce{Quiet: 10 * time.Second, MaxWait: 45 * time.Second},
			},
		})
		start(t, x)
		return x, q
	}
	x, q := life()
	at := func(second time.Duration, payload string) {
		t.Helper()
		time.Sleep(time.Until(begin.Add(second * time.Second)))
		synctest.Wait()
		enqueue(t, q, "a", payload)
		switch end {
		case "stop":
			stop(t, x)
			x, q = life()
		case "crash":
			next := disk.Crash()
			stop(t, x)
			disk = next
			x, q = life()
		}
	}
	for _, second := range []time.Duration{0, 9, 18} { // quiet from 18 on
		at(second, "x")
	}
	for second := range time.Duration(8) { // and here from 80 on, too late
		at(30+8*second, "x")
	}
	time.Sleep(time.Minute)
	synctest.Wait()
	var ran []time.Duration
	for _, s := range p.seen() {
		ran = append(ran, s.at.Sub(begin).Round(time.Millisecond)/time.Second)
	}
	require.Equal(t, []time.Duration{28, 75, 96}, ran)
	stop(t, x)
}

// FreshDue moves the due time of a job that waits, one way or the other, and leaves
// that of a retry alone.
func TestFreshDue(t *testing.T) {
	for fresh, want := range map[executor.FreshDue]time.Duration{
		executor.FreshDueKeep: 10 * time.Minute, executor.FreshDuePull: 5 * time.Minute, executor.FreshDuePush: 20 * time.Minute,
	} {
		bubble(t, func(t *testing.T) {
			disk := new(journal.Memory)
			begin := time.Now()
			var ran []time.Duration
			life := func() (*executor.Executor, *executor.Queue[string]) {
				x := openOn(t, disk, executor.Config{})
				return x, handle(t, x, "q", func(context.Context, executor.Merged[string]) error {
					if ran = append(ran, time.Since(begin).Round(time.Millisecond)); len(ran) == 1 {
						return errBoom
					}
					return nil
				}, executor.QueueConfig[string]{Gather: executor.Gather[string]{FreshDue: fresh}, Merge: executor.MergeKeepLast, RetryIn: always(time.Hour)})
			}
			x, q := life()
			for _, minutes := range []time.Duration{10, 20, 5, 7} {
				enqueue(t, q, "a", "x", executor.In(minutes*time.Minute))
			}
			stop(t, x)
			x, q = life()
			start(t, x)
			time.Sleep(time.Until(begin.Add(30 * time.Minute)))
			enqueue(t, q, "a", "y")
			enqueue(t, q, "a", "z", executor.In(9*time.Hour))
			time.Sleep(12 * time.Hour)
			synctest.Wait()
			require.Equal(t, []time.Duration{want, want + time.Hour}, ran, fresh)
			stop(t, x)
		})
	}
}

// An id runs at once, and at most every minute, whatever comes; so it does across
// crashes.
func TestThrottle(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		begin := time.Now()
		p := &probe{}
		life := func() (*executor.Executor, *executor.Queue[string]) {
			x := openOn(t, disk, executor.Config{})
			q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{Gather: executor.Gather[string]{Throttle: time.Minute}})
			start(t, x)
			return x, q
		}
		x, q := life()
		for second := range 200 {
			enqueue(t, q, "a", fmt.Sprint(second))
			time.Sleep(time.Second)
			if second%47 == 12 {
				synctest.Wait()
				require.Equal(t, 1, max(stats(t, q).Jobs, 1))
				next := disk.Crash()
				stop(t, x)
				disk = next
				x, q = life()
			}
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		var ran []time.Duration
		n := 0
		for _, s := range p.seen() {
			ran, n = append(ran, s.at.Sub(begin).Round(time.Second)/time.Second), n+len(s.values)
		}
		require.Equal(t, []time.Duration{0, 60, 120, 180, 240}, ran)
		require.Equal(t, 200, n)
		pending, err := q.Pending(t.Context(), "a")
		require.NoError(t, err)
		require.False(t, pending)
		require.Zero(t, stats(t, q).Jobs)
		stop(t, x)
	})
}

func TestDueSettingsThatMakeNoSense(t *testing.T) {
	x := open(t, "", executor.Config{})
	for want, cfg := range map[string]executor.QueueConfig[string]{
		"MaxWait is 1s without Quiet":                 {Gather: executor.Gather[string]{Debounce: executor.Debounce{MaxWait: time.Second}}},
		"MaxWait is 1s, it must be 0 (the default) o": {Gather: executor.Gather[string]{Debounce: executor.Debounce{Quiet: time.Minute, MaxWait: time.Second}}},
		"FreshDue is Push, and Gather.Debounce.Quiet is 1": {
			Gather: executor.Gather[string]{
				FreshDue: executor.FreshDuePush,
				Debounce: executor.Debounce{Quiet: time.Minute},
			}},
		"Throttle is 1s, Gather.Debounce.Quiet is 1m0s": {Gather: executor.Gather[string]{Throttle: time.Second, Debounce: executor.Debounce{Quiet: time.Minute}}},
		`FreshDue is "x"`: {Gather: executor.Gather[string]{FreshDue: "x"}},
	} {
		_, err := executor.HandleMerged(x, "q", (&probe{}).handle, cfg)
		require.ErrorIs(t, err, executor.ErrConfig)
		require.ErrorContains(t, err, want)
	}
	handle(t, x, "no limit", (&probe{}).handle, executor.QueueConfig[string]{Gather: executor.Gather[string]{Debounce: executor.Debounce{Quiet: 1 << 62, MaxWait: -1}}})
	handle(t, x, "off", (&probe{}).handle, executor.QueueConfig[string]{Gather: executor.Gather[string]{Debounce: executor.Debounce{Quiet: -1, MaxWait: -1}}})
}

// A search index that is brought up to date once the changes have stopped, and at
// least every minute while they go on.
func ExampleDebounce() {
	x, err := executor.Open("", executor.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		panic(err)
	}
	indexed := make(chan int)
	documents, err := executor.HandleMerged(x, "documents", func(_ context.Context, job executor.Merged[string]) error {
		indexed <- len(job.Payloads)
		return nil
	}, executor.QueueConfig[string]{
		Gather: executor.Gather[string]{
			Debounce: executor.Debounce{Quiet: 50 * time.Millisecond, MaxWait: time.Minute},
		},
	})
	if err != nil {
		panic(err)
	}
	if err := x.Start(context.Background()); err != nil {
		panic(err)
	}
	for _, change := range []string{"title", "body", "tags"} {
		if _, err := documents.Enqueue(context.Background(), "doc-7", change); err != nil {
			panic(err)
		}
	}
	fmt.Println("changes in one run:", <-indexed)
	if err := x.Stop(context.Background()); err != nil {
		panic(err)
	}
	// Output:
	// changes in one run: 3
}
