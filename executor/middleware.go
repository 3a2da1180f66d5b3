package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Middleware is called around handlers, around the calls that enqueue, or around both:
// for metrics, traces, an error tracker, a check. It must have at least one of the
// functions; otherwise it is ErrConfig.
//
// Config.Middleware is for all queues, QueueConfig.Middleware for one. In a list the
// first is outermost, and those of Config are around those of the queue:
//
//	Config.Middleware[0] ( Config.Middleware[1] ( QueueConfig.Middleware[0] ( handler ) ) )
//
// Several goroutines call the functions at a time. A Run counts as part of its handler:
// the queue's Timeout covers it, and one that blocks is stuck. A payload that does not
// decode is not run, so that no middleware sees it; [Executor.Events] tells of it. See
// "Middleware" in the guide (README.md).
type Middleware struct {
	// Run is called by the worker instead of the handler. Its next calls the handler,
	// or the next middleware, with the context that Run gives it: the one that it got,
	// or one made of it. Run's error replaces the handler's. If Run does not call next,
	// the handler does not run.
	//
	// Run may call next again: that is a retry on the spot, which spends none. Calls of
	// next must not overlap, nor come after Run has returned; such a call gets
	// ErrMiddleware. Of several calls, only what the last one has staged with
	// [Queue.FollowUp] counts, and only if Run returns nil.
	//
	// next does not panic: if the handler panics, next returns a [*PanicError] with the
	// stack. A panic of Run itself is a failure of all jobs of the run, even if the
	// handler has succeeded: then they run again.
	Run func(ctx context.Context, run *Run, next func(context.Context) error) error

	// Enqueue is called on the goroutine of the caller, after the payloads are encoded
	// and before they are accepted. Its next accepts them. When next returns nil, they
	// are accepted, and call.Receipts is set. Before that, Enqueue may change Metadata,
	// Due and Score of call.Items.
	//
	// The error of Enqueue is what the caller gets, as long as nothing is accepted.
	// Once the payloads are accepted, the caller gets its receipts, and an error or a
	// panic of Enqueue is logged. If Enqueue panics before, or returns nil without
	// accepted payloads, the caller gets ErrMiddleware and nothing is accepted. If next
	// returned ErrUnknown, the caller gets that. Enqueue may call next again after an
	// error; the payloads are accepted once.
	//
	// Enqueue is not called for a [Queue.FollowUp], which is accepted when its job ends
	// and inherits the job's Metadata.
	Enqueue func(ctx context.Context, call *EnqueueCall, next func(context.Context) error) error
}

// ErrMiddleware is returned by Enqueue when a [Middleware] panicked before the
// payloads were accepted, or returned nil and they were not; and by the next of a
// Middleware that is called while an earlier call goes on, or after the Middleware
// has returned.
var ErrMiddleware = errors.New("executor: middleware")

// aroundRun and aroundEnqueue are the functions of middlewares, outermost first.
type (
	aroundRun     = func(context.Context, *Run, func(context.Context) error) error
	aroundEnqueue = func(context.Context, *EnqueueCall, func(context.Context) error) error
)

// layers are what stands around the calls of a queue; nil: nothing.
type layers struct {
	run     []aroundRun
	enqueue []aroundEnqueue
}

func layersOf(lists ...[]Middleware) (l layers) {
	for _, m := range slices.Concat(lists...) {
		if m.Run != nil {
			l.run = append(l.run, m.Run)
		}
		if m.Enqueue != nil {
			l.enqueue = append(l.enqueue, m.Enqueue)
		}
	}
	return l
}

func checkMiddleware(list []Middleware) error {
	i := slices.IndexFunc(list, func(m Middleware) bool { return m.Run == nil && m.Enqueue == nil })
	if i < 0 {
		return nil
	}
	return fmt.Errorf("%w: Middleware %d has neither Run nor Enqueue", ErrConfig, i)
}

// nested calls the functions of middlewares, each in the next of the one before, and
// in the middle inner. call hands one of them its next. What panics becomes an error
// where it does, so that those outside can tell of it.
func nested[F any](ctx context.Context, around []F, call func(context.Context, F, func(context.Context) error) error, inner func(context.Context) error) error {
	if len(around) == 0 {
		return guarded(func() error { return inner(ctx) })
	}
	t := new(turn)
	defer t.end()
	return guarded(func() error {
		return call(ctx, around[0], func(ctx context.Context) error {
			if ctx == nil {
				return errNilContext
			}
			if err := t.begin(); err != nil {
				return err
			}
			defer t.done()
			return nested(ctx, around[1:], call, inner)
		})
	})
}

// turn lets one call at a time in. Its end waits for a call that goes on, on another
// goroutine: what is inside must be over when what is around it is, or two runs of an
// id would overlap.
type turn struct {
	// mu guards what follows. It is not waited for longer than that takes: what waits
	// for a call waits for left, as a bubble of testing/synctest wants it.
	mu         sync.Mutex
	busy, over bool
	left       chan struct{} // closed by the call that goes on; nil: nobody waits for it
}

func (t *turn) begin() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.busy || t.over {
		return fmt.Errorf("%w: next was called while an earlier call went on, or after the middleware had returned", ErrMiddleware)
	}
	t.busy = true
	return nil
}

func (t *turn) done() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.busy = false
	if t.left != nil {
		close(t.left)
	}
}

func (t *turn) end() {
	t.mu.Lock()
	t.over = true
	if t.busy {
		t.left = make(chan struct{})
	}
	left := t.left
	t.mu.Unlock()
	if left != nil {
		<-left
	}
}
