package executor_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
)

// A backlog that has left memory runs as any other: in order, merged, retried and
// buried, before a restart and after it.
func TestBacklogBeyondMemory(t *testing.T) {
	const ids, each = 200, 10
	dir := t.TempDir() + "/journal"
	cfg := executor.Config{Advanced: executor.Advanced{MemoryBudget: 10_000}, Workers: 4}
	var mu sync.Mutex
	ran := make(map[string][]string)
	failed := make(map[string]bool)
	handler := func(_ context.Context, job executor.Merged[string]) error {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case strings.HasPrefix(job.ID, "bad"):
			return executor.Cancel(errBoom)
		case strings.HasPrefix(job.ID, "slow") && !failed[job.ID]:
			failed[job.ID] = true
			return executor.RetryAfter(time.Millisecond, errBoom)
		}
		for _, p := range job.Payloads {
			ran[job.ID] = append(ran[job.ID], p.Value)
		}
		return nil
	}
	queue := executor.QueueConfig[string]{Gather: executor.Gather[string]{MaxPayloads: 3}, Merge: executor.MergeMinScore}
	x := open(t, dir, cfg)
	q := handle(t, x, "q", handler, queue)
	want := make(map[string][]string)
	buried := 0
	for n := range each {
		var items []executor.Item[string]
		for i := range ids {
			id := fmt.Sprintf("%s-%d", []string{"good", "slow", "bad", "twice"}[i%4], i)
			payload := fmt.Sprintf("payload %d of %s %s", n, id, strings.Repeat("x", 50))
			items = append(items, executor.Item[string]{ID: id, Payload: payload})
			switch i % 4 {
			case 2:
				buried++
			case 3:
				items = append(items, executor.Item[string]{ID: id, Payload: payload})
				fallthrough
			default:
				want[id] = append(want[id], payload)
			}
		}
		_, err := q.EnqueueMany(t.Context(), items)
		require.NoError(t, err)
		if n == each/2 {
			stop(t, x)
			x = open(t, dir, cfg)
			q = handle(t, x, "q", handler, queue)
		}
	}
	start(t, x)
	drained(t, q)
	s, err := x.Stats(t.Context())
	require.NoError(t, err)
	require.NotZero(t, s.Journal.ReadBacks)
	require.Equal(t, want, ran)
	stop(t, x) // the last burials are on disk then
	x = open(t, dir, cfg)
	q = handle(t, x, "q", handler, queue)
	require.Zero(t, stats(t, q).Jobs)
	dead := morgue(t, q)
	require.Equal(t, buried, len(dead))
	for _, d := range dead {
		require.Contains(t, d.Payload, "of "+d.ID+" ")
	}
	stop(t, x)
}

// A start takes in what was pending a little at a time: payloads of an id that come
// at different times are in order.
func TestStartInStrides(t *testing.T) {
	const ids, each, size = 7, 20, 50_000
	var mu sync.Mutex
	ran := make(map[string][]string)
	handler := func(_ context.Context, job executor.Merged[[]byte]) error {
		mu.Lock()
		defer mu.Unlock()
		for _, p := range job.Payloads {
			ran[job.ID] = append(ran[job.ID], string(bytes.TrimSpace(p.Value)))
		}
		return nil
	}
	var items []executor.Item[[]byte]
	want := make(map[string][]string)
	for n := range ids * each {
		id := fmt.Sprint("id-", n%ids)
		items = append(items, executor.Item[[]byte]{ID: id, Payload: fmt.Appendf(nil, "%*d", size, n)})
		want[id] = append(want[id], fmt.Sprint(n))
	}
	for _, budget := range []int{1, -1} {
		disk := new(journal.Memory)
		x := openOn(t, disk, executor.Config{Advanced: executor.Advanced{MemoryBudget: budget}})
		q := handle(t, x, "q", handler, executor.QueueConfig[[]byte]{Share: executor.Share{Shards: 3}})
		for some := range slices.Chunk(items, ids) {
			_, err := q.EnqueueMany(t.Context(), some)
			require.NoError(t, err)
		}
		stop(t, x)

		clear(ran)
		x = openOn(t, disk, executor.Config{Advanced: executor.Advanced{MemoryBudget: budget}})
		q = handle(t, x, "q", handler, executor.QueueConfig[[]byte]{Share: executor.Share{Shards: 3}})
		require.Equal(t, len(items), stats(t, q).Payloads)
		start(t, x)
		drained(t, q)
		require.Equal(t, want, ran)
		stop(t, x)
	}
}

