package executor_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
)

// ids of a batch, in order.
func idsOf(jobs []executor.Merged[string]) (ids []string) {
	for _, job := range jobs {
		ids = append(ids, job.ID)
	}
	slices.Sort(ids)
	return ids
}

// An error that names no job costs only the job that can't be done.
func TestBatchIsHalvedUntilTheCulpritIsAlone(t *testing.T) {
	for name, fail := range map[string]func() error{
		"error": func() error { return errBoom },
		"panic": func() error { panic("boom") },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := open(t, "", executor.Config{})
				var sizes []int
				done := make(map[string]int)
				begin := time.Now()
				q, err := executor.HandleBatch(x, "q", func(_ context.Context, jobs []executor.Merged[string]) error {
					sizes = append(sizes, len(jobs))
					assert.Zero(t, time.Since(begin), "in halves, at once")
					if slices.Contains(idsOf(jobs), "6") {
						return fail()
					}
					for _, job := range jobs {
						require.Equal(t, 1, job.Attempt)
						done[job.ID]++
					}
					return nil
				}, executor.QueueConfig[string]{Share: executor.Share{Shards: 1}, BatchSize: 8, MaxRetries: -1})
				require.NoError(t, err)
				for i := range 8 {
					enqueue(t, q, fmt.Sprint(i), "x")
				}
				start(t, x)
				time.Sleep(time.Minute)
				s := drained(t, q)
				assert.Equal(t, []int{8, 4, 4, 2, 2, 1, 1}, sizes)
				assert.Equal(t, map[string]int{"0": 1, "1": 1, "2": 1, "3": 1, "4": 1, "5": 1, "7": 1}, done)
				assert.Equal(t, uint64(1), s.Failed)
				dead := morgue(t, q)
				require.Len(t, dead, 1)
				assert.Equal(t, "6", dead[0].ID)
			})
		})
	}
}

// When all fail, the handler is not called for each of them at once. A wish, and
// names, are taken as they are.
func TestBatchIsHalvedWithinBounds(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		calls int
	}{
		"all fail":    {errBoom, 1 + 4*6},
		"RetryAfter":  {executor.RetryAfter(time.Hour, errBoom), 1},
		"Cancel":      {executor.Cancel(errBoom), 1},
		"Snooze":      {executor.Snooze(time.Hour), 1},
		"BatchErrors": {executor.BatchErrors{"1": errBoom}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := open(t, "", executor.Config{})
				calls := 0
				q, err := executor.HandleBatch(x, "q", func(context.Context, []executor.Merged[string]) error {
					calls++
					return c.err
				}, executor.QueueConfig[string]{Share: executor.Share{Shards: 1}, BatchSize: 64, RetryIn: always(time.Hour)})
				require.NoError(t, err)
				for i := range 64 {
					enqueue(t, q, fmt.Sprint(i), "x")
				}
				start(t, x)
				time.Sleep(time.Minute)
				settled(t, q)
				assert.Equal(t, c.calls, calls)
				if name == "all fail" {
					assert.Equal(t, uint64(64), stats(t, q).Failed)
				}
			})
		})
	}
}

