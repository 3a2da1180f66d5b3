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

// leave leaves a journal with a job and a dead payload of a queue.
func leave(t *testing.T, disk *journal.Memory, name string) {
	x := openOn(t, disk, executor.Config{})
	p := &probe{decide: func(context.Context, seen) error { return executor.Cancel(errBoom) }}
	q := handle(t, x, name, p.handle, executor.QueueConfig[string]{})
	enqueue(t, q, "dead", name)
	start(t, x)
	synctest.Wait()
	stop(t, x)
	x = openOn(t, disk, executor.Config{})
	q = handle(t, x, name, p.handle, executor.QueueConfig[string]{})
	enqueue(t, q, "id", name)
	stop(t, x)
}

// A queue that was renamed goes on with what it had.
func TestFormerNames(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		leave(t, disk, "old")
		cfg := executor.QueueConfig[string]{RenamedFrom: []string{"older", "old"}}
		for round := range 3 { // the setting may stay
			x := openOn(t, disk, executor.Config{Advanced: executor.Advanced{Strict: true}})
			p := &probe{}
			q := handle(t, x, "new", p.handle, cfg)
			if round == 0 {
				enqueue(t, q, "id", "fresh")
			}
			start(t, x)
			synctest.Wait()
			if round == 0 {
				assert.Equal(t, []string{"id[old fresh]"}, p.log())
				s, err := x.Stats(t.Context())
				require.NoError(t, err)
				assert.Len(t, s.Queues, 1)
			} else {
				assert.Empty(t, p.log())
			}
			dead := morgue(t, q)
			require.Len(t, dead, 1)
			assert.Equal(t, "old", dead[0].Payload)
			stop(t, x)
		}
		// The old name is free, and empty.
		p := &probe{}
		x := runQueue(t, disk, "old", p)
		assert.Empty(t, p.log())
		stop(t, x)
	})
}

// With no payload left the new name still knows what has run: no older state runs after it.
func TestFormerNamesOfStates(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		var ran shared[[]string]
		life := func(score float64, name string, former ...string) {
			x := openOn(t, disk, executor.Config{})
			q := must(executor.HandleLatest(x, name, func(_ context.Context, job executor.Job[string]) error {
				ran.set(append(ran.get(), job.Payload))
				return nil
			}, executor.QueueConfig[string]{RenamedFrom: former}))
			start(t, x)
			_, err := q.Enqueue(t.Context(), "id", fmt.Sprint("version ", score), executor.Score(score))
			require.NoError(t, err)
			synctest.Wait()
			stop(t, x)
		}
		life(8, "old")
		life(1, "new", "old")
		life(9, "new", "old") // round two: the setting may stay
		require.Equal(t, []string{"version 8", "version 9"}, ran.get())
	})
}

// All names may be in the configuration, the queue's own too, also while payloads wait and are dead.
func TestOwnNameAmongTheFormerOnes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		leave(t, disk, "name")
		x := openOn(t, disk, executor.Config{})
		p := &probe{}
		q := handle(t, x, "name", p.handle, executor.QueueConfig[string]{RenamedFrom: []string{"old", "name"}})
		start(t, x)
		synctest.Wait()
		require.Equal(t, []string{"id[name]"}, p.log())
		require.Len(t, morgue(t, q), 1)
		stop(t, x)
	})
}

