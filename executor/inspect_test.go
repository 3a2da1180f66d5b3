package executor_test

import (
	"cmp"
	"context"
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

// pages walks through a list, calls between after each page, and returns all rows.
func pages(t testing.TB, x *executor.Executor, query inspect.JobQuery, between func()) (rows []inspect.JobInfo) {
	t.Helper()
	for {
		page, err := x.Inspect().Jobs(t.Context(), query)
		require.NoError(t, err)
		require.LessOrEqual(t, len(page.Jobs), cmp.Or(query.Limit, brief.PageRows))
		rows = append(rows, page.Jobs...)
		if page.Next == "" {
			return rows
		}
		query.Cursor = page.Next
		between()
	}
}

// inOrder compares rows as an order has them.
func inOrder(o inspect.Order) func(a, b inspect.JobInfo) int {
	return func(a, b inspect.JobInfo) int {
		switch o {
		case inspect.OrderDue:
			return cmp.Or(a.Due.Compare(b.Due), strings.Compare(a.ID, b.ID))
		case inspect.OrderPayloads:
			return cmp.Or(cmp.Compare(a.Payloads, b.Payloads), cmp.Compare(a.Position, b.Position), strings.Compare(a.ID, b.ID))
		case inspect.OrderAttempt:
			return cmp.Or(cmp.Compare(a.Attempt, b.Attempt), a.Due.Compare(b.Due), strings.Compare(a.ID, b.ID))
		}
		return strings.Compare(a.ID, b.ID)
	}
}

// lister is a queue with random jobs: those that stay, and others.
type lister struct {
	*testing.T
	x    *executor.Executor
	q    *executor.Queue[string]
	r    *rand.Rand
	stay map[string]inspect.JobState
	n    int
}

func newLister(t *testing.T, r *rand.Rand) *lister {
	x := openOn(t, new(journal.Memory), executor.Config{Workers: 3, Advanced: executor.Advanced{MemoryBudget: []int{0, 1}[r.IntN(2)]}}) // 1: all ids are on disk
	l := &lister{T: t, x: x, r: r, stay: make(map[string]inspect.JobState)}
	handler := func(ctx context.Context, job executor.Merged[string]) error {
		switch kind := job.Latest(); {
		case kind == "fails" && job.Attempt == 1+len(job.ID)%3, kind == "halts":
			return fmt.Errorf("%s of %s", errBoom, job.ID)
		case kind == "fails":
			return executor.RetryAfter(0, errBoom)
		case kind == "runs":
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}
	l.q = handle(t, x, "q", handler, executor.QueueConfig[string]{
		Share: executor.Share{Shards: 1 + r.IntN(3), Concurrency: 3}, MaxRetries: 5, DeadLetters: executor.DeadLetters[string]{OnExhausted: executor.OnExhaustedHalt},
		RetryIn: func(n int) time.Duration { return time.Duration(n+1) * 50 * time.Hour },
		Conditions: executor.Conditions[string]{
			Locks: executor.Locks[string]{BlockedBy: func(id, kind string) []string { return map[bool][]string{true: {"key"}}[kind == "parked"] }},
		},
	})
	require.NoError(t, x.KeyLocks().Lock(t.Context(), "key"))
	return l
}

func (l *lister) id() string {
	l.n++
	return fmt.Sprintf("%c%s-%d", 'a'+rune(l.r.IntN(3)), strings.Repeat("x", l.r.IntN(3)), l.n)
}

// fill has jobs of all states wait.
func (l *lister) fill() {
	start(l, l.x)
	for i := range 40 + l.r.IntN(40) {
		id := l.id()
		switch i % 5 {
		case 0:
			enqueue(l, l.q, id, "later", executor.In(time.Duration(100+l.r.IntN(4))*time.Hour))
			l.stay[id] = inspect.JobScheduled
		case 1:
			enqueue(l, l.q, id, "fails")
			l.stay[id] = inspect.JobRetrying
		case 2:
			enqueue(l, l.q, id, "parked")
			l.stay[id] = inspect.JobParked
		case 3:
			enqueue(l, l.q, id, "later", executor.In(time.Hour*time.Duration(90+l.r.IntN(3))))
			l.stay[id] = inspect.JobScheduled
		}
	}
	synctest.Wait()
	for range 2 {
		id := l.id()
		enqueue(l, l.q, id, "runs")
		l.stay[id] = inspect.JobRunning
		synctest.Wait()
	}
}

// change has others come and go.
func (l *lister) change() {
	if l.n > 300 {
		return // or a list in the order in which they come would never end
	}
	for range l.r.IntN(6) {
		option := executor.In(0)
		if l.r.IntN(2) == 0 {
			option = executor.In(time.Duration(1+l.r.IntN(300)) * time.Second)
		}
		enqueue(l, l.q, "other-"+l.id(), "done", option)
	}
	time.Sleep(time.Duration(l.r.IntN(100)) * time.Second)
	synctest.Wait()
}

// A list against a model: pages are the jobs in order, and what is there all the
// time is on exactly one, whatever comes and goes between them.
func TestLowkiq_L19_JobsInAllOrdersAndDirections(t *testing.T) {
	bubbles(t, 3, 19, func(t *testing.T, r *rand.Rand) {
		l := newLister(t, r)
		l.fill()
		for _, order := range []inspect.Order{inspect.OrderNone, inspect.OrderID, inspect.OrderDue, inspect.OrderAttempt, inspect.OrderPayloads} {
			for _, descending := range []bool{false, true}[:1+min(len(order), 1)] {
				query := inspect.JobQuery{Queue: "q", Order: order, Descending: descending, Limit: 1 + r.IntN(9)}
				seen := make(map[string]int)
				for _, row := range pages(t, l.x, query, l.change) {
					seen[row.ID]++
					if want, stays := l.stay[row.ID]; stays {
						require.Equal(t, want, row.State, row.ID)
					}
				}
				for id := range l.stay {
					require.Equal(t, 1, seen[id], "%s, %+v", id, query)
				}
				all := pages(t, l.x, query, func() {})
				require.GreaterOrEqual(t, len(all), len(l.stay))
				if order == inspect.OrderNone {
					continue
				}
				want := slices.Clone(all)
				slices.SortFunc(want, inOrder(order))
				if descending {
					slices.Reverse(want)
				}
				require.Equal(t, want, all)
			}
		}
		l.filters()
	})
}

// filters holds each state and filter against all rows.
func (l *lister) filters() {
	l.Helper()
	all := pages(l, l.x, inspect.JobQuery{Queue: "q", Order: inspect.OrderID}, func() {})
	for _, q := range []struct {
		query inspect.JobQuery
		want  func(inspect.JobInfo) bool
	}{
		{inspect.JobQuery{States: []inspect.JobState{inspect.JobScheduled}}, func(j inspect.JobInfo) bool { return j.State == inspect.JobScheduled }},
		{inspect.JobQuery{States: []inspect.JobState{inspect.JobRetrying}}, func(j inspect.JobInfo) bool { return l.stay[j.ID] == inspect.JobRetrying }},
		{inspect.JobQuery{States: []inspect.JobState{inspect.JobParked, inspect.JobRunning}}, func(j inspect.JobInfo) bool {
			return l.stay[j.ID] == inspect.JobParked || l.stay[j.ID] == inspect.JobRunning
		}},
		{inspect.JobQuery{States: []inspect.JobState{inspect.JobHalted}}, func(inspect.JobInfo) bool { return false }},
		{inspect.JobQuery{States: []inspect.JobState{inspect.JobFresh}}, func(j inspect.JobInfo) bool { return j.Attempt == 1 }},
		{inspect.JobQuery{States: []inspect.JobState{inspect.JobFresh, inspect.JobRetrying}}, func(j inspect.JobInfo) bool {
			return j.Attempt == 1 || j.State == inspect.JobRetrying
		}},
		{inspect.JobQuery{States: []inspect.JobState{inspect.JobFresh}, Filter: inspect.JobFilter{Failed: true}}, func(inspect.JobInfo) bool { return false }},
		{inspect.JobQuery{Filter: inspect.JobFilter{IDPrefix: "ax"}}, func(j inspect.JobInfo) bool { return strings.HasPrefix(j.ID, "ax") }},
		{inspect.JobQuery{Filter: inspect.JobFilter{ErrorContains: "boom of b"}}, func(j inspect.JobInfo) bool { return strings.Contains(j.LastError, "boom of b") }},
		{inspect.JobQuery{Filter: inspect.JobFilter{Failed: true}}, func(j inspect.JobInfo) bool { return j.Attempt > 1 }},
		{inspect.JobQuery{Filter: inspect.JobFilter{OlderThan: time.Minute}}, func(j inspect.JobInfo) bool { return time.Since(j.EnqueuedAt) > time.Minute }},
		{inspect.JobQuery{Filter: inspect.JobFilter{OlderThan: 1000 * time.Hour}}, func(inspect.JobInfo) bool { return false }},
	} {
		want := slices.DeleteFunc(slices.Clone(all), func(j inspect.JobInfo) bool { return !q.want(j) })
		for _, order := range []inspect.Order{inspect.OrderNone, inspect.OrderID} {
			q.query.Queue, q.query.Order, q.query.Limit = "q", order, 3
			got := pages(l, l.x, q.query, func() {})
			slices.SortFunc(got, inOrder(inspect.OrderID))
			require.Equal(l, names(want), names(got), "%+v", q.query)
		}
	}
}

func names(rows []inspect.JobInfo) (names []string) {
	for _, row := range rows {
		names = append(names, fmt.Sprint(row.ID, " ", row.State))
	}
	return names
}
