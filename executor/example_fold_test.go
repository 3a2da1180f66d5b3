package executor_test

import (
	"context"
	"fmt"
	"maps"

	"github.com/strandjobs/strand/executor"
)

// A counter that is changed a million times is written once for all that waits.
func Example_fold() {
	type counts map[string]int // what was seen of a page, by country
	ctx := context.Background()
	x := must(executor.Open("", executor.Config{}))
	done := make(chan struct{})
	pages := must(executor.HandleMerged(x, "pages", func(_ context.Context, job executor.Merged[counts]) error {
		fmt.Println(job.ID, job.Payloads[0].Value) // one payload
		close(done)
		return nil
	}, executor.QueueConfig[counts]{
		Gather: executor.Gather[counts]{
			Fold: func(waiting, next counts) (counts, error) {
				sum := maps.Clone(waiting)
				for country, n := range next {
					sum[country] += n
				}
				return sum, nil
			},
		},
	}))
	for i := range 1000 {
		must(pages.Enqueue(ctx, "/index.html", counts{[]string{"at", "ch", "de"}[i%3]: 1}))
	}
	check(x.Start(ctx))
	<-done
	check(x.Stop(ctx))
	// Output:
	// /index.html map[at:334 ch:333 de:333]
}
