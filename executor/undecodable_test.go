package executor_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/each"
)

// passingError is an error of a codec that may pass, or not.
type passingError bool

func (e passingError) Error() string   { return fmt.Sprintf("temporary: %v", bool(e)) }
func (e passingError) Temporary() bool { return bool(e) }

// learner is a codec that does not know "new" before a time, and never "bad".
type learner struct {
	executor.JSON[string]
	from time.Time
}

func (c learner) Decode(data []byte) (string, error) {
	s, err := c.JSON.Decode(data)
	switch {
	case s == "bad":
		return "", passingError(false)
	case s == "new" && time.Now().Before(c.from), s == "never":
		return "", fmt.Errorf("wrapped: %w", passingError(true))
	}
	return s, err
}

// A payload whose codec says that its error may pass is tried again, in its place in the order of
// its id, and others are not held up; one that never decodes is dead-lettered alone when the retries are used up,
// or halts its id. No hook hears of it.
func TestUndecodableForNow(t *testing.T) {
	type runs map[string][]string
	kinds := map[string]func(x *executor.Executor, cfg executor.QueueConfig[string], ran runs) (*executor.Queue[string], error){
		"single": func(x *executor.Executor, cfg executor.QueueConfig[string], ran runs) (*executor.Queue[string], error) {
			return executor.Handle(x, "q", func(_ context.Context, job executor.Job[string]) error {
				ran[job.ID] = append(ran[job.ID], job.Payload)
				return nil
			}, cfg)
		},
		"merged": func(x *executor.Executor, cfg executor.QueueConfig[string], ran runs) (*executor.Queue[string], error) {
			return executor.HandleMerged(x, "q", func(_ context.Context, job executor.Merged[string]) error {
				for _, p := range job.Payloads {
					ran[job.ID] = append(ran[job.ID], p.Value)
				}
				return nil
			}, cfg)
		},
		"batch": func(x *executor.Executor, cfg executor.QueueConfig[string], ran runs) (*executor.Queue[string], error) {
			cfg.BatchSize = 10
			return executor.HandleBatch(x, "q", func(_ context.Context, jobs []executor.Merged[string]) error {
				for _, job := range jobs {
					for _, p := range job.Payloads {
						ran[job.ID] = append(ran[job.ID], p.Value)
					}
				}
				return nil
			}, cfg)
		},
	}
	kinds["folded"] = func(x *executor.Executor, cfg executor.QueueConfig[string], ran runs) (*executor.Queue[string], error) {
		cfg.Gather.Fold = func(waiting, next string) (string, error) { return waiting + " " + next, nil }
		return kinds["merged"](x, cfg, ran)
	}
	hook := func(context.Context, []executor.Merged[string]) { t.Error("it has no payload to be told of") }
	for name, make := range kinds {
		t.Run(name+", halted", func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := open(t, "", executor.Config{})
				ran := runs{}
				q, err := make(x, executor.QueueConfig[string]{
					MaxRetries: 3, RetryIn: always(time.Minute), Codec: learner{from: time.Now().Add(time.Hour)},
					DeadLetters: executor.DeadLetters[string]{OnExhausted: executor.OnExhaustedHalt, RetriesExhausted: hook},
				}, ran)
				require.NoError(t, err)
				for _, p := range []string{"new", "after"} {
					enqueue(t, q, "a", p)
				}
				for _, p := range []string{"bad", "after"} {
					enqueue(t, q, "d", p)
				}
				start(t, x)
				time.Sleep(30 * time.Minute)
				assert.Equal(t, inspect.JobHalted, explain(t, x, "q", "a").State)
				assert.Equal(t, "payload does not decode: wrapped: temporary: true", explain(t, x, "q", "a").LastError)
				assert.Equal(t, runs{"d": {"after"}}, ran, "what depends on it waits")
				require.Len(t, morgue(t, q), 1, "what can't pass is dead at once")
				time.Sleep(time.Hour)
				assert.Empty(t, ran["a"])
				n, err := x.Inspect().RunNow(t.Context(), inspect.SelectIDs("q", "a"))
				require.NoError(t, err)
				require.Equal(t, 1, n)
				drained(t, q)
				want := []string{"new", "after"}
				if name == "folded" {
					want = []string{"new after"}
				}
				assert.Equal(t, want, ran["a"])
				stop(t, x)
			})
		})
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := open(t, "", executor.Config{Workers: 1})
				began, ran := time.Now(), runs{}
				q, err := make(x, executor.QueueConfig[string]{
					MaxRetries: 3, RetryIn: always(time.Minute), Codec: learner{from: began.Add(90 * time.Second)},
					DeadLetters: executor.DeadLetters[string]{RetriesExhausted: hook},
				}, ran)
				require.NoError(t, err)
				for _, p := range []string{"1", "new", "3"} {
					enqueue(t, q, "a", p)
				}
				for _, p := range []string{"never", "after"} {
					enqueue(t, q, "b", p)
				}
				enqueue(t, q, "c", "fine")
				for _, p := range []string{"bad", "after"} {
					enqueue(t, q, "d", p)
				}
				start(t, x)
				synctest.Wait()
				assert.Equal(t, []string{"fine"}, ran["c"], "others are not held up")
				assert.Equal(t, []string{"after"}, ran["d"], "what can't pass is dead at once")
				assert.Empty(t, ran["b"], "nothing overtakes it")
				require.Len(t, morgue(t, q), 1)
				time.Sleep(10 * time.Minute)
				s := drained(t, q)
				want := []string{"1", "new", "3"}
				if name == "folded" {
					want = []string{"1", "new 3"}
				}
				assert.Equal(t, want, ran["a"])
				assert.Equal(t, []string{"after"}, ran["b"])
				dead := morgue(t, q)
				require.Len(t, dead, 2)
				for _, d := range dead {
					if d.ID == "b" {
						assert.Equal(t, "payload does not decode: wrapped: temporary: true", d.Error)
						assert.Len(t, d.Failures, 4)
					}
				}
				assert.Equal(t, uint64(2), s.Buried)
				stop(t, x)
			})
		})
	}
}

