package actor

import (
	"context"
	"log/slog"
)

// warnings is a log handler for protoactor-go, without what it tells of each start
// and stop: users did not ask for that in their log. There is one for the process.
type warnings struct{ slog.Handler }

func (warnings) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && slog.Default().Enabled(ctx, level)
}

func (warnings) Handle(ctx context.Context, r slog.Record) error {
	r.AddAttrs(slog.String("lib", "protoactor"))
	return slog.Default().Handler().Handle(ctx, r)
}
