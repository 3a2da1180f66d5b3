package world

import (
	"context"
	"maps"

	"github.com/strandjobs/strand/executor"
)

// Middleware stands around all calls, and Metadata go along. It may call a handler that has failed again:
// then the last call counts.
var around = &feature{
	name: "around", claims: `Config.Middleware QueueConfig.Middleware Metadata`,
	world: func(d *draw, l line) { l.set("middleware", "yes") },
	config: func(w *world, cfg *executor.Config) {
		if !w.conf.has("middleware") {
			return
		}
		cfg.Middleware = []executor.Middleware{{
			Run: func(ctx context.Context, run *executor.Run, next func(context.Context) error) error {
				for _, job := range run.Jobs {
					for _, p := range job.Payloads {
						w.sameMetadata(run.Queue, job.ID, p)
					}
				}
				return next(context.WithValue(ctx, outer{}, true))
			},
			Enqueue: func(ctx context.Context, call *executor.EnqueueCall, next func(context.Context) error) error {
				for n := range call.Items {
					call.Items[n].Metadata["by"] = "middleware"
				}
				return next(ctx)
			},
		}}
	},
	queue: func(d *draw, l line) {
		if d.chance(2) {
			l.set("inner", d.one("yes", "yes", "twice"))
		}
	},
	apply: func(w *world, q *queue, cfg *executor.QueueConfig[payload]) {
		if !q.conf.has("inner") {
			return
		}
		cfg.Middleware = append(cfg.Middleware, executor.Middleware{
			Run: func(ctx context.Context, run *executor.Run, next func(context.Context) error) error {
				if run.Queue != q.name || w.conf.has("middleware") && ctx.Value(outer{}) == nil {
					w.fail("middleware: that of %s is called for %s, or not inside of the executor's", q.name, run.Queue)
				}
				err := next(ctx)
				if q.twice() && err != nil {
					err = next(ctx)
				}
				return err
			},
			Enqueue: func(ctx context.Context, call *executor.EnqueueCall, next func(context.Context) error) error {
				for n := range call.Items {
					if w.conf.has("middleware") && call.Items[n].Metadata["by"] != "middleware" {
						w.fail("middleware: that of %s enqueues outside of the executor's", q.name)
					}
				}
				return next(ctx)
			},
		})
	},
	enqueue: func(d *draw, l line) {
		if d.chance(2) {
			l.set("meta", d.one("m1", "m2"))
		}
	},
	option: func(_ *world, l line) []executor.Option {
		if !l.has("meta") {
			return nil
		}
		return []executor.Option{executor.Metadata(map[string]string{"m": l.str("meta")})}
	},
	answered: func(w *world, q *queue, l line, mine []*item, _ []executor.Receipt, _ error) {
		for n, i := range mine {
			i.meta = make(map[string]string)
			if w.conf.has("middleware") {
				i.meta["by"] = "middleware"
			}
			if one := q.meddled(l.of(n)); one.has("meta") {
				i.meta["m"] = one.str("meta")
			}
		}
	},
}

// twice reports whether a handler of a queue is called again in one run.
func (q *queue) twice() bool { return q.conf.str("inner") == "twice" }

// outer marks the context of what the executor's middleware stands around.
type outer struct{}

func (w *world) sameMetadata(queue, id string, p executor.Payload[any]) {
	w.mu.Lock()
	defer w.mu.Unlock()
	v, _ := p.Value.(payload)
	if i := w.ledger.byN[v.N]; v.N != 0 && i != nil && i.meta != nil && !maps.Equal(i.meta, p.Metadata) {
		w.fail("metadata: %v of %s/%s has %v, and was given %v", i, queue, id, p.Metadata, i.meta)
	}
}
