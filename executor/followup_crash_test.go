package executor_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
)

// relay is a chain of queues of every shape. A token is enqueued for the first of them
// and handed on by each step: so at any moment, on any disk, it is in one place, the
// last of which is a queue that nothing runs of.
type relay struct {
	t     *testing.T
	first *executor.Queue[string]

	mu sync.Mutex
	r  *rand.Rand
}

// fails says by chance what is to become of a call.
func (c *relay) fails() error {
	c.mu.Lock()
	n := c.r.IntN(12)
	c.mu.Unlock()
	switch n {
	case 0:
		return errBoom
	case 1:
		return executor.Snooze(time.Second)
	case 2:
		panic("boom")
	case 3:
		time.Sleep(5 * time.Millisecond) // the run is taken apart
	}
	return nil
}

// idOf spreads tokens over few ids, so that they meet there.
func idOf(token string) string {
	id, _, _ := strings.Cut(token, "#")
	return id
}

// startRelay opens the chain on a disk.
func startRelay(t *testing.T, x *executor.Executor, r *rand.Rand) *relay {
	c := &relay{t: t, r: rand.New(rand.NewPCG(r.Uint64(), 0))} // handlers draw beside the test
	cfg := executor.QueueConfig[string]{MaxRetries: 1e6, RetryIn: always(time.Second), Share: executor.Share{Shards: 2}}
	byID := func(id string, _ string) []string { return []string{id} }
	last, err := executor.Handle(x, "last", func(context.Context, executor.Job[string]) error { return nil }, executor.QueueConfig[string]{
		Defaults: executor.Defaults[string]{
			Due: func(string) time.Time { return time.Now().Add(1e6 * time.Hour) },
		},
		Conditions: executor.Conditions[string]{
			Locks: executor.Locks[string]{OnEnqueue: byID, Unlock: byID},
		},
	})
	require.NoError(t, err)
	cfg.BatchSize = 4
	third, err := executor.HandleBatch(x, "third", func(_ context.Context, jobs []executor.Merged[string]) error {
		for _, job := range jobs {
			if err := handOn(last, job, job.Payloads); err != nil {
				return err
			}
		}
		return c.fails()
	}, cfg)
	require.NoError(t, err)
	cfg.BatchSize, cfg.Conditions.Locks = 0, executor.Locks[string]{OnEnqueue: byID, Unlock: byID, Counted: true}
	second, err := executor.HandleMerged(x, "second", func(_ context.Context, job executor.Merged[string]) error {
		if err := c.fails(); err != nil {
			return err
		}
		return handOn(third, job, job.Payloads)
	}, cfg)
	require.NoError(t, err)
	cfg.Conditions.Locks = executor.Locks[string]{}
	c.first, err = executor.Handle(x, "first", func(_ context.Context, job executor.Job[string]) error {
		if err := second.FollowUp(job, job.ID, job.Payload); err != nil {
			return err
		}
		return c.fails()
	}, cfg)
	require.NoError(t, err)
	return c
}

func handOn(q *executor.Queue[string], job executor.Parent, payloads []executor.Payload[string]) error {
	for _, p := range payloads {
		if err := q.FollowUp(job, idOf(p.Value), p.Value); err != nil {
			return err
		}
	}
	return nil
}

// tokens counts what is on a disk, by token, and where they are.
func tokens(t *testing.T, disk *journal.Memory) (where map[string][]string, locked int) {
	l, err := journal.OpenMemory(disk, journal.Config{})
	require.NoError(t, err)
	where = make(map[string][]string)
	for name, number := range l.Queues() {
		for _, ref := range slices.Concat(l.PendingPages(number)...) {
			var e journal.Entry
			require.NoError(t, ref.Read(&e))
			if e.Kind == journal.KindEnqueued {
				where[strings.Trim(string(e.Payload), `"`)] = append(where[strings.Trim(string(e.Payload), `"`)], name)
			}
		}
	}
	for _, err := range l.Keys("lock/", "") {
		require.NoError(t, err)
		locked++
	}
	require.NoError(t, l.Close())
	return where, locked
}

