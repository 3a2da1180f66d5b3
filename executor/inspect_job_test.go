package executor_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/brief"
)

func jobDetail(t testing.TB, x *executor.Executor, queue, id string) inspect.JobDetail {
	t.Helper()
	d, err := x.Inspect().Job(context.Background(), queue, id)
	require.NoError(t, err)
	return d
}

// L19: fetch by id: the job with its payloads, what it holds and why it does not run.
func TestLowkiq_L19_OneJob(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 1})
		fails := func(_ context.Context, job executor.Job[string]) error {
			if job.Payload == "dies" {
				return executor.Cancel(errBoom)
			}
			return fmt.Errorf("%s %d", errBoom, job.Attempt)
		}
		q, err := executor.Handle(x, "q", fails, executor.QueueConfig[string]{
			RetryIn: func(int) time.Duration { return time.Hour },
			Conditions: executor.Conditions[string]{
				Locks: executor.Locks[string]{OnEnqueue: keys("K"), OnRun: keys("R"), BlockedBy: keys("B")},
			},
		})
		require.NoError(t, err)
		start(t, x)
		enqueue(t, q, "id", "dies")
		synctest.Wait()
		enqueue(t, q, "id", "first", executor.Score(1), executor.Metadata(map[string]string{"trace": "7"}))
		enqueue(t, q, "id", "third", executor.Score(3))
		enqueue(t, q, "id", "second", executor.Score(2))
		synctest.Wait()
		time.Sleep(time.Hour)
		synctest.Wait()
		d := jobDetail(t, x, "q", "id")
		require.Equal(t, inspect.JobRetrying, d.State)
		require.Equal(t, 3, d.Attempt)
		require.Equal(t, "boom 2", d.LastError)
		require.Len(t, d.Failures, 2)
		require.Equal(t, 3, d.Payloads)
		require.Equal(t, time.Now().Add(time.Hour), d.Due)
		require.Empty(t, d.InHand)
		var values []any
		for i, p := range d.Waiting {
			values = append(values, p.Value)
			require.Equal(t, fmt.Appendf(nil, "%q", p.Value), p.Raw)
			require.Equal(t, float64(i+1), p.Score)
			require.NotZero(t, p.Position)
			require.NoError(t, p.Decode)
			require.Equal(t, time.Now().Add(-time.Hour), p.EnqueuedAt)
		}
		require.Equal(t, []any{"first", "second", "third"}, values)
		require.Equal(t, map[string]string{"trace": "7"}, d.Waiting[0].Metadata)
		require.Equal(t, []string{"K", "R"}, d.Keys)
		require.Equal(t, inspect.JobRetrying, d.Explanation.State)
		require.Len(t, d.Dead, 1)
		require.Equal(t, "dies", d.Dead[0].Value)
		require.Equal(t, "cancelled: boom", d.Dead[0].Error)
		require.False(t, d.DeadUnread)

		require.NoError(t, x.KeyLocks().Lock(t.Context(), "B"))
		time.Sleep(time.Hour)
		synctest.Wait()
		d = jobDetail(t, x, "q", "id")
		require.Equal(t, inspect.JobParked, d.State)
		require.Equal(t, inspect.JobBlocked, d.Explanation.State)
		require.Equal(t, "B", d.Explanation.Keys[0].Key)

		enqueue(t, q, "gone", "dies", executor.In(time.Minute))
		require.NoError(t, x.KeyLocks().Unlock(t.Context(), "B"))
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, 1, jobDetail(t, x, "q", "gone").Attempt)
		require.Equal(t, "cancelled: boom", jobDetail(t, x, "q", "gone").LastError)
		for _, e := range []inspect.Explanation{jobDetail(t, x, "q", "gone").Explanation, explain(t, x, "q", "gone")} {
			require.Equal(t, inspect.JobDead, e.State)
			require.Equal(t, 1, e.Dead)
			require.Equal(t, "cancelled: boom", e.LastError)
			require.Contains(t, e.String(), "q/gone is dead, 1 payload is in the morgue: cancelled: boom")
		}
		_, err = x.Inspect().Job(t.Context(), "q", "nobody")
		require.ErrorIs(t, err, inspect.ErrUnknownJob)
		require.ErrorContains(t, err, `"nobody"`)
		stop(t, x)
	})
}

