package executor_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
)

func TestLowkiq_L09_RetryIn(t *testing.T) {
	days := map[int]int{14: 1, 16: 2, 18: 3, 20: 6, 22: 10, 25: 20}
	var total time.Duration
	for n := range 26 {
		if want := days[n]; want != 0 {
			assert.Equal(t, want, int(total.Hours()/24), "%d retries", n)
		}
		low, high := executor.RetryIn(n), executor.RetryIn(n)
		for range 1000 {
			low, high = min(low, executor.RetryIn(n)), max(high, executor.RetryIn(n))
		}
		base := time.Duration(n*n*n*n+15) * time.Second
		assert.Equal(t, base, low, "retry %d", n)
		assert.Equal(t, base+time.Duration(29*(n+1))*time.Second, high, "retry %d", n)
		total += low
	}
}

func TestLowkiq_L09_RetryInOfTheQueue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		p := &probe{decide: func(context.Context, seen) error { return errBoom }}
		q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{
			MaxRetries: 4,
			RetryIn:    func(n int) time.Duration { return time.Duration(n+1) * time.Hour },
		})
		start(t, x)
		begin := time.Now()
		enqueue(t, q, "a", "x")
		time.Sleep(24 * time.Hour)
		var at []time.Duration
		for i, run := range p.seen() {
			at = append(at, run.at.Sub(begin)/time.Hour)
			assert.Equal(t, i-1, run.retry)
		}
		assert.Equal(t, []time.Duration{0, 1, 3, 6, 10}, at)
	})
}

func TestLowkiq_L10_TheLowestScoreGoesToTheMorgue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		p := &probe{}
		p.decide = func(_ context.Context, s seen) error {
			if s.values[0] == "bad" {
				return fmt.Errorf("boom at retry %d", s.retry)
			}
			return nil
		}
		q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{MaxRetries: 2, RetryIn: always(time.Minute)})
		enqueue(t, q, "a", "good", executor.Score(2))
		enqueue(t, q, "a", "bad", executor.Score(1))
		start(t, x)
		begin := time.Now()
		time.Sleep(time.Hour)
		runs := p.seen()
		require.Len(t, runs, 4)
		assert.Equal(t, "a[good]", runs[3].String(), "the rest start again")
		assert.Equal(t, -1, runs[3].retry)
		assert.Equal(t, runs[2].at, runs[3].at, "due now")
		dead := morgue(t, q)
		require.Len(t, dead, 1)
		assert.Equal(t, "bad", dead[0].Payload)
		assert.Equal(t, "boom at retry 1", dead[0].Error)
		assert.Equal(t, 1.0, dead[0].Score)
		assert.Equal(t, 2*time.Minute, dead[0].At.Sub(begin))
	})
}

// L10: under Block, what comes while the job is retried is none of those that failed: with the lowest
// score of all it is not the one that dies, and it runs when the rest is done.
func TestLowkiq_L10_OfThoseThatFailed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		p := &probe{decide: func(_ context.Context, s seen) error {
			if slices.Contains(s.values, "bad") {
				return errBoom
			}
			return nil
		}}
		q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{MaxRetries: 2, RetryIn: always(time.Minute), Gather: executor.Gather[string]{Block: true}})
		enqueue(t, q, "a", "good", executor.Score(2))
		enqueue(t, q, "a", "bad", executor.Score(1))
		start(t, x)
		begin := time.Now()
		time.Sleep(30 * time.Second)
		enqueue(t, q, "a", "late", executor.Score(0))
		time.Sleep(time.Hour)
		assert.Equal(t, []string{"a[bad good]", "a[bad good]", "a[bad good]", "a[good]", "a[late]"}, p.log())
		for _, s := range p.seen()[3:] {
			assert.Equal(t, -1, s.retry)
			assert.Equal(t, 2*time.Minute, s.at.Sub(begin), "due now")
		}
		dead := morgue(t, q)
		require.Len(t, dead, 1)
		assert.Equal(t, "bad", dead[0].Payload)
	})
}

