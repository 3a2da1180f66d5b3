package executor_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
)

// Who names a key, or how long a lease lasts, means one at a time, unless the queue
// says otherwise.
func TestUniqueWithoutWhile(t *testing.T) {
	customer := func(string, string) string { return "customer" }
	for _, test := range []struct {
		unique executor.Unique[string]
		most   int
	}{
		{executor.Unique[string]{Key: customer}, 1},
		{executor.Unique[string]{TTL: time.Minute}, 1},
		{executor.Unique[string]{Key: customer, While: executor.UniqueNever}, 8},
		{executor.Unique[string]{}, 8},
	} {
		bubble(t, func(t *testing.T) {
			x := open(t, "", executor.Config{Workers: 8})
			var mu sync.Mutex
			running, most := 0, 0
			q := handle(t, x, "q", func(context.Context, executor.Merged[string]) error {
				mu.Lock()
				running++
				most = max(most, running)
				mu.Unlock()
				time.Sleep(time.Second)
				mu.Lock()
				running--
				mu.Unlock()
				return nil
			}, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Unique: test.unique}})
			start(t, x)
			for i := range 20 {
				enqueue(t, q, fmt.Sprint(i), "")
			}
			time.Sleep(time.Minute)
			require.Zero(t, stats(t, q).Jobs)
			mu.Lock()
			require.Equal(t, test.most, most)
			mu.Unlock()
		})
	}
}
