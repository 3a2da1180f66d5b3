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

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
)

// stream is a probe for a queue of events: "id payload attempt" for each call.
type stream struct {
	probe
	decideOne func(ctx context.Context, job executor.Job[string]) error
}

func (p *stream) each(ctx context.Context, job executor.Job[string]) error {
	p.enter(seen{id: job.ID, values: []string{job.Payload}, retry: job.Attempt - 2, last: job.LastError, at: time.Now()})
	defer p.leave(job.ID)
	if p.decideOne == nil {
		return nil
	}
	return p.decideOne(ctx, job)
}

// runs lists the calls for an id, with the attempt behind a failed payload.
func (p *stream) calls(id string) string {
	var b strings.Builder
	for _, s := range p.seen() {
		if s.id != id {
			continue
		}
		if b.WriteString(" " + s.values[0]); s.retry >= 0 {
			fmt.Fprintf(&b, "·%d", s.retry+2)
		}
	}
	return strings.TrimSpace(b.String())
}

func handleEach(t testing.TB, x *executor.Executor, p *stream, cfg executor.QueueConfig[string]) *executor.Queue[string] {
	t.Helper()
	q, err := executor.Handle(x, "q", p.each, cfg)
	require.NoError(t, err)
	return q
}

// ten has ten events of an id wait, and makes their handlers known as fast.
func ten(t testing.TB, q *executor.Queue[string]) {
	t.Helper()
	for i := range 200 {
		enqueue(t, q, fmt.Sprint("warm", i), "w")
	}
	due := executor.At(time.Now().Add(time.Second))
	for i := range 10 {
		enqueue(t, q, "a", fmt.Sprint(i+1), due)
	}
}

func failSeventh(err error) func(context.Context, executor.Job[string]) error {
	return func(_ context.Context, job executor.Job[string]) error {
		if job.Payload == "7" {
			return err
		}
		return nil
	}
}

// Ten events, of which the seventh is bad: the others run once, in order, and the
// seventh is buried alone, whatever the policies.
func TestBadEventHurtsNoOther(t *testing.T) {
	for _, block := range []bool{false, true} {
		for _, e := range []executor.OnExhausted{executor.OnExhaustedBuryOldest, executor.OnExhaustedBuryAll} {
			t.Run(fmt.Sprint(block, e), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					x := open(t, "", executor.Config{})
					p := &stream{decideOne: failSeventh(errBoom)}
					var told []string
					q := handleEach(t, x, p, executor.QueueConfig[string]{
						Share: executor.Share{Shards: 1}, MaxRetries: 2, RetryIn: always(time.Minute), Gather: executor.Gather[string]{Block: block}, DeadLetters: executor.DeadLetters[string]{
							OnExhausted: e,
							RetriesExhausted: func(_ context.Context, jobs []executor.Merged[string]) {
								for _, job := range jobs {
									var values []string
									for _, payload := range job.Payloads {
										values = append(values, payload.Value)
									}
									told = append(told, fmt.Sprint(job.ID, " ", values, " ", job.Attempt, " ", job.LastError))
								}
							},
						},
					})
					start(t, x)
					ten(t, q)
					time.Sleep(time.Hour)
					s := drained(t, q)
					assert.Equal(t, "1 2 3 4 5 6 7 7·2 7·3 8 9 10", p.calls("a"))
					assert.Equal(t, []string{"a [7] 3 boom"}, told)
					dead := morgue(t, q)
					require.Len(t, dead, 1)
					assert.Equal(t, "7", dead[0].Payload)
					assert.Equal(t, uint64(209), s.Done)
					assert.Equal(t, uint64(3), s.Failed)
					p.assertNoOverlap(t)
				})
			})
		}
	}
}

// Each way for a payload to end ends it alone.
func TestEventsEndOneByOne(t *testing.T) {
	bad := func(err error) func(context.Context, executor.Job[string]) error { return failSeventh(err) }
	once := func(f func() error) func(context.Context, executor.Job[string]) error {
		return func(_ context.Context, job executor.Job[string]) error {
			if job.Payload == "7" && job.Attempt == 1 {
				return f()
			}
			return nil
		}
	}
	snoozed := false
	for name, c := range map[string]struct {
		decide func(context.Context, executor.Job[string]) error
		calls  string
		dead   int
	}{
		"Cancel":  {bad(executor.Cancel(errBoom)), "1 2 3 4 5 6 7 8 9 10", 1},
		"Discard": {bad(executor.Discard()), "1 2 3 4 5 6 7 8 9 10", 0},
		"error":   {once(func() error { return errBoom }), "1 2 3 4 5 6 7 7·2 8 9 10", 0},
		"panic":   {once(func() error { panic("boom") }), "1 2 3 4 5 6 7 7·2 8 9 10", 0},
		"Goexit":  {once(func() error { runtime.Goexit(); return nil }), "1 2 3 4 5 6 7 7·2 8 9 10", 0},
		"Snooze": {once(func() error {
			if snoozed {
				return nil
			}
			snoozed = true
			return executor.Snooze(time.Minute)
		}), "1 2 3 4 5 6 7 7 8 9 10", 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := open(t, "", executor.Config{})
				p := &stream{decideOne: c.decide}
				q := handleEach(t, x, p, executor.QueueConfig[string]{Share: executor.Share{Shards: 1}, RetryIn: always(time.Minute)})
				start(t, x)
				ten(t, q)
				time.Sleep(time.Hour)
				drained(t, q)
				assert.Equal(t, c.calls, p.calls("a"))
				assert.Len(t, morgue(t, q), c.dead)
				p.assertNoOverlap(t)
			})
		})
	}
}