// Each run fails with another error, so that the last one can be told from those
// before.
func TestLowkiq_L11_RetriesExhaustedAndFormatError(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		p := &probe{decide: func(_ context.Context, s seen) error { return fmt.Errorf("boom %d", s.retry) }}
		var exhausted shared[[]string]
		q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{
			MaxRetries: 2,
			RetryIn:    always(time.Minute),
			DeadLetters: executor.DeadLetters[string]{
				FormatError: func(err error) string { return err.Error() + " at line 7" },
				RetriesExhausted: func(_ context.Context, jobs []executor.Merged[string]) {
					lines := exhausted.get()
					for _, job := range jobs {
						lines = append(lines, fmt.Sprint(job.ID, job.Latest(), (job.Attempt-2), " ", job.LastError))
					}
					exhausted.set(lines)
				},
			},
		})
		start(t, x)
		enqueue(t, q, "a", "x")
		for _, last := range []string{"boom -1 at line 7", "boom 0 at line 7"} {
			synctest.Wait()
			assert.Empty(t, exhausted.get())
			assert.Equal(t, last, explain(t, x, "q", "a").LastError)
			time.Sleep(time.Minute)
		}
		time.Sleep(time.Hour)
		assert.Equal(t, []string{"ax1 boom 1 at line 7"}, exhausted.get(), "once, with the error of the last run")
		var lasts []string
		for _, s := range p.seen() {
			lasts = append(lasts, s.last)
		}
		assert.Equal(t, []string{"", "boom -1 at line 7", "boom 0 at line 7"}, lasts, "the last error is kept with the job")
		assert.Equal(t, "boom 1 at line 7", morgue(t, q)[0].Error)
	})
}

// The hook gets those of a batch that failed for the last time, each with its own
// error, before they are in the morgue.
func TestLowkiq_L11_RetriesExhaustedOfABatch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		fails := map[string]bool{"a": true, "c": true, "retried": true}
		var calls []string
		var q *executor.Queue[string]
		q, err := executor.HandleBatch(x, "q", func(_ context.Context, jobs []executor.Merged[string]) error {
			errs := executor.BatchErrors{}
			for _, job := range jobs {
				if fails[job.ID] {
					errs[job.ID] = fmt.Errorf("%s %d", job.ID, (job.Attempt - 2))
				}
			}
			return errs
		}, executor.QueueConfig[string]{
			Share: executor.Share{Shards: 1}, BatchSize: 8, MaxRetries: 1, RetryIn: always(time.Minute),
			DeadLetters: executor.DeadLetters[string]{
				RetriesExhausted: func(_ context.Context, jobs []executor.Merged[string]) {
					var ids []string
					for _, job := range jobs {
						ids = append(ids, job.ID+": "+job.LastError)
					}
					calls = append(calls, fmt.Sprint(ids, len(morgue(t, q))))
				},
			},
		})
		require.NoError(t, err)
		for _, id := range []string{"a", "b", "c"} {
			enqueue(t, q, id, "x")
		}
		start(t, x)
		time.Sleep(30 * time.Second)
		enqueue(t, q, "retried", "x", executor.In(30*time.Second)) // its first failure, beside their last
		time.Sleep(45 * time.Second)
		settled(t, q)
		assert.Equal(t, []string{"[a: a 0 c: c 0] 0"}, calls)
		require.Len(t, morgue(t, q), 2)
		for _, dead := range morgue(t, q) {
			assert.Equal(t, dead.ID+" 0", dead.Error)
		}
	})
}