// Of an id with more dead letters than a detail shows, it names the one that died last, as Explain does.
func TestTheLastDeathOfMany(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		q, err := executor.Handle(x, "q", func(_ context.Context, job executor.Job[int]) error {
			return executor.Cancel(fmt.Errorf("%s %d", errBoom, job.Payload))
		}, executor.QueueConfig[int]{})
		require.NoError(t, err)
		start(t, x)
		for i := range brief.Most + 5 {
			enqueue(t, q, "id", i)
			time.Sleep(time.Second)
		}
		d := jobDetail(t, x, "q", "id")
		require.Equal(t, []int{brief.Most, 5}, []int{len(d.Dead), d.MoreDead})
		require.Equal(t, fmt.Sprint("cancelled: boom ", brief.Most+4), d.LastError)
		require.Equal(t, explain(t, x, "q", "id"), d.Explanation)
		require.Equal(t, 1, d.Attempt)
		stop(t, x)
	})
}

// L22: the fresh jobs of a queue, whatever they do, are those that its figure counts, and
// can be meant by an action.
func TestLowkiq_L22_TheFreshJobs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 2})
		q := handle(t, x, "q", func(ctx context.Context, job executor.Merged[string]) error {
			if strings.HasPrefix(job.ID, "fails") {
				return errBoom
			}
			<-ctx.Done()
			return context.Cause(ctx)
		}, executor.QueueConfig[string]{Share: executor.Share{Shards: 3}, RetryIn: always(time.Hour)})
		start(t, x)
		for _, id := range []string{"fails 1", "fails 2", "fails 3", "runs 1", "runs 2", "waits"} {
			enqueue(t, q, id, "")
			synctest.Wait()
		}
		enqueue(t, q, "later", "", executor.In(24*time.Hour))
		did(t, 1)(x.Inspect().Pause(t.Context(), inspect.SelectQueue("q")))
		did(t, 1)(x.Inspect().RunNow(t.Context(), inspect.SelectIDs("q", "fails 1"))) // its retries are given back
		fresh := inspect.JobQuery{Queue: "q", States: []inspect.JobState{inspect.JobFresh}, Order: inspect.OrderID}
		page, err := x.Inspect().Jobs(t.Context(), fresh)
		require.NoError(t, err)
		require.Equal(t, []string{"fails 1 ready", "later scheduled", "runs 1 running", "runs 2 running", "waits ready"}, names(page.Jobs))
		s, err := q.Stats(t.Context())
		require.NoError(t, err)
		require.Equal(t, 5, s.Fresh)
		did(t, 5)(x.Inspect().Delete(t.Context(), inspect.SelectJobs("q", inspect.JobFilter{}, inspect.JobFresh)))
		synctest.Wait()
		s, err = q.Stats(t.Context())
		require.NoError(t, err)
		require.Equal(t, []int{2, 0, 2}, []int{s.Jobs, s.Fresh, s.Retrying})
		_, err = x.Inspect().Delete(t.Context(), inspect.SelectJobs("q", inspect.JobFilter{}, "stale"))
		require.ErrorIs(t, err, inspect.ErrInvalidQuery)
	})
}

