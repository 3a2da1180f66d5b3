package executor_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/journal"
)

// A disk that is full of dead letters is freed by those who delete them: a person, the
// retention of the same process, and that of the next one.
func TestDeadLettersThatFillTheDisk(t *testing.T) {
	for _, by := range []string{"hand", "age", "the next process"} {
		bubble(t, func(t *testing.T) {
			disk := new(journal.Memory)
			disk.Limit(1 << 18)
			register := func(x *executor.Executor, keep executor.Retention) *executor.Queue[string] {
				q, err := executor.Handle(x, "q", func(context.Context, executor.Job[string]) error { return executor.Cancel(errBoom) },
					executor.QueueConfig[string]{DeadLetters: executor.DeadLetters[string]{Retention: keep}})
				require.NoError(t, err)
				return q
			}
			x := openOn(t, disk, executor.Config{})
			keep := executor.Retention{}
			if by == "age" {
				keep.Age = 20 * time.Minute // each second of a full disk is an attempt
			}
			q := register(x, keep)
			start(t, x)
			for i, refused := 0, 0; refused < 50; i++ {
				synctest.Wait() // else it may be full of jobs before their letters have room
				if _, err := q.Enqueue(t.Context(), fmt.Sprint(i%20), strings.Repeat("x", 2000)); err != nil {
					require.ErrorIs(t, err, executor.ErrFull)
					refused++
					time.Sleep(time.Second)
				}
			}
			synctest.Wait()
			dead := stats(t, q).Dead
			require.Greater(t, dead, 50)
			require.ErrorIs(t, x.Err(), executor.ErrFull)
			switch by {
			case "hand":
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				n, err := x.Inspect().DeleteDead(ctx, inspect.SelectIDs("q", "3", "4"))
				require.NoError(t, err)
				require.Positive(t, n)
				m, err := x.Inspect().DeleteDead(ctx, inspect.SelectQueue("q"))
				require.NoError(t, err)
				require.Equal(t, dead, n+m)
				require.Zero(t, stats(t, q).Dead)
			case "age":
				time.Sleep(10 * time.Minute)
				require.ErrorIs(t, x.Err(), executor.ErrFull, "none of them is old enough")
				require.Equal(t, dead, stats(t, q).Dead)
				time.Sleep(11 * time.Minute)
				synctest.Wait()
				require.Equal(t, uint64(dead), stats(t, q).Expired)
			default:
				stop(t, x)
				x = openOn(t, disk, executor.Config{})
				q = register(x, executor.Retention{Count: 5})
				start(t, x)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			require.LessOrEqual(t, stats(t, q).Dead, 5)
			require.NoError(t, x.Err())
			enqueue(t, q, "a", "b")
			stop(t, x)
		})
	}
}

// A disk without room for what is written first is a full disk, at the start, too.
func TestOpenOnAFullDisk(t *testing.T) {
	_, err := executor.OpenLog("full", func(journal.Config) (*journal.Log, error) { return nil, journal.ErrFull }, executor.Config{})
	require.ErrorIs(t, err, executor.ErrFull)
}

// A context that never ends is as good as any other: with it, too, actions ask for the room that nobody has asked for
// since the journal was opened.
func TestActionsThatNothingEnds(t *testing.T) {
	for name, act := range map[string]func(ctx context.Context, i inspect.Inspector, of inspect.Selection) (int, error){
		"cancel": func(ctx context.Context, i inspect.Inspector, of inspect.Selection) (int, error) {
			return i.Cancel(ctx, of, "")
		},
		"kill failed": func(ctx context.Context, i inspect.Inspector, of inspect.Selection) (int, error) {
			return i.KillFailed(ctx, of)
		},
		"pause": func(ctx context.Context, i inspect.Inspector, of inspect.Selection) (int, error) {
			return i.Pause(ctx, of)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				disk, fails := new(journal.Memory), func(context.Context, executor.Merged[int]) error { return errBoom }
				x := openOn(t, disk, executor.Config{})
				q := handle(t, x, "q", fails, executor.QueueConfig[int]{RetryIn: always(time.Hour)})
				start(t, x)
				for i := range 100 {
					enqueue(t, q, fmt.Sprint(i), 0)
				}
				time.Sleep(time.Second)
				stop(t, x)
				x = openOn(t, disk, executor.Config{})
				handle(t, x, "q", fails, executor.QueueConfig[int]{RetryIn: always(time.Hour)})
				n, err := act(context.Background(), x.Inspect(), inspect.SelectIDs("q", "1", "2", "3"))
				require.NoError(t, err)
				require.Equal(t, 3, n)
				stop(t, x)
			})
		})
	}
}
