package executor_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/journal"
)

// L14: of n processes each takes the ids that are its own, whichever way they are
// enqueued, and says of the others whose they are. All ids are somebody's, evenly,
// and what a program says instead counts.
func TestLowkiq_L14_Splitter(t *testing.T) {
	const nodes, ids = 3, 1200
	var taken [nodes][]string
	owners := map[string]int{}
	for self := range nodes {
		x := open(t, "", executor.Config{Splitter: executor.Splitter{Nodes: nodes, Self: self}})
		q := handle(t, x, "q", (&probe{}).handle, executor.QueueConfig[string]{})
		for i := range ids {
			id := fmt.Sprint("order-", i)
			_, err := q.Enqueue(t.Context(), id, "x")
			owner := self
			if err != nil {
				require.ErrorIs(t, err, executor.ErrNotOwned)
				owner, _ = executor.Splitter{Nodes: nodes, Self: self}.OwnerOf(id)
				require.ErrorContains(t, err, fmt.Sprintf("%s belongs to %d, and this is %d", id, owner, self))
				_, raw := enqueueRaw(t.Context(), x, "q", id, []byte(`"x"`))
				require.Equal(t, err, raw)
				_, many := q.EnqueueMany(t.Context(), []executor.Item[string]{{ID: taken1(taken[self])}, {ID: id}})
				require.ErrorIs(t, many, executor.ErrNotOwned)
				require.Contains(t, many.Error(), "item ")
				require.NotEqual(t, self, owner)
			} else {
				taken[self] = append(taken[self], id)
			}
			if self == 0 {
				owners[id] = owner
			}
			require.Equal(t, owners[id], owner, "all processes agree")
		}
		assert.EqualValues(t, len(taken[self]), stats(t, q).Jobs, "nothing of a call that was refused")
		assert.InEpsilon(t, ids/nodes, len(taken[self]), 0.1)
	}
	require.Equal(t, ids, len(taken[0])+len(taken[1])+len(taken[2]))

	// What the hash says of an id is what it said in every version before.
	assert.Equal(t, []int{1, 1, 0, 2, 1}, []int{owners["order-0"], owners["order-1"], owners["order-2"], owners["order-3"], owners["order-4"]})
}

// taken1 is an id that was taken, or one that is refused first.
func taken1(ids []string) string {
	if len(ids) == 0 {
		return "order-0"
	}
	return ids[0]
}

// A splitter of the program's own is user code: what it does is the caller's error,
// and nothing is accepted.
func TestLowkiq_L14_SplitterOfOnesOwn(t *testing.T) {
	x := open(t, "", executor.Config{Splitter: executor.Splitter{Nodes: 2, Self: 1, Owner: func(id string) int {
		switch id {
		case "panic":
			panic(id)
		case "far":
			return 2
		case "below":
			return -1
		}
		return len(id) % 2
	}}})
	q := handle(t, x, "q", (&probe{}).handle, executor.QueueConfig[string]{})
	enqueue(t, q, "odd", "")
	_, err := q.Enqueue(t.Context(), "even", "")
	require.ErrorIs(t, err, executor.ErrNotOwned)
	require.ErrorContains(t, err, "belongs to 0")
	for _, id := range []string{"panic", "far", "below"} {
		_, err := q.Enqueue(t.Context(), id, "")
		require.ErrorIs(t, err, executor.ErrConfig, id)
		require.NotErrorIs(t, err, executor.ErrNotOwned)
	}
	require.Equal(t, 1, stats(t, q).Jobs)
	for _, s := range []executor.Splitter{
		executor.Splitter{Nodes: -1, Self: 0}, executor.Splitter{Nodes: 0, Self: 1}, executor.Splitter{Nodes: 2, Self: 2}, executor.Splitter{Nodes: 2, Self: -1}, executor.Splitter{Nodes: 1 << 21, Self: 0},
		{Owner: func(string) int { return 0 }},
	} {
		_, err := executor.Open("", executor.Config{Splitter: s})
		require.ErrorIs(t, err, executor.ErrConfig, "%+v", s)
	}
}

// What a process has accepted runs there, also when it is another's by now: from the
// backlog, and from the morgue.
func TestLowkiq_L14_MovedIDsAreNotLost(t *testing.T) {
	disk := new(journal.Memory)
	bubble(t, func(t *testing.T) {
		x := openOn(t, disk, executor.Config{})
		q := handle(t, x, "q", (&probe{}).handle, executor.QueueConfig[string]{})
		for i := range 50 {
			enqueue(t, q, fmt.Sprint(i), "x")
		}
		stop(t, x)
		x = openOn(t, disk, executor.Config{Splitter: executor.Splitter{Nodes: 5, Self: 4}})
		p := &probe{}
		q = handle(t, x, "q", p.handle, executor.QueueConfig[string]{})
		refused := 0
		for i := range 50 {
			if _, err := q.Enqueue(t.Context(), fmt.Sprint(i), "y"); errors.Is(err, executor.ErrNotOwned) {
				refused++
			}
		}
		require.InDelta(t, 40, refused, 9)
		start(t, x)
		stopped := drainedInBubble(t, q)
		require.EqualValues(t, 100-refused, stopped.Done)
		require.Len(t, p.seen(), 50)
	})
}

func drainedInBubble[T any](t *testing.T, q *executor.Queue[T]) inspect.QueueStats {
	t.Helper()
	synctest.Wait()
	s := stats(t, q)
	require.Zero(t, s.Jobs)
	return s
}
