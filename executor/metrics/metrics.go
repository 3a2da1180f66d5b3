package metrics

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/cluster"
	"github.com/strandjobs/strand/executor/events"
	"github.com/strandjobs/strand/executor/inspect"
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

// Observe has each collection read the figures of an executor, until that has stopped.
// A Metrics observes one executor: several need one each, with Attributes that tell them
// apart. A second call is refused, with [executor.ErrState], because counters that are
// read twice are twice as high; so is one after an error of the MeterProvider. With the
// feed of events switched off ([executor.Config].Advanced.EventBuffer) there is no histogram of
// commits. A nil executor, and that of a cluster, are ErrState, too: observe those of the
// partitions. Any other error is that of the MeterProvider, or says that it panicked. The
// executor need not have started.
func (m *Metrics) Observe(x *executor.Executor) error {
	if x == nil {
		return fmt.Errorf("metrics: %w: no executor; Open makes one", executor.ErrState)
	}
	if cluster.Of(x) != nil {
		return fmt.Errorf("metrics: %w: x is of a cluster, and has the figures of all its processes; observe the executors of partitions, as in Setup of journal/postgres",
			executor.ErrState)
	}
	if m.observes.Swap(true) {
		return fmt.Errorf("metrics: %w: Observe was called before, and would count all twice; New makes another Metrics",
			executor.ErrState)
	}
	o := &observation{m: m, x: x, ofQueue: queueFigures(), ofAll: executorFigures(x)}
	var registered metric.Registration
	err := returned(func() (err error) {
		if err = o.instruments(); err == nil {
			registered, err = m.meter.RegisterCallback(o.collect, o.instrumentsOfAll...)
		}
		return err
	})
	if err != nil {
		return err
	}
	commits := x.Events(context.Background(), events.Filter{Kinds: []events.Kind{events.Committed}})
	go func() { // counts them until the executor has stopped
		for e, err := range commits {
			switch {
			case err == nil:
				m.safely(func() { m.commit.Record(context.Background(), e.Duration.Seconds(), m.with()) })
			case errors.Is(err, executor.ErrConfig): // without a feed nothing says when the executor has stopped
				return
			}
		}
		m.safely(func() { _ = registered.Unregister() }) // the provider may be shut down by now
	}()
	return nil
}

// observation is what is read of an executor.
type observation struct {
	m *Metrics
	x *executor.Executor

	ofQueue          []figure[inspect.QueueStats]
	ofAll            []figure[inspect.Stats]
	instrumentsOfAll []metric.Observable

	payloads, runs metric.Int64ObservableCounter
}

// figure is a gauge, and where its value comes from.
type figure[S any] struct {
	name, unit, what string
	of               func(*S) float64
	gauge            metric.Float64ObservableGauge
}

func queueFigures() []figure[inspect.QueueStats] {
	type stats = inspect.QueueStats
	return []figure[stats]{
		{name: "strand.jobs", unit: "{job}", what: "Ids with something to do.", of: func(q *stats) float64 { return float64(q.Jobs) }},
		{name: "strand.jobs.retrying", unit: "{job}", what: "Jobs that have used up a retry.", of: func(q *stats) float64 { return float64(q.Retrying) }},
		{name: "strand.jobs.halted", unit: "{job}", what: "Jobs that wait for a person.", of: func(q *stats) float64 { return float64(q.Halted) }},
		{name: "strand.jobs.running", unit: "{job}", what: "Jobs that workers have in hand.", of: func(q *stats) float64 { return float64(q.Running) }},
		{name: "strand.jobs.parked", unit: "{job}", what: "Jobs that wait for a lock, a slot or a limit.", of: func(q *stats) float64 { return float64(q.Parked) }},
		{name: "strand.payloads", unit: "{payload}", what: "Payloads that wait or run.", of: func(q *stats) float64 { return float64(q.Payloads) }},
		{name: "strand.payloads.dead", unit: "{payload}", what: "Payloads in the morgue.", of: func(q *stats) float64 { return float64(q.Dead) }},
		{name: "strand.payloads.unclaimed", unit: "{payload}", what: "Payloads of a queue that is not registered.", of: func(q *stats) float64 { return float64(q.Unclaimed) }},
		{name: "strand.lag", unit: "s", what: "How long the oldest due job has been due.", of: func(q *stats) float64 { return q.Lag.Seconds() }},
		{name: "strand.age", unit: "s", what: "How long the oldest payload has waited that is not over.", of: func(q *stats) float64 { return q.Age.Seconds() }},
		{name: "strand.queue.paused", unit: "", what: "1 while a person has paused the queue, or the executor.", of: func(q *stats) float64 { return oneIf(q.Paused) }},
		{name: "strand.ids.paused", unit: "{id}", what: "Ids that a person has paused one by one.", of: func(q *stats) float64 { return float64(q.PausedIDs) }},
		{name: "strand.prefixes.paused", unit: "{prefix}", what: "Beginnings of ids that a person has paused.", of: func(q *stats) float64 { return float64(q.PausedPrefixes) }},
		{name: "strand.queue.backlog", unit: "By", what: "Of payloads that are not over; 0 without a limit.", of: func(q *stats) float64 { return float64(q.Backlog.Bytes) }},
	}
}

