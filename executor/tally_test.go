package executor_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
)

// About what all jobs of a queue depend on, and which is away, there is a line at
// once, and then one a minute that says how many failed beside it.
func TestSummaryOfAnOutage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log diary
		x := open(t, "", executor.Config{Logger: log.logger(), Workers: 3})
		p := &probe{decide: func(context.Context, seen) error { return errors.New("dial tcp: connection refused\nlevel=INFO") }}
		cfg := executor.QueueConfig[string]{RetryIn: always(time.Second)}
		payments := handle(t, x, "payments", p.handle, cfg)
		mails := handle(t, x, "mails", p.handle, cfg)
		start(t, x)
		enqueue(t, payments, "a 1", "x")
		synctest.Wait()
		const refused = `error="dial tcp: connection refused\nlevel=INFO"`
		require.Equal(t, []string{`msg="a run failed" queue=payments id="a 1" attempt=1 ` + refused}, log.take())
		enqueue(t, mails, "b", "x")
		synctest.Wait()
		require.Equal(t, []string{`msg="a run failed" queue=mails id=b attempt=1 ` + refused}, log.take())
		time.Sleep(3500 * time.Millisecond)
		require.Equal(t, []string{""}, log.take())
		stop(t, x)
		lines := log.take()
		require.Equal(t, []string{""}, lines, "failed=8 in the line about the stop is all")
	})
}

// The line of the next minute says how many were left out, and that one is the last
// of its minute, too.
func TestSummaryOfAnOutageGoesOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log diary
		x := open(t, "", executor.Config{Logger: log.logger()})
		p := &probe{decide: func(context.Context, seen) error { return errBoom }}
		q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{MaxRetries: 1000, RetryIn: always(time.Second)})
		enqueue(t, q, "a", "x")
		start(t, x)
		time.Sleep(150 * time.Second)
		require.Equal(t, []string{
			`msg="a run failed" queue=q id=a attempt=1 error=boom`,
			`msg="a run failed" queue=q id=a attempt=61 error=boom left_out=59`,
			`msg="a run failed" queue=q id=a attempt=121 error=boom left_out=59`,
		}, log.take())
		stop(t, x)
	})
}

// What is no failure, and what has a line of its own, is not told as one that
// failed.
func TestSummaryOfAnOutageIsOfFailures(t *testing.T) {
	for name, err := range map[string]error{
		"done": nil, "snoozed": executor.Snooze(time.Hour), "discarded": executor.Discard(),
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, []string{""}, toldOf(t, executor.QueueConfig[string]{}, func(context.Context) error { return err }))
		})
	}
	t.Run("cancelled", func(t *testing.T) {
		lines := toldOf(t, executor.QueueConfig[string]{}, func(context.Context) error { return executor.Cancel(errBoom) })
		require.Len(t, lines, 1)
		require.Contains(t, lines[0], "job went to the morgue")
	})
	t.Run("exhausted", func(t *testing.T) {
		lines := toldOf(t, executor.QueueConfig[string]{MaxRetries: -1}, func(context.Context) error { return errBoom })
		require.Len(t, lines, 1)
		require.Contains(t, lines[0], "job went to the morgue")
	})
	t.Run("panicked", func(t *testing.T) {
		lines := toldOf(t, executor.QueueConfig[string]{}, func(context.Context) error { panic("oh") })
		require.Len(t, lines, 1)
		require.Contains(t, lines[0], "handler panicked")
	})
	t.Run("interrupted", func(t *testing.T) {
		lines := toldOf(t, executor.QueueConfig[string]{}, func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		})
		require.Equal(t, []string{""}, lines)
	})
}

// toldOf returns the warnings about one run, and the stop after it.
func toldOf(t *testing.T, cfg executor.QueueConfig[string], f func(context.Context) error) (lines []string) {
	bubble(t, func(t *testing.T) {
		var log diary
		x := open(t, "", executor.Config{Logger: log.logger()})
		q := handle(t, x, "q", (&probe{decide: func(ctx context.Context, _ seen) error { return f(ctx) }}).handle, cfg)
		enqueue(t, q, "a", "x")
		start(t, x)
		synctest.Wait()
		_ = x.Stop(expired(t))
		lines = log.take()
	})
	return lines
}

// A flood of panics is ten stacks a second for each queue.
func TestPanicsDoNotFloodTheLog(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log diary
		x := open(t, "", executor.Config{Logger: log.logger()})
		p := &probe{decide: func(context.Context, seen) error { panic("no") }}
		q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{RetryIn: always(time.Hour)})
		start(t, x)
		for i := range 500 {
			enqueue(t, q, fmt.Sprint(i), "")
		}
		synctest.Wait()
		require.Equal(t, 10, len(log.take())) // not Len, which prints all stacks
		time.Sleep(time.Second)
		enqueue(t, q, "later", "")
		synctest.Wait()
		lines := log.take()
		require.Len(t, lines, 1)
		require.Regexp(t, `msg="handler panicked" queue=q id=later error="panic: no" stack=.* left_out=490$`, lines[0])
		require.EqualValues(t, 501, stats(t, q).Failed)
		stop(t, x)
	})
}

// An id that stops is told when it does, with what lets it go on, and counted at
// the stop and the next start.
func TestHaltedIsTold(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log diary
		var info records
		disk := new(journal.Memory)
		x := openOn(t, disk, executor.Config{Logger: log.logger()})
		p := &probe{decide: func(context.Context, seen) error { return errBoom }}
		cfg := executor.QueueConfig[string]{MaxRetries: 1, RetryIn: always(time.Second), DeadLetters: executor.DeadLetters[string]{OnExhausted: executor.OnExhaustedHalt}}
		q := handle(t, x, "orders", p.handle, cfg)
		start(t, x)
		enqueue(t, q, "order 7", "x")
		time.Sleep(time.Minute)
		lines := log.take()
		require.Equal(t, `msg="job is halted: its id runs again after RunNow" queue=orders id="order 7" attempt=2 error=boom`, lines[len(lines)-1])
		require.Equal(t, 1, stats(t, q).Halted)
		for i := range 50 {
			enqueue(t, q, fmt.Sprint(i), "x")
		}
		time.Sleep(1500 * time.Millisecond)
		require.Len(t, log.take(), 11, "ten, and one that a run failed")
		stop(t, x)

		x = openOn(t, disk, executor.Config{Logger: info.logger(0)})
		handle(t, x, "orders", p.handle, cfg)
		start(t, x)
		stop(t, x)
		all := info.take()
		require.Len(t, all, 2)
		for _, line := range all {
			require.EqualValues(t, 51, line.attrs["halted"], line.msg)
		}
	})
}
