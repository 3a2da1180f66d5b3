//go:build unix

package main

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/attribute"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/metrics"
)

// observe makes what an operator scrapes: the figures of each partition that this node owns at the moment. Its setup is
// for postgres.Config; each ownership has an executor of its own, and when that has stopped its figures are gone.
func observe() (setup func(*executor.Executor, int) error, page http.Handler, err error) {
	registry := prometheus.NewRegistry()
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(registry), otelprometheus.WithoutScopeInfo())
	if err != nil {
		return nil, nil, err
	}
	provider := metric.NewMeterProvider(metric.WithReader(exporter))
	setup = func(x *executor.Executor, partition int) error {
		m, err := metrics.New(metrics.Config{MeterProvider: provider,
			Attributes: []attribute.KeyValue{attribute.Int("partition", partition)}})
		if err != nil {
			return err
		}
		return m.Observe(x)
	}
	return setup, promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), nil
}
