package executor_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
)

// Who has been removed or paused waits for a limit no more: it is not counted, nor does
// it take the next start; one that goes on stands in line again.
func TestLimitForgetsWhoDoesNotCome(t *testing.T) {
	for _, what := range []string{"cancel", "delete", "pause"} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := open(t, "", executor.Config{})
				l, err := executor.NewLimit(x, "l", executor.LimitConfig{Rate: 1})
				require.NoError(t, err)
				var p probe
				q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Limits: []executor.LimitOf[string]{{Limit: l}}}})
				start(t, x)
				var ids []string
				for i := range 22 {
					ids = append(ids, fmt.Sprint(i))
					enqueue(t, q, ids[i], "x")
					synctest.Wait()
				}
				require.Equal(t, 21, shown(x, l).Waiting)
				ctx, i, some := t.Context(), x.Inspect(), ids[1:21]
				switch what {
				case "cancel":
					did(t, 20)(i.Cancel(ctx, inspect.SelectIDs("q", some...), ""))
				case "delete":
					did(t, 20)(i.Delete(ctx, inspect.SelectIDs("q", some...)))
				case "pause":
					did(t, 20)(i.Pause(ctx, inspect.SelectIDs("q", some...)))
				}
				synctest.Wait()
				require.Equal(t, 1, shown(x, l).Waiting)
				time.Sleep(time.Second)
				synctest.Wait()
				require.Equal(t, []string{"0[x]", "21[x]"}, p.log())
				if what == "pause" {
					did(t, 20)(i.Resume(ctx, inspect.SelectIDs("q", some...)))
					time.Sleep(25 * time.Second)
					synctest.Wait()
					require.Len(t, p.log(), 22)
				}
				require.Zero(t, shown(x, l).Waiting)
				stop(t, x)
			})
		})
	}
}