// L19: fetch by ids, several in one call: each as it is shown alone, in the order of the
// ids, jobs and dead payloads alike; what is not there is left out.
func TestLowkiq_L19_SeveralIDs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		q := handle(t, x, "q", func(_ context.Context, job executor.Merged[string]) error {
			if strings.HasPrefix(job.ID, "dead") {
				return executor.Cancel(errBoom)
			}
			return errBoom
		}, executor.QueueConfig[string]{RetryIn: always(time.Hour)})
		start(t, x)
		for _, id := range []string{"dead 1", "retries", "other", "dead 2", "dead 2"} {
			enqueue(t, q, id, "of "+id)
			synctest.Wait()
		}
		enqueue(t, q, "later", "of later", executor.In(time.Hour))
		enqueue(t, q, "dead 1", "again", executor.In(time.Hour)) // a job, and a dead payload
		asked := []string{"later", "dead 2", "nobody", "dead 1", "retries", "later"}
		found, err := x.Inspect().JobsByID(t.Context(), "q", asked...)
		require.NoError(t, err)
		require.Len(t, found, 4)
		for i, id := range []string{"later", "dead 2", "dead 1", "retries"} {
			require.Equal(t, jobDetail(t, x, "q", id), found[i])
		}
		require.Equal(t, []inspect.JobState{inspect.JobScheduled, inspect.JobDead, inspect.JobScheduled, inspect.JobRetrying},
			[]inspect.JobState{found[0].State, found[1].State, found[2].State, found[3].State})
		require.Equal(t, "of later", found[0].Waiting[0].Value)
		require.Len(t, found[1].Dead, 2)
		require.Len(t, found[2].Dead, 1)
		require.Len(t, found[2].Waiting, 1)

		none, err := x.Inspect().JobsByID(t.Context(), "q")
		require.NoError(t, err)
		require.Empty(t, none)
		_, err = x.Inspect().JobsByID(t.Context(), "q", make([]string, brief.PageRows+1)...)
		require.ErrorIs(t, err, inspect.ErrInvalidQuery)
		_, err = x.Inspect().JobsByID(t.Context(), "q", "later", "")
		require.ErrorIs(t, err, executor.ErrInvalidID)
	})
}

// All ids of a call share a MiB of payloads.
func TestLowkiq_L19_SeveralIDsAreBounded(t *testing.T) {
	x := open(t, "", executor.Config{})
	q := handle(t, x, "q", new(probe).handle, executor.QueueConfig[string]{})
	var asked []string
	for i := range 4 {
		asked = append(asked, fmt.Sprint(i))
		enqueue(t, q, asked[i], strings.Repeat("x", 400<<10))
	}
	found, err := x.Inspect().JobsByID(t.Context(), "q", asked...)
	require.NoError(t, err)
	raw := 0
	for _, d := range found {
		raw += len(d.Waiting[0].Raw)
		require.Equal(t, 400<<10+2, d.Waiting[0].Bytes)
	}
	require.Equal(t, 2*(400<<10+2), raw)
}

// L21: the figures of a queue, and the lag of each of its shards.
func TestLowkiq_L21_FiguresOfQueuesAndShards(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 3})
		p := &probe{decide: func(ctx context.Context, s seen) error {
			switch s.values[0] {
			case "runs":
				return takes(100*time.Hour, nil)(ctx, s)
			case "fails":
				return errBoom
			case "dies":
				return executor.Cancel(errBoom)
			}
			return nil
		}}
		q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{Share: executor.Share{Shards: 4}, RetryIn: func(int) time.Duration { return 50 * time.Hour }})
		handle(t, x, "empty", p.handle, executor.QueueConfig[string]{})
		start(t, x)
		for i, kind := range []string{"done", "done", "fails", "dies", "fails"} {
			enqueue(t, q, fmt.Sprint(kind, i), kind)
		}
		synctest.Wait()
		for i := range 3 {
			enqueue(t, q, fmt.Sprint("runs", i), "runs")
		}
		synctest.Wait()
		for i := range 20 {
			enqueue(t, q, fmt.Sprint("waits", i), "waits")
			time.Sleep(time.Minute)
		}
		all, err := x.Stats(t.Context())
		require.NoError(t, err)
		queues := all.Queues
		require.Len(t, queues, 2)
		require.Equal(t, "empty", queues[0].Name)
		require.Len(t, queues[0].Shards, 5)
		info := queues[1]
		require.Equal(t, stats(t, q), info, "they are those of the queue")
		require.Equal(t, []int{25, 23, 2, 1, 3}, []int{info.Jobs, info.Fresh, info.Retrying, info.Dead, info.Busy}, "length, fresh, retries, morgue, busy")
		require.Equal(t, []uint64{2, 2}, []uint64{info.Done, info.Failed}, "processed, failed")
		require.Equal(t, 20*time.Minute, info.Lag)
		var sum inspect.ShardStats
		lags := map[time.Duration]bool{}
		for i, s := range info.Shards {
			require.Equal(t, i, s.Shard)
			sum.Jobs, sum.Payloads, sum.Running, sum.Retrying, sum.Done = sum.Jobs+s.Jobs, sum.Payloads+s.Payloads, sum.Running+s.Running, sum.Retrying+s.Retrying, sum.Done+s.Done
			sum.Lag = max(sum.Lag, s.Lag)
			lags[s.Lag] = true
			require.Equal(t, s.Jobs-s.Retrying, s.Fresh)
		}
		require.Equal(t, inspect.ShardStats{Jobs: info.Jobs, Payloads: info.Payloads, Running: 3, Retrying: 2, Done: 2, Lag: info.Lag}, sum)
		require.Greater(t, len(lags), 1, "each shard has its own lag")
	})
}

