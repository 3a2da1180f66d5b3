package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/metrics"
)

// What Prometheus is told of an executor.
func Example_prometheus() {
	provider, scrape, err := newExporter()
	if err != nil {
		fmt.Println(err)
		return
	}
	m, err := metrics.New(metrics.Config{MeterProvider: provider})
	if err != nil {
		fmt.Println(err)
		return
	}
	x, err := executor.Open("", executor.Config{
		Middleware: []executor.Middleware{m.Middleware()}, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	handler := func(context.Context, executor.Job[string]) error { return nil }
	q, err := executor.Handle(x, "mails", handler, executor.QueueConfig[string]{})
	if err == nil {
		_, err = q.Enqueue(ctx, "order-7", "shipped")
	}
	if err == nil {
		err = m.Observe(x)
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	answer := httptest.NewRecorder()
	scrape.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(answer.Body.String()) {
		if strings.HasPrefix(line, "strand_enqueue_payloads_total") || strings.HasPrefix(line, "strand_payloads{") {
			fmt.Print(line)
		}
	}
	fmt.Println(x.Stop(ctx))
	// Output:
	// strand_enqueue_payloads_total{queue="mails"} 1
	// strand_payloads{queue="mails"} 1
	// <nil>
}
