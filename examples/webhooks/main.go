// Shows in a second: "cancel what did not ship" waits for "these items shipped" of its order, though both webhooks came by themselves.
package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/strandjobs/strand/executor"
)

func main() {
	fmt.Println("You will see the items of order 7 shipped, at the second attempt, before the rest of it is cancelled.")
	ctx := context.Background()
	x := must(executor.Open("", executor.Config{}))
	var done sync.WaitGroup
	byOrder := func(_ string, order int) []string { return []string{fmt.Sprint("order ", order)} }

	// The order is locked from the moment the webhook is accepted until it has been dealt with.
	tries := 0
	shipped := must(executor.Handle(x, "shipped", func(_ context.Context, job executor.Job[int]) error {
		if tries++; tries == 1 {
			fmt.Println("  order", job.Payload, "shipped: the database is away, once more")
			return executor.RetryAfter(0, errors.New("no database"))
		}
		fmt.Println("  order", job.Payload, "shipped")
		done.Done()
		return nil
	}, executor.QueueConfig[int]{Conditions: executor.Conditions[int]{Locks: executor.Locks[int]{OnEnqueue: byOrder, Unlock: byOrder, Counted: true}}}))

	// It waits while its order is locked, without a worker and without polling.
	cancel := must(executor.Handle(x, "cancel", func(_ context.Context, job executor.Job[int]) error {
		fmt.Println("  order", job.Payload, "cancelled, as far as it did not ship")
		done.Done()
		return nil
	}, executor.QueueConfig[int]{Conditions: executor.Conditions[int]{Locks: executor.Locks[int]{BlockedBy: byOrder}}}))

	done.Add(2)
	must(shipped.Enqueue(ctx, "webhook 1", 7))
	must(cancel.Enqueue(ctx, "webhook 2", 7))
	locked, _, err := x.Inspect().LockedKeys("", 0)
	fmt.Println(must(locked, err)[0])
	must(x, x.Start(ctx))
	done.Wait()
	locked, _, err = x.Inspect().LockedKeys("", 0)
	fmt.Println("Keys that are still locked:", len(must(locked, err)))
	must(x, x.Stop(ctx))
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
