package executor

import (
	"log/slog"
	"math/rand/v2"
	"time"
)

// RetryIn is the default pause before retry n, which counts from 0: n⁴ + 15 +
// rand(30)·(n+1) seconds. Without the random part these are 15 s, 16 s, 31 s, 96 s, 271
// s, …; 25 retries take about 20 days. An n below zero counts as 0, and no pause is
// longer than 100 years. Any goroutine may call it.
func RetryIn(n int) time.Duration {
	n = min(max(n, 0), 1000) // 1000⁴ s is 30,000 years, and far from overflow
	seconds := n*n*n*n + 15 + rand.IntN(30)*(n+1)
	return min(time.Duration(seconds), maxRetryIn/time.Second) * time.Second
}

const maxRetryIn = 100 * 365 * 24 * time.Hour

// retryIn asks the formula of the queue.
func (w *worker) retryIn(n int) (d time.Duration) {
	err := guarded(func() error { d = w.queue.retryIn(n); return nil })
	if err != nil {
		w.x.cfg.Logger.Error("hook panicked", slog.String("hook", "RetryIn"), slog.Any("error", err))
		return RetryIn(n)
	}
	return d
}
