package executor_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/events"
	"github.com/strandjobs/strand/executor/inspect"
)

// follow gathers events from the moment it is called.
func follow(t testing.TB, x *executor.Executor, f events.Filter) *traceLines {
	l := new(traceLines)
	feed := x.Events(t.Context(), f)
	go func() {
		for e, err := range feed {
			if err != nil {
				l.add("%v", err)
				continue
			}
			l.add("%s", line(e))
		}
	}()
	return l
}

// line is what a test says about an event.
func line(e events.Event) string {
	var s strings.Builder
	fmt.Fprintf(&s, "%s/%s %v %d", e.Queue, e.ID, e.Kind, e.Position)
	for _, part := range []struct {
		has  bool
		text string
	}{
		{e.Payloads > 1, fmt.Sprint(" of ", e.Payloads)}, {e.Into > 0, fmt.Sprint(" into ", e.Into)},
		{e.Attempt > 0, fmt.Sprint(" attempt ", e.Attempt)}, {e.Duration > 0, fmt.Sprint(" took ", e.Duration)},
		{e.Delay > 0, fmt.Sprint(" again in ", e.Delay)}, {e.Error != "", ": " + e.Error},
		{e.Total > 0, fmt.Sprintf(" %d of %d", e.Done, e.Total)},
	} {
		if part.has {
			s.WriteString(part.text)
		}
	}
	return s.String()
}

// Each thing that happens to a job is told, in order.
func TestEventsOfEachKind(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		answers := map[string][]error{
			"failed":    {errBoom, nil},
			"exhausted": {errBoom, errBoom},
			"snoozed":   {executor.Snooze(time.Minute), nil},
			"discarded": {executor.Discard()},
			"cancelled": {executor.Cancel(errBoom), nil},
		}
		var mu sync.Mutex
		q, err := executor.Handle(x, "q", func(_ context.Context, job executor.Job[string]) error {
			time.Sleep(time.Second)
			mu.Lock()
			defer mu.Unlock()
			if rest := answers[job.ID]; len(rest) > 0 {
				answers[job.ID] = rest[1:]
				return rest[0]
			}
			return nil
		}, executor.QueueConfig[string]{MaxRetries: 1, RetryIn: always(time.Hour)})
		require.NoError(t, err)
		start(t, x)
		l := follow(t, x, events.Filter{})
		do := func(id string, n int, want ...string) {
			t.Helper()
			var p []any
			for range n {
				p = append(p, enqueue(t, q, id, "x").Position)
				synctest.Wait()
			}
			time.Sleep(24 * time.Hour)
			synctest.Wait()
			for i, w := range want {
				w = strings.ReplaceAll(w, "ID", "q/"+id)
				for k, v := range p {
					w = strings.ReplaceAll(w, fmt.Sprint("#", k+1), fmt.Sprint(v))
				}
				want[i] = w
			}
			require.Equal(t, want, l.take())
		}
		do("done", 2, "ID accepted #1", "ID started #1 attempt 1", "ID accepted #2", "ID done #1 attempt 1 took 1s", "ID started #2 attempt 1", "ID done #2 attempt 1 took 1s")
		do("failed", 1, "ID accepted #1", "ID started #1 attempt 1", "ID failed #1 attempt 1 took 1s again in 1h0m0s: boom", "ID started #1 attempt 2", "ID done #1 attempt 2 took 1s")
		do("exhausted", 1, "ID accepted #1", "ID started #1 attempt 1", "ID failed #1 attempt 1 took 1s again in 1h0m0s: boom",
			"ID started #1 attempt 2", "ID failed #1 attempt 2 took 1s: boom", "ID buried #1 attempt 2: boom")
		do("snoozed", 1, "ID accepted #1", "ID started #1 attempt 1", "ID snoozed #1 attempt 1 took 1s again in 1m0s", "ID started #1 attempt 1", "ID done #1 attempt 1 took 1s")
		do("discarded", 1, "ID accepted #1", "ID started #1 attempt 1", "ID discarded #1 attempt 1 took 1s")
		do("cancelled", 1, "ID accepted #1", "ID started #1 attempt 1", "ID cancelled #1 attempt 1 took 1s: cancelled: boom", "ID buried #1 attempt 1: cancelled: boom")
		_, err = x.Inspect().Requeue(t.Context(), inspect.SelectIDs(q.Name(), "cancelled"))
		require.NoError(t, err)
		time.Sleep(time.Hour)
		synctest.Wait()
		var kinds []string
		for _, line := range l.take() {
			kinds = append(kinds, strings.Fields(line)[1])
		}
		require.Equal(t, []string{"requeued", "started", "done"}, kinds)
		stop(t, x)
	})
}

