package executor

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// A04: a job that was running when the process died has its slot still; when it is given
// up, because it may have killed the process, the slot is free at once, or by option when
// the TTL has passed.
func TestLaralocker_A04_AJobThatIsGivenUp(t *testing.T) {
	for _, keep := range []bool{false, true} {
		t.Run(fmt.Sprint("kept ", keep), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk, hang := new(journal.Memory), make(chan struct{})
				open := func() (*Queue[string], *Slots[int]) {
					x, err := OpenOn(disk, Config{})
					require.NoError(t, err)
					t.Cleanup(func() { _ = x.Stop(context.Background()) })
					s, err := NewSlots(x, "serials", SlotsConfig[int]{Next: func(v int) int { return v + 1 }, KeepOnBurial: keep})
					require.NoError(t, err)
					q, err := Handle(x, "q", func(context.Context, Job[string]) error { <-hang; return nil }, QueueConfig[string]{Conditions: Conditions[string]{Slots: []SlotSource{s}}})
					require.NoError(t, err)
					return q, s
				}
				q, _ := open()
				require.NoError(t, q.q.x.Start(t.Context()))
				receipt, err := q.Enqueue(t.Context(), "a", "")
				require.NoError(t, err)
				_, err = q.Enqueue(t.Context(), "a", "", In(time.Hour)) // which is another job's turn
				require.NoError(t, err)
				synctest.Wait()
				disk = disk.Crash()
				defer close(hang)
				again, s := open()
				require.Len(t, s.Snapshot().Open, 1)
				suspect := again.q.Suspects.New(journal.Suspicion{Deaths: 3, Odds: 1e9}, "a", journal.Position(receipt.Position))
				require.True(t, suspect.GivenUp())
				in := again.q.Shards.Of("a")
				require.NoError(t, in.Do(t.Context(), func(c *shard.Core) { c.Hold("a", shard.HoldSuspect) }))
				again.q.Suspects.Admit(suspect)
				synctest.Wait()
				require.Equal(t, 1, again.q.x.DeadOnDisk())
				require.Equal(t, keep, len(s.Snapshot().Open) == 1)
				require.Equal(t, keep, again.q.x.SlotsOnDisk() == 1)
				time.Sleep(time.Minute)
				require.Empty(t, s.Snapshot().Open)
			})
		})
	}
}
