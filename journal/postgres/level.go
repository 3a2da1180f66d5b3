package postgres

import (
	"context"
	"errors"
	"log/slog"
)

// levelOf is that of a line about an error: one that passes by itself is a warning.
func levelOf(err error) slog.Level {
	if !errors.Is(err, ErrUnsafe) && (isTakeover(err) || unreached(err) || errors.Is(err, errWarned) || errors.Is(err, context.Canceled)) {
		return slog.LevelWarn
	}
	return slog.LevelError
}

// isTakeover reports whether another node goes on with what has failed here.
func isTakeover(err error) bool { return errors.Is(err, ErrLeaseLost) || errors.Is(err, ErrFenced) }

// calm is the log of a partition's executor, for which the end of its journal is an error,
// whoever goes on.
type calm struct{ slog.Handler }

func (c calm) Handle(ctx context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if err, ok := a.Value.Any().(error); ok && isTakeover(err) {
			r.Level = min(r.Level, slog.LevelWarn)
		}
		return true
	})
	if !c.Enabled(ctx, r.Level) {
		return nil
	}
	return c.Handler.Handle(ctx, r)
}

func (c calm) WithAttrs(attrs []slog.Attr) slog.Handler { return calm{c.Handler.WithAttrs(attrs)} }
func (c calm) WithGroup(name string) slog.Handler       { return calm{c.Handler.WithGroup(name)} }
