package metrics_test

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/metrics"
	"github.com/strandjobs/strand/journal"
)

var errBoom = errors.New("boom")

// rig is an executor with what it tells.
type rig struct {
	t      *testing.T
	m      *metrics.Metrics
	x      *executor.Executor
	reader *metric.ManualReader
	spans  *tracetest.SpanRecorder
}

func newRig(t *testing.T, dir string, cfg executor.Config) *rig {
	r := &rig{t: t, reader: metric.NewManualReader(), spans: tracetest.NewSpanRecorder()}
	var err error
	r.m, err = metrics.New(metrics.Config{
		MeterProvider:  metric.NewMeterProvider(metric.WithReader(r.reader)),
		TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(r.spans)),
		Attributes:     []attribute.KeyValue{attribute.String("node", "1")},
	})
	require.NoError(t, err)
	cfg.Middleware = []executor.Middleware{r.m.Middleware()}
	r.x, err = executor.Open(dir, cfg)
	require.NoError(t, err)
	require.NoError(t, r.m.Observe(r.x))
	return r
}

func (r *rig) start() {
	require.NoError(r.t, r.x.Start(r.t.Context()))
}

func (r *rig) stop() {
	require.NoError(r.t, r.x.Stop(r.t.Context()))
}

// figures collects: the values of gauges and counters and the counts of histograms, by
// name and the values of attributes.
func (r *rig) figures() map[string]float64 {
	var all metricdata.ResourceMetrics
	require.NoError(r.t, r.reader.Collect(r.t.Context(), &all))
	found := make(map[string]float64)
	add := func(name string, of attribute.Set, v float64) {
		node, _ := of.Value("node")
		require.Equal(r.t, "1", node.AsString(), name)
		for _, key := range []attribute.Key{"queue", "outcome"} {
			if value, has := of.Value(key); has {
				name += " " + value.AsString()
			}
		}
		require.NotContains(r.t, found, name)
		found[name] = v
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			require.NotEmpty(r.t, m.Description, m.Name)
			switch data := m.Data.(type) {
			case metricdata.Gauge[float64]:
				for _, p := range data.DataPoints {
					add(m.Name, p.Attributes, p.Value)
				}
			case metricdata.Sum[int64]:
				require.True(r.t, data.IsMonotonic, m.Name)
				for _, p := range data.DataPoints {
					add(m.Name, p.Attributes, float64(p.Value))
				}
			case metricdata.Histogram[float64]:
				require.Equal(r.t, "s", m.Unit)
				for _, p := range data.DataPoints {
					add(m.Name, p.Attributes, float64(p.Count))
					add(m.Name+" sum", p.Attributes, p.Sum)
				}
			default:
				require.Fail(r.t, "unknown kind of metric", "%s: %T", m.Name, data)
			}
		}
	}
	return found
}

func bubble(t *testing.T, f func(t *testing.T)) { synctest.Test(t, f) }

