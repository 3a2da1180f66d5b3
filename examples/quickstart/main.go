// Shows in about two seconds: order per id, merging, a retry, and a restart that resumes.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/strandjobs/strand/executor"
)

var ran = make(chan string, 10) // ids whose run is over

func handle(_ context.Context, job executor.Job[string]) (err error) {
	if job.ID == "order-2" && job.Retry < 0 {
		err = executor.RetryAfter(700*time.Millisecond, errors.New("out of stock, try again"))
	}
	for _, p := range job.Payloads { // oldest first
		fmt.Printf("  run %s %s, error: %v\n", job.ID, p.Value, err)
	}
	ran <- job.ID
	return err
}

func open(dir string) (*executor.Executor, *executor.Queue[string]) {
	x := must(executor.Open(dir+"/journal", executor.Config{Workers: 1})) // 1 keeps the lines of two orders apart
	return x, must(executor.Handle(x, "orders", handle, executor.QueueConfig[string]{}))
}

func main() {
	fmt.Println("You will see order per id, merging, a retry, and a restart that resumes.")
	ctx, dir := context.Background(), must(os.MkdirTemp("", "strand-quickstart-"))
	defer os.RemoveAll(dir)
	x, orders := open(dir)
	for _, step := range []string{"placed", "paid", "paid", "shipped"} {
		fmt.Printf("  enqueued order-1 %s, merged into an equal one: %t\n", step, must(orders.Enqueue(ctx, "order-1", step)).MergedInto != 0)
	}
	must(orders.Enqueue(ctx, "order-2", "placed"))
	must(orders.Enqueue(ctx, "order-3", "placed", executor.In(1500*time.Millisecond)))
	must(x, x.Start(ctx))
	_, _ = <-ran, <-ran                          // order-1, and order-2, which waits for its retry
	must(orders.Enqueue(ctx, "order-2", "paid")) // must not overtake what failed
	<-ran
	must(x, x.Stop(ctx))
	fmt.Println("Stopped before order-3 was due. Started again, nothing enqueued:")
	x, _ = open(dir)
	must(x, x.Start(ctx))
	<-ran
	must(x, x.Stop(ctx))
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
