package executor_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/events"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/journal"
)

var trace = map[string]string{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tenant": "acme"}

// Metadata goes with its payload through retries, a restart, the morgue and back,
// and so does the time at which it was enqueued; a payload without any has none.
func TestMetadataAndTimeGoWithThePayload(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		type saw struct {
			at       time.Time
			metadata map[string]string
		}
		var seen []saw
		life := func(fail error) (*executor.Executor, *executor.Queue[string]) {
			x := openOn(t, disk, executor.Config{Workers: 1})
			q, err := executor.Handle(x, "q", func(_ context.Context, job executor.Job[string]) error {
				seen = append(seen, saw{job.EnqueuedAt, job.Metadata})
				return fail
			}, executor.QueueConfig[string]{RetryIn: always(time.Hour)})
			require.NoError(t, err)
			return x, q
		}
		x, q := life(errBoom)
		start(t, x)
		began := time.Now()
		enqueue(t, q, "a", "x", executor.Metadata(trace), executor.In(time.Minute), executor.Score(7))
		enqueue(t, q, "b", "x", executor.In(time.Minute))
		time.Sleep(90 * time.Minute)
		synctest.Wait()
		require.Len(t, seen, 4)
		disk = disk.Crash()
		stop(t, x)

		x, q = life(executor.Cancel(errBoom))
		start(t, x)
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		require.Len(t, seen, 6)
		for _, dead := range morgue(t, q) {
			require.WithinDuration(t, began, dead.EnqueuedAt, time.Microsecond)
			require.Equal(t, map[string]map[string]string{"a": trace, "b": nil}[dead.ID], dead.Metadata)
		}
		stop(t, x)

		x, q = life(nil)
		start(t, x)
		n, err := backOf(x.Inspect().Requeue(t.Context(), inspect.SelectQueue(q.Name())))
		require.NoError(t, err)
		require.Equal(t, 2, n)
		settled(t, q)
		synctest.Wait()
		require.Len(t, seen, 8)
		with := 0
		for _, s := range seen {
			require.WithinDuration(t, began, s.at, time.Microsecond)
			if s.metadata != nil {
				require.Equal(t, trace, s.metadata)
				with++
			}
		}
		require.Equal(t, 4, with)
	})
}

// Payloads merge whatever their metadata, and the one that stays has its own.
func TestMetadataIsNoPartOfWhatMerges(t *testing.T) {
	for merge, want := range map[executor.Merge][]string{
		executor.MergeKeepFirst: {"1"}, executor.MergeKeepLast: {"3"}, executor.MergeMinScore: {"2"}, executor.MergeKeepAll: {"2", "1", "3"},
	} {
		x := open(t, "", executor.Config{})
		var got []string
		q := handle(t, x, "q", func(_ context.Context, job executor.Merged[string]) error {
			for _, p := range job.Payloads {
				got = append(got, p.Metadata["n"])
				require.False(t, p.EnqueuedAt.IsZero())
			}
			return nil
		}, executor.QueueConfig[string]{Merge: merge})
		metadata := func(n string) map[string]string { return map[string]string{"n": n} }
		enqueue(t, q, "id", "same", executor.Score(5), executor.Metadata(metadata("1")))
		_, err := q.EnqueueMany(t.Context(), []executor.Item[string]{
			{ID: "id", Payload: "same", Score: new(4.0), Metadata: metadata("2")}, {ID: "id", Payload: "same", Score: new(6.0)},
		}, executor.Metadata(metadata("3")))
		require.NoError(t, err)
		start(t, x)
		drained(t, q)
		require.Equal(t, want, got, merge)
		stop(t, x)
	}
}

// There are limits, and a call that is above one of them enqueues nothing.
func TestMetadataLimits(t *testing.T) {
	x := open(t, "", executor.Config{})
	q := handle(t, x, "q", func(context.Context, executor.Merged[string]) error { return nil }, executor.QueueConfig[string]{})
	many := make(map[string]string)
	for i := range 17 {
		many[fmt.Sprint(i)] = ""
	}
	for text, bad := range map[string]map[string]string{
		"17 pairs":          many,
		"empty":             {"": "x"},
		"have 1025 bytes":   {"key": strings.Repeat("x", 1022)},
		"the limit is 1024": {strings.Repeat("x", 1025): ""},
	} {
		_, err := q.Enqueue(t.Context(), "id", "x", executor.Metadata(bad))
		require.ErrorIs(t, err, executor.ErrInvalidItem)
		require.ErrorContains(t, err, text)
		_, err = q.EnqueueMany(t.Context(), []executor.Item[string]{{ID: "id", Payload: "x"}, {ID: "id", Payload: "x", Metadata: bad}})
		require.ErrorIs(t, err, executor.ErrInvalidItem)
	}
	require.Zero(t, stats(t, q).Payloads)
	delete(many, "16")
	for _, good := range []map[string]string{many, {"key": strings.Repeat("x", 1021)}, nil, {}} {
		enqueue(t, q, "id", "x", executor.Metadata(good))
	}
}