// Of a job with several payloads some may be done, and others not.
func TestPayloadErrors(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		var runs []string
		q := handle(t, x, "q", func(_ context.Context, job executor.Merged[string]) error {
			var values []string
			errs := make(executor.PayloadErrors)
			for _, p := range job.Payloads {
				values = append(values, p.Value)
				switch {
				case p.Value == "fails" && job.Attempt < 3:
					errs[p.Position] = errBoom
				case p.Value == "later" && job.Attempt == 1:
					errs[p.Position] = executor.Snooze(time.Hour)
				case p.Value == "hopeless":
					errs[p.Position] = executor.Cancel(errBoom)
				case p.Value == "moot":
					errs[p.Position] = executor.Discard()
				case p.Value == "named":
					errs[p.Position] = nil
				}
			}
			runs = append(runs, fmt.Sprint(job.Attempt, values, job.LastError))
			return errs
		}, executor.QueueConfig[string]{RetryIn: always(time.Minute)})
		for _, v := range []string{"done", "fails", "hopeless", "later", "moot", "named"} {
			enqueue(t, q, "a", v)
		}
		_, err := enqueueRaw(t.Context(), x, "q", "a", []byte("{"))
		require.NoError(t, err)
		start(t, x)
		time.Sleep(2 * time.Hour)
		s := drained(t, q)
		assert.Equal(t, []string{"1 [done fails hopeless later moot named]", "2 [fails later]boom", "3 [fails]boom"}, runs)
		assert.Equal(t, []uint64{4, 1, 2, 2}, []uint64{s.Done, s.Discarded, s.Buried, s.Failed})
		dead := morgue(t, q)
		require.Len(t, dead, 2, "one does not decode")
		assert.Equal(t, "hopeless", dead[0].Payload)
	})
}

// An entry for a payload that the job does not have is meant for one that it has.
func TestPayloadErrorsForStrangers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		attempts := 0
		q := handle(t, x, "q", func(_ context.Context, job executor.Merged[string]) error {
			if attempts++; attempts == 1 {
				return executor.PayloadErrors{job.Payloads[0].Position: nil, 1 << 40: errBoom}
			}
			require.Len(t, job.Payloads, 2)
			require.Contains(t, job.LastError, "boom")
			return nil
		}, executor.QueueConfig[string]{RetryIn: always(0)})
		for _, v := range []string{"1", "2", "3"} {
			enqueue(t, q, "a", v)
		}
		start(t, x)
		time.Sleep(time.Minute)
		assert.Equal(t, uint64(3), drained(t, q).Done)
		assert.Equal(t, 2, attempts)
	})
}

// Keys that a part of a job unlocks can't be told apart: all of it fails.
func TestPayloadErrorsWithUnlock(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		var sizes []int
		key := func(_, payload string) []string { return []string{payload} }
		q := handle(t, x, "q", func(_ context.Context, job executor.Merged[string]) error {
			if sizes = append(sizes, len(job.Payloads)); len(sizes) == 1 {
				return executor.PayloadErrors{job.Payloads[0].Position: errBoom}
			}
			return nil
		}, executor.QueueConfig[string]{RetryIn: always(0), Conditions: executor.Conditions[string]{Locks: executor.Locks[string]{OnEnqueue: key, Unlock: key}}})
		enqueue(t, q, "a", "1")
		enqueue(t, q, "a", "2")
		start(t, x)
		time.Sleep(time.Minute)
		drained(t, q)
		assert.Equal(t, []int{2, 2}, sizes)
		assert.Empty(t, locked(x))
	})
}

// In a batch an id may have PayloadErrors of its own.
func TestPayloadErrorsInABatch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		var last []string
		q, err := executor.HandleBatch(x, "q", func(_ context.Context, jobs []executor.Merged[string]) error {
			errs := make(executor.BatchErrors)
			for _, job := range jobs {
				if job.ID == "b" && job.Attempt == 1 {
					errs[job.ID] = executor.PayloadErrors{job.Payloads[1].Position: errors.New("not this one")}
				} else if job.ID == "b" {
					last = append(last, fmt.Sprint(len(job.Payloads), job.Payloads[0].Value, job.LastError))
				}
			}
			return errs
		}, executor.QueueConfig[string]{Share: executor.Share{Shards: 1}, BatchSize: 3, RetryIn: always(0)})
		require.NoError(t, err)
		for _, id := range []string{"a", "b", "c"} {
			enqueue(t, q, id, "1")
			enqueue(t, q, id, "2")
		}
		start(t, x)
		time.Sleep(time.Minute)
		drained(t, q)
		assert.Equal(t, []string{"12not this one"}, last)
	})
}
