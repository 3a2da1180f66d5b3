package main

import (
	"crypto/subtle"
	"errors"
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

// dashboard is for everybody who reaches the address to look at, and with a password for the admin to use.
func (s *service) dashboard(password string) http.Handler {
	cfg := dashboard.Config{Title: "Orders", ShowPayload: dashboard.PlainPayload} // nothing in orders is secret
	if password == "" {
		return dashboard.Handler(s.x, cfg)
	}
	cfg.Authorize = func(r *http.Request, _ dashboard.Action) error {
		user, given, _ := r.BasicAuth()
		if user != "admin" || subtle.ConstantTimeCompare([]byte(given), []byte(password)) != 1 {
			return errors.New("only the admin may, who has the password")
		}
		return nil
	}
	pages := dashboard.Handler(s.x, cfg)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, _, given := r.BasicAuth(); !given {
			w.Header().Set("WWW-Authenticate", `Basic realm="orders"`)
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		pages.ServeHTTP(w, r)
	})
}