// A job knows its last five failures, over a restart, too, and in the morgue; what
// a crash took back is not among them, and a payload does not have those of another
// one.
func TestFailuresOfAJob(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		type run struct {
			payload  string
			attempt  int
			failures []inspect.Failure
		}
		var runs []run
		life := func() (*executor.Executor, *executor.Queue[string]) {
			x := openOn(t, disk, executor.Config{})
			q, err := executor.Handle(x, "q", func(_ context.Context, job executor.Job[string]) error {
				runs = append(runs, run{job.Payload, job.Attempt, job.Failures})
				if n := len(job.Failures); n > 0 {
					require.Equal(t, job.LastError, job.Failures[n-1].Error)
				}
				if job.Payload != "bad" {
					return nil
				}
				return fmt.Errorf("failure %d", job.Attempt)
			}, executor.QueueConfig[string]{RetryIn: always(time.Hour), MaxRetries: 7})
			require.NoError(t, err)
			return x, q
		}
		x, q := life()
		began := time.Now()
		enqueue(t, q, "id", "good")
		enqueue(t, q, "id", "bad")
		enqueue(t, q, "id", "behind")
		start(t, x)
		time.Sleep(90 * time.Minute)
		synctest.Wait()
		disk = disk.Crash()
		stop(t, x)
		x, q = life()
		start(t, x)
		time.Sleep(24 * time.Hour)
		synctest.Wait()

		at := func(attempt int) inspect.Failure {
			return inspect.Failure{Attempt: attempt, At: began.Add(time.Duration(attempt-1) * time.Hour), Error: fmt.Sprint("failure ", attempt)}
		}
		last := func(attempt int) (list []inspect.Failure) {
			for i := max(1, attempt-4); i <= attempt; i++ {
				list = append(list, at(i))
			}
			return list
		}
		want := []run{{"good", 1, nil}, {"bad", 1, nil}}
		for attempt := range 8 {
			if attempt > 0 {
				want = append(want, run{"bad", attempt + 1, last(attempt)})
			}
		}
		want = append(want, run{"behind", 1, nil})
		require.Len(t, runs, len(want))
		for i := range want {
			require.Equal(t, want[i].payload, runs[i].payload)
			require.Equal(t, want[i].attempt, runs[i].attempt)
			same(t, want[i].failures, runs[i].failures)
		}
		dead := morgue(t, q)
		require.Len(t, dead, 1)
		same(t, last(8), dead[0].Failures)
		require.Equal(t, dead[0].Error, dead[0].Failures[4].Error)
	})
}

func same(t *testing.T, want, got []inspect.Failure) {
	t.Helper()
	require.Len(t, got, len(want))
	for i := range want {
		require.Equal(t, []any{want[i].Attempt, want[i].Error}, []any{got[i].Attempt, got[i].Error})
		require.WithinDuration(t, want[i].At, got[i].At, time.Second)
	}
}

// The hook for the last failure sees it among the others, and the morgue has each
// once.
func TestFailuresInRetriesExhausted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		var seen []inspect.Failure
		q := handle(t, x, "q", func(_ context.Context, job executor.Merged[string]) error {
			return fmt.Errorf("failure %d", job.Attempt)
		}, executor.QueueConfig[string]{
			RetryIn: always(time.Minute), MaxRetries: 1, DeadLetters: executor.DeadLetters[string]{
				OnExhausted:      executor.OnExhaustedBuryAll,
				RetriesExhausted: func(_ context.Context, jobs []executor.Merged[string]) { seen = jobs[0].Failures },
			},
		})
		enqueue(t, q, "id", "a")
		enqueue(t, q, "id", "b")
		start(t, x)
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(t, []string{"failure 1", "failure 2"}, texts(seen))
		for _, dead := range morgue(t, q) {
			require.Equal(t, []string{"failure 1", "failure 2"}, texts(dead.Failures))
		}
	})
}

func texts(failures []inspect.Failure) (list []string) {
	for _, f := range failures {
		list = append(list, f.Error)
	}
	return list
}

