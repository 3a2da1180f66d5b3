package executor_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
)

// Jobs of all queues that are due within a slack start together, and those that are
// due soon on time: at a restart it counts how far ahead they are then. Their due
// times stay what they were.
func TestTimerSlack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const slack = 20 * time.Millisecond
		disk := new(journal.Memory)
		begin := time.Now()
		p := &probe{}
		queues := func() (x *executor.Executor, qs []*executor.Queue[string]) {
			x = openOn(t, disk, executor.Config{Advanced: executor.Advanced{TimerSlack: slack}})
			for i := range 3 {
				qs = append(qs, handle(t, x, fmt.Sprint(i), p.handle, executor.QueueConfig[string]{}))
			}
			start(t, x)
			return x, qs
		}
		x, qs := queues()
		due := map[string]time.Duration{}
		for i, q := range qs {
			for j, after := range []time.Duration{0, time.Second, 10 * time.Second, time.Hour} {
				id := fmt.Sprint(i, " ", j)
				due[id] = after + time.Duration(i)*time.Millisecond
				enqueue(t, q, id, "x", executor.At(begin.Add(due[id])))
			}
			e, err := x.Inspect().Explain(t.Context(), fmt.Sprint(i), fmt.Sprint(i, " 3"))
			require.NoError(t, err)
			require.Equal(t, begin.Add(due[e.ID]), e.Due)
		}
		time.Sleep(time.Hour - time.Second)
		stop(t, x)
		x, _ = queues()
		time.Sleep(time.Hour)
		synctest.Wait()
		ran := map[string]time.Duration{}
		for _, s := range p.seen() {
			ran[s.id] = s.at.Sub(begin)
		}
		want := due
		want["1 2"], want["2 2"] = 10*time.Second+slack, 10*time.Second+slack
		require.Equal(t, want, ran)
		stop(t, x)
	})
}
