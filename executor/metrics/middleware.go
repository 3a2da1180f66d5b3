package metrics

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/events"
	"github.com/strandjobs/strand/executor/internal/brief"
	"github.com/strandjobs/strand/executor/internal/guard"
)

func (m *Metrics) aroundEnqueue(ctx context.Context, call *executor.EnqueueCall, next func(context.Context) error) error {
	began := time.Now()
	ctx, span := m.begin(ctx, "send", call.Queue, trace.SpanKindProducer, func() []trace.SpanStartOption {
		return m.about("send", call.Queue, len(call.Items), idsOf(len(call.Items), func(i int) string { return call.Items[i].ID }))
	})
	defer m.safely(func() { span.End() }) // also when next does not come back, as after a Goexit
	m.safely(func() {
		for i := range call.Items {
			if call.Items[i].Metadata == nil {
				call.Items[i].Metadata = map[string]string{}
			}
			m.inject(ctx, call.Items[i].Metadata)
		}
	})
	err := next(ctx)
	m.safely(func() { end(span, err) })
	m.safely(func() {
		m.enqueue.Record(ctx, time.Since(began).Seconds(), m.with(ofQueue(call.Queue), outcome(answer(call, err))))
		if n := fresh(call.Receipts); n > 0 {
			m.payloads.Add(ctx, int64(n), m.with(ofQueue(call.Queue)))
		}
	})
	return err
}

// answer is what a caller that enqueues is told. With receipts it is told nothing of an
// error.
func answer(call *executor.EnqueueCall, err error) string {
	switch {
	case fresh(call.Receipts) > 0:
		return "accepted"
	case len(call.Receipts) > 0:
		return "duplicate"
	case errors.Is(err, executor.ErrFull):
		return "full"
	case errors.Is(err, executor.ErrClosed):
		return "closed"
	case errors.Is(err, executor.ErrUnknown):
		return "unknown"
	}
	return "refused"
}

// fresh returns how many payloads were accepted by this call, and by none before it.
func fresh(receipts []executor.Receipt) (n int) {
	for _, r := range receipts {
		if !r.Duplicate {
			n++
		}
	}
	return n
}

func (m *Metrics) aroundRun(ctx context.Context, run *executor.Run, next func(context.Context) error) error {
	began, payloads := time.Now(), 0
	for _, job := range run.Jobs {
		payloads += len(job.Payloads)
	}
	ctx, span := m.begin(ctx, "process", run.Queue, trace.SpanKindConsumer, func() []trace.SpanStartOption {
		about := m.about("process", run.Queue, payloads, idsOf(len(run.Jobs), func(i int) string { return run.Jobs[i].ID }))
		if len(run.Jobs) == 1 {
			about = append(about, trace.WithAttributes(attribute.Int("strand.attempt", run.Jobs[0].Attempt)))
		}
		return append(about, trace.WithLinks(m.links(run)...))
	})
	defer m.safely(func() { span.End() })
	m.safely(func() {
		for _, job := range run.Jobs {
			m.wait.Record(ctx, max(began.Sub(job.Due), 0).Seconds(), m.with(ofQueue(run.Queue)))
		}
	})
	err := next(ctx)
	how := executor.OutcomeOf(err)
	m.safely(func() {
		span.SetAttributes(attribute.String("strand.outcome", string(how)))
		end(span, err)
	})
	m.safely(func() {
		m.run.Record(ctx, time.Since(began).Seconds(), m.with(ofQueue(run.Queue), outcome(how)))
		m.recordEnds(ctx, run, err)
	})
	return err
}

// recordEnds records how long the payloads took that end with a call of their handler.
func (m *Metrics) recordEnds(ctx context.Context, run *executor.Run, err error) {
	for job, ofJob := range run.Outcomes(err) {
		ofPayloads, apart := errors.AsType[executor.PayloadErrors](ofJob)
		for _, p := range job.Payloads {
			own := ofJob
			if apart {
				own = ofPayloads[p.Position]
			}
			switch how := executor.OutcomeOf(own); how {
			case events.Done, events.Discarded, events.Cancelled:
				m.whole.Record(ctx, max(time.Since(p.EnqueuedAt), 0).Seconds(), m.with(ofQueue(run.Queue), outcome(how)))
			}
		}
	}
}