// The logger of a job says which one it is; one that no executor has made has one,
// too.
func TestLoggerOfAJob(t *testing.T) {
	var log bytes.Buffer // a handler writes one line at a time
	x := open(t, "", executor.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	q, err := executor.Handle(x, "q", func(_ context.Context, job executor.Job[string]) error {
		job.Logger().Info("from the handler")
		return nil
	}, executor.QueueConfig[string]{})
	require.NoError(t, err)
	m := handle(t, x, "m", func(_ context.Context, job executor.Merged[string]) error {
		job.Logger().Info("from the handler")
		return nil
	}, executor.QueueConfig[string]{})
	start(t, x)
	enqueue(t, q, "one", "x")
	drained(t, q)
	enqueue(t, m, "two", "x")
	drained(t, m)
	stop(t, x)
	require.Contains(t, log.String(), `msg="from the handler" queue=q id=one attempt=1`)
	require.Contains(t, log.String(), `msg="from the handler" queue=m id=two attempt=1`)
	require.NotNil(t, executor.Job[string]{}.Logger())
	require.NotNil(t, executor.Merged[string]{}.Logger())
}

// A job that was running when the process died is told so, until it has ended.
func TestCrashesOfAJob(t *testing.T) {
	dir, copied := t.TempDir()+"/journal", t.TempDir()+"/copy"
	running, release := make(chan executor.Job[string], 9), make(chan struct{})
	life := func(dir string) (*executor.Executor, *executor.Queue[string]) {
		x := open(t, dir, executor.Config{})
		q, err := executor.Handle(x, "q", func(_ context.Context, job executor.Job[string]) error {
			running <- job
			<-release
			if job.Attempt == 1 {
				return executor.RetryAfter(0, errBoom)
			}
			return nil
		}, executor.QueueConfig[string]{})
		require.NoError(t, err)
		start(t, x)
		return x, q
	}
	x, q := life(dir)
	enqueue(t, q, "id", "x")
	require.Zero(t, await(t, running).Crashes)
	require.NoError(t, os.CopyFS(copied, os.DirFS(dir)))
	close(release)
	stop(t, x)
	for range len(running) { // the second attempt of the original, if it came to that
		<-running
	}

	x, _ = life(copied)
	first, again := await(t, running), await(t, running)
	require.Equal(t, []int{1, 1}, []int{first.Crashes, first.Attempt}, "a crash is no attempt")
	require.Equal(t, []int{0, 2}, []int{again.Crashes, again.Attempt}, "it has ended once")
	stop(t, x)
}

// What middleware wants to know of an error that a handler returns, it can ask.
func TestOutcomesCanBeToldApart(t *testing.T) {
	for name, wrap := range map[string]func(error) error{
		"plain":   func(err error) error { return err },
		"wrapped": func(err error) error { return fmt.Errorf("around it: %w", err) },
		"joined":  func(err error) error { return errors.Join(errors.New("another"), err) },
	} {
		t.Run(name, func(t *testing.T) {
			for _, wish := range []struct {
				err  error
				want executor.WishError
			}{
				{executor.Cancel(errBoom), executor.WishError{Outcome: events.Cancelled, Err: errBoom}},
				{executor.Discard(), executor.WishError{Outcome: events.Discarded}},
				{executor.Snooze(time.Minute), executor.WishError{Outcome: events.Snoozed, After: time.Minute}},
				{executor.Snooze(-time.Minute), executor.WishError{Outcome: events.Snoozed}},
				{executor.RetryAfter(time.Hour, errBoom), executor.WishError{Outcome: events.Failed, After: time.Hour, Err: errBoom}},
				{executor.RetryAfter(-time.Hour, errBoom), executor.WishError{Outcome: events.Failed, Err: errBoom}},
			} {
				found, is := errors.AsType[*executor.WishError](wrap(wish.err))
				require.True(t, is)
				require.Equal(t, wish.want, *found)
				require.Equal(t, wish.want.Outcome, executor.OutcomeOf(wrap(wish.err)))
			}
			require.NotErrorAs(t, wrap(errBoom), new(*executor.WishError))
		})
	}
	for text, err := range map[string]error{
		"cancelled: boom": executor.Cancel(errBoom), "cancelled: no reason given": executor.Cancel(nil), "discarded": executor.Discard(),
		"snoozed for 1m0s": executor.Snooze(time.Minute), "boom": executor.RetryAfter(0, errBoom), "no reason given": executor.RetryAfter(0, nil),
	} {
		require.EqualError(t, err, text)
	}
}

// A value that the program makes itself is the same wish.
func TestOutcomesAsValues(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		wishes := map[string]error{
			"cancel": &executor.WishError{Outcome: events.Cancelled}, "discard": &executor.WishError{Outcome: events.Discarded},
			"snooze": &executor.WishError{Outcome: events.Snoozed, After: time.Hour}, "retry": &executor.WishError{After: time.Hour},
		}
		q := handle(t, x, "q", func(_ context.Context, job executor.Merged[string]) error { return wishes[job.ID] }, executor.QueueConfig[string]{})
		for id := range maps.Keys(wishes) {
			enqueue(t, q, id, "x")
		}
		start(t, x)
		time.Sleep(time.Minute)
		synctest.Wait()
		s := stats(t, q)
		require.Equal(t, []uint64{1, 1, 1, 1}, []uint64{s.Buried, s.Discarded, s.Snoozed, s.Failed})
		require.Equal(t, "cancelled: no reason given", morgue(t, q)[0].Error)
	})
}