// What the hook gets is what the morgue has afterwards, also of jobs with several
// payloads: those that start again, are done, or end for another reason are not in it.
func TestLowkiq_L11_TheHookGetsWhatIsBuriedAndNothingElse(t *testing.T) {
	all := func(executor.Merged[string]) error { return errBoom }
	named := func(job executor.Merged[string]) error {
		errs := executor.PayloadErrors{}
		for _, p := range job.Payloads {
			switch p.Value {
			case "a":
				errs[p.Position] = executor.Cancel(errBoom)
			case "b": // done
			default:
				errs[p.Position] = errBoom
			}
		}
		return errs
	}
	join := func(waiting, next string) (string, error) { return waiting + next, nil }
	block := executor.Gather[string]{Block: true}
	for name, test := range map[string]struct {
		cfg     executor.QueueConfig[string]
		returns func(executor.Merged[string]) error // nil: they are of Handle, and each fails
		calls   []string
		dead    []string
	}{
		"single":         {executor.QueueConfig[string]{}, nil, []string{"[a]", "[b]", "[c]", "[d]"}, []string{"a", "b", "c", "d"}},
		"single, all":    {executor.QueueConfig[string]{DeadLetters: executor.DeadLetters[string]{OnExhausted: executor.OnExhaustedBuryAll}}, nil, []string{"[a]", "[b]", "[c]", "[d]"}, []string{"a", "b", "c", "d"}},
		"single, halted": {executor.QueueConfig[string]{DeadLetters: executor.DeadLetters[string]{OnExhausted: executor.OnExhaustedHalt}}, nil, nil, nil},
		"block":          {executor.QueueConfig[string]{Gather: block}, all, []string{"[a]", "[b]", "[c]", "[d]"}, []string{"a", "b", "c", "d"}},
		"block, all":     {executor.QueueConfig[string]{Gather: block, DeadLetters: executor.DeadLetters[string]{OnExhausted: executor.OnExhaustedBuryAll}}, all, []string{"[a b c]", "[d]"}, []string{"a", "b", "c", "d"}},
		"oldest":         {executor.QueueConfig[string]{}, all, []string{"[a]", "[b]", "[c]", "[d]"}, []string{"a", "b", "c", "d"}},
		"all":            {executor.QueueConfig[string]{DeadLetters: executor.DeadLetters[string]{OnExhausted: executor.OnExhaustedBuryAll}}, all, []string{"[a b c d]"}, []string{"a", "b", "c", "d"}},
		"halted":         {executor.QueueConfig[string]{DeadLetters: executor.DeadLetters[string]{OnExhausted: executor.OnExhaustedHalt}}, all, nil, nil},
		"folded":         {executor.QueueConfig[string]{Gather: executor.Gather[string]{Fold: join}}, all, []string{"[abcd]"}, []string{"abcd"}},
		"oldest, named":  {executor.QueueConfig[string]{}, named, []string{"[c]", "[d]"}, []string{"a", "c", "d"}},
		"all, named":     {executor.QueueConfig[string]{DeadLetters: executor.DeadLetters[string]{OnExhausted: executor.OnExhaustedBuryAll}}, named, []string{"[c d]"}, []string{"a", "c", "d"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := open(t, "", executor.Config{})
				var calls []string
				test.cfg.MaxRetries, test.cfg.RetryIn = 1, always(time.Minute)
				test.cfg.DeadLetters.RetriesExhausted = func(_ context.Context, jobs []executor.Merged[string]) {
					require.Len(t, jobs, 1)
					var values []string
					for _, p := range jobs[0].Payloads {
						values = append(values, p.Value)
					}
					calls = append(calls, fmt.Sprint(values))
				}
				var q *executor.Queue[string]
				var err error
				if test.returns == nil {
					q, err = executor.Handle(x, "q", func(context.Context, executor.Job[string]) error { return errBoom }, test.cfg)
				} else {
					q, err = executor.HandleMerged(x, "q", func(_ context.Context, job executor.Merged[string]) error { return test.returns(job) }, test.cfg)
				}
				require.NoError(t, err)
				for _, value := range []string{"a", "b", "c", "d"} {
					if value == "d" && test.cfg.Gather.Block { // the others have failed once
						start(t, x)
						time.Sleep(time.Second)
					}
					enqueue(t, q, "id", value)
				}
				if !test.cfg.Gather.Block {
					start(t, x)
				}
				time.Sleep(time.Hour)
				synctest.Wait()
				var dead []string
				for _, d := range morgue(t, q) {
					dead = append(dead, d.Payload)
				}
				assert.ElementsMatch(t, test.dead, dead)
				assert.Equal(t, test.calls, calls)
			})
		})
	}
}

