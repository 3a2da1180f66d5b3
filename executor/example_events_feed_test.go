package executor_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/events"
)

// What happens is told from the call of Events on. The token of the last event that
// was dealt with is the place to go on from; a browser sends it as Last-Event-ID.
func ExampleExecutor_Events() {
	ctx := context.Background()
	x := must(executor.Open("", executor.Config{Logger: slog.New(slog.DiscardHandler)}))
	orders := must(executor.Handle(x, "orders", func(_ context.Context, job executor.Job[string]) error {
		if job.Payload == "bad" {
			return executor.Cancel(errors.New("unknown order"))
		}
		return nil
	}, executor.QueueConfig[string]{}))
	filter := events.Filter{Kinds: []events.Kind{events.Accepted, events.Done, events.Buried}}
	feed := x.Events(ctx, filter)
	must(orders.Enqueue(ctx, "order-42", "placed"))
	must(orders.Enqueue(ctx, "order-42", "bad"))
	for event, err := range feed {
		check(err)
		fmt.Println(event.ID, event.Kind)
		filter.After = event.Token
		if event.Kind == events.Accepted {
			break
		}
	}
	check(x.Start(ctx))
	for event, err := range x.Events(ctx, filter) {
		if missed, ok := errors.AsType[*events.MissedError](err); ok {
			fmt.Println("missed", missed.Events) // go on, or load anew what is shown
			continue
		}
		check(err)
		fmt.Println(event.ID, event.Kind)
		if event.Kind == events.Buried {
			break
		}
	}
	check(x.Stop(ctx))
	// Output:
	// order-42 accepted
	// order-42 accepted
	// order-42 done
	// order-42 buried
}

// A handler that may take hours says how far it is. When it hangs, its context ends a
// minute after the last sign of life, however long it has been at it.
func ExampleProgress() {
	ctx := context.Background()
	x := must(executor.Open("", executor.Config{Logger: slog.New(slog.DiscardHandler)}))
	reports := must(executor.Handle(x, "reports", func(ctx context.Context, job executor.Job[[]string]) error {
		for i, page := range job.Payload {
			executor.Progress(ctx, int64(i), int64(len(job.Payload)), page)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
		}
		return nil
	}, executor.QueueConfig[[]string]{HeartbeatTimeout: time.Minute}))
	feed := x.Events(ctx, events.Filter{Kinds: []events.Kind{events.Progress}})
	check(x.Start(ctx))
	must(reports.Enqueue(ctx, "2026", []string{"sales", "costs"}))
	for event := range feed {
		fmt.Println(event.Queue, event.ID, event.Done, "of", event.Total, event.Error)
		break
	}
	check(x.Stop(ctx))
	// Output: reports 2026 0 of 2 sales
}