// stackOfItsOwn is to be found in the stack of its caller.
func stackOfItsOwn(ctx context.Context) { <-ctx.Done() }

// L24: what all workers do, with ages and, on demand, stacks.
func TestLowkiq_L24_WhatRunsWithStacks(t *testing.T) {
	x := open(t, t.TempDir(), executor.Config{Workers: 3, Stuck: executor.Stuck{After: 10 * time.Millisecond, SpareWorkers: 1}})
	begun := make(chan string, 10)
	release := make(chan struct{})
	q := handle(t, x, "q", func(ctx context.Context, job executor.Merged[string]) error {
		if job.Attempt == 1 && job.Latest() == "fails" {
			return executor.RetryAfter(0, errBoom)
		}
		begun <- job.ID
		if job.Latest() == "stuck" {
			<-release
			return nil
		}
		stackOfItsOwn(ctx)
		return nil
	}, executor.QueueConfig[string]{Timeout: 10 * time.Millisecond})
	long, err := executor.HandleBatch(x, "long", func(ctx context.Context, jobs []executor.Merged[int]) error {
		begun <- "batch"
		select {
		case <-release:
		case <-ctx.Done():
		}
		return nil
	}, executor.QueueConfig[int]{BatchSize: 3, Share: executor.Share{Shards: 1}})
	require.NoError(t, err)
	items := []executor.Item[int]{{ID: "a"}, {ID: "b"}, {ID: "c"}}
	_, err = long.EnqueueMany(t.Context(), items)
	require.NoError(t, err)
	start(t, x)
	require.Equal(t, "batch", await(t, begun))
	enqueue(t, q, "stuck", "stuck")
	require.Equal(t, "stuck", await(t, begun))
	list := running(t, x, inspect.RunningQuery{})
	require.Len(t, list.Running, 2)
	batch := list.Running[0]
	require.Equal(t, "long", batch.Queue, "the one that has run the longest comes first")
	total := 0
	for _, w := range list.Running {
		require.Empty(t, w.Stack)
		require.Positive(t, w.Age)
		require.Less(t, w.Age, 20*time.Second)
		if w.Queue == "long" {
			total += len(w.Jobs)
		}
	}
	require.Equal(t, 3, total)
	require.Zero(t, batch.Timeout)
	require.Eventually(t, func() bool {
		list = running(t, x, inspect.RunningQuery{Queue: "q", Stacks: true})
		return len(list.Running) == 1 && list.Running[0].Stuck
	}, time.Minute, time.Millisecond)
	stuck := list.Running[0]
	require.Equal(t, 10*time.Millisecond, stuck.Timeout)
	require.Equal(t, []string{"stuck 1"}, inHand(stuck))
	require.Equal(t, 1, stuck.Jobs[0].Payloads)
	require.NotZero(t, stuck.Jobs[0].Position)
	require.Contains(t, stuck.Stack, "goroutine ")
	require.Contains(t, stuck.Stack, "TestLowkiq_L24_WhatRunsWithStacks")
	require.LessOrEqual(t, len(stuck.Stack), 16<<10+4)
	require.Contains(t, stuck.String(), "q/stuck (attempt 1), stuck after 10ms")
	list = running(t, x, inspect.RunningQuery{Limit: 1})
	require.Len(t, list.Running, 1)
	require.Equal(t, 1, list.More)
	close(release)
	stop(t, x)
	require.Empty(t, running(t, x, inspect.RunningQuery{}).Running)
}

