package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Middleware stands around the calls of handlers, around the calls that enqueue, or
// around both: for metrics, traces, an error tracker, a check. One of its functions
// at least is set. See "Middleware" in the comment of this package.
//
// Config.Middleware is for all queues, QueueConfig.Middleware for one. The first of
// a list is the outermost, and those of Config are around those of the queue.
type Middleware struct {
	// Run is called, on the worker, in the place of the handler. next calls the
	// handler, or the next middleware, with the context that it is given: the one
	// that came, or one made of it. What Run returns is what the handler is taken
	// to have returned, whatever next did: without a call of next the handler does
	// not run. It may call next again, which is a retry on the spot that spends
	// none, but one call after the other, and not after it has returned: such a
	// call gets ErrMiddleware. What the call before has staged with [Queue.FollowUp]
	// is dropped then: that of the last one counts, if Run returns nil.
	//
	// next does not panic: a panic of what is inside is the [*PanicError] that it
	// returns, with the stack. A panic of Run itself is a failure of all jobs of
	// the run, also when the handler has succeeded: it runs again then.
	Run func(ctx context.Context, run *Run, next func(context.Context) error) error

	// Enqueue is called on the goroutine of the caller, between the encoding of the
	// payloads and their acceptance. next accepts them: it returns nil when they are
	// accepted, and call.Receipts is set then. Before that Enqueue may change
	// the Metadata of call.Items, their Due and their Score.
	//
	// What Enqueue returns is what the caller gets, as far as it is true. Once the
	// payloads are accepted the caller gets its receipts: an error or a panic after
	// that is logged. Nil without accepted payloads, and a panic before that, are
	// ErrMiddleware, and nothing was accepted; after ErrUnknown of next the caller
	// gets that. next may be called again after an error: it accepts once. It hears
	// of no [Queue.FollowUp], which is accepted with the end of its job and inherits
	// the job's Metadata.
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
