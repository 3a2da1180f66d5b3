package executor_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
)

// A called job that does not run after all, whatever the reason, lets the next one
// pass; a newcomer overtakes neither.
func TestCalledJobThatDoesNotRun(t *testing.T) {
	for name, fails := range map[string]func(){
		"runs": func() {}, "panic": func() { panic("no key") }, "Goexit": runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := open(t, "", executor.Config{Workers: 2})
				p := &probe{decide: takes(time.Second, nil)}
				broken := false
				locks := executor.Locks[string]{BlockedBy: keys("K"), Unlock: keys("K"), OnRun: func(id, _ string) []string {
					if id == "first" && broken {
						fails()
					}
					return []string{"K"}
				}}
				// Of the queue "slow" one runs at a time: a job that is called
				// waits.
				slow := handle(t, x, "slow", func(_ context.Context, job executor.Merged[string]) error {
					if job.ID == "hog" {
						time.Sleep(time.Minute)
						return nil
					}
					return p.handle(context.Background(), job)
				}, executor.QueueConfig[string]{Share: executor.Share{Shards: 1, Concurrency: 1}, RetryIn: always(time.Hour), Conditions: executor.Conditions[string]{
					Locks: executor.Locks[string]{
						BlockedBy: func(id, payload string) []string {
							if id == "hog" {
								return nil
							}
							return locks.BlockedBy(id, payload)
						},
						OnRun: func(id, payload string) []string {
							if id == "hog" {
								return nil
							}
							return locks.OnRun(id, payload)
						},
						Unlock: locks.Unlock,
					},
				}})
				quick := handle(t, x, "quick", p.handle, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Locks: locks}})
				require.NoError(t, x.KeyLocks().Lock(t.Context(), "K"))
				start(t, x)
				enqueue(t, slow, "first", "")
				synctest.Wait()
				enqueue(t, quick, "second", "")
				synctest.Wait()
				enqueue(t, slow, "hog", "")
				synctest.Wait()
				require.NoError(t, x.KeyLocks().Unlock(t.Context(), "K"))
				synctest.Wait()
				broken = true
				enqueue(t, quick, "third", "")
				synctest.Wait()
				require.Empty(t, p.log(), "the first one is called, and waits for its shard")
				require.Empty(t, locked(x))
				require.Equal(t, `quick/third is blocked; "K" unlocked; called: slow/first; waiting: quick/second, quick/third`,
					explain(t, x, "quick", "third").String())
				time.Sleep(2 * time.Minute)
				want := []string{"first[]", "second[]", "third[]"}
				if name != "runs" {
					want = want[1:]
				}
				require.Equal(t, want, p.log())
				require.Empty(t, locked(x))
				stop(t, x)
			})
		})
	}
}
