package executor_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/brief"
	"github.com/strandjobs/strand/journal"
)

// deadPages walks through a list, calls between after each page, and returns all rows.
func deadPages(t testing.TB, x *executor.Executor, query inspect.JobQuery, between func()) (rows []inspect.DeadPayload) {
	t.Helper()
	for {
		page, err := x.Inspect().Dead(t.Context(), query)
		require.NoError(t, err)
		require.LessOrEqual(t, len(page.Dead), cmp.Or(query.Limit, brief.PageRows))
		rows = append(rows, page.Dead...)
		if page.Next == "" {
			return rows
		}
		query.Cursor = page.Next
		between()
	}
}

// L19: the morgue by id and by time of death, in both directions, with filters, while
// others die and are put back.
func TestLowkiq_L19_TheMorgueInAllOrders(t *testing.T) {
	bubbles(t, 3, 190, func(t *testing.T, r *rand.Rand) {
		x := openOn(t, new(journal.Memory), executor.Config{})
		healed := false
		q := handle(t, x, "q", func(_ context.Context, job executor.Merged[string]) error {
			if healed {
				return nil
			}
			return executor.Cancel(fmt.Errorf("%s %s", errBoom, job.ID))
		}, executor.QueueConfig[string]{Share: executor.Share{Shards: 2}})
		start(t, x)
		stay := make(map[uint64]string)
		for range 40 {
			id := fmt.Sprintf("%c-%d", 'a'+rune(r.IntN(3)), r.IntN(10))
			stay[enqueue(t, q, id, "payload").Position] = id
			synctest.Wait()
			time.Sleep(time.Duration(r.IntN(2)) * time.Minute)
		}
		var others []string
		change := func() {
			for range r.IntN(3) {
				if len(others) == 60 {
					break // or a list in their order would never end
				}
				others = append(others, fmt.Sprint("other-", len(others)))
				enqueue(t, q, others[len(others)-1], "payload")
				synctest.Wait()
			}
			if len(others) > 0 && r.IntN(2) == 0 {
				healed = true
				_, err := x.Inspect().Requeue(t.Context(), inspect.SelectIDs(q.Name(), others[r.IntN(len(others))]))
				require.NoError(t, err)
				synctest.Wait()
				healed = false
			}
		}
		for order, compare := range map[inspect.Order]func(a, b inspect.DeadPayload) int{
			inspect.OrderNone: func(a, b inspect.DeadPayload) int { return cmp.Compare(a.Position, b.Position) },
			inspect.OrderID: func(a, b inspect.DeadPayload) int {
				return cmp.Or(strings.Compare(a.ID, b.ID), cmp.Compare(a.Position, b.Position))
			},
			inspect.OrderDied: func(a, b inspect.DeadPayload) int {
				return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Position, b.Position))
			},
		} {
			for _, descending := range []bool{false, true}[:1+min(len(order), 1)] {
				query := inspect.JobQuery{Queue: "q", Order: order, Descending: descending, Limit: 1 + r.IntN(9)}
				seen := make(map[uint64]int)
				for _, row := range deadPages(t, x, query, change) {
					seen[row.Position]++
				}
				for p, id := range stay {
					require.Equal(t, 1, seen[p], "%s, %+v", id, query)
				}
				got := deadPages(t, x, query, func() {})
				want := slices.Clone(got)
				slices.SortFunc(want, compare)
				if descending {
					slices.Reverse(want)
				}
				require.Equal(t, want, got)
				require.Len(t, got, stats(t, q).Dead)
			}
		}
		all := deadPages(t, x, inspect.JobQuery{Queue: "q"}, func() {})
		for _, c := range []struct {
			query inspect.JobQuery
			want  func(inspect.DeadPayload) bool
		}{
			{inspect.JobQuery{Filter: inspect.JobFilter{IDPrefix: "b-"}}, func(d inspect.DeadPayload) bool { return strings.HasPrefix(d.ID, "b-") }},
			{inspect.JobQuery{Filter: inspect.JobFilter{ErrorContains: "boom c"}}, func(d inspect.DeadPayload) bool { return strings.HasPrefix(d.ID, "c") }},
			{inspect.JobQuery{Filter: inspect.JobFilter{OlderThan: 10 * time.Minute}}, func(d inspect.DeadPayload) bool { return time.Since(d.EnqueuedAt) > 10*time.Minute }},
			{inspect.JobQuery{DiedBefore: 10 * time.Minute}, func(d inspect.DeadPayload) bool { return time.Since(d.At) > 10*time.Minute }},
		} {
			for _, order := range []inspect.Order{inspect.OrderNone, inspect.OrderID, inspect.OrderDied} {
				c.query.Queue, c.query.Order, c.query.Limit = "q", order, 4
				got := deadPages(t, x, c.query, func() {})
				slices.SortFunc(got, func(a, b inspect.DeadPayload) int { return cmp.Compare(a.Position, b.Position) })
				require.Equal(t, slices.DeleteFunc(slices.Clone(all), func(d inspect.DeadPayload) bool { return !c.want(d) }), got)
			}
		}
	})
}

