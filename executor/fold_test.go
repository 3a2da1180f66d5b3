package executor_test

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/events"
	"github.com/strandjobs/strand/executor/inspect"
)

// join is a fold that shows what was folded, in which order.
func join(waiting, next string) (string, error) { return waiting + "+" + next, nil }

func later(string) time.Time { return time.Now().Add(time.Hour) }

// What waits for an id is one payload for its handler, in the order of acceptance,
// whatever the scores; it has position, score, time and metadata of the first one.
func TestFold(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		var got []executor.Merged[string]
		q := handle(t, x, "q", func(_ context.Context, job executor.Merged[string]) error {
			got = append(got, job)
			return nil
		}, executor.QueueConfig[string]{Gather: executor.Gather[string]{Fold: join}, MaxConcurrent: 1})
		events := follow(t, x, events.Filter{})
		first := enqueue(t, q, "a", "1", executor.Score(3), executor.Metadata(map[string]string{"k": "first"}))
		begin := time.Now()
		time.Sleep(time.Second)
		second := enqueue(t, q, "a", "2", executor.Score(2), executor.Metadata(map[string]string{"k": "second"}))
		require.Zero(t, second.MergedInto, "it is decided later")
		enqueue(t, q, "a", "3", executor.Score(1))
		enqueue(t, q, "b", "alone")
		start(t, x)
		time.Sleep(time.Second)
		synctest.Wait()
		_, err := q.Enqueue(t.Context(), "a", "4")
		require.NoError(t, err)
		synctest.Wait()
		require.Len(t, got, 3)
		for _, job := range got[:2] {
			require.Len(t, job.Payloads, 1)
			if job.ID == "a" {
				require.Equal(t, executor.Payload[string]{
					Value: "1+2+3", Score: 3, Position: first.Position, EnqueuedAt: begin, Metadata: map[string]string{"k": "first"},
				}, job.Payloads[0])
			}
		}
		require.Equal(t, "4", got[2].Latest(), "what is over is over")
		s := stats(t, q)
		require.EqualValues(t, 3, s.Done)
		require.EqualValues(t, 2, s.Merged)
		require.EqualValues(t, 2, s.Replaced)
		require.Zero(t, s.Payloads)
		require.Contains(t, strings.Join(events.take(), "\n"), fmt.Sprintf("q/a merged %d into %d", second.Position, first.Position))
	})
}

// What makes no sense with Fold is refused, and says why.
func TestFoldIsRefused(t *testing.T) {
	x := open(t, "", executor.Config{})
	merged := func(context.Context, executor.Merged[string]) error { return nil }
	byID := func(id, _ string) []string { return []string{id} }
	for want, cfg := range map[string]executor.QueueConfig[string]{
		"Merge is KeepLast":          {Merge: executor.MergeKeepLast},
		"MaxPayloads is 7":           {Gather: executor.Gather[string]{MaxPayloads: 7}},
		"OnEnqueue, OnRun or Unlock": {Conditions: executor.Conditions[string]{Locks: executor.Locks[string]{OnEnqueue: byID, Unlock: byID}}},
		"OnRun or Unlock: the keys":  {Conditions: executor.Conditions[string]{Locks: executor.Locks[string]{OnRun: byID, Unlock: byID}}},
		"Unlock: the keys of what":   {Conditions: executor.Conditions[string]{Locks: executor.Locks[string]{Unlock: byID}}},
	} {
		cfg.Gather.Fold = join
		_, err := executor.HandleMerged(x, "q", merged, cfg)
		require.ErrorIs(t, err, executor.ErrConfig)
		require.ErrorContains(t, err, want)
	}
	_, err := executor.Handle(x, "q", func(context.Context, executor.Job[string]) error { return nil }, executor.QueueConfig[string]{Gather: executor.Gather[string]{Fold: join}})
	require.ErrorIs(t, err, executor.ErrConfig)
	require.ErrorContains(t, err, "use HandleMerged or HandleBatch")
}

// Payloads that a function does not make one, in whatever way, run one after the other,
// in their order, and nothing is lost: the handler still gets one at a time.
func TestFoldThatFails(t *testing.T) {
	hostile := map[string]func() (string, error){
		"error":         func() (string, error) { return "", errBoom },
		"panic":         func() (string, error) { panic("boom") },
		"nil panic":     func() (string, error) { panic(nil) },
		"goexit":        func() (string, error) { runtime.Goexit(); return "", nil },
		"hostile error": func() (string, error) { return "", hostileError{} },
	}
	for name, fails := range hostile {
		for _, n := range []int{10, 1000} { // folded by the worker, or where it waits
			t.Run(fmt.Sprint(name, " ", n), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					x := open(t, "", executor.Config{Advanced: executor.Advanced{MaxPayloadBytes: 1000}})
					p := &probe{}
					q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{Gather: executor.Gather[string]{
						Fold: func(waiting, next string) (string, error) {
							if next == "bad" || strings.HasPrefix(waiting, "bad") {
								return fails()
							}
							return next, nil
						},
					}})
					for i := range n {
						enqueue(t, q, "a", fmt.Sprint(i))
					}
					enqueue(t, q, "a", "bad")
					enqueue(t, q, "a", "behind")
					enqueue(t, q, "a", "last")
					synctest.Wait()
					start(t, x)
					time.Sleep(time.Second)
					synctest.Wait()
					log := p.log()
					require.Equal(t, "a[last]", log[len(log)-1])
					require.Contains(t, log, fmt.Sprintf("a[%d]", n-1))
					require.Contains(t, log, "a[bad]")
					require.Less(t, len(log), 30)
					require.Zero(t, stats(t, q).Jobs)
					require.Zero(t, stats(t, q).Failed)
					require.Empty(t, morgue(t, q))
				})
			})
		}
	}
}

