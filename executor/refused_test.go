package executor_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/journal"
)

// refusedWorld is an executor with dead letters, payloads that wait, and a job that ends
// later, of which one call is refused.
type refusedWorld struct {
	t       *testing.T
	disk    *journal.Memory
	x       *executor.Executor
	q, late *executor.Queue[string]
}

func startRefusedWorld(t *testing.T) *refusedWorld {
	w := &refusedWorld{t: t, disk: new(journal.Memory)}
	w.open()
	start(t, w.x)
	enqueue(t, w.q, "dead", "1")
	enqueue(t, w.q, "dead too", "1")
	synctest.Wait()
	require.Len(t, morgue(t, w.q), 2)
	require.NoError(t, pauseQueue(t.Context(), w.q))
	enqueue(t, w.late, "later", "1", executor.In(10*time.Second))
	enqueue(t, w.q, "early", "1")
	enqueue(t, w.q, "live", "1") // what was accepted last has the last position
	return w
}

func (w *refusedWorld) open() {
	w.x = openOn(w.t, w.disk, executor.Config{})
	w.q = handle(w.t, w.x, "q", func(_ context.Context, job executor.Merged[string]) error {
		if strings.HasPrefix(job.ID, "dead") {
			return executor.Cancel(errBoom)
		}
		return nil
	}, executor.QueueConfig[string]{})
	w.late = handle(w.t, w.x, "late", (&probe{}).handle, executor.QueueConfig[string]{})
}

// figures are those that a call that was refused must not change.
func (w *refusedWorld) figures() []inspect.QueueStats {
	s, err := w.x.Stats(w.t.Context())
	require.NoError(w.t, err)
	for i := range s.Queues {
		s.Queues[i].Lag, s.Queues[i].Age = 0, 0 // time goes by
		for j := range s.Queues[i].Shards {
			s.Queues[i].Shards[j].Lag = 0
		}
	}
	return s.Queues
}

// contents is what the disk has: the number of each payload by id and where it is, and the
// offset of the source.
func (w *refusedWorld) contents() map[string]int {
	log, err := journal.OpenMemory(w.disk.Crash(), journal.Config{})
	require.NoError(w.t, err)
	defer func() { require.NoError(w.t, log.Close()) }()
	found := make(map[string]int)
	for _, number := range log.Queues() {
		for _, ref := range slices.Concat(log.PendingPages(number)...) {
			found[string(must(ref.ID()))]++
		}
		for b, err := range log.Morgue(number, 0) {
			require.NoError(w.t, err)
			found[string(b.Entry.ID)+" in the morgue"]++
		}
	}
	return found
}

type refusedCall func(ctx context.Context, w *refusedWorld) error

func enqueuing(options ...executor.Option) refusedCall {
	return func(ctx context.Context, w *refusedWorld) error {
		_, err := w.q.EnqueueMany(ctx, []executor.Item[string]{{ID: "new", Payload: "2"}, {ID: "live", Payload: "2"}}, options...)
		return err
	}
}

// A call that a full disk or a context has refused (a pause never is: it waits) is as if it had not been made: no figure
// counts it, nothing that was accepted is gone, whatever is committed next, and after a
// restart nothing else is there.
func TestRefusedCallsLeaveNothing(t *testing.T) {
	t.Parallel()
	calls := map[string]refusedCall{
		"enqueue":             enqueuing(),
		"enqueue with a key":  enqueuing(executor.IdempotencyKey("key")),
		"enqueue of a source": enqueuing(executor.FromSource("source", 7)),
		"requeue": func(ctx context.Context, w *refusedWorld) error {
			_, err := w.x.Inspect().Requeue(ctx, inspect.SelectIDs(w.q.Name(), "dead"))
			return err
		},
		"requeue all": func(ctx context.Context, w *refusedWorld) error {
			_, err := w.x.Inspect().Requeue(ctx, inspect.SelectQueue(w.q.Name()))
			return err
		},
		"an offset": func(ctx context.Context, w *refusedWorld) error { return w.x.SetSourceOffset(ctx, "source", 7) },
	}
	refusals := map[string]func(w *refusedWorld, call refusedCall){
		"full disk": func(w *refusedWorld, call refusedCall) {
			w.disk.FailNext(journal.ErrFull)
			require.ErrorIs(w.t, call(w.t.Context(), w), executor.ErrFull)
		},
		"full disk, again and again": func(w *refusedWorld, call refusedCall) {
			w.disk.Limit(1)
			defer w.disk.Limit(0)
			for range 3 {
				require.ErrorIs(w.t, call(w.t.Context(), w), executor.ErrFull)
				time.Sleep(300 * time.Millisecond)
			}
		},
		"context": func(w *refusedWorld, call refusedCall) {
			ctx, cancel := context.WithCancel(w.t.Context())
			cancel()
			require.ErrorIs(w.t, call(ctx, w), context.Canceled)
		},
	}
	for name, call := range calls {
		for by, refuse := range refusals {
			for next, commit := range refusedNext {
				t.Run(name+", "+by+", "+next, func(t *testing.T) {
					bubble(t, func(t *testing.T) {
						w := startRefusedWorld(t)
						before, figures := w.contents(), w.figures()
						refuse(w, call)
						time.Sleep(time.Second) // until there is room
						synctest.Wait()
						require.Equal(t, before, w.contents())
						require.Equal(t, figures, w.figures())
						commit(w, before)
						stop(t, w.x)
						require.Equal(t, before, w.contents())
						w.open()
						_, found, err := w.x.SourceOffset("source")
						require.NoError(t, err)
						require.False(t, found)
						r := enqueue(t, w.q, "after", "1", executor.IdempotencyKey("key"))
						require.False(t, r.Duplicate)
					})
				})
			}
		}
	}
}

// refusedNext are the commits that may come next, and what they change.
var refusedNext = map[string]func(w *refusedWorld, then map[string]int){
	"then a stop": func(*refusedWorld, map[string]int) {},
	"then a pause": func(w *refusedWorld, _ map[string]int) {
		_, err := w.x.Inspect().Pause(w.t.Context(), inspect.SelectIDs(w.q.Name(), "other"))
		require.NoError(w.t, err)
	},
	"then a delete": func(w *refusedWorld, then map[string]int) {
		_, err := w.x.Inspect().DeleteDead(w.t.Context(), inspect.SelectIDs("q", "dead too"))
		require.NoError(w.t, err)
		delete(then, "dead too in the morgue")
	},
	"then a payload": func(w *refusedWorld, then map[string]int) {
		enqueue(w.t, w.q, "next", "1")
		then["next"]++
	},
	"then a requeue": func(w *refusedWorld, then map[string]int) {
		_, err := w.x.Inspect().Requeue(w.t.Context(), inspect.SelectIDs(w.q.Name(), "dead too"))
		require.NoError(w.t, err)
		delete(then, "dead too in the morgue")
		then["dead too"]++
	},
	"then the end of a job": func(w *refusedWorld, then map[string]int) {
		time.Sleep(20 * time.Second)
		delete(then, "later")
	},
	"then a compacting": func(w *refusedWorld, _ map[string]int) { require.NoError(w.t, w.x.Compact(w.t.Context())) },
}
