package executor_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/events"
)

// A loop that begins later than the feed waits for one is told that it has missed what
// was before, and goes on from there; one that begins earlier has missed nothing.
func TestEventsOfALateLoop(t *testing.T) {
	const buffer = 12
	for _, jobs := range []int{buffer/3 - 1, buffer / 3} {
		t.Run(fmt.Sprint(jobs), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := open(t, "", executor.Config{Advanced: executor.Advanced{EventBuffer: buffer}})
				q := handle(t, x, "q", func(context.Context, executor.Merged[string]) error { return nil }, executor.QueueConfig[string]{})
				start(t, x)
				seq := x.Events(t.Context(), events.Filter{Kinds: []events.Kind{
					events.Accepted, events.Started, events.Done,
				}})
				for i := range jobs {
					enqueue(t, q, fmt.Sprint(i), "p")
				}
				synctest.Wait()
				var ids []string
				var missed []error
				read := make(chan struct{})
				go func() {
					defer close(read)
					for e, err := range seq {
						if err != nil {
							missed = append(missed, err)
						} else if e.Kind == events.Accepted {
							ids = append(ids, e.ID)
						}
					}
				}()
				synctest.Wait()
				enqueue(t, q, "later", "p")
				stop(t, x)
				<-read
				require.Equal(t, "later", ids[len(ids)-1])
				if jobs < buffer/3 {
					require.Empty(t, missed)
					require.Len(t, ids, jobs+1)
					return
				}
				require.Len(t, missed, 1)
				m, ok := errors.AsType[*events.MissedError](missed[0])
				require.True(t, ok)
				require.True(t, m.Uncounted)
				require.Len(t, ids, 1)
			})
		})
	}
}