func running(t testing.TB, x *executor.Executor, query inspect.RunningQuery) inspect.RunningList {
	t.Helper()
	list, err := x.Inspect().Running(context.Background(), query)
	require.NoError(t, err)
	return list
}

func inHand(r inspect.Running) (names []string) {
	for _, j := range r.Jobs {
		names = append(names, fmt.Sprint(j.ID, " ", j.Attempt))
	}
	return names
}

// The attempt and the payload that are shown are those in hand, also of a run that
// goes through several payloads.
func TestRunningShowsThePayloadInHand(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 1})
		var positions []uint64
		q, err := executor.Handle(x, "q", func(ctx context.Context, job executor.Job[string]) error {
			list := running(t, x, inspect.RunningQuery{Stacks: true})
			require.Len(t, list.Running, 1)
			require.Equal(t, []string{fmt.Sprint("id ", job.Attempt)}, inHand(list.Running[0]))
			require.Equal(t, job.Position, list.Running[0].Jobs[0].Position)
			require.Contains(t, list.Running[0].Stack, "TestRunningShowsThePayloadInHand")
			positions = append(positions, job.Position)
			if job.Payload == "fails" && job.Attempt < 3 {
				return errBoom
			}
			return nil
		}, executor.QueueConfig[string]{})
		require.NoError(t, err)
		for _, payload := range []string{"a", "b", "fails", "c", "d"} {
			enqueue(t, q, "id", payload)
		}
		start(t, x)
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(t, []uint64{1, 2, 3, 3, 3, 4, 5}, positions)
	})
}

// hostileCodec does what its payload says.
type hostileCodec struct{ block chan struct{} }

func (hostileCodec) Encode(v string) ([]byte, error) { return []byte(v), nil }

func (c hostileCodec) Decode(b []byte) (string, error) {
	defer clear(b) // it may even write to them
	switch s := string(b); s {
	case "panics":
		panic("hostile")
	case "exits":
		runtime.Goexit()
	case "fails":
		return s, errBoom
	case "blocks":
		<-c.block
	}
	return string(b), nil
}

func TestJobWithAHostileCodec(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		codec := hostileCodec{make(chan struct{})}
		q := handle(t, x, "q", (&probe{}).handle, executor.QueueConfig[string]{Codec: codec})
		payloads := []string{"fine", "panics", "exits", "fine", "exits", "fails"}
		for _, p := range payloads {
			enqueue(t, q, "id", p)
		}
		d := jobDetail(t, x, "q", "id")
		require.Len(t, d.Waiting, len(payloads))
		var panicked *executor.PanicError
		for i, p := range d.Waiting {
			require.Equal(t, payloads[i], string(p.Raw))
			switch payloads[i] {
			case "fine":
				require.Equal(t, "fine", p.Value)
				require.NoError(t, p.Decode)
				continue
			case "panics":
				require.ErrorAs(t, p.Decode, &panicked)
			case "exits":
				require.ErrorContains(t, p.Decode, "ended its goroutine")
			case "fails":
				require.ErrorIs(t, p.Decode, errBoom)
			}
			require.Nil(t, p.Value)
		}
		enqueue(t, q, "late", "blocks")
		errEnough := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errEnough)
		defer cancel()
		_, err := x.Inspect().Job(ctx, "q", "late")
		require.ErrorIs(t, err, errEnough)
		close(codec.block)
		require.Equal(t, "blocks", jobDetail(t, x, "q", "late").Waiting[0].Value)
	})
}