// hostileError panics when it is asked.
type hostileError struct{}

func (hostileError) Error() string { panic("asked") }

// What has failed comes back before what came meanwhile, and is one payload with it;
// under Gather.Block it stays by itself until it is over.
func TestFoldAfterAFailure(t *testing.T) {
	for block, want := range map[bool][]string{
		false: {"a[1+2]", "a[1+2+3+4]"},
		true:  {"a[1+2]", "a[1+2]", "a[3+4]"},
	} {
		bubble(t, func(t *testing.T) {
			x := open(t, "", executor.Config{})
			p := &probe{decide: func(_ context.Context, s seen) error {
				if s.retry < 0 && s.values[0] == "1+2" {
					time.Sleep(time.Second)
					return errBoom
				}
				return nil
			}}
			q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{Gather: executor.Gather[string]{Fold: join, Block: block}, RetryIn: always(time.Minute)})
			enqueue(t, q, "a", "1")
			enqueue(t, q, "a", "2")
			start(t, x)
			time.Sleep(time.Second / 2)
			enqueue(t, q, "a", "3")
			time.Sleep(time.Second)
			enqueue(t, q, "a", "4")
			time.Sleep(time.Hour)
			synctest.Wait()
			require.Equal(t, want, p.log())
		})
	}
}

// What died is one dead payload, as its handler got it, and comes back as that.
func TestFoldInTheMorgue(t *testing.T) {
	for _, policy := range []executor.OnExhausted{executor.OnExhaustedBuryOldest, executor.OnExhaustedBuryAll} {
		bubble(t, func(t *testing.T) {
			x := open(t, "", executor.Config{})
			fails := shared[bool]{value: true}
			p := &probe{decide: func(context.Context, seen) error {
				if fails.get() {
					return errBoom
				}
				return nil
			}}
			q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{Gather: executor.Gather[string]{Fold: join}, MaxRetries: -1, DeadLetters: executor.DeadLetters[string]{OnExhausted: policy}})
			first := enqueue(t, q, "a", "1")
			enqueue(t, q, "a", "2")
			enqueue(t, q, "a", "3")
			start(t, x)
			synctest.Wait()
			dead := morgue(t, q)
			require.Len(t, dead, 1)
			require.Equal(t, "1+2+3", dead[0].Payload)
			require.Equal(t, first.Position, dead[0].Position)
			require.Zero(t, stats(t, q).Payloads)
			fails.set(false)
			require.NoError(t, pauseQueue(t.Context(), q))
			enqueue(t, q, "a", "4")
			_, err := x.Inspect().Requeue(t.Context(), inspect.SelectIDs("q", "a").At(dead[0].Position))
			require.NoError(t, err)
			require.NoError(t, resumeQueue(t.Context(), q))
			synctest.Wait()
			require.Equal(t, []string{"a[1+2+3]", "a[1+2+3+4]"}, p.log())
			require.Empty(t, morgue(t, q))
		})
	}
}

// In a batch each id has one payload. What does not decode goes to the morgue alone.
func TestFoldInABatch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		var got shared[string]
		q, err := executor.HandleBatch(x, "q", func(_ context.Context, jobs []executor.Merged[string]) error {
			for _, job := range jobs {
				got.set(got.get() + fmt.Sprint(job.ID, len(job.Payloads), job.Latest(), " "))
			}
			return nil
		}, executor.QueueConfig[string]{Gather: executor.Gather[string]{Fold: join}, BatchSize: 8, Share: executor.Share{Shards: 1}})
		require.NoError(t, err)
		for _, payload := range []string{`bad`, `"1"`, `bad`, `"2"`} {
			_, err := enqueueRaw(t.Context(), x, "q", "a", []byte(payload))
			require.NoError(t, err)
			_, err = enqueueRaw(t.Context(), x, "q", "c", []byte(`bad`))
			require.NoError(t, err)
		}
		enqueue(t, q, "b", "3")
		start(t, x)
		synctest.Wait()
		require.ElementsMatch(t, []string{"a11+2", "b13"}, strings.Fields(got.get()))
		require.EqualValues(t, 6, stats(t, q).Dead)
		require.Zero(t, stats(t, q).Jobs)
	})
}

