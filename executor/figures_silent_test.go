package executor_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/metrics"
)

// While a shard hears nothing, a collection of figures is over before who collects gives up, and says whether the
// executor is healthy.
func TestFiguresWithoutShards(t *testing.T) {
	bubble(t, func(t *testing.T) {
		reader := metric.NewManualReader()
		m, err := metrics.New(metrics.Config{MeterProvider: metric.NewMeterProvider(metric.WithReader(reader))})
		require.NoError(t, err)
		x := open(t, "", executor.Config{})
		require.NoError(t, m.Observe(x))
		handle(t, x, "q", func(context.Context, executor.Merged[string]) error { return nil }, executor.QueueConfig[string]{})
		start(t, x)
		letGo := x.HoldShards("q")
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var all metricdata.ResourceMetrics
		require.NoError(t, reader.Collect(ctx, &all))
		require.NoError(t, ctx.Err())
		var names []string
		for _, scope := range all.ScopeMetrics {
			for _, m := range scope.Metrics {
				names = append(names, m.Name)
			}
		}
		require.Contains(t, names, "strand.healthy")
		require.NotContains(t, names, "strand.workers")
		letGo()
		stop(t, x)
	})
}
