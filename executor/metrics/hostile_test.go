package metrics_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/metrics"
)

// faulty is a provider of everything that panics at one place.
type faulty struct {
	metricnoop.MeterProvider
	at string
}

func (f faulty) bad(at string) {
	if f.at == at {
		panic("at " + at)
	}
}

func (f faulty) Meter(string, ...metric.MeterOption) metric.Meter {
	f.bad("meter")
	return faultyMeter{f: f}
}

type faultyMeter struct {
	metricnoop.Meter
	f faulty
}

func (m faultyMeter) Int64Counter(string, ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	m.f.bad("instrument")
	return faultyCounter{f: m.f}, nil
}

func (m faultyMeter) Float64Histogram(string, ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return faultyHistogram{f: m.f}, nil
}

func (m faultyMeter) RegisterCallback(metric.Callback, ...metric.Observable) (metric.Registration, error) {
	m.f.bad("register")
	return faultyRegistration{f: m.f}, nil
}

type faultyRegistration struct {
	metricnoop.Registration
	f faulty
}

func (r faultyRegistration) Unregister() error {
	r.f.bad("unregister")
	return nil
}

type faultyCounter struct {
	metricnoop.Int64Counter
	f faulty
}

func (c faultyCounter) Add(context.Context, int64, ...metric.AddOption) { c.f.bad("add") }

type faultyHistogram struct {
	metricnoop.Float64Histogram
	f faulty
}

func (h faultyHistogram) Record(context.Context, float64, ...metric.RecordOption) { h.f.bad("record") }

type faultyTracers struct {
	tracenoop.TracerProvider
	f faulty
}

func (p faultyTracers) Tracer(string, ...trace.TracerOption) trace.Tracer {
	p.f.bad("tracer")
	return faultyTracer{f: p.f}
}

type faultyTracer struct {
	tracenoop.Tracer
	f faulty
}

func (t faultyTracer) Start(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	t.f.bad("start")
	ctx, span := t.Tracer.Start(ctx, name, options...)
	return ctx, faultySpan{span, t.f}
}

type faultySpan struct {
	trace.Span
	f faulty
}

func (s faultySpan) End(...trace.SpanEndOption) { s.f.bad("end") }

type faultyPropagator struct {
	propagation.TraceContext
	f faulty
}

func (p faultyPropagator) Inject(context.Context, propagation.TextMapCarrier) { p.f.bad("inject") }

// told has what otel.Handle was told of.
type told []string

func (l *told) Handle(err error) {
	*l = append(*l, err.Error())
	panic("a handler of errors, too")
}

// A provider that panics costs figures: no job, no call and no process.
func TestHostileProviders(t *testing.T) {
	defer otel.SetErrorHandler(otel.GetErrorHandler())
	for _, at := range []string{"add", "record", "start", "end", "inject", "unregister"} {
		bubble(t, func(t *testing.T) {
			var errs told
			otel.SetErrorHandler(&errs)
			f := faulty{at: at}
			m, err := metrics.New(metrics.Config{MeterProvider: f, TracerProvider: faultyTracers{f: f}, Propagator: faultyPropagator{f: f}})
			require.NoError(t, err)
			x, err := executor.Open("", executor.Config{Middleware: []executor.Middleware{m.Middleware()}})
			require.NoError(t, err)
			require.NoError(t, m.Observe(x))
			runs := 0
			q, err := executor.Handle(x, "q", func(context.Context, executor.Job[int]) error {
				runs++
				return nil
			}, executor.QueueConfig[int]{})
			require.NoError(t, err)
			require.NoError(t, x.Start(t.Context()))
			ctx := trace.ContextWithSpanContext(t.Context(),
				trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}}))
			for range 3 {
				receipt, err := q.Enqueue(ctx, "id", 1, m.Trace(ctx, nil))
				require.NoError(t, err, at)
				require.NoError(t, q.Wait(ctx, receipt), at)
			}
			require.NoError(t, x.Stop(ctx))
			synctest.Wait()
			require.Equal(t, 3, runs, at)
			require.Len(t, errs, 1, at)
			require.Contains(t, errs[0], "at "+at)
		})
	}
	for _, at := range []string{"meter", "instrument", "tracer"} {
		f := faulty{at: at}
		_, err := metrics.New(metrics.Config{MeterProvider: f, TracerProvider: faultyTracers{f: f}})
		require.ErrorContains(t, err, "at "+at)
		panicked, ok := errors.AsType[*executor.PanicError](err)
		require.True(t, ok)
		require.Contains(t, panicked.Stack, "faulty")
	}
	m, err := metrics.New(metrics.Config{MeterProvider: faulty{at: "register"}})
	require.NoError(t, err)
	x, err := executor.Open("", executor.Config{})
	require.NoError(t, err)
	require.ErrorContains(t, m.Observe(x), "at register")
	require.NoError(t, x.Stop(t.Context()))
}

// Names of queues that are not UTF-8 stay apart, in figures that an exporter takes.
func TestNamesThatAreNotUTF8(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, "", executor.Config{})
		for _, name := range []string{"\xffä", "\xfeä"} {
			q, err := executor.Handle(r.x, name, func(context.Context, executor.Job[int]) error { return nil }, executor.QueueConfig[int]{})
			require.NoError(t, err)
			_, err = q.Enqueue(t.Context(), "id", 1)
			require.NoError(t, err)
		}
		r.start()
		synctest.Wait()
		got := r.figures()
		for _, name := range []string{`\xffä`, `\xfeä`} {
			for _, figure := range []string{"strand.enqueue.payloads " + name, "strand.run.wait " + name, "strand.payloads.ended " + name + " done"} {
				require.InDelta(t, 1, got[figure], 0, figure)
			}
		}
		r.stop()
		for figure := range got {
			require.True(t, utf8.ValidString(figure), "%q", figure)
		}
		for _, span := range r.spans.Ended() {
			require.True(t, utf8.ValidString(span.Name()), "%q", span.Name())
			for _, a := range span.Attributes() {
				require.True(t, utf8.ValidString(a.Value.String()), "%q", a.Value.String())
			}
		}
	})
}
