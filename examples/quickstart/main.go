// Shows in about two seconds: order per id, a retry that nothing overtakes, and a restart that resumes.
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

// handle gets the events of an order one by one, the oldest first.
func handle(_ context.Context, job executor.Job[string]) (err error) {
	if job.ID == "order-2" && job.Payload == "placed" && job.Attempt == 1 {
		err = executor.RetryAfter(700*time.Millisecond, errors.New("out of stock, try again"))
	}
	fmt.Printf("  run %s %s, attempt %d, error: %v\n", job.ID, job.Payload, job.Attempt, err)
	ran <- job.ID
	return err
}

func open(dir string) (*executor.Executor, *executor.Queue[string]) {
	x := must(executor.Open(dir+"/journal", executor.Config{Workers: 1})) // 1 keeps the lines of two orders apart
	return x, must(executor.Handle(x, "orders", handle, executor.QueueConfig[string]{}))
}

func main() {
	fmt.Println("You will see order per id, a retry that nothing overtakes, and a restart that resumes.")
	ctx, dir := context.Background(), must(os.MkdirTemp("", "strand-quickstart-"))
	defer os.RemoveAll(dir)
	x, orders := open(dir)
	must(orders.Enqueue(ctx, "order-3", "placed", executor.In(1500*time.Millisecond)))
	for _, event := range []string{"placed", "paid", "shipped"} {
		must(orders.Enqueue(ctx, "order-1", event)) // nil: it is on disk
	}
	must(x, x.Start(ctx))
	_, _, _ = <-ran, <-ran, <-ran
	must(orders.Enqueue(ctx, "order-2", "placed"))
	<-ran                                        // it has failed, and waits for its retry
	must(orders.Enqueue(ctx, "order-2", "paid")) // must not overtake it
	_, _ = <-ran, <-ran
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
