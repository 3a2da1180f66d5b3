package metrics

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/internal/guard"
)

// scope names the instruments' origin.
const scope = "github.com/strandjobs/strand/executor/metrics"

// Config says where figures go. The zero Config is usable.
type Config struct {
	// MeterProvider makes the instruments. Default: the global one, also if that is
	// set later.
	MeterProvider metric.MeterProvider

	// TracerProvider makes the spans. Default: the global one, also if that is set later.
	TracerProvider trace.TracerProvider

	// Propagator writes span contexts into metadata, and reads them. Default: W3C
	// trace context.
	Propagator propagation.TextMapPropagator

	// Attributes go with each metric and span: what tells the executors of one
	// process apart, for example. Of the keys queue and outcome they are not seen in
	// metrics that have their own. Default: none.
	Attributes []attribute.KeyValue
}

// Metrics has the instruments. Its methods may be called from any goroutine.
type Metrics struct {
	meter      metric.Meter
	tracer     trace.Tracer
	propagator propagation.TextMapPropagator
	common     []attribute.KeyValue
	observes   atomic.Bool // Observe was called
	broken     sync.Once   // a provider has panicked

	enqueue, run, wait, whole, commit metric.Float64Histogram
	payloads                          metric.Int64Counter
}

// boundaries of durations: a commit takes milliseconds, a long handler an hour.
var boundaries = metric.WithExplicitBucketBoundaries(
	.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600)

// boundariesOfLives are those from acceptance to end: with delays and retries, weeks.
var boundariesOfLives = metric.WithExplicitBucketBoundaries(
	.01, .05, .1, .5, 1, 5, 10, 30, 60, 300, 900, 3600, 6*3600, 86400, 7*86400, 30*86400)

// New makes the instruments. An error is the MeterProvider's, or says that a provider
// panicked, with an [*executor.PanicError].
func New(cfg Config) (*Metrics, error) {
	cfg.MeterProvider = cmp.Or(cfg.MeterProvider, otel.GetMeterProvider())
	cfg.TracerProvider = cmp.Or(cfg.TracerProvider, otel.GetTracerProvider())
	cfg.Propagator = cmp.Or[propagation.TextMapPropagator](cfg.Propagator, propagation.TraceContext{})
	m := &Metrics{propagator: cfg.Propagator, common: slices.Clone(cfg.Attributes)}
	if err := returned(func() error { return m.instruments(cfg) }); err != nil {
		return nil, err
	}
	return m, nil
}

func (m *Metrics) instruments(cfg Config) error {
	m.meter, m.tracer = cfg.MeterProvider.Meter(scope), cfg.TracerProvider.Tracer(scope)
	var errs []error
	histogram := func(name, what string, bounds ...metric.Float64HistogramOption) metric.Float64Histogram {
		h, err := m.meter.Float64Histogram(name, append([]metric.Float64HistogramOption{
			metric.WithUnit("s"), metric.WithDescription(what), boundaries}, bounds...)...)
		errs = append(errs, err)
		return h
	}
	m.enqueue = histogram("strand.enqueue.duration", "How long a call that enqueues takes.")
	m.run = histogram("strand.run.duration", "How long a call of a handler takes.")
	m.wait = histogram("strand.run.wait", "From when a job was due to its run.")
	m.whole = histogram("strand.payload.duration", "From the acceptance of a payload to its end.", boundariesOfLives)
	m.commit = histogram("strand.commit.duration", "How long the disk takes for a commit.")
	var err error
	m.payloads, err = m.meter.Int64Counter("strand.enqueue.payloads",
		metric.WithUnit("{payload}"), metric.WithDescription("Accepted payloads."))
	return errors.Join(append(errs, err)...)
}

// Middleware returns what belongs into the Middleware of [executor.Config], as its first
// so that it sees what the others do, or of the queues that are to be seen.
func (m *Metrics) Middleware() executor.Middleware {
	return executor.Middleware{Run: m.aroundRun, Enqueue: m.aroundEnqueue}
}

// with returns the common attributes and some more, which count if both have a key.
func (m *Metrics) with(more ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(slices.Concat(m.common, more)...))
}

// safely calls what belongs to a provider. A job is not to fail, and a process not to
// end, because its figures do: of the panics the first one is told.
func (m *Metrics) safely(f func()) {
	if err := guard.Call(func() error { f(); return nil }); err != nil {
		m.broken.Do(func() {
			_ = guard.Call(func() error { otel.Handle(failed(err)); return nil }) // the handler is the program's, too
		})
	}
}

// returned returns the error of f, or that it panicked.
func returned(f func() error) error {
	err := guard.Call(f)
	if _, panicked := err.(*executor.PanicError); panicked {
		return failed(err)
	} else if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	return nil
}

// failed is an error with the stack of what panicked.
func failed(err error) error {
	return fmt.Errorf("metrics: a provider of OpenTelemetry failed, and figures are missing: %w", err)
}

func ofQueue(name string) attribute.KeyValue    { return attribute.String("queue", utf8Of(name)) }
func outcome[S ~string](o S) attribute.KeyValue { return attribute.String("outcome", string(o)) }
