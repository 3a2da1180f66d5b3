package executor_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
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
