package metrics

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/strandjobs/strand/executor"
)

func (m *Metrics) aroundEnqueue(ctx context.Context, call *executor.EnqueueCall, next func(context.Context) error) error {
	began := time.Now()
	ctx, span := m.tracer.Start(ctx, "send "+call.Queue, trace.WithSpanKind(trace.SpanKindProducer),
		trace.WithAttributes(m.about(call.Queue, "send", len(call.Items))...))
	defer span.End() // also when next panics
	if len(call.Items) == 1 {
		span.SetAttributes(jobID(call.Items[0].ID))
	}
	for i := range call.Items {
		m.inject(ctx, call.Items[i].Metadata)
	}
	err := next(ctx)
	end(span, err)
	m.enqueue.Record(ctx, time.Since(began).Seconds(), m.with(ofQueue(call.Queue), outcome(answer(err))))
	if err == nil {
		m.payloads.Add(ctx, int64(len(call.Items)), m.with(ofQueue(call.Queue)))
	}
	return err
}

// answer is what a caller that enqueues is told.
func answer(err error) string {
	switch {
	case err == nil:
		return "accepted"
	case errors.Is(err, executor.ErrFull):
		return "full"
	case errors.Is(err, executor.ErrClosed):
		return "closed"
	case errors.Is(err, executor.ErrUnknown):
		return "unknown"
	}
	return "refused"
}

func (m *Metrics) aroundRun(ctx context.Context, run *executor.Run, next func(context.Context) error) error {
	began := time.Now()
	ctx, span := m.tracer.Start(ctx, "process "+run.Queue, trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithLinks(m.links(run)...), trace.WithAttributes(m.about(run.Queue, "process", payloadsOf(run))...))
	defer span.End()
	if len(run.Jobs) == 1 {
		span.SetAttributes(jobID(run.Jobs[0].ID), attribute.Int("strand.attempt", run.Jobs[0].Attempt))
	}
	for _, job := range run.Jobs {
		m.wait.Record(ctx, max(began.Sub(job.Due), 0).Seconds(), m.with(ofQueue(run.Queue)))
	}
	err := next(ctx)
	took := time.Since(began).Seconds()
	for _, err := range run.Outcomes(err) {
		m.run.Record(ctx, took, m.with(ofQueue(run.Queue), outcome(executor.OutcomeOf(err))))
	}
	span.SetAttributes(attribute.String("strand.outcome", string(executor.OutcomeOf(err))))
	end(span, err)
	return err
}

func payloadsOf(run *executor.Run) (n int) {
	for _, job := range run.Jobs {
		n += len(job.Payloads)
	}
	return n
}

// about are the attributes of a span; the names with messaging are OpenTelemetry's
// semantic conventions for messaging systems.
func (m *Metrics) about(queue, operation string, payloads int) []attribute.KeyValue {
	all := []attribute.KeyValue{
		attribute.String("messaging.system", "strand"),
		attribute.String("messaging.destination.name", queue),
		attribute.String("messaging.operation.type", operation),
		attribute.Int("messaging.batch.message_count", payloads),
	}
	return append(all, m.common...)
}

func jobID(id string) attribute.KeyValue { return attribute.String("strand.job.id", valid(id)) }

// end ends a span with what came of it. A snooze and a discard are no errors.
func end(span trace.Span, err error) {
	switch executor.OutcomeOf(err) {
	case executor.OutcomeDone, executor.OutcomeSnoozed, executor.OutcomeDiscarded:
	default:
		span.SetStatus(codes.Error, textOf(err))
	}
}