// Who waits for a payload hears of the end of what it became a part of, and the one
// payload's error is the error of all.
func TestWaitForAFoldedPayload(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x, got := open(t, "", executor.Config{}), ""
		q, err := executor.HandleMerged(x, "q", func(_ context.Context, job executor.Merged[string]) error {
			if job.Attempt == 1 {
				return executor.PayloadErrors{job.Payloads[0].Position: errBoom}
			}
			got = job.Latest()
			return nil
		}, executor.QueueConfig[string]{Gather: executor.Gather[string]{Fold: join}, RetryIn: always(time.Second), Defaults: executor.Defaults[string]{Due: later}})
		require.NoError(t, err)
		start(t, x)
		ends := make(chan error, 3)
		for i := range 3 {
			r := enqueue(t, q, "a", fmt.Sprint(i))
			go func() { ends <- q.Wait(t.Context(), r) }()
			time.Sleep(time.Second)
		}
		time.Sleep(2 * time.Hour)
		for range 3 {
			require.NoError(t, <-ends)
		}
		require.Equal(t, "0+1+2", got)
		require.EqualValues(t, 1, stats(t, q).Failed)
	})
}

// A function that does not return holds up its own id: others are folded, and run, calls
// for the id wait for a second and not again, and a stop leaves it behind.
func TestFoldThatHangs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		hang := make(chan struct{})
		defer close(hang)
		p := &probe{}
		q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{Defaults: executor.Defaults[string]{Due: later}, Gather: executor.Gather[string]{
			Fold: func(waiting, next string) (string, error) {
				if next == "hang" {
					<-hang
				}
				return next, nil
			},
		}})
		start(t, x)
		for i := range 6 { // more than there are goroutines
			for range 300 {
				enqueue(t, q, fmt.Sprint("bad ", i), "hang")
			}
		}
		time.Sleep(2 * time.Second)
		for i := range 2000 {
			if i%500 == 0 {
				synctest.Wait()
			}
			enqueue(t, q, "good", fmt.Sprint(i))
		}
		synctest.Wait()
		require.Less(t, stats(t, q).Payloads, 6*300+1000, "the other id is folded")
		begin := time.Now()
		for range 3000 {
			enqueue(t, q, "bad 0", "hang")
		}
		require.LessOrEqual(t, time.Since(begin), time.Second)
		_, err := x.Inspect().RunNow(t.Context(), inspect.SelectIDs("q", "good"))
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, []string{"good[1999]"}, p.log())
		stop(t, x)
	})
}

// Many updates of an id take as much memory, and as much of the journal, as a few.
func TestFoldKeepsAnIDSmall(t *testing.T) {
	n, callers, each := 100_000, 10, 200
	if long() {
		n = 1_000_000
	}
	x := open(t, t.TempDir(), executor.Config{Logger: slog.New(slog.DiscardHandler)})
	sums := make(chan int, 10)
	q := handle(t, x, "q", func(_ context.Context, job executor.Merged[int]) error {
		sums <- job.Latest()
		return nil
	}, executor.QueueConfig[int]{
		Gather: executor.Gather[int]{
			Fold: func(waiting, next int) (int, error) { return waiting + next, nil },
		},
		Defaults: executor.Defaults[int]{
			Due: func(int) time.Time { return time.Now().Add(time.Hour) },
		},
	})
	start(t, x)
	heap := func() int {
		var mem runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&mem)
		return int(mem.HeapAlloc)
	}
	before, begin, most, mostLive, mostWaiting := heap(), time.Now(), 0, 0, 0
	for round := range 10 {
		var calls sync.WaitGroup
		for caller := range callers {
			calls.Go(func() {
				list := make([]executor.Item[int], each)
				for from := caller * each; from < n/10; from += callers * each {
					for i := range list {
						list[i] = executor.Item[int]{ID: "hot", Payload: round*n/10 + from + i}
					}
					if _, err := q.EnqueueMany(t.Context(), list); !assert.NoError(t, err) {
						return
					}
				}
			})
		}
		time.Sleep(time.Millisecond)
		for range 2 { // in the middle, and after it
			s, err := x.Stats(t.Context())
			require.NoError(t, err)
			most, mostLive = max(most, heap()-before), max(mostLive, s.Journal.LiveBytes)
			mostWaiting = max(mostWaiting, stats(t, q).Payloads)
			calls.Wait()
		}
	}
	t.Logf("%d updates in %v: heap %d kB more at most, live %d kB, %d wait", n, time.Since(begin), most>>10, mostLive>>10, mostWaiting)
	require.Less(t, most, 16<<20)
	require.Less(t, mostLive, 1<<20)
	require.Less(t, mostWaiting, 10_000)
	_, err := x.Inspect().RunNow(t.Context(), inspect.SelectIDs("q", "hot"))
	require.NoError(t, err)
	require.Equal(t, n*(n-1)/2, await(t, sums))
	s := drained(t, q)
	require.EqualValues(t, 1, s.Done)
	require.EqualValues(t, n-1, s.Merged)
}
