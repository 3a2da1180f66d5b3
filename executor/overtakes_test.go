package executor_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
)

// keyFor returns the key K of one payload, and none of others.
func keyFor(which string) func(string, string) []string {
	return func(_, payload string) []string {
		if payload == which {
			return []string{"K"}
		}
		return nil
	}
}

// What comes first of an id runs, also if it arrives, or comes back, while the id waits for a key that a later payload
// needs: it may be what unlocks that.
func TestWhatComesFirstDoesNotWaitForALaterPayload(t *testing.T) {
	for name, arrives := range map[string]func(*testing.T, *executor.Executor, *executor.Queue[string]){
		"it comes back": func(t *testing.T, x *executor.Executor, q *executor.Queue[string]) {
			enqueue(t, q, "order 7", "paid")
			synctest.Wait()
			require.Equal(t, 1, stats(t, q).Dead)
			enqueue(t, q, "order 7", "ship")
			synctest.Wait()
			did, err := x.Inspect().Requeue(t.Context(), inspect.SelectQueue(q.Name()))
			require.NoError(t, err)
			require.Equal(t, 1, did.Back)
		},
		"its score is lower": func(t *testing.T, _ *executor.Executor, q *executor.Queue[string]) {
			enqueue(t, q, "order 7", "ship", executor.Score(10))
			synctest.Wait()
			require.Equal(t, 1, stats(t, q).Parked)
			enqueue(t, q, "order 7", "paid", executor.Score(1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := open(t, "", executor.Config{})
				var ran []string
				dies := name == "it comes back"
				q, err := executor.Handle(x, "orders", func(_ context.Context, job executor.Job[string]) error {
					if dies {
						dies = false
						return executor.Cancel(errBoom)
					}
					ran = append(ran, job.Payload)
					return nil
				}, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Locks: executor.Locks[string]{BlockedBy: keyFor("ship"), Unlock: keyFor("paid")}}})
				require.NoError(t, err)
				require.NoError(t, x.KeyLocks().Lock(t.Context(), "K"))
				start(t, x)
				arrives(t, x, q)
				synctest.Wait()
				require.Equal(t, []string{"paid", "ship"}, ran)
				stop(t, x)
			})
		})
	}
}

// While such a payload runs, its id has no turn at the key that the later one waits for: others have theirs.
func TestWhatComesFirstKeepsNoTurnOfALaterPayload(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x, ran := noteBeforeShips(t, time.Hour)
		require.NoError(t, x.KeyLocks().Unlock(t.Context(), "K"))
		synctest.Wait()
		require.Equal(t, []string{"a note", "b ship"}, ran())
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		require.Equal(t, []string{"a note", "b ship", "a ship"}, ran())
		stop(t, x)
	})
}

// A payload that stands in line keeps its place there while one that needs no key runs before it.
func TestWhatComesFirstTakesNoPlaceInALine(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x, ran := noteBeforeShips(t, 0)
		require.Equal(t, []string{"a note"}, ran())
		require.NoError(t, x.KeyLocks().Unlock(t.Context(), "K"))
		synctest.Wait()
		require.Equal(t, []string{"a note", "a ship", "b ship"}, ran())
		stop(t, x)
	})
}

// noteBeforeShips has a and b wait for K with a payload "ship" each, in this order, and begin a "note" of a,
// which needs no key and takes a while.
func noteBeforeShips(t *testing.T, takes time.Duration) (x *executor.Executor, ran func() []string) {
	x = open(t, "", executor.Config{})
	locks := executor.Locks[string]{BlockedBy: keyFor("ship"), OnRun: keyFor("ship"), Unlock: keyFor("ship")}
	var all shared[[]string]
	q, err := executor.Handle(x, "orders", func(_ context.Context, job executor.Job[string]) error {
		if all.set(append(all.get(), job.ID+" "+job.Payload)); job.Payload == "note" {
			time.Sleep(takes)
		}
		return nil
	}, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Locks: locks}})
	require.NoError(t, err)
	require.NoError(t, x.KeyLocks().Lock(t.Context(), "K"))
	start(t, x)
	enqueue(t, q, "a", "ship", executor.Score(10))
	synctest.Wait()
	enqueue(t, q, "b", "ship")
	synctest.Wait()
	require.Equal(t, 2, stats(t, q).Parked)
	enqueue(t, q, "a", "note", executor.Score(1))
	synctest.Wait()
	return x, all.get
}
