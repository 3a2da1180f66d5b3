// Package metrics tells OpenTelemetry what an executor does: counters, gauges and
// histograms, and traces that go from the producer through the journal to the run.
//
//	m, err := metrics.New(metrics.Config{}) // the global providers
//	x, err := executor.Open(dir, executor.Config{
//		Middleware: []executor.Middleware{m.Middleware()},
//	})
//	err = m.Observe(x)
//
// It uses the API of OpenTelemetry alone: what becomes of the figures, Prometheus or
// anything else, is up to the providers. The first module that brings an SDK is yours.
// With Prometheus, so that this module does not have to require its exporter:
//
//	exporter, err := prometheus.New() // of go.opentelemetry.io/otel/exporters/prometheus
//	m, err := metrics.New(metrics.Config{
//		MeterProvider: metric.NewMeterProvider(metric.WithReader(exporter)), // of go.opentelemetry.io/otel/sdk/metric
//	})
//	http.Handle("/metrics", promhttp.Handler()) // of github.com/prometheus/client_golang/prometheus/promhttp
//
// The module examples/service does so, and has rules for alerts and a board for Grafana.
//
// # Metrics
//
// Attributes are few, whatever jobs there are: queue, which is the name of a queue, in
// which \xNN stands for a byte that is not UTF-8, outcome, and those of Config. Durations
// are in seconds.
//
//	from the middleware
//	  strand.enqueue.duration    histogram  queue, outcome: accepted duplicate full closed unknown refused
//	  strand.enqueue.payloads    counter    queue; accepted ones, without follow-ups and what was accepted before, by its key
//	  strand.run.duration        histogram  queue, outcome: see executor.OutcomeOf; of a batch, one for its call
//	  strand.run.wait            histogram  queue; from when a job was due to its run; each job of a batch.
//	                                        With Handle a job is due anew for each payload, so it does not
//	                                        tell of a long line of one id: strand.payload.duration does
//	  strand.payload.duration    histogram  queue, outcome: done discarded cancelled; from the acceptance
//	                                        of a payload to the call of its handler that ends it. What ends in
//	                                        another way, after the last retry say, is in strand.payloads.ended
//	from Observe
//	  strand.commit.duration     histogram  how long the disk takes for a commit
//	  strand.jobs                gauge      queue; ids with something to do
//	  strand.jobs.retrying       gauge      queue; of them that have used up a retry
//	  strand.jobs.halted         gauge      queue
//	  strand.jobs.running        gauge      queue
//	  strand.jobs.parked         gauge      queue
//	  strand.payloads            gauge      queue; that wait or run
//	  strand.payloads.dead       gauge      queue; in the morgue
//	  strand.payloads.unclaimed  gauge      queue; that wait, of one that is not registered
//	  strand.payloads.ended      counter    queue, outcome: done discarded buried merged superseded superseded_dead deleted expired
//	  strand.runs.ended          counter    queue, outcome: failed snoozed interrupted
//	  strand.lag                 gauge      queue; how long the oldest due job has been due that is not parked
//	  strand.age                 gauge      queue; how long ago the oldest payload was accepted that is not over
//	  strand.queue.paused        gauge      queue; 1 or 0
//	  strand.ids.paused          gauge      queue; ids that a person has paused
//	  strand.prefixes.paused     gauge      queue; and beginnings of ids
//	  strand.queue.backlog       gauge      queue; bytes of payloads that are not over, if there is a limit
//	  strand.paused              gauge      1 or 0: the executor
//	  strand.backlog             gauge      bytes of payloads that are not over, if there is a limit
//	  strand.backlog.waiting     gauge      calls that wait for room
//	  strand.backlog.stalled     gauge      for how long there was no room, and nothing has ended
//	  strand.workers             gauge
//	  strand.workers.busy        gauge
//	  strand.workers.stuck       gauge
//	  strand.healthy             gauge      0 when executor.Executor.Err is not nil
//	  strand.journal.size        gauge      bytes of the log on disk
//	  strand.journal.live        gauge      bytes of these, of jobs that are not over
//	  strand.journal.held        gauge      bytes of entries in memory
//	  strand.commit.age          gauge      how long the disk has been at its commit
//
// While the journal can't be read, or the shards do not answer within two seconds, strand.healthy is
// all that Observe has, and why is told to [go.opentelemetry.io/otel.Handle].
//
// With Prometheus dots become underscores, and units and _total are put behind them.
//
// A call that enqueues is timed from where middlewares stand. One that is refused before
// that is in no figure: an empty id, a payload that is too large or can't be encoded, a
// queue that is unknown, options that are wrong, and all calls after Stop. What closed
// and refused tell of is what came after: a stop during the wait for room, say, or
// [executor.IfAbsent].
//
// # Traces
//
// A call that enqueues is a span "send QUEUE", of the kind producer. Its context goes with
// each payload, as metadata in the form of Config.Propagator, through retries, restarts and
// the morgue. A call of a handler is a span "process QUEUE", of the kind consumer, which
// links to those of its payloads, 128 at most: a trace of its own, because a job may run
// days later, and again. It is the span of the handler's context. What the handler enqueues
// with that is linked in turn; for [executor.Queue.FollowUp], of which a middleware does
// not hear, there is [Metrics.Trace].
//
// Without a tracer nothing is written into metadata, unless the caller's context has a
// span. A trace context takes some 70 bytes of the journal, for each payload. Where
// the limits of [executor.Metadata] leave no room for it, the payload goes without.
//
// Ids of jobs are attributes of spans, not of metrics: strand.job.id, and where there are
// several, in a batch or in one of EnqueueMany, strand.job.ids with the first 16.
//
// # Providers that fail
//
// A panic of a provider, of the Propagator or of an instrument is no failure of a job,
// and ends no process: the figure or span is missing, and the first one of a Metrics is
// told to [go.opentelemetry.io/otel.Handle], as an [*executor.PanicError]. One that
// blocks holds up what it is called from: Enqueue, a worker, or a collection. Those of
// OpenTelemetry's SDK do neither.
//
// # Cost
//
// With the middleware a job takes two clocks and two histograms more, and its
// allocations. Observe reads [executor.Executor.Stats] at each collection, which asks
// the shards, and follows one kind of event, events.Committed: one goroutine until the
// executor has stopped.
package metrics