// What a person does is told beside what it means for the jobs: once, however often it
// is done.
func TestEventsOfWhatAPersonDoes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		var p probe
		q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{})
		start(t, x)
		l := follow(t, x, events.Filter{})
		other := follow(t, x, events.Filter{Kinds: []events.Kind{events.Deleted}})
		for scope, pause := range pausable(x, q) {
			for range 2 {
				require.NoError(t, pause[0](t.Context()))
			}
			for range 2 {
				require.NoError(t, pause[1](t.Context()))
			}
			synctest.Wait()
			of := map[string]string{"executor": "/", "queue": "q/", "id": "q/a", "prefix": "q/"}[strings.Fields(scope)[0]]
			require.Equal(t, []string{of + " paused 0", of + " resumed 0"}, l.take(), scope)
		}
		first, second := enqueue(t, q, "a", "1", executor.In(time.Hour)), enqueue(t, q, "a", "2", executor.In(time.Hour))
		n, err := x.Inspect().Delete(t.Context(), inspect.SelectIDs("q", "a"))
		require.NoError(t, err)
		require.Equal(t, 2, n)
		synctest.Wait()
		gone := []string{fmt.Sprintf("q/a deleted %d", first.Position), fmt.Sprintf("q/a deleted %d", second.Position)}
		require.Equal(t, gone, l.take()[2:], "behind what was accepted")
		require.Equal(t, gone, other.take())
		require.Empty(t, p.log())
		stop(t, x)
	})
}

// Commits are told to those who name them.
func TestEventsOfCommits(t *testing.T) {
	x := open(t, t.TempDir()+"/jobs", executor.Config{})
	q := handle(t, x, "q", (&probe{}).handle, executor.QueueConfig[string]{})
	all := x.Events(t.Context(), events.Filter{})
	commits := x.Events(t.Context(), events.Filter{Kinds: []events.Kind{events.Committed}})
	before, err := x.Stats(t.Context())
	require.NoError(t, err)
	for range 5 {
		enqueue(t, q, "a", "x")
	}
	after, err := x.Stats(t.Context())
	require.NoError(t, err)
	stop(t, x)
	var n uint64
	for e, err := range commits {
		require.NoError(t, err)
		require.Equal(t, events.Committed, e.Kind)
		require.Empty(t, e.Queue)
		require.Positive(t, e.Duration)
		n++
	}
	require.GreaterOrEqual(t, after.Journal.Commits-before.Journal.Commits, uint64(5))
	require.GreaterOrEqual(t, n, after.Journal.Commits-before.Journal.Commits)
	for e, err := range all {
		require.NoError(t, err)
		require.Equal(t, events.Accepted, e.Kind)
	}
}

// Of several payloads in one run those that fare alike are one event.
func TestEventsOfManyPayloads(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		q := handle(t, x, "q", func(_ context.Context, job executor.Merged[string]) error {
			if job.Attempt > 1 {
				return errBoom
			}
			return executor.PayloadErrors{
				job.Payloads[1].Position: errBoom, job.Payloads[2].Position: executor.Discard(), job.Payloads[3].Position: errBoom,
				job.Payloads[4].Position: executor.Cancel(nil),
			}
		}, executor.QueueConfig[string]{MaxRetries: 1, RetryIn: always(0), Merge: executor.MergeKeepLast, DeadLetters: executor.DeadLetters[string]{OnExhausted: executor.OnExhaustedHalt}})
		l := follow(t, x, events.Filter{})
		var p []any
		for payload := range strings.FieldsSeq("a a b c d e") {
			p = append(p, enqueue(t, q, "id", payload).Position)
		}
		start(t, x)
		time.Sleep(time.Hour)
		synctest.Wait()
		var want []string
		for w := range strings.SplitSeq(`accepted #1|accepted #2|merged #1 into #2|accepted #3|accepted #4|accepted #5|accepted #6|started #2 of 5 attempt 1|
			done #2 attempt 1|discarded #4 attempt 1|cancelled #6 attempt 1: cancelled: no reason given|failed #3 of 2 attempt 1: boom|buried #6 attempt 1: cancelled: no reason given|
			started #3 of 2 attempt 2|failed #3 of 2 attempt 2: boom|halted #3 of 2 attempt 2: boom`, "|") {
			w = "q/id " + strings.TrimSpace(w)
			for i, position := range p {
				w = strings.ReplaceAll(w, fmt.Sprint("#", i+1), fmt.Sprint(position))
			}
			want = append(want, w)
		}
		require.Equal(t, want, l.take())
		stop(t, x)
	})
}

// What waits for a lock is told, and what a stop interrupts.
func TestEventsOfParkedAndInterruptedJobs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		q, err := executor.Handle(x, "q", func(ctx context.Context, job executor.Job[string]) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Locks: executor.Locks[string]{BlockedBy: keys("K")}}})
		require.NoError(t, err)
		require.NoError(t, x.KeyLocks().Lock(t.Context(), "K"))
		l := follow(t, x, events.Filter{})
		start(t, x)
		p := enqueue(t, q, "id", "x").Position
		synctest.Wait()
		require.Equal(t, []string{fmt.Sprint("q/id accepted ", p), fmt.Sprintf("q/id parked %d attempt 1", p)}, l.take())
		require.NoError(t, x.KeyLocks().Unlock(t.Context(), "K"))
		synctest.Wait()
		require.Equal(t, []string{fmt.Sprintf("q/id started %d attempt 1", p)}, l.take())
		over, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, x.Stop(over))
		synctest.Wait()
		require.Equal(t, []string{fmt.Sprintf("q/id interrupted %d attempt 1", p)}, l.take(), "and the loop has ended")
	})
}

