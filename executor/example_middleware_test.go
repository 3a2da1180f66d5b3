package executor_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/strandjobs/strand/executor"
)

// Figures by queue and outcome: the labels are few, whatever handlers return.
func ExampleMiddleware_metrics() {
	var mu sync.Mutex
	runs, took := map[string]int{}, time.Duration(0)
	metrics := executor.Middleware{Run: func(ctx context.Context, run *executor.Run, next func(context.Context) error) error {
		began := time.Now()
		err := next(ctx)
		mu.Lock()
		defer mu.Unlock()
		took += time.Since(began)
		for _, err := range run.Outcomes(err) {
			runs[run.Queue+" "+string(executor.OutcomeOf(err))]++
		}
		return err
	}}

	ctx := context.Background()
	x := must(executor.Open("", executor.Config{Middleware: []executor.Middleware{metrics}}))
	ran := make(chan struct{}, 3)
	mail := must(executor.Handle(x, "mail", func(_ context.Context, job executor.Job[string]) error {
		defer func() { ran <- struct{}{} }()
		if job.Payload == "" {
			return executor.Cancel(errors.New("no address"))
		}
		return nil
	}, executor.QueueConfig[string]{}))
	check(x.Start(ctx))
	for _, to := range []string{"ann@example.org", "", "bob@example.org"} {
		must(mail.Enqueue(ctx, "newsletter", to))
	}
	_, _, _ = <-ran, <-ran, <-ran
	check(x.Stop(ctx))
	fmt.Println(runs)
	// Output: map[mail cancelled:1 mail done:2]
}

// The producer's trace goes along with the payload, through the journal, and the run
// is a part of it. An OpenTelemetry propagator writes to a map in the same way.
func ExampleMiddleware_trace() {
	type span struct{}
	tracing := executor.Middleware{
		Enqueue: func(ctx context.Context, call *executor.EnqueueCall, next func(context.Context) error) error {
			for i := range call.Items {
				maps.Copy(call.Items[i].Metadata, map[string]string{"traceparent": ctx.Value(span{}).(string)})
			}
			return next(ctx)
		},
		Run: func(ctx context.Context, run *executor.Run, next func(context.Context) error) error {
			parent := run.Jobs[0].Payloads[0].Metadata["traceparent"]
			return next(context.WithValue(ctx, span{}, parent+" > "+run.Queue))
		},
	}

	x := must(executor.Open("", executor.Config{Middleware: []executor.Middleware{tracing}}))
	ran := make(chan struct{})
	orders := must(executor.Handle(x, "orders", func(ctx context.Context, job executor.Job[string]) error {
		fmt.Println(ctx.Value(span{}))
		close(ran)
		return nil
	}, executor.QueueConfig[string]{}))
	check(x.Start(context.Background()))
	must(orders.Enqueue(context.WithValue(context.Background(), span{}, "POST /orders"), "order-42", "placed"))
	<-ran
	check(x.Stop(context.Background()))
	// Output: POST /orders > orders
}

// An error tracker gets what panicked, with its stack, and what no retry will mend.
func ExampleMiddleware_errors() {
	report := make(chan string)
	tracker := executor.Middleware{Run: func(ctx context.Context, run *executor.Run, next func(context.Context) error) error {
		err := next(ctx)
		if panicked, ok := errors.AsType[*executor.PanicError](err); ok {
			report <- fmt.Sprint(run.Queue, "/", run.Jobs[0].ID, ": ", err, ", in the handler: ", strings.Contains(panicked.Stack, "ExampleMiddleware_errors"))
		} else if err != nil && run.Jobs[0].LastTry {
			report <- fmt.Sprint(run.Queue, "/", run.Jobs[0].ID, ": ", err)
		}
		return err
	}}

	ctx := context.Background()
	x := must(executor.Open("", executor.Config{Middleware: []executor.Middleware{tracker}, Logger: slog.New(slog.DiscardHandler)}))
	orders := must(executor.Handle(x, "orders", func(context.Context, executor.Job[string]) error {
		panic("no such customer")
	}, executor.QueueConfig[string]{}))
	check(x.Start(ctx))
	must(orders.Enqueue(ctx, "order-42", "placed"))
	fmt.Println(<-report)
	check(x.Stop(ctx))
	// Output: orders/order-42: panic: no such customer, in the handler: true
}
