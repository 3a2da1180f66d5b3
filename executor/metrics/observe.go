package metrics

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/metric"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/cluster"
	"github.com/strandjobs/strand/executor/events"
	"github.com/strandjobs/strand/executor/inspect"
)

// Observe has each collection read the figures of an executor, until that has stopped.
// A Metrics observes one executor: several need one each, with Attributes that tell them
// apart. A second call is refused, with [executor.ErrState], because counters that are
// read twice are twice as high; so is one after an error of the MeterProvider. With the
// feed of events switched off ([executor.Config].Advanced.EventBuffer) there is no histogram of
// commits. The executor of a cluster is ErrState: observe those of its partitions.
// Any other error is the MeterProvider's, that it panicked, or that there is no
// executor.
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
		{name: "strand.jobs.retrying", unit: "{job}", what: "Jobs whose last run failed.", of: func(q *stats) float64 { return float64(q.Retrying) }},
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
	return []figure[stats]{
		{name: "strand.workers", unit: "{worker}", what: "Workers.", of: func(s *stats) float64 { return float64(s.Workers) }},
		{name: "strand.workers.busy", unit: "{worker}", what: "Workers that run a handler.", of: func(s *stats) float64 { return float64(s.Busy) }},
		{name: "strand.workers.stuck", unit: "{worker}", what: "Workers whose handlers go on after their time.", of: func(s *stats) float64 { return float64(s.Stuck) }},
		{name: "strand.healthy", unit: "", what: "0 when something keeps the executor from its work.", of: func(*stats) float64 { return oneIf(x.Err() == nil) }},
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

// collect is called by the provider.
func (o *observation) collect(ctx context.Context, to metric.Observer) error {
	s, err := o.x.Stats(ctx)
	if errors.Is(err, executor.ErrClosed) {
		return nil
	} else if err != nil {
		return fmt.Errorf("metrics: %w", err)
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