// A filter is for queues and kinds, also for queues that come later.
func TestEventFilter(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		p := &probe{}
		a := handle(t, x, "a", p.handle, executor.QueueConfig[string]{})
		all := follow(t, x, events.Filter{Kinds: []events.Kind{events.Done}})
		ofA := follow(t, x, events.Filter{Queues: []string{"a"}})
		b := handle(t, x, "b", p.handle, executor.QueueConfig[string]{})
		start(t, x)
		enqueue(t, a, "1", "x")
		synctest.Wait()
		enqueue(t, b, "2", "x")
		synctest.Wait()
		require.Len(t, ofA.take(), 3)
		require.Len(t, all.take(), 2)
		stop(t, x)
	})
}

// A reader that does not read holds nobody up, is told how many it has missed, and
// gets the newest.
func TestASlowReaderOfEvents(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Advanced: executor.Advanced{EventBuffer: 10}, Workers: 1})
		q := handle(t, x, "q", (&probe{}).handle, executor.QueueConfig[string]{})
		start(t, x)
		read, done := make(chan struct{}), make(chan struct{})
		feed := x.Events(t.Context(), events.Filter{})
		var positions []uint64
		var missed *events.MissedError
		go func() {
			defer close(done)
			for e, err := range feed {
				if err != nil {
					require.ErrorAs(t, err, &missed)
					continue
				}
				if positions = append(positions, e.Position); len(positions) == 1 {
					<-read
				}
				if len(positions) == 11 {
					break
				}
			}
		}()
		var last uint64
		for range 100 {
			last = enqueue(t, q, "id", "x").Position
			synctest.Wait()
		}
		require.Equal(t, uint64(100), stats(t, q).Done)
		close(read)
		<-done
		require.Equal(t, last, positions[10])
		require.False(t, missed.Uncounted || missed.Restarted)
		require.InDelta(t, 300-10-2, missed.Events, 1, "it has got one to three before it stopped")
		stop(t, x)
	})
}

// A reader goes on where it was, in this process; after a restart it is told.
func TestResumeEventsByToken(t *testing.T) {
	dir := t.TempDir() + "/jobs"
	x := open(t, dir, executor.Config{})
	q := handle(t, x, "q", (&probe{}).handle, executor.QueueConfig[string]{})
	feed := x.Events(t.Context(), events.Filter{})
	for i := range 5 {
		enqueue(t, q, fmt.Sprint(i), "x")
	}
	next := func(f events.Filter) (id, token string) {
		for e, err := range x.Events(t.Context(), f) {
			require.NoError(t, err)
			return e.ID, e.Token
		}
		return "", ""
	}
	token := ""
	for e, err := range feed {
		require.NoError(t, err)
		token = e.Token
		break
	}
	for i := 1; i < 5; i++ {
		var id string
		id, token = next(events.Filter{After: token})
		require.Equal(t, fmt.Sprint(i), id)
	}
	stop(t, x)
	x = open(t, dir, executor.Config{})
	for _, err := range x.Events(t.Context(), events.Filter{After: token}) {
		missed, ok := errors.AsType[*events.MissedError](err)
		require.True(t, ok)
		require.True(t, missed.Restarted)
		break
	}
	stop(t, x)
}

// What makes no sense is said once, and then the loop ends.
func TestBadFiltersOfEvents(t *testing.T) {
	x := open(t, "", executor.Config{})
	off := open(t, "", executor.Config{Advanced: executor.Advanced{EventBuffer: -1}})
	token := ""
	q := handle(t, x, "q", (&probe{}).handle, executor.QueueConfig[string]{})
	feed := x.Events(t.Context(), events.Filter{})
	enqueue(t, q, "id", "x")
	for e := range feed {
		token = e.Token
		break
	}
	life, _, _ := strings.Cut(token, "-")
	for _, c := range []struct {
		x    *executor.Executor
		f    events.Filter
		want error
	}{
		{off, events.Filter{}, executor.ErrConfig},
		{nil, events.Filter{}, executor.ErrConfig},
		{x, events.Filter{Kinds: []events.Kind{""}}, executor.ErrConfig},
		{x, events.Filter{Kinds: []events.Kind{"Accepted"}}, executor.ErrConfig},
		{x, events.Filter{Queues: []string{"none"}}, executor.ErrUnknownQueue},
		{x, events.Filter{After: "x"}, executor.ErrConfig},
		{x, events.Filter{After: strings.Repeat("9", 10_000)}, executor.ErrConfig},
		{x, events.Filter{After: life + "-0"}, executor.ErrConfig},
		{x, events.Filter{After: life + "-1000"}, executor.ErrConfig},
	} {
		n := 0
		for _, err := range c.x.Events(t.Context(), c.f) {
			require.ErrorIs(t, err, c.want)
			require.Less(t, len(err.Error()), 500)
			n++
		}
		require.Equal(t, 1, n)
	}
	_, err := executor.Open("", executor.Config{Advanced: executor.Advanced{EventBuffer: 1<<20 + 1}})
	require.ErrorIs(t, err, executor.ErrConfig)
}