// An event that does not decode goes to the morgue alone.
func TestUndecodableEvent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		p := &stream{}
		q := handleEach(t, x, p, executor.QueueConfig[string]{Share: executor.Share{Shards: 1}})
		ten(t, q)
		for _, raw := range []string{`"11"`, `{`, `"12"`} {
			_, err := enqueueRaw(t.Context(), x, "q", "a", []byte(raw))
			require.NoError(t, err)
		}
		start(t, x)
		time.Sleep(time.Minute)
		s := drained(t, q)
		assert.Equal(t, "1 2 3 4 5 6 7 8 9 10 11 12", p.calls("a"))
		assert.Equal(t, uint64(1), s.Buried)
	})
}

// Two equal events are two events.
func TestEqualEventsEachCount(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		p := &stream{}
		q := handleEach(t, x, p, executor.QueueConfig[string]{})
		require.Zero(t, enqueue(t, q, "a", "+1").MergedInto)
		require.Zero(t, enqueue(t, q, "a", "+1").MergedInto)
		start(t, x)
		drained(t, q)
		assert.Equal(t, "+1 +1", p.calls("a"))
	})
}

// What an id has done before a slow event is settled while that one runs: a crash
// runs only that one again, and those behind it.
func TestSlowEventHoldsBackNoneBeforeIt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		x := openOn(t, disk, executor.Config{Workers: 2})
		p := &stream{}
		p.decideOne = func(ctx context.Context, job executor.Job[string]) error {
			if job.ID == "a" && job.Payload >= "7" {
				select {
				case <-time.After(time.Hour):
				case <-ctx.Done():
				}
			}
			return ctx.Err()
		}
		q := handleEach(t, x, p, executor.QueueConfig[string]{Share: executor.Share{Shards: 1}})
		start(t, x)
		ten(t, q)
		time.Sleep(2 * time.Second)
		require.Equal(t, "1 2 3 4 5 6 7", p.calls("a"))
		assert.Equal(t, uint64(206), stats(t, q).Done)

		again := openOn(t, disk.Crash(), executor.Config{Workers: 2})
		p2 := &stream{}
		q2 := handleEach(t, again, p2, executor.QueueConfig[string]{Share: executor.Share{Shards: 1}})
		start(t, again)
		time.Sleep(time.Minute)
		drained(t, q2)
		assert.Equal(t, "7 8 9 10", p2.calls("a"))
		assert.Empty(t, p2.calls("warm1"))

		// They end one by one, too, and let others have the worker in between.
		enqueue(t, q, "b", "1")
		time.Sleep(time.Minute)
		assert.Equal(t, "1", p.calls("b"), "a second worker")
		time.Sleep(time.Hour)
		assert.Equal(t, uint64(208), stats(t, q).Done)
		time.Sleep(4 * time.Hour)
		synctest.Wait()
		assert.Equal(t, "1 2 3 4 5 6 7 8 9 10", p.calls("a"))
		p.assertNoOverlap(t)
	})
}

// A stop waits for the event in hand, and begins none behind it.
func TestStopBetweenEvents(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		x := openOn(t, disk, executor.Config{})
		p := &stream{}
		p.decideOne = func(_ context.Context, job executor.Job[string]) error {
			if job.ID == "a" && job.Payload == "7" {
				go func() { _ = x.Stop(context.Background()) }()
				time.Sleep(time.Second)
			}
			return nil
		}
		q := handleEach(t, x, p, executor.QueueConfig[string]{Share: executor.Share{Shards: 1}})
		start(t, x)
		ten(t, q)
		time.Sleep(time.Minute)
		require.Equal(t, "1 2 3 4 5 6 7", p.calls("a"))

		again := openOn(t, disk, executor.Config{})
		p2 := &stream{}
		q2 := handleEach(t, again, p2, executor.QueueConfig[string]{Share: executor.Share{Shards: 1}})
		start(t, again)
		drained(t, q2)
		assert.Equal(t, "8 9 10", p2.calls("a"))
	})
}

