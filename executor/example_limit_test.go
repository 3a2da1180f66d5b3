package executor_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/strandjobs/strand/executor"
)

// Four charges of a customer at a time, and a hundred in a second. When the service
// says 429, that customer waits, and no other.
func ExampleNewLimit() {
	type charge struct{ Customer string }
	x, err := executor.Open("", executor.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		fmt.Println(err)
		return
	}
	stripe, err := executor.NewLimit(x, "stripe", executor.LimitConfig{Concurrent: 4, Rate: 100, Per: time.Second, Burst: 10})
	if err != nil {
		fmt.Println(err)
		return
	}
	told, paid := make(chan string), make(chan struct{})
	charges, err := executor.Handle(x, "charges", func(_ context.Context, job executor.Job[charge]) error {
		if x.Inspect().Limits(job.Payload.Customer)[0].Config.Rate == 100 {
			told <- "429"
			<-paid
			return executor.Throttled(time.Millisecond, errors.New("too many requests"))
		}
		told <- fmt.Sprint("charged at attempt ", job.Attempt)
		return nil
	}, executor.QueueConfig[charge]{
		Conditions: executor.Conditions[charge]{
			Limits: []executor.LimitOf[charge]{{Limit: stripe, Key: func(_ string, c charge) string { return c.Customer }}},
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- x.Run(ctx) }()
	if _, err := charges.Enqueue(ctx, "order-42", charge{"acme"}); err != nil {
		fmt.Println(err)
	}
	fmt.Println(<-told)
	err = stripe.Set(executor.LimitConfig{Rate: 500}) // we have paid for more
	close(paid)
	fmt.Println(<-told, err)
	cancel()
	fmt.Println(<-ended)
	// Output:
	// 429
	// charged at attempt 1 <nil>
	// <nil>
}