func executorFigures(x *executor.Executor) []figure[inspect.Stats] {
	type stats = inspect.Stats
	return []figure[stats]{ // the first one is there without stats
		{name: "strand.healthy", unit: "", what: "0 when something keeps the executor from its work.", of: func(*stats) float64 { return oneIf(x.Err() == nil) }},
		{name: "strand.workers", unit: "{worker}", what: "Workers.", of: func(s *stats) float64 { return float64(s.Workers) }},
		{name: "strand.workers.busy", unit: "{worker}", what: "Workers that run a handler.", of: func(s *stats) float64 { return float64(s.Busy) }},
		{name: "strand.workers.stuck", unit: "{worker}", what: "Workers whose handlers go on after their time.", of: func(s *stats) float64 { return float64(s.Stuck) }},
		{name: "strand.paused", unit: "", what: "1 while a person has paused the executor.", of: func(s *stats) float64 { return oneIf(s.Paused) }},
		{name: "strand.backlog", unit: "By", what: "Of payloads that are not over; 0 without a limit.", of: func(s *stats) float64 { return float64(s.Backlog.Bytes) }},
		{name: "strand.backlog.waiting", unit: "{call}", what: "Calls that wait for room.", of: func(s *stats) float64 { return float64(s.Backlog.Waiting) }},
		{name: "strand.backlog.stalled", unit: "s", what: "For how long there was no room, and nothing has ended.", of: func(s *stats) float64 { return s.Backlog.Stalled.Seconds() }},
		{name: "strand.journal.size", unit: "By", what: "The log on disk.", of: func(s *stats) float64 { return float64(s.Journal.Bytes) }},
		{name: "strand.journal.live", unit: "By", what: "Of the log, what is of jobs that are not over.", of: func(s *stats) float64 { return float64(s.Journal.LiveBytes) }},
		{name: "strand.journal.held", unit: "By", what: "Of the log, what is in memory.", of: func(s *stats) float64 { return float64(s.Journal.HeldBytes) }},
		{name: "strand.commit.age", unit: "s", what: "How long the disk has been at its commit.", of: func(s *stats) float64 { return s.Journal.CommitAge.Seconds() }},
	}
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func (o *observation) instruments() error {
	var errs []error
	known := func(i metric.Observable, err error) {
		o.instrumentsOfAll, errs = append(o.instrumentsOfAll, i), append(errs, err)
	}
	gauge := func(name, unit, what string) metric.Float64ObservableGauge {
		g, err := o.m.meter.Float64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(what))
		known(g, err)
		return g
	}
	counter := func(name, unit, what string) metric.Int64ObservableCounter {
		c, err := o.m.meter.Int64ObservableCounter(name, metric.WithUnit(unit), metric.WithDescription(what))
		known(c, err)
		return c
	}
	for i, f := range o.ofQueue {
		o.ofQueue[i].gauge = gauge(f.name, f.unit, f.what)
	}
	for i, f := range o.ofAll {
		o.ofAll[i].gauge = gauge(f.name, f.unit, f.what)
	}
	o.payloads = counter("strand.payloads.ended", "{payload}", "Payloads that are over, by how.")
	o.runs = counter("strand.runs.ended", "{run}", "Runs after which the job runs again, or is buried.")
	return errors.Join(errs...)
}

// silence is how long a collection waits for the shards, so that it is over before who collects gives up.
const silence = 2 * time.Second

// collect is called by the provider. When the figures can't be read, it still reports whether the executor is healthy.
// It returns no error, because some readers would then send no metrics at all: OpenTelemetry's handler gets that.
func (o *observation) collect(ctx context.Context, to metric.Observer) error {
	ctx, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	s, err := o.x.Stats(ctx)
	if errors.Is(err, executor.ErrClosed) {
		return nil
	} else if err != nil {
		observe(to, o.ofAll[:1], &s, o.m.with())
		o.m.safely(func() { otel.Handle(fmt.Errorf("metrics: figures are missing: %w", err)) })
		return nil
	}
	observe(to, o.ofAll, &s, o.m.with())
	for i := range s.Queues {
		q := &s.Queues[i]
		name := ofQueue(q.Name)
		observe(to, o.ofQueue, q, o.m.with(name))
		for how, n := range map[string]uint64{"done": q.Done, "discarded": q.Discarded, "buried": q.Buried,
			"merged": q.Merged - q.Superseded, "superseded": q.Superseded, "superseded_dead": q.SupersededDead, "deleted": q.Deleted, "expired": q.Expired} {
			to.ObserveInt64(o.payloads, int64(n), o.m.with(name, outcome(how)))
		}
		for how, n := range map[string]uint64{"failed": q.Failed, "snoozed": q.Snoozed, "interrupted": q.Interrupted} {
			to.ObserveInt64(o.runs, int64(n), o.m.with(name, outcome(how)))
		}
	}
	return nil
}

func observe[S any](to metric.Observer, figures []figure[S], s *S, of metric.ObserveOption) {
	for _, f := range figures {
		to.ObserveFloat64(f.gauge, f.of(s), of)
	}
}
