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

// When a schedule ticks can be asked without one.
func ExampleParse() {
	table := must(cron.Parse("CRON_TZ=Europe/Berlin 30 2 * * *", nil))
	at := time.Date(2026, time.March, 28, 0, 0, 0, 0, time.UTC)
	for range 3 {
		at = table.Next(at)
		fmt.Println(at)
	}
	// Output:
	// 2026-03-28 02:30:00 +0100 CET
	// 2026-03-29 03:00:00 +0200 CEST
	// 2026-03-30 02:30:00 +0200 CEST
}