// Each figure says what has happened.
func TestFigures(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, "", executor.Config{Workers: 3, MaxBacklog: executor.BacklogLimit{Payloads: 7}})
		answers := map[string]error{
			"done": nil, "failed": errBoom, "snoozed": executor.Snooze(time.Hour),
			"discarded": executor.Discard(), "cancelled": executor.Cancel(errBoom),
		}
		hold := make(chan struct{})
		q, err := executor.Handle(r.x, "orders", func(_ context.Context, job executor.Job[string]) error {
			if job.ID == "long" {
				<-hold
			}
			if job.ID == "panicked" {
				panic("boom")
			}
			time.Sleep(2 * time.Second)
			return answers[job.ID]
		}, executor.QueueConfig[string]{MaxBacklog: executor.BacklogLimit{Payloads: 100}})
		require.NoError(t, err)
		for id := range answers {
			_, err := q.Enqueue(t.Context(), id, "12345678")
			require.NoError(t, err)
		}
		for _, id := range []string{"panicked", "long"} {
			_, err = q.Enqueue(t.Context(), id, "12345678")
			require.NoError(t, err)
		}
		_, err = q.Enqueue(t.Context(), "large", "x")
		require.ErrorIs(t, err, executor.ErrFull)
		_, err = q.Enqueue(t.Context(), "", "x")
		require.ErrorIs(t, err, executor.ErrInvalidID)
		time.Sleep(30 * time.Second)
		_, err = r.x.Inspect().Pause(t.Context(), inspect.SelectIDs("orders", "alone", "twice"))
		require.NoError(t, err)
		_, err = r.x.Inspect().Pause(t.Context(), inspect.SelectPrefix("orders", "acme/"))
		require.NoError(t, err)
		_, err = r.x.Inspect().Pause(t.Context(), inspect.SelectQueue("orders"))
		require.NoError(t, err)
		r.start()
		synctest.Wait()
		got := r.figures()
		for name, want := range map[string]float64{
			"strand.enqueue.payloads orders": 7, "strand.enqueue.duration orders accepted": 7, "strand.enqueue.duration orders full": 1,
			"strand.jobs orders": 7, "strand.jobs.running orders": 0, "strand.lag orders": 30, "strand.age orders": 30, "strand.payloads orders": 7,
			"strand.queue.paused orders": 1, "strand.paused": 0, "strand.ids.paused orders": 2, "strand.prefixes.paused orders": 1, "strand.workers": 3, "strand.workers.busy": 0, "strand.healthy": 1,
			"strand.backlog": got["strand.queue.backlog orders"], "strand.commit.age": 0,
		} {
			require.InDelta(t, want, got[name], .001, name)
		}
		require.NotContains(t, got, "strand.run.duration orders done")
		require.Positive(t, got["strand.journal.live"])

		_, err = r.x.Inspect().Resume(t.Context(), inspect.SelectQueue("orders"))
		require.NoError(t, err)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		got = r.figures()
		for name, want := range map[string]float64{
			"strand.run.duration orders done": 1, "strand.run.duration orders failed": 1, "strand.run.duration orders snoozed": 1,
			"strand.run.duration orders discarded": 1, "strand.run.duration orders cancelled": 1, "strand.run.duration orders panicked": 1,
			"strand.run.duration sum orders done": 2, "strand.run.wait orders": 7,
			"strand.payload.duration orders done": 1, "strand.payload.duration orders discarded": 1, "strand.payload.duration orders cancelled": 1,
			"strand.payloads.ended orders done": 1, "strand.payloads.ended orders discarded": 1, "strand.payloads.ended orders buried": 1,
			"strand.payloads.ended orders merged": 0, "strand.payloads.ended orders deleted": 0, "strand.payloads.ended orders expired": 0,
			"strand.runs.ended orders failed": 2, "strand.runs.ended orders snoozed": 1, "strand.runs.ended orders interrupted": 0,
			"strand.payloads.dead orders": 1, "strand.jobs orders": 4, "strand.jobs.retrying orders": 2, "strand.jobs.running orders": 1,
			"strand.workers.busy": 1, "strand.queue.paused orders": 0,
		} {
			require.InDelta(t, want, got[name], .001, name)
		}
		require.Greater(t, got["strand.run.wait sum orders"], 7*30.0)
		require.GreaterOrEqual(t, got["strand.payload.duration sum orders done"], 32.0)
		require.NotContains(t, got, "strand.payload.duration orders failed", "they are not over")
		require.InDelta(t, 40, got["strand.age orders"], .001)
		close(hold)
		r.stop()
		synctest.Wait()
		for name := range r.figures() {
			require.NotContains(t, name, "strand.jobs", "an executor that has stopped is not asked")
		}
	})
}

// The logs of these tests are of no interest.
func init() { slog.SetDefault(slog.New(slog.DiscardHandler)) }

