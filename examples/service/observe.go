package main

import (
	"crypto/subtle"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/attribute"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/strandjobs/strand/executor/dashboard"
)

// newExporter returns where figures go, and what Prometheus gets.
func newExporter() (*metric.MeterProvider, http.Handler, error) {
	registry := prometheus.NewRegistry()
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(registry), otelprometheus.WithoutScopeInfo())
	if err != nil {
		return nil, nil, err
	}
	of := resource.NewSchemaless(attribute.String("service.name", "orders"))
	return metric.NewMeterProvider(metric.WithReader(exporter), metric.WithResource(of)), promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), nil
}

// dashboard is without a password for everybody who reaches the address to look at; with one, it is the admin's alone, to
// look at and to use.
func (s *service) dashboard(password string) http.Handler {
	cfg := dashboard.Config{Title: "Orders", ShowPayload: dashboard.PlainPayload} // nothing in orders is secret
	if password == "" {
		return dashboard.Handler(s.x, cfg)
	}
	cfg.Authorize = dashboard.Insecure // who comes as far as this has been asked
	pages := dashboard.Handler(s.x, cfg)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, given, _ := r.BasicAuth()
		if user != "admin" || subtle.ConstantTimeCompare([]byte(given), []byte(password)) != 1 {
			w.Header().Set("WWW-Authenticate", `Basic realm="orders"`) // a browser asks, and asks again
			http.Error(w, "only the admin may, who has the password", http.StatusUnauthorized)
			return
		}
		pages.ServeHTTP(w, r)
	})
}