// A chain that crashes after any commit, on a disk that is full at times, has each
// token in one place: no step ran twice to its end, and none was lost.
func TestFollowUpsAfterACrashAtEveryCommit(t *testing.T) {
	bubbles(t, 3, 14, func(t *testing.T, r *rand.Rand) {
		type image struct {
			disk     *journal.Memory
			accepted int
		}
		var mu sync.Mutex
		var images []image
		var accepted []string
		disk := new(journal.Memory)
		disk.OnCommit(func() {
			mu.Lock()
			defer mu.Unlock()
			images = append(images, image{disk.Crash(), len(accepted)})
		})
		x := openOn(t, disk, executor.Config{Workers: 3})
		c := startRelay(t, x, r)
		start(t, x)
		for i := range 80 {
			if i%40 == 15 {
				disk.Limit(2000 + r.IntN(20_000))
			}
			token := fmt.Sprintf("id %d#%d", r.IntN(12), i)
			_, err := c.first.Enqueue(t.Context(), idOf(token), token)
			if err == nil {
				mu.Lock()
				accepted = append(accepted, token)
				mu.Unlock()
			} else {
				require.ErrorIs(t, err, executor.ErrFull)
			}
			if i%40 == 30 {
				time.Sleep(3 * time.Second)
				disk.Limit(0)
			}
			if r.IntN(10) == 0 {
				time.Sleep(time.Second)
			}
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		stop(t, x)
		disk.OnCommit(nil)
		for i, image := range append(images, image{disk, len(accepted)}) {
			where, locked := tokens(t, image.disk)
			for _, token := range accepted[:image.accepted] {
				require.Len(t, where[token], 1, "token %q after commit %d", token, i)
			}
			behind := 0
			for token, queues := range where {
				require.Len(t, queues, 1, "token %q after commit %d", token, i)
				if queues[0] == "last" || queues[0] == "second" {
					behind++
				}
			}
			require.Equal(t, behind, locked, "after commit %d: each that locks a key has its lock", i)
		}
		where, _ := tokens(t, disk)
		require.Len(t, where, len(accepted))
		for token, queues := range where {
			require.Equal(t, []string{"last"}, queues, token)
		}
		finishRelay(t, images[r.IntN(len(images))].disk, r)
	})
}

// finishRelay starts on what a crash has left, and goes on to the end.
func finishRelay(t *testing.T, disk *journal.Memory, r *rand.Rand) {
	before, _ := tokens(t, disk.Crash())
	x := openOn(t, disk, executor.Config{Workers: 3})
	startRelay(t, x, r)
	start(t, x)
	time.Sleep(time.Hour)
	synctest.Wait()
	stop(t, x)
	after, locked := tokens(t, disk)
	require.Len(t, after, len(before))
	for token := range before {
		require.Equal(t, []string{"last"}, after[token], token)
	}
	require.Equal(t, len(after), locked)
}

// Small follow-ups go through a disk that is full of what comes before them: what they
// take, their jobs give back.
func TestFollowUpsOnAFullDisk(t *testing.T) {
	t.Parallel()
	for range sampled(6) { // what is where on the disk is a matter of luck
		bubble(t, func(t *testing.T) {
			const size = 100
			disk := new(journal.Memory)
			disk.Limit(1 << 18)
			x := openOn(t, disk, executor.Config{})
			cfg := executor.QueueConfig[string]{RetryIn: always(0)} // one of a full disk is a second at least
			next := newTail(t, x, "next", cfg)
			then, err := executor.Handle(x, "then", func(_ context.Context, job executor.Job[string]) error {
				return next.FollowUp(job, job.ID, job.Payload)
			}, cfg)
			require.NoError(t, err)
			q, err := executor.Handle(x, "q", func(_ context.Context, job executor.Job[string]) error {
				return then.FollowUp(job, job.ID, job.Payload)
			}, cfg)
			require.NoError(t, err)
			n := 0
			for ; err == nil; n++ {
				_, err = q.Enqueue(t.Context(), fmt.Sprint(n), strings.Repeat("x", size))
			}
			n--
			require.ErrorIs(t, err, executor.ErrFull)
			start(t, x)
			for i := 0; i < 60 && stats(t, next.Queue).Done < uint64(n); i++ {
				time.Sleep(time.Second)
				synctest.Wait()
			}
			s, err := x.Stats(t.Context())
			require.NoError(t, err)
			require.NoError(t, x.Err(), "there is room again: %d bytes each, %+v", size, s.Journal)
			require.EqualValues(t, n, stats(t, next.Queue).Done)
			require.Zero(t, stats(t, q).Failed)
			stop(t, x)
		})
	}
}

// Follow-ups that are much larger than what they follow wait on a disk that is full,
// their jobs with them, at no retry; other results are written, and all of it goes on
// when there is room.
func TestFollowUpsThatAFullDiskHasNoRoomFor(t *testing.T) {
	for _, late := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			disk := new(journal.Memory)
			x := openOn(t, disk, executor.Config{})
			in := func(d time.Duration) func(string) time.Time {
				return func(string) time.Time { return time.Now().Add(d) }
			}
			next := newTail(t, x, "next", executor.QueueConfig[string]{Defaults: executor.Defaults[string]{Due: in(2 * time.Minute)}}) // they give no room back before
			others := newTail(t, x, "others", executor.QueueConfig[string]{Defaults: executor.Defaults[string]{Due: in(10 * time.Second)}})
			var calls shared[int]
			jobs, err := executor.Handle(x, "jobs", func(_ context.Context, job executor.Job[string]) error {
				large := strings.Repeat("x", 20_000)
				err := next.FollowUp(job, job.ID, large)
				calls.set(calls.get() + 1)
				if late {
					time.Sleep(5 * time.Second) // the disk is full by the time that it succeeds
				}
				return err
			}, executor.QueueConfig[string]{MaxRetries: 1, RetryIn: always(time.Second)})
			require.NoError(t, err)
			for i := range 12 {
				enqueue(t, jobs, fmt.Sprint(i), "small")
				enqueue(t, others.Queue, fmt.Sprint(i), "other")
			}
			disk.Limit(100_000)
			_, err = others.Enqueue(t.Context(), "large", strings.Repeat("x", 100_000))
			require.ErrorIs(t, err, executor.ErrFull)
			start(t, x)
			time.Sleep(30 * time.Second)
			synctest.Wait()
			require.ErrorIs(t, x.Err(), executor.ErrFull, "it says so")
			require.EqualValues(t, 12, stats(t, others.Queue).Done, "the results of others are written")
			done := stats(t, jobs).Done
			require.Less(t, done, uint64(12))
			require.Zero(t, stats(t, jobs).Failed, "no retry is spent")
			require.Greater(t, calls.get(), int(done), "they are tried again")
			where, _ := tokens(t, disk.Crash())
			require.Len(t, where["small"], 12-int(done), "what is durable is whole")

			disk.Limit(0)
			time.Sleep(5 * time.Minute)
			synctest.Wait()
			require.NoError(t, x.Err())
			require.EqualValues(t, 12, stats(t, jobs).Done)
			require.EqualValues(t, 12, stats(t, next.Queue).Done)
			stop(t, x)
		})
	}
}