// Commits are counted as often as there were any.
func TestCommits(t *testing.T) {
	r := newRig(t, t.TempDir()+"/jobs", executor.Config{})
	q, err := executor.Handle(r.x, "q", func(context.Context, executor.Job[int]) error { return nil }, executor.QueueConfig[int]{})
	require.NoError(t, err)
	before, err := r.x.Stats(t.Context())
	require.NoError(t, err)
	for i := range 10 {
		_, err := q.Enqueue(t.Context(), "id", i)
		require.NoError(t, err)
	}
	after, err := r.x.Stats(t.Context())
	require.NoError(t, err)
	commits := after.Journal.Commits - before.Journal.Commits
	require.GreaterOrEqual(t, commits, uint64(10))
	require.Greater(t, after.Journal.CommitTime, before.Journal.CommitTime)
	require.Eventually(t, func() bool { return r.figures()["strand.commit.duration"] >= float64(commits) }, time.Minute, time.Millisecond)
	require.Positive(t, r.figures()["strand.commit.duration sum"])
	r.stop()
}

// The producer's span is what the run links to, also after a restart, and again for each
// attempt; what the handler enqueues is of the run's trace.
func TestTraces(t *testing.T) {
	dir := t.TempDir() + "/jobs"
	r := newRig(t, dir, executor.Config{})
	first := register(t, r, nil)
	ctx, root := sdktrace.NewTracerProvider().Tracer("request").Start(t.Context(), "request")
	_, err := first.Enqueue(ctx, "id\xff", "a", executor.Metadata(map[string]string{"tenant": "7"}))
	require.NoError(t, err)
	r.stop()
	sent := r.spans.Ended()
	require.Len(t, sent, 1)
	require.Equal(t, "send first", sent[0].Name())
	require.Equal(t, root.SpanContext().SpanID(), sent[0].Parent().SpanID())
	require.Equal(t, trace.SpanKindProducer, sent[0].SpanKind())

	done := make(chan map[string]string, 1)
	r = newRig(t, dir, executor.Config{})
	register(t, r, done)
	r.start()
	metadata := <-done
	r.stop()
	require.Equal(t, "7", metadata["tenant"])
	var kinds []string
	byName := make(map[string]sdktrace.ReadOnlySpan)
	for _, span := range r.spans.Ended() {
		byName[span.Name()] = span
		if span.Name() != "process second" { // which snoozes until it has both
			kinds = append(kinds, span.Name()+" "+span.Status().Code.String())
		}
	}
	require.Equal(t, []string{"process first Error", "send second Unset", "process first Unset"}, kinds)
	run := byName["process first"]
	require.Equal(t, trace.SpanKindConsumer, run.SpanKind())
	require.Len(t, run.Links(), 1)
	require.Equal(t, sent[0].SpanContext().SpanID(), run.Links()[0].SpanContext.SpanID())
	require.NotEqual(t, run.SpanContext().TraceID(), sent[0].SpanContext().TraceID(), "a trace of its own")
	require.Contains(t, run.Attributes(), attribute.String("strand.job.id", "id\uFFFD"))
	require.Contains(t, run.Attributes(), attribute.Int("strand.attempt", 2))
	require.Equal(t, run.SpanContext().SpanID(), byName["send second"].Parent().SpanID())
	require.Equal(t, codes.Unset, run.Status().Code)
	links := byName["process second"].Links()
	require.Len(t, links, 2, "the one that was enqueued and the follow-up")
	require.Equal(t, byName["send second"].SpanContext().SpanID(), links[0].SpanContext.SpanID())
	require.Equal(t, run.SpanContext().SpanID(), links[1].SpanContext.SpanID())
}

// register has first fail once, and then enqueue and stage for second.
func register(t *testing.T, r *rig, done chan map[string]string) *executor.Queue[string] {
	var second *executor.Queue[string]
	first, err := executor.Handle(r.x, "first", func(ctx context.Context, job executor.Job[string]) error {
		if job.Attempt == 1 {
			return errBoom
		}
		if _, err := second.Enqueue(ctx, "id", "b", executor.In(time.Millisecond)); err != nil {
			return err
		}
		return second.FollowUp(job, "id", "c", r.m.Trace(ctx, job.Metadata))
	}, executor.QueueConfig[string]{RetryIn: func(int) time.Duration { return time.Nanosecond }})
	require.NoError(t, err)
	second, err = executor.HandleMerged(r.x, "second", func(_ context.Context, job executor.Merged[string]) error {
		if len(job.Payloads) < 2 {
			return executor.Snooze(time.Millisecond)
		}
		done <- job.Payloads[1].Metadata
		return nil
	}, executor.QueueConfig[string]{})
	require.NoError(t, err)
	return first
}

