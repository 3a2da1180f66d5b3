package world

import (
	"context"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/strandjobs/strand/executor"
)

// What stands around a call changes it, refuses it, or makes another thing of what came of it, and may panic, or
// end its goroutine, at any moment. What it says of a run is what becomes of that. What it says of payloads that
// were accepted changes nothing.
var meddling = &feature{
	name:  "meddle",
	plan:  []string{"skip", "refuse", "burst", "quit", "spoil", "spoilpanic", "spoilexit", "lie", "mute", "fail"},
	acts:  map[string]func(*world, context.Context, *run, int, string) error{"lie": lie, "mute": mute},
	queue: func(_ *draw, l line) { l.set("meddled", "yes") },
	enqueue: func(d *draw, l line) {
		if d.chance(3) && !d.cluster { // there it stands around what an owner accepts, and does not see the context of the caller
			l.set("meddle", d.one("score", "due", "meta", "bytes", "again", "retry", "late", "latepanic", "lateexit",
				"never", "refuse", "panic", "exit", "id", "fewer", "nan"))
		}
	},
	apply: func(w *world, q *queue, cfg *executor.QueueConfig[payload]) {
		if q.conf.has("meddled") {
			cfg.Middleware = append(cfg.Middleware, executor.Middleware{Run: w.meddle(q), Enqueue: w.meddleWithCall})
		}
	},
	answered: func(w *world, q *queue, l line, mine []*item, _ []executor.Receipt, err error) {
		if q.conf.has("meddled") && slices.Contains([]string{"never", "refuse", "panic", "exit", "id", "fewer", "nan"}, l.str("meddle")) && err == nil {
			w.fail("middleware: %v was accepted, and its middleware has refused it", mine[0])
		}
	},
}

type (
	// callKey is for the line of a call.
	callKey struct{}
	// meddleKey is for what a middleware makes of a run.
	meddleKey struct{}
)

// meddled is the line of a call as a middleware of the queue changes it.
func (q *queue) meddled(l line) line {
	if !q.conf.has("meddled") {
		return l
	}
	one := l.clone()
	switch l.str("meddle") {
	case "score":
		one.set("score", 2)
	case "due":
		one.set("in", "4s")
		delete(one.args, "at")
	case "meta":
		one.set("meta", "m9")
	}
	return one
}

// enqueueApart makes a call on a goroutine of its own, which a middleware may end.
func (w *world) enqueueApart(ctx context.Context, q *queue, items []executor.Item[payload], options []executor.Option, l line) (receipts []executor.Receipt, err error) {
	if !l.has("meddle") {
		return w.enqueue(ctx, q, items, options, l)
	}
	ended := make(chan struct{})
	if err = executor.ErrUnknown; l.str("meddle") == "exit" {
		err = errPlanned // nothing was accepted by then
	}
	go func() {
		defer close(ended)
		receipts, err = w.enqueue(context.WithValue(ctx, callKey{}, l), q, items, options, l)
	}()
	<-ended
	return receipts, err
}

// meddleWithCall does what the line of a call says.
func (w *world) meddleWithCall(ctx context.Context, call *executor.EnqueueCall, next func(context.Context) error) error {
	l, _ := ctx.Value(callKey{}).(line)
	kind := l.str("meddle")
	for n := range call.Items {
		it := &call.Items[n]
		switch kind {
		case "score":
			it.Score = new(2.0)
		case "due":
			it.Due = w.now().Add(4 * time.Second)
		case "meta":
			it.Metadata["m"] = "m9"
		case "bytes":
			clear(it.Payload)
		case "id":
			it.ID += "!"
		case "nan":
			it.Score = new(math.NaN())
		}
	}
	switch kind {
	case "never":
		return nil
	case "refuse":
		return errPlanned
	case "panic":
		panic("planned panic of a middleware")
	case "exit":
		runtime.Goexit()
	case "fewer":
		call.Items = call.Items[1:]
	}
	err := next(ctx)
	switch {
	case kind == "again", kind == "retry" && err != nil:
		return next(ctx)
	case kind == "late":
		return errPlanned
	case kind == "latepanic":
		panic("planned panic of a middleware")
	case kind == "lateexit":
		runtime.Goexit()
	}
	return err
}

// meddle does what the plan of the first payload of a run says.
func (w *world) meddle(q *queue) func(context.Context, *executor.Run, func(context.Context) error) error {
	life := w.life
	return func(ctx context.Context, run *executor.Run, next func(context.Context) error) error {
		kind := w.meantFor(run)
		switch kind {
		case "skip", "refuse", "burst", "quit":
			return w.instead(ctx, q, life, run, kind)
		}
		err := next(context.WithValue(ctx, meddleKey{}, kind))
		switch kind {
		case "spoil":
			return errPlanned
		case "spoilpanic":
			panic("planned panic of a middleware")
		case "spoilexit":
			runtime.Goexit()
		case "lie", "mute":
			return nil
		}
		return err
	}
}

// meantFor is what the plan of the first payload of a run says for this call.
func (w *world) meantFor(run *executor.Run) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	job := run.Jobs[0]
	v := job.Payloads[0].Value.(payload)
	i := w.ledger.byN[v.N]
	if v.N == 0 {
		i = w.ledger.byPos[spot{job.ID, job.Payloads[0].Position}]
	}
	if i == nil {
		return actOf(v, nil)
	}
	return actOf(v, []*item{i})
}

// instead is a run without a call of its handler.
func (w *world) instead(ctx context.Context, q *queue, life int, all *executor.Run, kind string) error {
	var runs []*run
	for _, job := range all.Jobs {
		runs = append(runs, ofMerged(q, life, job))
	}
	if !w.enter(ctx, runs) {
		return nil
	}
	if kind == "skip" {
		w.leave(ctx, runs, make([]error, len(runs)))
		return nil
	}
	w.leave(ctx, runs, nil)
	switch kind {
	case "burst":
		panic("planned panic of a middleware")
	case "quit":
		runtime.Goexit()
	}
	return errPlanned
}

// made is what becomes of a run whose handler has returned errs, or has panicked: nil is a failure of all jobs.
func made(ctx context.Context, runs []*run, errs []error) []error {
	switch kind, _ := ctx.Value(meddleKey{}).(string); kind {
	case "spoil", "spoilpanic", "spoilexit":
		return nil
	case "lie", "mute":
		return make([]error, len(runs))
	}
	return errs
}

func lie(*world, context.Context, *run, int, string) error { return errPlanned }

func mute(*world, context.Context, *run, int, string) error {
	panic("planned panic, which nobody hears of")
}