// A slot that a failed job has kept is still its own under the new name, and is on
// disk under that.
func TestFormerNamesOfSlots(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		var runs shared[[]int]
		fail := true
		life := func(name string, former ...string) {
			x := openOn(t, disk, executor.Config{})
			slots := must(executor.NewSlots(x, "serials", executor.SlotsConfig[int]{
				Next: next, TTL: time.Hour, KeepOnFailure: true,
			}))
			sell := func(_ context.Context, job executor.Merged[string]) error {
				slot, _ := slots.Of(job)
				runs.set(append(runs.get(), slot))
				if fail && job.ID == "kept" {
					return errBoom
				}
				return nil
			}
			q := handle(t, x, name, sell, executor.QueueConfig[string]{
				RenamedFrom: former, RetryIn: always(20 * time.Minute), Conditions: executor.Conditions[string]{Slots: []executor.SlotSource{slots}},
			})
			start(t, x)
			if len(former) == 0 {
				enqueue(t, q, "kept", "")
			}
			synctest.Wait()
			enqueue(t, q, "other", "")
			synctest.Wait()
			if name != "newest" {
				open := slots.Snapshot().Open
				require.Len(t, open, 1)
				require.Equal(t, 1, open[0].Value)
				require.Equal(t, name+"/kept", open[0].Held.Owner)
				held, _, err := x.Inspect().Slots(2)
				require.NoError(t, err)
				require.Equal(t, name+"/kept", held[0].By)
				job, err := x.Inspect().Job(t.Context(), name, "kept")
				require.NoError(t, err)
				require.Len(t, job.Holdings.Slots, 1)
			}
			stop(t, x)
		}
		life("old")
		life("new", "old")
		fail = false
		time.Sleep(20 * time.Minute)
		life("newest", "new")
		require.Equal(t, []int{1, 2, 3, 1, 4}, runs.get())
	})
}

// What is there under both names is not mixed up: the program has to decide.
func TestFormerNameAndNewOneHaveJobs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		leave(t, disk, "old")
		leave(t, disk, "new")
		x := openOn(t, disk, executor.Config{})
		p := &probe{}
		cfg := executor.QueueConfig[string]{RenamedFrom: []string{"old"}}
		_, err := executor.HandleMerged(x, "new", p.handle, cfg)
		require.ErrorIs(t, err, executor.ErrConfig)
		require.ErrorContains(t, err, `"old"`)
		handle(t, x, "old", p.handle, executor.QueueConfig[string]{})
		_, err = executor.HandleMerged(x, "other", p.handle, cfg)
		require.ErrorIs(t, err, executor.ErrConfig)
		require.ErrorContains(t, err, `queue "old" is registered already`)
		handle(t, x, "new", p.handle, executor.QueueConfig[string]{})
		start(t, x)
		synctest.Wait()
		require.ElementsMatch(t, []string{"id[old]", "id[new]"}, p.log())
		stop(t, x)
	})
}

// A former name that another queue has now can't be meant: the next start would give its jobs away.
func TestFormerNameOfAnotherQueue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		p := &probe{}
		cfg := executor.QueueConfig[string]{RenamedFrom: []string{"even older", "old"}}
		x := openOn(t, disk, executor.Config{})
		handle(t, x, "new", p.handle, cfg)
		_, err := executor.HandleMerged(x, "old", p.handle, executor.QueueConfig[string]{})
		require.ErrorIs(t, err, executor.ErrConfig)
		require.ErrorContains(t, err, `queue "old" has a former name of queue "new"`)
		stop(t, x)
		x = openOn(t, disk, executor.Config{})
		handle(t, x, "new", p.handle, executor.QueueConfig[string]{RenamedFrom: cfg.RenamedFrom[:1]})
		handle(t, x, "old", p.handle, executor.QueueConfig[string]{})
		stop(t, x)
	})
}

// Under Strict nothing starts while jobs would be left alone.
func TestStrict(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		leave(t, disk, "a")
		leave(t, disk, "b")
		x := openOn(t, disk, executor.Config{Advanced: executor.Advanced{Strict: true}})
		p := &probe{}
		handle(t, x, "b", p.handle, executor.QueueConfig[string]{})
		err := x.Start(t.Context())
		require.ErrorIs(t, err, executor.ErrConfig)
		require.ErrorContains(t, err, `"a" (1 payloads)`)
		require.NotContains(t, err.Error(), `"b"`)
		synctest.Wait()
		require.Empty(t, p.log(), "nothing ran")
		handle(t, x, "a", p.handle, executor.QueueConfig[string]{})
		start(t, x)
		synctest.Wait()
		require.ElementsMatch(t, []string{"id[a]", "id[b]"}, p.log())
		stop(t, x)
	})
}