// Metadata that has no room for a trace stays as it is.
func TestNoRoomForATrace(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, "", executor.Config{})
		var mu sync.Mutex
		got := make(map[string]map[string]string)
		q, err := executor.Handle(r.x, "q", func(_ context.Context, job executor.Job[int]) error {
			mu.Lock()
			defer mu.Unlock()
			got[job.ID] = job.Metadata
			return nil
		}, executor.QueueConfig[int]{})
		require.NoError(t, err)
		full := map[string]string{"k": strings.Repeat("x", 1023)}
		many := make(map[string]string)
		for c := 'a'; len(many) < 16; c++ {
			many[string(c)] = ""
		}
		for id, pairs := range map[string]map[string]string{"full": full, "many": many, "none": nil} {
			_, err = q.Enqueue(t.Context(), id, 1, executor.Metadata(pairs))
			require.NoError(t, err)
		}
		r.start()
		synctest.Wait()
		r.stop()
		require.Equal(t, full, got["full"])
		require.Equal(t, many, got["many"])
		require.Contains(t, got["none"], "traceparent")
	})
}

// A middleware around this one may leave an item without metadata.
func TestATraceWhereThereWereNoMetadata(t *testing.T) {
	bubble(t, func(t *testing.T) {
		none := executor.Middleware{Enqueue: func(ctx context.Context, call *executor.EnqueueCall, next func(context.Context) error) error {
			call.Items[0].Metadata = nil
			return next(ctx)
		}}
		r := newRig(t, "", executor.Config{})
		var got map[string]string
		q, err := executor.Handle(r.x, "q", func(_ context.Context, job executor.Job[int]) error {
			got = job.Metadata
			return nil
		}, executor.QueueConfig[int]{Middleware: []executor.Middleware{none, r.m.Middleware()}})
		require.NoError(t, err)
		_, err = q.Enqueue(t.Context(), "id", 1)
		require.NoError(t, err)
		r.start()
		synctest.Wait()
		r.stop()
		require.Contains(t, got, "traceparent")
	})
}

// An error whose text panics hurts its job, as without the middleware.
func TestHostileErrors(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, "", executor.Config{})
		_, err := executor.Handle(r.x, "q", func(context.Context, executor.Job[int]) error { return hostile{} }, executor.QueueConfig[int]{MaxRetries: -1})
		require.NoError(t, err)
		_, err = lookup(r.x, "q").Enqueue(t.Context(), "id", []byte("1"))
		require.NoError(t, err)
		r.start()
		synctest.Wait()
		r.stop()
		spans := r.spans.Ended()
		require.Equal(t, codes.Error, spans[len(spans)-1].Status().Code)
	})
}

type hostile struct{}

func (hostile) Error() string { panic("no text") }

// Without providers nothing is told, and nothing goes with a payload.
func TestWithoutProviders(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, err := metrics.New(metrics.Config{})
		require.NoError(t, err)
		require.ErrorIs(t, m.Observe(nil), executor.ErrState)
		x, err := executor.Open("", executor.Config{Advanced: executor.Advanced{EventBuffer: -1}, Middleware: []executor.Middleware{m.Middleware()}})
		require.NoError(t, err)
		require.NoError(t, m.Observe(x)) // nil was not observed
		require.ErrorIs(t, m.Observe(x), executor.ErrState)
		ran := make(chan map[string]string, 1)
		q, err := executor.Handle(x, "q", func(_ context.Context, job executor.Job[int]) error {
			ran <- job.Metadata
			return nil
		}, executor.QueueConfig[int]{})
		require.NoError(t, err)
		_, err = q.Enqueue(t.Context(), "id", 1)
		require.NoError(t, err)
		require.NoError(t, x.Start(t.Context()))
		require.Empty(t, <-ran)
		require.NoError(t, x.Stop(t.Context()))
	})
}

