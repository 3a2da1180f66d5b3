package cron_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/cron"
)

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

// A tick is a job like others: it is retried, and survives a crash.
func Example() {
	ctx := context.Background()
	done := make(chan struct{}, 10)
	x := must(executor.Open("", executor.Config{}))
	reports := must(executor.HandleMerged(x, "reports", func(_ context.Context, job executor.Merged[time.Time]) error {
		if job.ID == "report@"+job.Latest().Format(time.RFC3339) {
			done <- struct{}{}
		}
		return nil
	}, executor.QueueConfig[time.Time]{}))

	c := must(cron.New(x, cron.Config{}))
	must(c, cron.Add(ctx, c, cron.Schedule[time.Time]{
		Name: "report", Spec: "@every 1s", Queue: reports,
		Payload: func(tick time.Time) time.Time { return tick },
	}))
	must(x, x.Start(ctx))
	must(c, c.Start())
	<-done
	must(c, c.Stop(ctx))
	must(x, x.Stop(ctx))
	fmt.Println("it ticked")
	// Output:
	// it ticked
}
