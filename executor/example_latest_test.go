package executor_test

import (
	"context"
	"fmt"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
)

// Of an id the newest state counts. While the mirror can't be reached an update dies; the
// newer one that comes then takes its place in the morgue, and what is put back from there
// is never an older state over a newer one. The version of the row is the score, so that
// updates may come in any order.
func ExampleHandleLatest() {
	type row struct{ Version, Price int }
	ctx := context.Background()
	x := must(executor.Open("", executor.Config{}))
	reachable := false
	mirror := must(executor.HandleLatest(x, "mirror", func(_ context.Context, job executor.Job[row]) error {
		if !reachable {
			return fmt.Errorf("the mirror can't be reached")
		}
		fmt.Println(job.ID, "version", job.Payload.Version, "costs", job.Payload.Price)
		return nil
	}, executor.QueueConfig[row]{MaxRetries: -1, Defaults: executor.Defaults[row]{Score: func(r row) float64 { return float64(r.Version) }}}))
	check(x.Start(ctx))
	dies := must(mirror.Enqueue(ctx, "book-1", row{1, 20}))
	fmt.Println(mirror.Wait(ctx, dies) != nil)
	reachable = true
	newest := must(mirror.Enqueue(ctx, "book-1", row{3, 25}))
	check(mirror.Wait(ctx, newest))
	late := must(mirror.Enqueue(ctx, "book-1", row{2, 22}))
	fmt.Println("superseded by the one that has run:", late.MergedInto == newest.Position)
	fmt.Println(must(x.Inspect().Requeue(ctx, inspect.SelectQueue(mirror.Name()))))
	check(x.Stop(ctx))
	// Output:
	// true
	// book-1 version 3 costs 25
	// superseded by the one that has run: true
	// 0 payloads are back
}