// Without the feed of events there are no commits, and all else is there until the stop.
func TestWithoutEvents(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, "", executor.Config{Advanced: executor.Advanced{EventBuffer: -1}})
		_, err := executor.Handle(r.x, "q", func(context.Context, executor.Job[int]) error { return nil }, executor.QueueConfig[int]{})
		require.NoError(t, err)
		r.start()
		require.NotZero(t, r.figures()["strand.workers"])
		r.stop()
		require.Empty(t, r.figures())
	})
}

// An executor that has failed says that it is not healthy, and is no reason to send nothing of others: a reader gets
// no error, and the handler of errors hears why all else is missing.
func TestFiguresOfWhatHasFailed(t *testing.T) {
	defer otel.SetErrorHandler(otel.GetErrorHandler())
	var errs []error
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { errs = append(errs, err) }))
	disk, broken, failed := new(journal.Memory), errors.New("the disk does not answer"), make(chan error, 1)
	reader := metric.NewManualReader()
	m, err := metrics.New(metrics.Config{MeterProvider: metric.NewMeterProvider(metric.WithReader(reader)),
		Attributes: []attribute.KeyValue{attribute.String("node", "1")}})
	require.NoError(t, err)
	x, err := executor.OpenLog("memory", func(cfg journal.Config) (*journal.Log, error) { return journal.OpenMemory(disk, cfg) },
		executor.Config{Advanced: executor.Advanced{MemoryBudget: 1}, Workers: 1, OnFatal: func(err error) { failed <- err }})
	require.NoError(t, err)
	require.NoError(t, m.Observe(x))
	q, err := executor.Handle(x, "q", func(context.Context, executor.Job[int]) error { return nil }, executor.QueueConfig[int]{})
	require.NoError(t, err)
	for i := range 500 {
		_, err := q.Enqueue(t.Context(), strconv.Itoa(i), i)
		require.NoError(t, err)
	}
	_, err = q.Pending(t.Context(), "250") // what was read last stays: not one of the first
	require.NoError(t, err)
	r := &rig{t: t, reader: reader}
	require.InDelta(t, 1, r.figures()["strand.healthy"], 0)
	disk.FailReads(broken)
	require.NoError(t, x.Start(t.Context()))
	require.ErrorIs(t, <-failed, broken)
	got := r.figures()
	require.Contains(t, got, "strand.healthy")
	require.InDelta(t, 0, got["strand.healthy"], 0)
	require.NotContains(t, got, "strand.workers")
	require.Len(t, errs, 1)
	require.ErrorIs(t, errs[0], executor.ErrFailed)
	require.ErrorIs(t, x.Stop(t.Context()), broken)
}

// lookup returns a queue of bytes; a nil one refuses all.
func lookup(x *executor.Executor, name string) *executor.Queue[[]byte] {
	q, _ := x.Lookup(name)
	return q
}

// A follow-up inherits the metadata of its job, whether there is a span to tell of or not.
func TestAFollowUpWithoutASpan(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, "", executor.Config{})
		var got map[string]string
		last, err := executor.Handle(r.x, "last", func(_ context.Context, job executor.Job[int]) error {
			got = job.Metadata
			return nil
		}, executor.QueueConfig[int]{})
		require.NoError(t, err)
		first, err := executor.Handle(r.x, "first", func(_ context.Context, job executor.Job[int]) error {
			return last.FollowUp(job, "id", 1, r.m.Trace(context.Background(), nil))
		}, executor.QueueConfig[int]{})
		require.NoError(t, err)
		_, err = first.Enqueue(t.Context(), "id", 1, executor.Metadata(map[string]string{"tenant": "7"}))
		require.NoError(t, err)
		r.start()
		synctest.Wait()
		r.stop()
		require.Equal(t, "7", got["tenant"])
	})
}
