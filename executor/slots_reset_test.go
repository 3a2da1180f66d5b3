package executor_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
)

// A05: a reset by hand begins the sequence anew: StartFrom is asked again, in the next
// process if none was before, and values come again. It is on disk when it returns.
func TestLaralocker_A05_ResetByHand(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk, from, asked := new(journal.Memory), 0, 0
		cfg := executor.SlotsConfig[int]{StartFrom: func(context.Context) (int, error) { asked++; return from, nil }}
		x := openOn(t, disk, executor.Config{})
		s := new(sold)
		q := s.shop(t, x, cfg, executor.QueueConfig[string]{})
		start(t, x)
		sell := func(want ...int) {
			t.Helper()
			before := len(s.log())
			for i, slot := range want {
				enqueue(t, q, "a", "")
				synctest.Wait()
				require.Equal(t, fmt.Sprint("a ", slot), s.log()[before+i])
			}
		}
		sell(1, 2, 3)
		require.NoError(t, s.slots.Reset(t.Context()))
		s.last(t, 0, false)
		sell(1, 2)
		from = 10
		require.NoError(t, s.slots.Reset(t.Context()))
		sell(11)
		require.NoError(t, s.slots.Reset(t.Context()))
		from = 20
		x = openOn(t, disk.Crash(), executor.Config{})
		s = new(sold)
		q = s.shop(t, x, cfg, executor.QueueConfig[string]{})
		s.last(t, 0, false)
		start(t, x)
		sell(21, 22)
		require.Equal(t, 4, asked)
		stop(t, x)
		require.ErrorIs(t, s.slots.Reset(t.Context()), executor.ErrClosed)
	})
}

// A05: what a job has while the sequence is reset stays its own, and its success does not
// move the sequence, over a crash, too.
func TestLaralocker_A05_ResetBesideAJob(t *testing.T) {
	for _, crash := range []bool{false, true} {
		t.Run(fmt.Sprint("crash ", crash), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				disk := new(journal.Memory)
				x := openOn(t, disk, executor.Config{})
				s, goOn := new(sold), make(chan struct{})
				s.decide = func(_ context.Context, job executor.Merged[string], slot int) error {
					if job.ID == "slow" {
						<-goOn
					}
					return nil
				}
				cfg, queue := executor.SlotsConfig[int]{}, executor.QueueConfig[string]{Share: executor.Share{Shards: 1, Concurrency: 9}}
				q := s.shop(t, x, cfg, queue)
				start(t, x)
				for _, id := range []string{"a", "a", "slow"} {
					enqueue(t, q, id, "")
					synctest.Wait()
				}
				require.NoError(t, s.slots.Reset(t.Context()))
				if crash {
					dead := goOn
					defer close(dead)
					goOn = make(chan struct{})
					disk = disk.Crash()
					x = openOn(t, disk, executor.Config{})
					s = &sold{decide: s.decide}
					q = s.shop(t, x, cfg, queue)
					start(t, x)
					synctest.Wait()
					require.Equal(t, []string{"slow 3"}, s.log())
				}
				for _, id := range []string{"b", "b", "b"} {
					enqueue(t, q, id, "")
					synctest.Wait()
				}
				require.Equal(t, []string{"slow 3", "b 1", "b 2", "b 4"}, s.log()[len(s.log())-4:])
				close(goOn)
				synctest.Wait()
				s.last(t, 4, true)
				require.NoError(t, s.slots.Reset(t.Context()))
				y := openOn(t, disk.Crash(), executor.Config{})
				after := must(executor.NewSlots(y, "serials", executor.SlotsConfig[int]{Next: next}))
				require.False(t, after.Snapshot().Known)
				stop(t, y)
				enqueue(t, q, "c", "")
				synctest.Wait()
				s.last(t, 1, true)
				stop(t, x)
			})
		})
	}
}

// A05: a job that succeeds after a reset, before any other has a slot, leaves nothing
// known.
func TestLaralocker_A05_ResetBesideTheOnlyJob(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		x := openOn(t, disk, executor.Config{})
		s := new(sold)
		s.decide = func(ctx context.Context, job executor.Merged[string], slot int) error {
			if slot == 1 && len(s.log()) == 1 {
				return s.slots.Reset(ctx)
			}
			return nil
		}
		q := s.shop(t, x, executor.SlotsConfig[int]{}, executor.QueueConfig[string]{})
		start(t, x)
		enqueue(t, q, "a", "")
		synctest.Wait()
		require.EqualValues(t, 1, stats(t, q).Done)
		s.last(t, 0, false)
		y := openOn(t, disk.Crash(), executor.Config{})
		after := must(executor.NewSlots(y, "serials", executor.SlotsConfig[int]{Next: next}))
		require.False(t, after.Snapshot().Known)
		stop(t, y)
		enqueue(t, q, "a", "")
		synctest.Wait()
		require.Equal(t, []string{"a 1", "a 1"}, s.log())
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, s.slots.Reset(ctx), context.Canceled)
		//lint:ignore SA1012 it is refused
		require.ErrorIs(t, s.slots.Reset(nil), executor.ErrContext)
		s.last(t, 1, true)
		time.Sleep(time.Minute)
		stop(t, x)
	})
}
