package executor

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// A run with several payloads counts a key down as often as they counted it up.
func TestCountersCountPayloads(t *testing.T) {
	for _, counted := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			x, err := Open("", Config{})
			require.NoError(t, err)
			key := func(_, payload string) []string { return []string{payload[:1]} }
			sizes := make(chan int, 10)
			q, err := Handle(x, "q", func(_ context.Context, job Job[string]) error {
				sizes <- len(job.Payloads)
				return nil
			}, QueueConfig[string]{MaxPayloads: 3, Locks: Locks[string]{OnEnqueue: key, Unlock: key, Counted: counted}})
			require.NoError(t, err)
			for payload := range strings.FieldsSeq("a1 a2 b1 a3") {
				_, err := q.Enqueue(t.Context(), "id", payload)
				require.NoError(t, err)
			}
			require.Len(t, x.Keys().List(), 2)
			require.Len(t, x.Keys().List()[0].Locks, 3)
			require.NoError(t, x.Start(t.Context()))
			synctest.Wait()
			require.Equal(t, []int{3, 1}, []int{<-sizes, <-sizes})
			require.Empty(t, x.Keys().List())
			require.NoError(t, x.Stop(t.Context()))
		})
	}
}
