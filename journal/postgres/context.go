package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/strandjobs/strand/executor"
)

// errNilContext is what a call without a context gets.
var errNilContext = fmt.Errorf("%w: it is nil; context.Background() is one that never ends", executor.ErrContext)

// because returns err as what it is, and as the cause of ctx where that is why.
func because(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil || errors.Is(err, context.Cause(ctx)) || !errors.Is(err, ctx.Err()) {
		return err
	}
	return fmt.Errorf("%w: %w", context.Cause(ctx), err)
}

// retryAfter waits before the next attempt, twice as long each time.
func retryAfter(ctx context.Context, pause *time.Duration) error {
	over := time.After(*pause)
	*pause = min(*pause*2, longestPause)
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-over:
		return nil
	}
}