// What makes no sense is refused, with the value and what to do.
func TestBadQueries(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		q := handle(t, x, "q", (&probe{}).handle, executor.QueueConfig[string]{})
		handle(t, x, "other", (&probe{}).handle, executor.QueueConfig[string]{})
		for i := range 30 {
			enqueue(t, q, fmt.Sprint(i), "")
		}
		i, ctx := x.Inspect(), t.Context()
		long := strings.Repeat("x", 2000)
		for text, query := range map[string]inspect.JobQuery{
			"Limit is -1":                {Limit: -1},
			"Limit is 1001":              {Limit: 1001},
			`Order is "5"`:               {Order: "5"},
			"Descending has no meaning":  {Descending: true},
			`in the state "dead"`:        {States: []inspect.JobState{inspect.JobDead}},
			`in the state "wating"`:      {States: []inspect.JobState{"wating"}},
			"IDPrefix has 2000 bytes":    {Filter: inspect.JobFilter{IDPrefix: long}},
			"ErrorContains has 2000":     {Filter: inspect.JobFilter{ErrorContains: long}},
			"OlderThan is -1s":           {Filter: inspect.JobFilter{OlderThan: -time.Second}},
			"does not belong":            {Cursor: "nonsense"},
			"queue, order and direction": {Cursor: long},
		} {
			query.Queue = "q"
			_, err := i.Jobs(ctx, query)
			want := inspect.ErrInvalidQuery
			if query.Cursor != "" {
				want = inspect.ErrInvalidCursor
			}
			require.ErrorIs(t, err, want)
			require.ErrorContains(t, err, text)
			require.Less(t, len(err.Error()), 600)
			if query.States == nil {
				_, err = i.Dead(ctx, inspect.JobQuery{
					Queue: "q", Order: query.Order, Descending: query.Descending, Filter: query.Filter, Limit: query.Limit, Cursor: query.Cursor,
				})
				require.ErrorIs(t, err, want)
			}
		}
		_, err := i.Dead(ctx, inspect.JobQuery{Queue: "q", DiedBefore: -1})
		require.ErrorIs(t, err, inspect.ErrInvalidQuery)
		_, err = i.Running(ctx, inspect.RunningQuery{Limit: -1})
		require.ErrorIs(t, err, inspect.ErrInvalidQuery)

		// A cursor belongs to its queue, order and direction.
		page, err := i.Jobs(ctx, inspect.JobQuery{Queue: "q", Order: inspect.OrderID, Limit: 3})
		require.NoError(t, err)
		for _, query := range []inspect.JobQuery{
			{Queue: "other", Order: inspect.OrderID}, {Queue: "q", Order: inspect.OrderDue}, {Queue: "q"}, {Queue: "q", Order: inspect.OrderID, Descending: true},
		} {
			query.Cursor = page.Next
			_, err := i.Jobs(ctx, query)
			require.ErrorIs(t, err, inspect.ErrInvalidCursor, "%+v", query)
		}
		_, err = i.Dead(ctx, inspect.JobQuery{Queue: "q", Order: inspect.OrderID, Cursor: page.Next})
		require.ErrorIs(t, err, inspect.ErrInvalidCursor)

		for name, call := range map[string]func() error{
			"Jobs":    func() error { _, err := i.Jobs(ctx, inspect.JobQuery{Queue: "nope"}); return err },
			"Job":     func() error { _, err := i.Job(ctx, "nope", "1"); return err },
			"Dead":    func() error { _, err := i.Dead(ctx, inspect.JobQuery{}); return err },
			"Running": func() error { _, err := i.Running(ctx, inspect.RunningQuery{Queue: "nope"}); return err },
		} {
			require.ErrorIs(t, call(), executor.ErrUnknownQueue, name)
		}
		for _, id := range []string{"", long} {
			_, err := i.Job(ctx, "q", id)
			require.ErrorIs(t, err, executor.ErrInvalidID)
		}
		errEnough := errors.New("enough")
		ended, cancel := context.WithCancelCause(ctx)
		cancel(errEnough)
		_, err = i.Jobs(ended, inspect.JobQuery{Queue: "q"})
		require.ErrorIs(t, err, errEnough)
		_, err = i.Dead(ended, inspect.JobQuery{Queue: "q"})
		require.ErrorIs(t, err, errEnough)
		stop(t, x)
		_, err = i.Jobs(ctx, inspect.JobQuery{Queue: "q"})
		require.ErrorIs(t, err, executor.ErrClosed)
		_, err = i.Job(ctx, "q", "1")
		require.ErrorIs(t, err, executor.ErrClosed)
		_, err = x.Stats(ctx)
		require.ErrorIs(t, err, executor.ErrClosed)
		_, err = i.Dead(ctx, inspect.JobQuery{Queue: "q"})
		require.ErrorIs(t, err, executor.ErrClosed)
	})
}

// A cursor with an order stays good after a restart, one without does not.
func TestCursorsAfterARestart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		x := openOn(t, disk, executor.Config{})
		q := handle(t, x, "q", (&probe{}).handle, executor.QueueConfig[string]{})
		for i := range 30 {
			enqueue(t, q, fmt.Sprintf("%02d", i), "")
		}
		ordered, err := x.Inspect().Jobs(t.Context(), inspect.JobQuery{Queue: "q", Order: inspect.OrderID})
		require.NoError(t, err)
		plain, err := x.Inspect().Jobs(t.Context(), inspect.JobQuery{Queue: "q"})
		require.NoError(t, err)
		stop(t, x)
		x = openOn(t, disk.Crash(), executor.Config{})
		handle(t, x, "q", (&probe{}).handle, executor.QueueConfig[string]{Share: executor.Share{Shards: 2}})
		rest := pages(t, x, inspect.JobQuery{Queue: "q", Order: inspect.OrderID, Cursor: ordered.Next}, func() {})
		require.Equal(t, []string{"25 ready", "26 ready", "27 ready", "28 ready", "29 ready"}, names(rest))
		_, err = x.Inspect().Jobs(t.Context(), inspect.JobQuery{Queue: "q", Cursor: plain.Next})
		require.ErrorIs(t, err, inspect.ErrInvalidCursor)
	})
}
