package metrics_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/metrics"
)

// What was accepted before, by its key, is not accepted once more; what a middleware
// makes of what is accepted is none of the caller's.
func TestWhatIsAccepted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, "", executor.Config{})
		q, err := executor.Handle(r.x, "q", func(context.Context, executor.Job[int]) error { return nil }, executor.QueueConfig[int]{
			Middleware: []executor.Middleware{{Enqueue: func(ctx context.Context, call *executor.EnqueueCall, next func(context.Context) error) error {
				if err := next(ctx); err != nil {
					return err
				}
				return errBoom
			}}},
		})
		require.NoError(t, err)
		items := []executor.Item[int]{{ID: "a"}, {ID: "b"}, {ID: "a", Payload: 1}}
		for range 3 {
			_, err := q.EnqueueMany(t.Context(), items, executor.IdempotencyKey("key"))
			require.NoError(t, err)
		}
		got := r.figures()
		require.InDelta(t, 3, got["strand.enqueue.payloads q"], 0)
		require.InDelta(t, 1, got["strand.enqueue.duration q accepted"], 0)
		require.InDelta(t, 2, got["strand.enqueue.duration q duplicate"], 0)
		require.NotContains(t, got, "strand.enqueue.duration q refused")
		r.stop()
	})
}

// A batch is one call of a handler, whose span has the ids of the first of its jobs.
func TestBatch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, "", executor.Config{})
		q, err := executor.HandleBatch(r.x, "q", func(_ context.Context, jobs []executor.Merged[int]) error {
			time.Sleep(2 * time.Second)
			return executor.BatchErrors{jobs[1].ID: errBoom}
		}, executor.QueueConfig[int]{BatchSize: 50, Share: executor.Share{Shards: 1}})
		require.NoError(t, err)
		var items []executor.Item[int]
		var first []string
		for i := range 20 {
			id := fmt.Sprintf("%02d", i)
			items = append(items, executor.Item[int]{ID: id})
			if i < 16 {
				first = append(first, id)
			}
		}
		_, err = q.EnqueueMany(t.Context(), items)
		require.NoError(t, err)
		r.start()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		got := r.figures()
		require.InDelta(t, 1, got["strand.run.duration q mixed"], 0)
		require.InDelta(t, 2, got["strand.run.duration sum q mixed"], .001)
		require.InDelta(t, 20, got["strand.run.wait q"], 0)
		require.InDelta(t, 19, got["strand.payload.duration q done"], 0, "those that are not named")
		require.NotContains(t, got, "strand.run.duration q done")
		spans := r.spans.Ended()
		require.Len(t, spans, 2)
		for _, span := range spans {
			require.Contains(t, span.Attributes(), attribute.StringSlice("strand.job.ids", first), span.Name())
		}
		r.stop()
	})
}

// Attributes of Config do not hide what a figure is of.
func TestAttributesOfTheSameKey(t *testing.T) {
	bubble(t, func(t *testing.T) {
		reader := metric.NewManualReader()
		m, err := metrics.New(metrics.Config{
			MeterProvider: metric.NewMeterProvider(metric.WithReader(reader)),
			Attributes:    []attribute.KeyValue{attribute.String("queue", "mine"), attribute.String("node", "1")},
		})
		require.NoError(t, err)
		x, err := executor.Open("", executor.Config{Middleware: []executor.Middleware{m.Middleware()}})
		require.NoError(t, err)
		require.NoError(t, m.Observe(x))
		_, err = executor.Handle(x, "q", func(context.Context, executor.Job[int]) error { return nil }, executor.QueueConfig[int]{})
		require.NoError(t, err)
		got := (&rig{t: t, reader: reader}).figures()
		require.Contains(t, got, "strand.jobs q")
		require.NotContains(t, got, "strand.jobs mine")
		require.NoError(t, x.Stop(t.Context()))
	})
}
