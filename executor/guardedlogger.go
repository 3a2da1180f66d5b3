package executor

import (
	"context"
	"log/slog"
)

// guardedHandler is the user's log handler. A log line is worth less than what it
// is about: its panic ends here.
type guardedHandler struct{ slog.Handler }

func (h guardedHandler) Enabled(ctx context.Context, level slog.Level) (enabled bool) {
	_ = guarded(func() error { enabled = h.Handler.Enabled(ctx, level); return nil })
	return enabled
}

func (h guardedHandler) Handle(ctx context.Context, record slog.Record) error {
	return guarded(func() error { return h.Handler.Handle(ctx, record) })
}

func (h guardedHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	_ = guarded(func() error { h.Handler = h.Handler.WithAttrs(attrs); return nil })
	return h
}

func (h guardedHandler) WithGroup(name string) slog.Handler {
	_ = guarded(func() error { h.Handler = h.Handler.WithGroup(name); return nil })
	return h
}
