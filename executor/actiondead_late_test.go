package executor_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/journal"
)

// conserves checks that each accepted payload is in exactly one of the figures of its queue.
func conserves[T any](t *testing.T, q *executor.Queue[T], accepted int) {
	t.Helper()
	s := stats(t, q)
	over := s.Done + s.Discarded + s.Merged + s.Deleted + s.Expired
	require.Equal(t, accepted, s.Payloads+s.Dead+int(over), "%+v", s)
}

// What is taken out of the morgue after its caller has gone is counted, and unlocked, as if
// the caller had waited; before and after that no payload is in none of the figures, or two.
func TestTheDeadGoWhenTheCallerHasGone(t *testing.T) {
	for _, verb := range []string{"requeue", "delete"} {
		t.Run(verb, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d := buryAll(t, 3, executor.Locks[int]{OnEnqueue: func(id string, _ int) []string { return []string{id} }})
				require.NoError(t, resumeAll(t.Context(), d.x))
				brake := hang(&d.disk)
				n := 0
				err := within(time.Second, func(ctx context.Context) (err error) {
					n, err = d.verbs()[verb](ctx, d.first(2))
					return err
				})
				require.ErrorIs(t, err, executor.ErrUnknown)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.Zero(t, n)
				conserves(t, d.q, 3)
				others := make(chan int, 1)
				go func() {
					n, err := d.verbs()[verb](t.Context(), inspect.SelectQueue("q"))
					require.NoError(t, err)
					others <- n
				}()
				synctest.Wait()
				require.Empty(t, others)
				brake.release()
				require.Equal(t, 1, <-others)
				synctest.Wait()
				conserves(t, d.q, 3)
				if verb == "delete" {
					require.EqualValues(t, 3, stats(t, d.q).Deleted)
					keys, _, err := d.x.Inspect().LockedKeys("", 10)
					require.NoError(t, err)
					require.Empty(t, keys)
				} else {
					require.EqualValues(t, 3, stats(t, d.q).Done)
				}
				stop(t, d.x)
			})
		})
	}
}

// So it is on a full disk, where a deletion waits for room with the results. A call that goes
// through the morgue meanwhile takes the rest.
func TestTheDeadGoFromAFullDisk(t *testing.T) {
	for _, verb := range []string{"requeue", "delete"} {
		bubble(t, func(t *testing.T) {
			d := buryAll(t, 150, executor.Locks[int]{})
			ctx := &interrupted{Context: t.Context(), at: 20, do: func() {
				d.disk.Limit(1)
				err := within(time.Second, func(ctx context.Context) error {
					_, err := d.verbs()["delete"](ctx, d.first(2))
					return err
				})
				require.ErrorIs(t, err, executor.ErrUnknown)
				conserves(t, d.q, 150)
				time.AfterFunc(time.Minute, func() { d.disk.Limit(0) })
			}}
			n, err := d.verbs()[verb](ctx, inspect.SelectQueue("q"))
			if verb == "requeue" && errors.Is(err, executor.ErrFull) { // the log may not have looked since there is room
				time.Sleep(time.Second)
				var rest int
				rest, err = d.verbs()[verb](t.Context(), inspect.SelectQueue("q"))
				n += rest
			}
			require.NoError(t, err)
			require.Equal(t, 148, n)
			conserves(t, d.q, 150)
			require.Equal(t, map[string]uint64{"requeue": 2, "delete": 150}[verb], stats(t, d.q).Deleted)
			stop(t, d.x)
		})
	}
}

// What is counted as dead and not on disk yet is meant by a call for the dead.
func TestTheDeadThatAreNotOnDisk(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		x, q := fates(t, disk, executor.QueueConfig[string]{})
		start(t, x)
		enqueue(t, q, "buried", "x", executor.In(time.Minute))
		disk.Limit(1)
		time.Sleep(2 * time.Minute)
		require.Equal(t, 1, stats(t, q).Dead)
		remove := func(ctx context.Context) error {
			n, err := x.Inspect().DeleteDead(ctx, inspect.SelectQueue("q"))
			require.Equal(t, err == nil, n == 1)
			return err
		}
		require.ErrorIs(t, within(time.Second, remove), context.DeadlineExceeded)
		disk.Limit(0)
		require.NoError(t, remove(t.Context()))
		conserves(t, q, 1)
		stop(t, x)
	})
}

// A payload that is put back although the caller of Requeue has gone has its old place
// among those of other queues.
func TestRequeueInLanesWhenTheCallerHasGone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		x := openOn(t, disk, executor.Config{})
		k := openKinds(t, x, func(_ string, j executor.Job[int]) error { return executor.Cancel(errBoom) }, "created", "paid")
		created, paid := k.queues[0], k.queues[1]
		enqueue(t, created, "a", 1)
		start(t, x)
		synctest.Wait()
		k.then(true, func(string, executor.Job[int]) error { return nil })
		enqueue(t, paid, "a", 2, executor.In(10*time.Second))
		brake := hang(disk)
		err := within(time.Second, func(ctx context.Context) error {
			_, err := x.Inspect().Requeue(ctx, inspect.SelectQueue(created.Name()))
			return err
		})
		require.ErrorIs(t, err, executor.ErrUnknown)
		time.Sleep(time.Minute)
		require.Empty(t, k.ended(), "what comes after it waits")
		brake.release()
		synctest.Wait()
		require.Equal(t, []string{"created 1", "paid 2"}, k.ended())
		stop(t, x)
	})
}

// What dead letters had locked is unlocked in the commit that deletes them: the keys of
// the payloads, and those that the runs of a job have locked for it.
func TestTheDeadUnlockInTheirCommit(t *testing.T) {
	for name, retention := range map[string]executor.Retention{"a person": {}, "retention": {Count: 1}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				ids := []string{"a", "b", "c"}
				open := func(disk *journal.Memory, retention executor.Retention) (*executor.Executor, *executor.Queue[string]) {
					x := openOn(t, disk, executor.Config{Workers: 1})
					cfg := executor.QueueConfig[string]{MaxRetries: -1, DeadLetters: executor.DeadLetters[string]{Retention: retention}}
					cfg.Conditions.Locks = executor.Locks[string]{OnEnqueue: words, OnRun: func(id, _ string) []string { return []string{"ran " + id} }}
					return x, handle(t, x, "q", (&probe{decide: func(context.Context, seen) error { return errBoom }}).handle, cfg)
				}
				disk := new(journal.Memory)
				x, q := open(disk, retention)
				for _, id := range ids {
					enqueue(t, q, id, id)
				}
				var images []*journal.Memory
				disk.OnCommit(func() { images = append(images, disk.Crash()) })
				start(t, x)
				time.Sleep(time.Minute)
				if retention.Count == 0 {
					did(t, 2)(x.Inspect().DeleteDead(t.Context(), inspect.SelectIDs("q", "a", "b")))
				}
				disk.OnCommit(nil)
				stop(t, x)
				var gone int
				for i, image := range images {
					x, q := open(image, executor.Retention{})
					var want []string
					gone = 0
					for _, id := range ids {
						switch explain(t, x, "q", id).State {
						case inspect.JobUnknown:
							gone++
						case inspect.JobDead:
							want = append(want, id+" 1", "ran "+id+" 1")
						default:
							want = append(want, id+" 1")
							if ran := "ran " + id + " 1"; slices.Contains(locked(x), ran) {
								want = append(want, ran) // it was running
							}
						}
					}
					require.ElementsMatch(t, want, locked(x), "commit %d, dead: %v", i, deadOf(t, q))
					stop(t, x)
				}
				require.Equal(t, 2, gone)
			})
		})
	}
}
