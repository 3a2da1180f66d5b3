package executor_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
)

func TestKey(t *testing.T) {
	dir := t.TempDir() + "/journal"
	queues := func() (x *executor.Executor, a, b *executor.Queue[string]) {
		x = open(t, dir, executor.Config{})
		// Names that would be taken for each other if they were only strung
		// together.
		a = handle(t, x, "a", (&probe{}).handle, executor.QueueConfig[string]{})
		b = handle(t, x, "a/1/b", (&probe{}).handle, executor.QueueConfig[string]{})
		return x, a, b
	}
	x, a, b := queues()
	first := enqueue(t, a, "x", "1", executor.IdempotencyKey("k"))
	require.False(t, first.Duplicate)
	want := executor.Receipt{ID: "other id", Position: first.Position, Durable: true, Duplicate: true}
	require.Equal(t, want, enqueue(t, a, "other id", "other payload", executor.IdempotencyKey("k")))
	require.False(t, enqueue(t, b, "x", "1", executor.IdempotencyKey("k")).Duplicate, "keys belong to their queue")
	require.False(t, enqueue(t, a, "x", "2", executor.IdempotencyKey("1/b/k")).Duplicate)

	items := []executor.Item[string]{{ID: "x", Payload: "3"}, {ID: "y", Payload: "4"}}
	many, err := a.EnqueueMany(t.Context(), items, executor.IdempotencyKey("many"))
	require.NoError(t, err)
	again, err := a.EnqueueMany(t.Context(), items, executor.IdempotencyKey("many"))
	require.NoError(t, err)
	for i := range again {
		require.Equal(t, executor.Receipt{ID: items[i].ID, Position: many[i].Position, Durable: true, Duplicate: true}, again[i])
	}
	_, err = a.EnqueueMany(t.Context(), items[:1], executor.IdempotencyKey("many"))
	require.ErrorIs(t, err, executor.ErrInvalidKey)
	require.Equal(t, 4, stats(t, a).Payloads)
	stop(t, x)

	x, a, _ = queues()
	want.ID = "x"
	require.Equal(t, want, enqueue(t, a, "x", "1", executor.IdempotencyKey("k")), "across a restart")
	stop(t, x)
}

func TestKeyUnderRace(t *testing.T) {
	for _, dir := range []string{"", t.TempDir() + "/journal"} {
		x := open(t, dir, executor.Config{})
		q := handle(t, x, "jobs", (&probe{}).handle, executor.QueueConfig[string]{Merge: executor.MergeKeepAll})
		var mu sync.Mutex
		fresh := make(map[string]uint64)
		all := make(map[string][]uint64)
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				for i := range 20 {
					key := fmt.Sprint(i)
					r, err := q.Enqueue(t.Context(), "a", "x", executor.IdempotencyKey(key))
					assert.NoError(t, err)
					mu.Lock()
					all[key] = append(all[key], r.Position)
					if !r.Duplicate {
						assert.Zero(t, fresh[key])
						fresh[key] = r.Position
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		require.Len(t, fresh, 20)
		for key, positions := range all {
			require.Equal(t, slices.Repeat([]uint64{fresh[key]}, 16), positions)
		}
		require.Equal(t, 20, stats(t, q).Payloads)
		require.Zero(t, x.Gates())
	}
}

// keysOn counts the idempotency keys on a disk.
func keysOn(t *testing.T, disk *journal.Memory) (n int) {
	t.Helper()
	l, err := journal.OpenMemory(disk.Crash(), journal.Config{})
	require.NoError(t, err)
	defer l.Close()
	for set, err := range l.Keys("key/", "") {
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(set.Key, "key/4/jobs/"), set.Key)
		n++
	}
	return n
}

func TestKeyExpires(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		x := openOn(t, disk, executor.Config{Advanced: executor.Advanced{IdempotencyTTL: time.Hour}})
		q := handle(t, x, "jobs", (&probe{}).handle, executor.QueueConfig[string]{})
		start(t, x)
		first := enqueue(t, q, "a", "x", executor.IdempotencyKey("k"))
		time.Sleep(time.Hour - time.Second)
		require.True(t, enqueue(t, q, "a", "x", executor.IdempotencyKey("k")).Duplicate, "asking again does not make it younger, nor older")
		time.Sleep(time.Second)
		second := enqueue(t, q, "a", "x", executor.IdempotencyKey("k"))
		require.False(t, second.Duplicate)
		require.Greater(t, second.Position, first.Position)
		require.Equal(t, second.Position, enqueue(t, q, "a", "x", executor.IdempotencyKey("k")).Position)

		// Ten thousand keys in a row leave no more behind than one TTL brings.
		perTTL, ttls := sampled(2000), 5
		for i := range perTTL * ttls {
			enqueue(t, q, "a", "x", executor.IdempotencyKey(fmt.Sprint("key-", i)))
			time.Sleep(time.Hour / time.Duration(perTTL))
		}
		n := keysOn(t, disk)
		require.GreaterOrEqual(t, n, perTTL)
		require.LessOrEqual(t, n, perTTL*5/4)
		time.Sleep(2 * time.Hour)
		for i := range n/512 + 1 { // each call looks at 512 keys
			enqueue(t, q, "a", "x", executor.IdempotencyKey(fmt.Sprint("last-", i)))
		}
		time.Sleep(time.Second) // for the last deletes
		require.Equal(t, n/512+1, keysOn(t, disk))
	})
}

// Whatever the process knew when it died, calling again with the same key leaves
// one job.
func TestKeyAfterACrash(t *testing.T) {
	const calls = 12
	var images []*journal.Memory
	call := func(t *testing.T, q *executor.Queue[string]) {
		for i := range calls {
			key := fmt.Sprint("k", i)
			enqueue(t, q, key, key, executor.IdempotencyKey(key), executor.FromSource("m"+key, 1))
		}
	}
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		x := openOn(t, disk, executor.Config{})
		q := handle(t, x, "jobs", (&probe{}).handle, executor.QueueConfig[string]{Merge: executor.MergeKeepAll})
		disk.OnCommit(func() { images = append(images, disk.Crash()) })
		call(t, q)
		stop(t, x)
	})
	require.GreaterOrEqual(t, len(images), calls)
	for _, image := range images {
		bubble(t, func(t *testing.T) {
			p := &probe{}
			x := openOn(t, image, executor.Config{})
			q := handle(t, x, "jobs", p.handle, executor.QueueConfig[string]{Merge: executor.MergeKeepAll})
			call(t, q) // nil for each: no stale offset beside a key that is not there
			start(t, x)
			time.Sleep(time.Second)
			stop(t, x)
			require.Len(t, p.seen(), calls)
			for i := range calls {
				key := fmt.Sprint("k", i)
				require.Equal(t, []string{key}, p.of(key))
			}
		})
	}
}
