package executor

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/quarantine"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// guilty enqueues "1" for the id "a", which a start finds to be the cause of three deaths.
func guilty(t *testing.T, q *Queue[string]) *quarantine.Suspect {
	receipt, err := q.Enqueue(t.Context(), "a", "1")
	require.NoError(t, err)
	in := q.q.Shards.Of("a")
	require.NoError(t, in.Do(t.Context(), func(c *shard.Core) { c.Hold("a", shard.HoldSuspect) }))
	s := q.q.Suspects.New(journal.Suspicion{Deaths: 3, Odds: 1e9}, "a", journal.Position(receipt.Position))
	q.q.Suspects.Admit(s)
	return s
}

// What is newer than a payload that was given up waits until the disk has room to give it up, too. What takes its
// place meanwhile does not run either, also after a crash, whatever the limit is then.
func TestTheHeirThatWaitsForRoom(t *testing.T) {
	for _, policy := range []OnExhausted{OnExhaustedBuryOldest, OnExhaustedHalt} {
		t.Run(string(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { heirThatWaitsForRoom(t, policy) })
		})
	}
}

func heirThatWaitsForRoom(t *testing.T, policy OnExhausted) {
	open := func(disk *journal.Memory, limit int) (*Executor, *Queue[string]) {
		x, err := OpenOn(disk, Config{Crash: Crash{Limit: limit}})
		require.NoError(t, err)
		t.Cleanup(func() { _ = x.Stop(context.Background()) })
		q, err := HandleLatest(x, "q", func(_ context.Context, job Job[string]) error {
			t.Error("it runs:", len(job.Payload))
			return nil
		}, QueueConfig[string]{DeadLetters: DeadLetters[string]{OnExhausted: policy}})
		require.NoError(t, err)
		return x, q
	}
	disk := new(journal.Memory)
	x, q := open(disk, 3)
	guilty(t, q)
	in := q.q.Shards.Of("a")
	require.NoError(t, x.Start(t.Context()))
	synctest.Wait()
	disk.Fill(82_000, 20_000)
	var accepted [2]Receipt
	require.NoError(t, in.Do(t.Context(), func(*shard.Core) {
		for i, to := range []string{"2", strings.Repeat("x", 50_000)} { // both wait for it before it gives one up
			go func() {
				var err error
				accepted[i], err = q.Enqueue(context.Background(), "a", to)
				assert.NoError(t, err)
			}()
			time.Sleep(time.Millisecond)
		}
	}))
	synctest.Wait()
	explained := func(x *Executor) inspect.Explanation {
		e, err := x.Inspect().Explain(t.Context(), "q", "a")
		require.NoError(t, err)
		return e
	}
	require.Contains(t, explained(x).Text, "held until the disk has room to give it up: crashed the process: older payloads of its id did")
	for kv, err := range x.log.Keys("suspect/", "") {
		require.NoError(t, err)
		require.Equal(t, journal.Cleared(journal.Position(accepted[1].Position)).Key, kv.Key)
	}
	again := disk.Crash()
	disk.Limit(0)
	require.NoError(t, x.Stop(t.Context()))

	x, q = open(again, 9)
	require.NoError(t, x.Start(t.Context()))
	synctest.Wait()
	for i := range 5 {
		if policy == OnExhaustedHalt {
			require.Equal(t, inspect.JobHalted, explained(x).State)
		} else {
			require.Equal(t, 1, x.DeadOnDisk())
		}
		require.Contains(t, explained(x).LastError, "crashed the process: older payloads of its id did; this one has not run")
		require.Equal(t, []string{"q/a is newer than the cause: given up"}, x.quarantine.Named(), "it is one, however often it changes")
		_, err := q.Enqueue(t.Context(), "a", fmt.Sprint("newer ", i))
		require.NoError(t, err)
		synctest.Wait()
	}
}

// What comes in the moment in which a payload is given up is its heir.
func TestTheHeirThatComesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, err := OpenOn(new(journal.Memory), Config{})
		require.NoError(t, err)
		t.Cleanup(func() { _ = x.Stop(context.Background()) })
		q, err := HandleLatest(x, "q", func(_ context.Context, job Job[string]) error {
			t.Error("it runs:", job.Payload)
			return nil
		}, QueueConfig[string]{})
		require.NoError(t, err)
		require.NoError(t, x.Start(t.Context()))
		receipt, err := q.Enqueue(t.Context(), "a", "1", In(time.Hour))
		require.NoError(t, err)
		in := q.q.Shards.Of("a")
		require.NoError(t, in.Do(t.Context(), func(c *shard.Core) {
			c.Hold("a", shard.HoldSuspect)
			q.q.Suspects.Admit(q.q.Suspects.New(journal.Suspicion{Deaths: 3, Odds: 1e9}, "a", journal.Position(receipt.Position)))
			go func() { _, _ = q.Enqueue(context.Background(), "a", "2") }()
			time.Sleep(time.Millisecond) // it stands behind the sentence in the mailbox, and before what that brings
		}))
		synctest.Wait()
		require.Equal(t, 1, x.DeadOnDisk())
	})
}

// An heir that a person deletes while it waits for room is condemned no more, and nothing in its place.
func TestAnHeirThatAPersonEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk, ran := new(journal.Memory), make(chan string, 1)
		x, err := OpenOn(disk, Config{})
		require.NoError(t, err)
		t.Cleanup(func() { _ = x.Stop(context.Background()) })
		q, err := HandleLatest(x, "q", func(_ context.Context, job Job[string]) error {
			ran <- job.Payload
			return nil
		}, QueueConfig[string]{})
		require.NoError(t, err)
		s := guilty(t, q)
		require.NoError(t, x.Start(t.Context()))
		synctest.Wait()
		disk.Fill(82_000, 20_000)
		_, err = q.Enqueue(t.Context(), "a", strings.Repeat("x", 50_000))
		require.NoError(t, err)
		synctest.Wait()
		e, err := x.Inspect().Explain(t.Context(), "q", "a")
		require.NoError(t, err)
		require.Contains(t, e.Text, "held until the disk has room to give it up")
		n, err := x.Inspect().Delete(t.Context(), inspect.SelectIDs("q", "a"))
		require.NoError(t, err)
		require.Equal(t, 1, n)
		synctest.Wait() // the journal has seen what that has freed
		disk.Limit(0)
		_, err = q.Enqueue(t.Context(), "a", "innocent", In(time.Hour))
		require.NoError(t, err)
		q.q.Suspects.Admit(s) // a sentence that comes late
		require.Equal(t, "innocent", <-ran)
		require.Zero(t, x.DeadOnDisk())
	})
}