// Of the newest state, the hook hears of the last retry also if a newer one has come meanwhile,
// which takes the place of the dead letter.
func TestLowkiq_L11_TheHookHearsOfAStateThatGivesWay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		var calls []string
		var q *executor.Queue[string]
		var err error
		q, err = executor.HandleLatest(x, "q", func(_ context.Context, job executor.Job[string]) error {
			if job.Payload == "new" {
				return nil
			}
			enqueue(t, q, "id", "new")
			return errBoom
		}, executor.QueueConfig[string]{MaxRetries: -1, DeadLetters: executor.DeadLetters[string]{
			RetriesExhausted: func(_ context.Context, jobs []executor.Merged[string]) {
				calls = append(calls, jobs[0].Payloads[0].Value)
			},
		}})
		require.NoError(t, err)
		enqueue(t, q, "id", "old")
		start(t, x)
		synctest.Wait()
		require.Equal(t, []string{"old"}, calls)
		require.Empty(t, morgue(t, q))
		stats, err := x.Stats(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 1, stats.Queues[0].Done)
	})
}

// The text of an error goes through a crash with its job. Without FormatError it is
// the error's own; with it there may be a backtrace.
func TestLowkiq_L11_LastErrorAndBacktrace(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		x := openOn(t, disk, executor.Config{})
		p := &probe{decide: func(_ context.Context, s seen) error {
			if s.id == "panics" {
				panic("boom")
			}
			return errBoom
		}}
		cfg := executor.QueueConfig[string]{RetryIn: always(time.Minute)}
		plain := handle(t, x, "plain", p.handle, cfg)
		cfg.DeadLetters.FormatError = func(err error) string {
			if panicked, ok := errors.AsType[*executor.PanicError](err); ok {
				return err.Error() + "\n" + panicked.Stack
			}
			return err.Error()
		}
		traced := handle(t, x, "traced", p.handle, cfg)
		start(t, x)
		enqueue(t, plain, "fails", "")
		enqueue(t, traced, "panics", "")
		synctest.Wait()

		y := openOn(t, disk.Crash(), executor.Config{})
		after := new(probe)
		handle(t, y, "plain", after.handle, executor.QueueConfig[string]{})
		handle(t, y, "traced", after.handle, executor.QueueConfig[string]{})
		start(t, y)
		time.Sleep(time.Hour)
		last := map[string]string{}
		for _, s := range after.seen() {
			last[s.id] = s.last
		}
		assert.Equal(t, "boom", last["fails"])
		assert.Contains(t, last["panics"], "boom\n")
		assert.Contains(t, last["panics"], "lowkiq_retry_test.go", "the line that panicked")
	})
}

func TestLowkiq_L12_WhatWasBeingProcessedReturnsAfterACrash(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		x := openOn(t, disk, executor.Config{})
		hang := &probe{}
		hang.decide = func(ctx context.Context, s seen) error {
			if s.id == "done" {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		}
		q := handle(t, x, "q", hang.handle, executor.QueueConfig[string]{})
		start(t, x)
		enqueue(t, q, "done", "x")
		synctest.Wait()
		enqueue(t, q, "running", "1")
		synctest.Wait()
		enqueue(t, q, "running", "2")
		crashed := disk.Crash()

		y := openOn(t, crashed, executor.Config{})
		p := &probe{}
		handle(t, y, "q", p.handle, executor.QueueConfig[string]{})
		start(t, y)
		synctest.Wait()
		assert.Equal(t, []string{"running[1 2]"}, p.log())
		assert.Equal(t, -1, p.seen()[0].retry, "a crash is no failure of the job")
	})
}
