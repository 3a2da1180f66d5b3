package executor_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/events"
	"github.com/strandjobs/strand/executor/inspect"
)

// A run of which a person ends some or all ends with that: what is cancelled and what
// is deleted does not run again, and only what does is told as interrupted.
func TestEventsOfWhatIsRemovedWhileItRuns(t *testing.T) {
	for name, c := range map[string]struct {
		act  func(ctx context.Context, i inspect.Inspector, p []uint64) (int, error)
		want string
	}{
		"cancel all": {func(ctx context.Context, i inspect.Inspector, _ []uint64) (int, error) {
			return i.Cancel(ctx, inspect.SelectIDs("q", "id"), "why")
		}, "cancelled #1 attempt 1: C: why|cancelled #2 attempt 1: C: why|buried #1 attempt 1: C: why|buried #2 attempt 1: C: why"},
		"delete all": {func(ctx context.Context, i inspect.Inspector, _ []uint64) (int, error) {
			return i.Delete(ctx, inspect.SelectIDs("q", "id"))
		}, "deleted #1|deleted #2"},
		"cancel one": {func(ctx context.Context, i inspect.Inspector, p []uint64) (int, error) {
			return i.Cancel(ctx, inspect.SelectIDs("q", "id").At(p[0]), "why")
		}, "cancelled #1 attempt 1: C: why|interrupted #2 attempt 1|buried #1 attempt 1: C: why|started #2 attempt 1|done #2 attempt 1"},
		"delete one": {func(ctx context.Context, i inspect.Inspector, p []uint64) (int, error) {
			return i.Delete(ctx, inspect.SelectIDs("q", "id").At(p[1]))
		}, "interrupted #1 attempt 1|deleted #2|started #1 attempt 1|done #1 attempt 1"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := open(t, "", executor.Config{})
				runs := 0
				q := handle(t, x, "q", func(ctx context.Context, _ executor.Merged[string]) error {
					if runs++; runs > 1 {
						return nil
					}
					<-ctx.Done()
					return context.Cause(ctx)
				}, executor.QueueConfig[string]{})
				p := []uint64{enqueue(t, q, "id", "1").Position, enqueue(t, q, "id", "2").Position}
				l := follow(t, x, events.Filter{})
				start(t, x)
				synctest.Wait()
				require.Len(t, l.take(), 1)
				n, err := c.act(t.Context(), x.Inspect(), p)
				require.NoError(t, err)
				require.Positive(t, n)
				synctest.Wait()
				want := strings.NewReplacer("#1", fmt.Sprint(p[0]), "#2", fmt.Sprint(p[1]), "C:", executor.ErrCanceledByOperator.Error()+":").Replace(c.want)
				got := strings.ReplaceAll(strings.Join(l.take(), "|"), "q/id ", "")
				require.Equal(t, want, got)
				stop(t, x)
			})
		})
	}
}