// An executor whose disk can't give back what left memory stops, hands no handler
// anything else instead, and loses nothing.
func TestUnreadableBacklog(t *testing.T) {
	disk := new(journal.Memory)
	broken := errors.New("the disk does not answer")
	told := make(chan error, 1)
	cfg := executor.Config{Advanced: executor.Advanced{MemoryBudget: 1}, Workers: 2, OnFatal: func(err error) { told <- err }}
	var ran atomic.Int64
	handler := func(_ context.Context, job executor.Merged[int]) error {
		assert.Equal(t, fmt.Sprint(job.Latest()), job.ID)
		ran.Add(1)
		return nil
	}
	x := openOn(t, disk, cfg)
	q := handle(t, x, "q", handler, executor.QueueConfig[int]{Share: executor.Share{Shards: 2}})
	for i := range 500 {
		enqueue(t, q, fmt.Sprint(i), i)
	}
	pending, err := q.Pending(t.Context(), "250") // what was read last stays: not one of the first
	require.NoError(t, err)
	require.True(t, pending)
	disk.FailReads(broken)
	start(t, x)
	require.ErrorIs(t, await(t, told), broken)
	require.ErrorIs(t, x.Err(), executor.ErrFailed)
	_, err = q.Enqueue(t.Context(), "late", 1)
	require.ErrorIs(t, err, executor.ErrFailed)
	_, err = q.Stats(t.Context())
	require.ErrorIs(t, err, executor.ErrFailed)
	require.ErrorIs(t, x.Stop(t.Context()), broken)
	require.Zero(t, ran.Load())

	disk.FailReads(nil)
	x = openOn(t, disk, cfg)
	disk.FailReads(broken)
	_, err = executor.HandleMerged(x, "q", handler, executor.QueueConfig[int]{})
	require.ErrorIs(t, err, executor.ErrFailed)
	require.ErrorIs(t, err, broken)
	require.ErrorIs(t, x.Stop(t.Context()), broken)

	disk.FailReads(nil)
	x = openOn(t, disk, cfg)
	q = handle(t, x, "q", handler, executor.QueueConfig[int]{})
	start(t, x)
	drained(t, q)
	require.Equal(t, int64(500), ran.Load())
	stop(t, x)
}

// Who waits for the payload of an earlier call looks for it among jobs that have left memory, and reads none of them:
// the shards go on meanwhile, also when the disk can't give one back. Of the payload itself it reads the id.
func TestWaitForAKeyBeyondMemory(t *testing.T) {
	disk := new(journal.Memory)
	x := openOn(t, disk, executor.Config{Advanced: executor.Advanced{MemoryBudget: 1}, Workers: 2})
	ran := make(chan struct{}, 1)
	q := handle(t, x, "q", func(context.Context, executor.Merged[int]) error { ran <- struct{}{}; return nil }, executor.QueueConfig[int]{})
	var items []executor.Item[int]
	for i := range 4000 {
		items = append(items, executor.Item[int]{ID: fmt.Sprint(i % 2000), Payload: i, Due: time.Now().Add(1000 * time.Hour)})
	}
	for some := range slices.Chunk(items, 100) {
		_, err := q.EnqueueMany(t.Context(), some)
		require.NoError(t, err)
	}
	receipts := make(map[string]executor.Receipt)
	for _, key := range []string{"over", "waits"} {
		var due []executor.Option
		if key == "waits" {
			due = append(due, executor.In(1000*time.Hour))
		}
		due = append(due, executor.IdempotencyKey(key))
		enqueue(t, q, "first "+key, 1, due...)
		receipts[key] = enqueue(t, q, "a", 1, due...)
		require.True(t, receipts[key].Duplicate)
	}
	enqueue(t, q, "last", 1, executor.In(1000*time.Hour)) // what is behind the payload has left memory, too
	start(t, x)
	await(t, ran)
	settled(t, q)
	reads := func() uint64 {
		s, err := x.Stats(t.Context())
		require.NoError(t, err)
		return s.Journal.ReadBacks
	}
	before := reads()
	disk.FailReads(errBoom)
	require.NoError(t, q.Wait(t.Context(), receipts["over"]))
	require.ErrorIs(t, q.Wait(t.Context(), receipts["waits"]), errBoom)
	require.NoError(t, x.Err())
	require.Equal(t, before, reads())
	disk.FailReads(nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	require.ErrorIs(t, q.Wait(ctx, receipts["waits"]), context.DeadlineExceeded)
	require.LessOrEqual(t, reads(), before+1)
	stop(t, x)
}

// springing is a codec that does something before it decodes.
type springing struct {
	executor.JSON[int]
	before func()
}

func (c springing) Decode(data []byte) (int, error) {
	c.before()
	return c.JSON.Decode(data)
}

// A job of which a payload can't be read does not run with the others.
func TestUnreadablePayload(t *testing.T) {
	disk := new(journal.Memory)
	broken := errors.New("the disk does not answer")
	told := make(chan error, 1)
	cfg := executor.Config{Advanced: executor.Advanced{MemoryBudget: 1}, OnFatal: func(err error) { told <- err }}
	var got [][]int
	handler := func(_ context.Context, job executor.Merged[int]) error {
		var values []int
		for _, p := range job.Payloads {
			values = append(values, p.Value)
		}
		got = append(got, values)
		return nil
	}
	x := openOn(t, disk, cfg)
	q := handle(t, x, "q", handler, executor.QueueConfig[int]{Codec: springing{before: func() { disk.FailReads(broken) }}})
	for i := range 10 { // each in a block of its own
		enqueue(t, q, "id", i)
	}
	start(t, x)
	require.ErrorIs(t, await(t, told), broken)
	require.ErrorIs(t, x.Stop(t.Context()), broken)
	require.Empty(t, got)

	disk.FailReads(nil)
	x = openOn(t, disk, cfg)
	q = handle(t, x, "q", handler, executor.QueueConfig[int]{})
	start(t, x)
	drained(t, q)
	stop(t, x)
	require.Equal(t, [][]int{{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}}, got)
}

// In memory a call waits for its shard, whatever Durability says: what it was merged into is known.
func TestDurabilityInMemory(t *testing.T) {
	for _, durability := range []executor.Durability{executor.DurabilitySync, executor.DurabilityAsync} {
		x := open(t, "", executor.Config{Durability: durability})
		q := handle(t, x, "q", (&probe{}).handle, executor.QueueConfig[string]{Merge: executor.MergeKeepFirst})
		first := enqueue(t, q, "a", "x", executor.In(time.Hour))
		require.Equal(t, first.Position, enqueue(t, q, "a", "x", executor.In(time.Hour)).MergedInto, durability)
		stop(t, x)
	}
}