// begin begins a span; without one, as after a panic of the provider, it returns one
// that does nothing.
func (m *Metrics) begin(ctx context.Context, operation, queue string, kind trace.SpanKind, about func() []trace.SpanStartOption) (context.Context, trace.Span) {
	of, span := ctx, trace.SpanFromContext(context.Background())
	m.safely(func() {
		of, span = m.tracer.Start(ctx, operation+" "+utf8Of(queue), append(about(), trace.WithSpanKind(kind))...)
	})
	return of, span
}

// idsOf is of n jobs the id, or those of the first of them.
func idsOf(n int, id func(int) string) attribute.KeyValue {
	if n == 1 {
		return attribute.String("strand.job.id", opening(id(0)))
	}
	ids := make([]string, min(n, maxIDs))
	for i := range ids {
		ids[i] = opening(id(i))
	}
	return attribute.StringSlice("strand.job.ids", ids)
}

// about are the attributes of a span; the names with messaging are OpenTelemetry's
// semantic conventions for messaging systems.
func (m *Metrics) about(operation, queue string, payloads int, ids attribute.KeyValue) []trace.SpanStartOption {
	return []trace.SpanStartOption{trace.WithAttributes(append(slices.Clone(m.common),
		attribute.String("messaging.system", "strand"),
		attribute.String("messaging.destination.name", utf8Of(queue)),
		attribute.String("messaging.operation.type", operation),
		attribute.Int("messaging.batch.message_count", payloads), ids,
	)...)}
}

// end tells a span what came of it. A snooze and a discard are no errors.
func end(span trace.Span, err error) {
	switch executor.OutcomeOf(err) {
	case events.Done, events.Snoozed, events.Discarded:
	default:
		span.SetStatus(codes.Error, opening(guard.Text(err.Error)))
	}
}

const (
	maxLinks = 128 // that OpenTelemetry's limits have by default
	maxText  = 512 // bytes of an id or an error in a span
	maxIDs   = 16  // of jobs in a span

	// The limits of executor.Metadata.
	maxPairs = 16
	maxBytes = 1 << 10
)

// Trace is [executor.Metadata] with the pairs, and the span context of ctx. It is for [executor.Queue.FollowUp] and
// wherever the middleware is not; pairs may be nil, and is not changed. With nil a FollowUp inherits the pairs of its
// job, as without options.
func (m *Metrics) Trace(ctx context.Context, pairs map[string]string) executor.Option {
	all := make(map[string]string, len(pairs)+1)
	maps.Copy(all, pairs)
	if ctx != nil {
		m.safely(func() { m.inject(ctx, all) })
	}
	if pairs == nil && len(all) == 0 {
		return executor.Option{} // with Metadata a FollowUp would inherit none
	}
	return executor.Metadata(all)
}

// inject writes the span context of ctx into metadata, if it fits.
func (m *Metrics) inject(ctx context.Context, metadata map[string]string) {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return
	}
	added := propagation.MapCarrier{}
	m.propagator.Inject(ctx, added)
	together := maps.Clone(metadata)
	maps.Copy(together, added)
	bytes := 0
	for k, v := range together {
		bytes += len(k) + len(v)
	}
	if len(together) <= maxPairs && bytes <= maxBytes {
		maps.Copy(metadata, added)
	}
}

// links returns the spans that the payloads of a run come from, each once.
func (m *Metrics) links(run *executor.Run) (links []trace.Link) {
	seen := make(map[string]bool)
	for _, job := range run.Jobs {
		for _, p := range job.Payloads {
			if len(p.Metadata) == 0 {
				continue
			}
			from := trace.SpanContextFromContext(m.propagator.Extract(context.Background(), propagation.MapCarrier(p.Metadata)))
			of := from.TraceID().String() + from.SpanID().String()
			if !from.IsValid() || seen[of] {
				continue
			}
			seen[of] = true
			if links = append(links, trace.Link{SpanContext: from}); len(links) == maxLinks {
				return links
			}
		}
	}
	return links
}

// opening returns the beginning of a text, as UTF-8.
func opening(s string) string { return strings.ToValidUTF8(s[:min(len(s), maxText)], "\uFFFD") }

// utf8Of returns the name of a queue as UTF-8, in which names that differ still do, so
// that their figures do not become one.
func utf8Of(name string) string {
	if utf8.ValidString(name) {
		return name
	}
	return brief.Escape(name, func(rune) bool { return true })
}
