// Package nest calls the functions of middlewares, each inside the one before.
//
// A panic becomes an error where it is, so that those outside can tell of it. Calls of one next
// never overlap, and none goes on when what is around it has returned: two runs of an id would
// overlap. All of it may be called from any goroutine. Census (goroutines, timers): none.
package nest

import (
	"context"
	"errors"
	"fmt"

	"github.com/strandjobs/strand/executor/internal/guard"
)

// ErrMisused is returned by a next that may not be called now.
var ErrMisused = errors.New("executor: middleware")

// Next is what a middleware is given to call what is inside of it.
type Next = func(context.Context) error

// Around is a function of a middleware, which is told what it stands around.
type Around[W any] = func(ctx context.Context, what W, next Next) error

// Call calls the functions of middlewares, outermost first, and in the middle inner.
func Call[W any](ctx context.Context, around []Around[W], what W, inner Next) error {
	if len(around) == 0 {
		return guard.Call(func() error { return inner(ctx) })
	}
	turn := make(chan struct{}, 1)        // has room for one call at a time
	defer func() { turn <- struct{}{} }() // for good; a call that goes on, on another goroutine, is waited for
	return guard.Call(func() error {
		return around[0](ctx, what, func(ctx context.Context) error {
			if ctx == nil {
				return guard.ErrNilContext
			}
			select {
			case turn <- struct{}{}:
			default:
				return fmt.Errorf("%w: next was called while an earlier call went on, or after the middleware had returned", ErrMisused)
			}
			defer func() { <-turn }()
			return Call(ctx, around[1:], what, inner)
		})
	})
}