// The timeout is that of a payload, not of all that wait.
func TestTimeoutOfAnEvent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		p := &stream{}
		p.decideOne = func(ctx context.Context, job executor.Job[string]) error {
			if job.Payload == "7" && job.Attempt == 1 {
				<-ctx.Done()
				return context.Cause(ctx)
			}
			if job.ID == "a" {
				time.Sleep(40 * time.Second)
			}
			return ctx.Err()
		}
		q := handleEach(t, x, p, executor.QueueConfig[string]{Share: executor.Share{Shards: 1}, Timeout: time.Minute, RetryIn: always(0)})
		start(t, x)
		ten(t, q)
		time.Sleep(time.Hour)
		drained(t, q)
		assert.Equal(t, "1 2 3 4 5 6 7 7·2 8 9 10", p.calls("a"))
		for _, s := range p.seen() {
			assert.Equal(t, s.retry >= 0, strings.Contains(s.last, executor.ErrTimeout.Error()))
		}
	})
}

// An older event that comes while a newer one is in back-off waits behind it, has
// no part in its failures, and takes none of its attempts away.
func TestOlderEventIsNotBlamed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		p := &stream{}
		p.decideOne = func(_ context.Context, job executor.Job[string]) error {
			if job.Payload == "late" {
				return errBoom
			}
			if job.Attempt == 1 {
				return errors.New("another")
			}
			return nil
		}
		q := handleEach(t, x, p, executor.QueueConfig[string]{MaxRetries: 2, RetryIn: always(time.Minute)})
		start(t, x)
		enqueue(t, q, "a", "late", executor.Score(5))
		time.Sleep(30 * time.Second)
		enqueue(t, q, "a", "early", executor.Score(1))
		time.Sleep(time.Hour)
		drained(t, q)
		assert.Equal(t, "late late·2 late·3 early early·2", p.calls("a"))
		dead := morgue(t, q)
		require.Len(t, dead, 1)
		assert.Equal(t, "late", dead[0].Payload)
	})
}

// Keys, leases and slots are those of the payload that runs.
func TestLocksOfEvents(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 2})
		serials, err := executor.NewSlots(x, "serials", executor.SlotsConfig[int]{
			Next: func(i int) int { return i + 1 },
		})
		require.NoError(t, err)
		var got []string
		key := func(_, payload string) []string { return []string{payload} }
		q, err := executor.Handle(x, "q", func(_ context.Context, job executor.Job[string]) error {
			serial, _ := serials.Of(job)
			got = append(got, fmt.Sprint(job.Payload, " ", serial, " ", locked(x), " ", job.Lease().Held()))
			if job.Payload == "y" && job.Attempt == 1 {
				return errBoom
			}
			return nil
		}, executor.QueueConfig[string]{
			Conditions: executor.Conditions[string]{
				Locks:  executor.Locks[string]{OnRun: key, Unlock: key},
				Unique: executor.Unique[string]{While: executor.UniqueWhileRunning},
				Slots:  []executor.SlotSource{serials},
			}, RetryIn: always(time.Minute),
		})
		require.NoError(t, err)
		for _, payload := range []string{"x", "y", "z"} {
			enqueue(t, q, "a", payload)
		}
		start(t, x)
		time.Sleep(time.Hour)
		drained(t, q)
		assert.Equal(t, []string{"x 1 [x 1] true", "y 2 [y 1] true", "y 2 [y 1] true", "z 3 [z 1] true"}, got)
	})
}

// What a queue of single payloads can't have is refused with a hint.
func TestConfigOfEvents(t *testing.T) {
	x := open(t, "", executor.Config{})
	for _, cfg := range []executor.QueueConfig[string]{{BatchSize: 2}, {Gather: executor.Gather[string]{MaxPayloads: 2}}, {Gather: executor.Gather[string]{MaxPayloads: -1}}} {
		_, err := executor.Handle(x, "q", (&stream{}).each, cfg)
		require.ErrorIs(t, err, executor.ErrConfig)
		require.ErrorContains(t, err, "use Handle")
	}
}

// A bad event is buried in time, however many older ones arrive meanwhile.
func TestBadEventAmongLateArrivals(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		p := &stream{decideOne: func(_ context.Context, job executor.Job[string]) error {
			if job.Payload == "bad" {
				return errBoom
			}
			return nil
		}}
		q := handleEach(t, x, p, executor.QueueConfig[string]{MaxRetries: 2, RetryIn: always(time.Minute)})
		start(t, x)
		enqueue(t, q, "a", "bad", executor.Score(1000))
		for i := range 20 {
			time.Sleep(30 * time.Second)
			enqueue(t, q, "a", fmt.Sprint(i), executor.Score(float64(i)))
		}
		time.Sleep(time.Hour)
		require.Zero(t, stats(t, q).Jobs)
		require.EqualValues(t, 20, stats(t, q).Done)
		require.True(t, strings.HasPrefix(p.calls("a"), "bad bad·2 bad·3 0 1 2 "), p.calls("a"))
		require.Len(t, morgue(t, q), 1)
	})
}
