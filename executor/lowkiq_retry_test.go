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

func TestLowkiq_L11_RetriesExhaustedAndFormatError(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		p := &probe{decide: func(context.Context, seen) error { return errBoom }}
		var exhausted shared[[]string]
		q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{
			MaxRetries:  1,
			RetryIn:     always(time.Minute),
			FormatError: func(err error) string { return err.Error() + " at line 7" },
			RetriesExhausted: func(_ context.Context, jobs []executor.Merged[string]) {
				var lines []string
				for _, job := range jobs {
					lines = append(lines, fmt.Sprint(job.ID, job.Latest(), (job.Attempt-2), " ", job.LastError))
				}
				exhausted.set(lines)
			},
		})
		start(t, x)
		enqueue(t, q, "a", "x")
		synctest.Wait()
		assert.Empty(t, exhausted.get())
		time.Sleep(time.Hour)
		assert.Equal(t, []string{"ax0 boom at line 7"}, exhausted.get())
		assert.Equal(t, "boom at line 7", p.seen()[1].last, "the last error is kept with the job")
		assert.Equal(t, "boom at line 7", morgue(t, q)[0].Error)
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
