package metrics_test

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/metrics"
)

func Example() {
	// In a program: a reader of go.opentelemetry.io/otel/exporters/prometheus, and
	// promhttp.Handler() on a path of its own.
	provider := metric.NewMeterProvider(metric.WithReader(metric.NewManualReader()))
	m, err := metrics.New(metrics.Config{MeterProvider: provider})
	if err != nil {
		fmt.Println(err)
		return
	}
	x, err := executor.Open("", executor.Config{Middleware: []executor.Middleware{m.Middleware()}})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := m.Observe(x); err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	fmt.Println(x.Stop(ctx))
	// Output: <nil>
}