// However much there is of a job, what is shown of it is bounded.
func TestJobIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		long := strings.Repeat("é", 10<<10)
		q := handle(t, x, "q", (&probe{decide: func(context.Context, seen) error { return errors.New(long) }}).handle, executor.QueueConfig[string]{
			MaxRetries: -1, DeadLetters: executor.DeadLetters[string]{OnExhausted: executor.OnExhaustedBuryAll},
		})
		for i := range 150 {
			enqueue(t, q, "id", fmt.Sprint(i, strings.Repeat("x", 12<<10)))
		}
		check := func(list []inspect.PayloadInfo) {
			raw := 0
			for _, p := range list {
				require.Greater(t, p.Bytes, 12<<10)
				require.True(t, p.Raw != nil == (p.Value != nil))
				raw += len(p.Raw)
			}
			require.Greater(t, raw, 800<<10)
			require.LessOrEqual(t, raw, 1<<20)
		}
		d := jobDetail(t, x, "q", "id")
		require.Len(t, d.Waiting, brief.Most)
		require.Equal(t, 50, d.More)
		require.Len(t, d.Raw, 256)
		check(d.Waiting)
		start(t, x)
		synctest.Wait()
		d = jobDetail(t, x, "q", "id")
		require.Equal(t, inspect.JobDead, d.State)
		require.Len(t, d.Dead, brief.Most)
		require.Equal(t, 50, d.MoreDead)
		var dead []inspect.PayloadInfo
		for _, p := range d.Dead {
			dead = append(dead, p.PayloadInfo)
			require.LessOrEqual(t, len(p.Error), 16<<10+4)
		}
		check(dead)
		page, err := x.Inspect().Dead(t.Context(), inspect.JobQuery{Queue: "q"})
		require.NoError(t, err)
		require.LessOrEqual(t, len(page.Dead[0].Error), 1<<10+4)
		require.Len(t, page.Dead[0].Raw, 256)
	})
}

// A job whose turn has come, and that waits for a worker, does not have the lease that
// is kept for it.
func TestExplainTellsTheCalledFromTheHolder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 2})
		p := &probe{decide: takes(time.Minute, nil)}
		q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{
			Share: executor.Share{Shards: 1, Concurrency: 10}, Conditions: executor.Conditions[string]{
				Unique: executor.Unique[string]{Key: func(_, key string) string { return key }},
			},
		})
		hogs := &probe{decide: takes(2*time.Minute, nil)}
		hog := handle(t, x, "hog", hogs.handle, executor.QueueConfig[string]{Share: executor.Share{Shards: 1, Concurrency: 10}})
		start(t, x)
		for _, id := range []string{"J1", "J2", "J3"} {
			enqueue(t, q, id, "key")
			synctest.Wait()
		}
		waits := explain(t, x, "q", "J3").Unique[0]
		require.Equal(t, "q/J1", waits.By)
		require.Empty(t, waits.Called)
		require.Equal(t, []string{"key"}, jobDetail(t, x, "q", "J1").Leases)
		enqueue(t, hog, "a", "")
		enqueue(t, hog, "b", "", executor.In(-time.Hour))
		time.Sleep(time.Minute)
		synctest.Wait() // J1 is done, both workers are busy, and it is J2's turn
		require.Equal(t, []string{"J1[key]"}, p.log())
		require.Len(t, hogs.log(), 2)
		require.Equal(t, inspect.JobReady, explain(t, x, "q", "J2").State)
		waits = explain(t, x, "q", "J3").Unique[0]
		require.Equal(t, "q/J2", waits.Called)
		require.Empty(t, waits.By)
		require.Contains(t, waits.String(), "key: kept for q/J2, which waits for a worker; waiting: q/J3")
		time.Sleep(time.Minute)
		synctest.Wait()
		waits = explain(t, x, "q", "J3").Unique[0]
		require.Equal(t, "q/J2", waits.By)
		require.Empty(t, waits.Called)
	})
}
