package postgres

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// gatherFor is how long a line waits for others that say the same of other partitions.
const gatherFor = 100 * time.Millisecond

// lines is what is to be logged of partitions: one line for all of which the same is told.
type lines struct {
	log *slog.Logger

	mu      sync.Mutex
	pending []*line
}

type line struct {
	level      slog.Level
	message    string
	attributes []slog.Attr // of an error, that of the first partition
	partitions []int
}

// tell logs a message about a partition before long.
func (l *lines) tell(level slog.Level, message string, partition int, attributes ...slog.Attr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.pending, func(p *line) bool {
		return p.level == level && p.message == message && slices.EqualFunc(p.attributes, attributes,
			func(a, b slog.Attr) bool { return a.Key == "error" || a.Equal(b) })
	})
	if i < 0 {
		i, l.pending = len(l.pending), append(l.pending, &line{level: level, message: message, attributes: attributes})
		if i == 0 {
			time.AfterFunc(gatherFor, l.flush)
		}
	}
	l.pending[i].partitions = append(l.pending[i].partitions, partition)
}

// flush logs what there is.
func (l *lines) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.pending {
		slices.Sort(p.partitions)
		l.log.LogAttrs(context.Background(), p.level, p.message, append(p.attributes, slog.Any("partitions", p.partitions))...)
	}
	l.pending = nil
}

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
