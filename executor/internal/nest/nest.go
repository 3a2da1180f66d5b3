// Package nest calls the functions of middlewares, each inside the one before.
//
// A panic becomes an error where it is, so that those outside can tell of it. Calls of one next
// never overlap, and none goes on when what is around it has returned: two runs of an id would
// overlap. All of it may be called from any goroutine. Census: none.
package nest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/strandjobs/strand/executor/internal/guard"
)

// ErrMisused is returned by a next that may not be called now.
var ErrMisused = errors.New("executor: middleware")

// Next is what a middleware is given to call what is inside of it.
type Next = func(context.Context) error

// Call calls the functions of middlewares, outermost first, and in the middle inner. call hands one
// of them its next.
func Call[F any](ctx context.Context, around []F, call func(context.Context, F, Next) error, inner Next) error {
	if len(around) == 0 {
		return guard.Call(func() error { return inner(ctx) })
	}
	t := new(turn)
	defer t.end()
	return guard.Call(func() error {
		return call(ctx, around[0], func(ctx context.Context) error {
			if ctx == nil {
				return guard.ErrNilContext
			}
			if err := t.begin(); err != nil {
				return err
			}
			defer t.done()
			return Call(ctx, around[1:], call, inner)
		})
	})
}

// turn lets one call at a time in. Its end waits for a call that goes on, on another goroutine.
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
		return fmt.Errorf("%w: next was called while an earlier call went on, or after the middleware had returned", ErrMisused)
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
