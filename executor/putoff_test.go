package executor_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/events"
)

// oneKey are conditions under which one job at a time runs, and waits its turn.
var oneKey = map[string]executor.Conditions[string]{
	"lock":  {Locks: executor.Locks[string]{BlockedBy: keys("K"), OnRun: keys("K"), Unlock: keys("K")}},
	"lease": {Unique: executor.Unique[string]{Key: func(string, string) string { return "K" }}},
}

// A job whose turn has come, and that is put off before a worker comes to it, lets others have its turn, and has another
// one when it is due.
func TestCalledJobThatIsPutOff(t *testing.T) {
	for key, conditions := range oneKey {
		for name, c := range map[string]struct {
			executor.QueueConfig[string]
			later time.Duration // when the payload is due that puts it off
		}{
			"debounce": {executor.QueueConfig[string]{Gather: executor.Gather[string]{Debounce: executor.Debounce{Quiet: 10 * time.Minute}}}, 0},
			"push":     {executor.QueueConfig[string]{Gather: executor.Gather[string]{FreshDue: executor.FreshDuePush}}, 10 * time.Minute},
			"state":    {executor.QueueConfig[string]{Merge: executor.MergeSupersede}, 10 * time.Minute},
		} {
			t.Run(key+", "+name, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					x := open(t, "", executor.Config{Workers: 2})
					p := &probe{decide: takes(time.Second, nil)}
					cfg := c.QueueConfig
					cfg.Conditions = conditions
					slow := handle(t, x, "slow", p.handle, cfg)
					quick := handle(t, x, "quick", p.handle, executor.QueueConfig[string]{Conditions: conditions})
					goOn := make(chan struct{})
					hog := handle(t, x, "hog", func(context.Context, executor.Merged[string]) error { <-goOn; return nil },
						executor.QueueConfig[string]{Share: executor.Share{Priority: 1}})
					holder := handle(t, x, "holder", func(context.Context, executor.Merged[string]) error { time.Sleep(time.Hour); return nil },
						executor.QueueConfig[string]{Conditions: conditions})
					start(t, x)
					enqueue(t, holder, "holder", "")
					synctest.Wait()
					enqueue(t, slow, "first", "1")
					time.Sleep(11 * time.Minute)
					enqueue(t, quick, "second", "")
					synctest.Wait()
					require.Equal(t, []int{1, 1}, []int{stats(t, slow).Parked, stats(t, quick).Parked})
					enqueue(t, hog, "a", "")
					enqueue(t, hog, "b", "")
					time.Sleep(time.Hour)
					require.Empty(t, p.log(), "the first one is called, and waits for a worker")
					enqueue(t, slow, "first", "2", executor.In(c.later))
					synctest.Wait()
					close(goOn)
					time.Sleep(time.Minute)
					require.Equal(t, []string{"second[]"}, p.log())
					time.Sleep(time.Hour)
					require.Len(t, p.log(), 2)
					stop(t, x)
				})
			})
		}
	}
}

// So does one whose turn comes in the moment in which its worker gives it back, and what has come puts it off.
func TestJobThatIsPutOffWhileAWorkerHasIt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var x *executor.Executor
		x, err := executor.OpenWatched(executor.Config{}, func(e events.Event) {
			if e.Kind == events.Parked && e.ID == "first" {
				_ = x.KeyLocks().Unlock(context.Background(), "K")
			}
		})
		require.NoError(t, err)
		p := &probe{}
		var armed atomic.Bool
		goOn := make(chan struct{})
		cfg := executor.QueueConfig[string]{Gather: executor.Gather[string]{Debounce: executor.Debounce{Quiet: 10 * time.Minute}}, Conditions: oneKey["lock"]}
		quick := handle(t, x, "quick", p.handle, executor.QueueConfig[string]{Conditions: oneKey["lock"]})
		cfg.Conditions.Locks.BlockedBy = func(string, string) []string {
			if armed.CompareAndSwap(true, false) {
				<-goOn
			}
			return []string{"K"}
		}
		slow := handle(t, x, "slow", p.handle, cfg)
		require.NoError(t, x.KeyLocks().Lock(t.Context(), "K"))
		start(t, x)
		enqueue(t, slow, "first", "")
		armed.Store(true)
		time.Sleep(11 * time.Minute)
		require.False(t, armed.Load(), "a worker has it")
		enqueue(t, slow, "first", "")
		synctest.Wait()
		close(goOn)
		synctest.Wait()
		enqueue(t, quick, "second", "")
		synctest.Wait()
		require.Equal(t, []string{"second[]"}, p.log())
		time.Sleep(time.Hour)
		require.Len(t, p.log(), 2)
		stop(t, x)
	})
}