// flickering is a codec that refuses a text for now, at one call.
type flickering struct {
	executor.JSON[string]
	text  string
	until *atomic.Int64 // calls
}

func (c flickering) Decode(data []byte) (string, error) {
	s, err := c.JSON.Decode(data)
	if s == c.text && c.until.Add(-1) == 0 {
		return "", passingError(true)
	}
	return s, err
}

// What does not decode when its conditions ask for its key has none, and does not run, although it would decode for
// the handler a moment later: the job has failed, or a payload whose last try it was is dead. So nothing runs
// beside what it is excluded by, and nothing that it has locked stays so.
func TestUndecodableHasNoKey(t *testing.T) {
	key := func(string, string) string { return "key" }
	keys := func(string, string) []string { return []string{"key"} }
	for name, conditions := range map[string]func(x *executor.Executor) executor.Conditions[string]{
		"unique": func(*executor.Executor) executor.Conditions[string] {
			return executor.Conditions[string]{Unique: executor.Unique[string]{Key: key}}
		},
		"limit": func(x *executor.Executor) executor.Conditions[string] {
			limit, err := executor.NewLimit(x, "limit", executor.LimitConfig{Concurrent: 1})
			require.NoError(t, err)
			return executor.Conditions[string]{Limits: []executor.LimitOf[string]{{Limit: limit, Key: key}}}
		},
		"locks": func(*executor.Executor) executor.Conditions[string] {
			return executor.Conditions[string]{Locks: executor.Locks[string]{
				OnEnqueue: func(id, _ string) []string { return []string{id} }, BlockedBy: keys, OnRun: keys,
				Unlock: func(id, _ string) []string { return []string{id, "key"} }, Counted: true, UnlockOnBurial: true,
			}}
		},
	} {
		for _, shape := range []string{"single", "merged", "folded"} {
			for _, last := range []bool{false, true} {
				if name == "locks" && shape == "folded" {
					continue // these do not go together
				}
				t.Run(fmt.Sprintf("%s, %s, last=%v", name, shape, last), func(t *testing.T) {
					bubble(t, func(t *testing.T) { runsWithItsKey(t, conditions, shape, last) })
				})
			}
		}
	}
}

func runsWithItsKey(t *testing.T, conditions func(*executor.Executor) executor.Conditions[string], shape string, last bool) {
	x := open(t, "", executor.Config{Workers: 2})
	codec := flickering{text: "b", until: new(atomic.Int64)}
	cfg := executor.QueueConfig[string]{MaxRetries: 3, RetryIn: always(time.Minute), Conditions: conditions(x)}
	if last {
		cfg.MaxRetries = -1
	}
	if shape == "folded" {
		cfg.Gather.Fold = func(waiting, next string) (string, error) { return waiting + next, nil }
		codec.text = "bc"
	}
	cfg.Codec = codec
	var running atomic.Int64
	var ran []string
	handle := func(attempt int, payloads ...string) error {
		assert.Equal(t, int64(1), running.Add(1), "jobs that run with the key")
		time.Sleep(10 * time.Second)
		running.Add(-1)
		ran = append(ran, fmt.Sprint(attempt)+fmt.Sprint(payloads))
		return nil
	}
	q, err := (*executor.Queue[string])(nil), error(nil)
	if shape == "single" {
		q, err = executor.Handle(x, "q", func(_ context.Context, job executor.Job[string]) error { return handle(job.Attempt, job.Payload) }, cfg)
	} else {
		q, err = executor.HandleMerged(x, "q", func(_ context.Context, job executor.Merged[string]) error {
			return handle(job.Attempt, each.Of(job.Payloads, func(p executor.Payload[string]) string { return p.Value })...)
		}, cfg)
	}
	require.NoError(t, err)
	enqueue(t, q, "a", "a")
	for _, p := range []string{"b", "c"} {
		enqueue(t, q, "b", p, executor.In(time.Second))
	}
	codec.until.Store(1)
	if shape == "folded" || shape == "merged" && last {
		codec.until.Store(2) // behind a look whether what was folded decodes, or when it has waited for the key
	}
	start(t, x)
	time.Sleep(5 * time.Minute)
	drained(t, q)
	want := map[string][]string{"single": {"1[a]", "2[b]", "1[c]"}, "merged": {"1[a]", "2[b c]"}, "folded": {"1[a]", "2[bc]"}}[shape]
	if last {
		want = map[string][]string{"single": {"1[a]", "1[c]"}, "merged": {"1[a]", "1[c]"}, "folded": {"1[a]"}}[shape]
	}
	assert.Equal(t, want, ran)
	locked, _, err := x.Inspect().LockedKeys("", 0)
	require.NoError(t, err)
	assert.Empty(t, locked)
	stop(t, x)
}
