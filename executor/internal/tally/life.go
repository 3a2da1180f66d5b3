package tally

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/journal"
)

// maxNamed bounds the jobs that a log line names.
const maxNamed = 10

// Life is what the lines about a start and a stop say of an executor.
type Life struct {
	Dir  string
	Took time.Duration

	// Of a start: Death is how the last process ended, if it died, Suspects are the jobs that
	// may be why, and Again how many run again at once.
	Workers, Queues, Again int
	Suspects               []string
	Death                  *journal.Death

	// Of a stop: Stuck are the jobs that were left behind, Err is why the executor had failed,
	// and LeftOut how many lines about jobs were not logged.
	Stuck   []string
	Err     error
	LeftOut int
	RanFor  time.Duration
}

// bounded returns the first names, and how many there are beside them.
func bounded(names []string) []string {
	names = slices.Sorted(slices.Values(names))
	if more := len(names) - maxNamed; more > 0 {
		names = append(names[:maxNamed], fmt.Sprintf("and %d more", more))
	}
	return names
}

// Started logs the one line about a start, before its first job runs. With suspects it is a warning.
// No lock is held: a logger is user code.
func (l *Life) Started(ctx context.Context, logger *slog.Logger, all inspect.QueueStats) {
	level := slog.LevelInfo
	attrs := []slog.Attr{
		slog.String("dir", l.Dir), slog.Int("workers", l.Workers), slog.Int("queues", l.Queues),
		slog.Int("waiting", all.Payloads), slog.Int("unclaimed", all.Unclaimed),
	}
	if all.Halted > 0 { // these wait for a person
		attrs = append(attrs, slog.Int("halted", all.Halted))
	}
	attrs = append(attrs, slog.Bool("recovered", l.Death != nil))
	if l.Death != nil {
		attrs = append(attrs, slog.String("cause", l.Death.How), slog.Int("running_then", l.Death.Ran),
			slog.Int("run_again_at_once", l.Again), slog.Any("suspects", bounded(l.Suspects)))
	}
	if len(l.Suspects) > 0 {
		level = slog.LevelWarn
	}
	logger.LogAttrs(ctx, level, "executor starts", append(attrs, slog.Duration("took", l.Took))...)
}

// Stopped logs the one line about a stop; all is nil when the figures are not known. Lines that were
// left out, and handlers that were left behind, are no less than a warning.
func (l *Life) Stopped(ctx context.Context, logger *slog.Logger, all *inspect.QueueStats) {
	level := slog.LevelInfo
	attrs := []slog.Attr{slog.String("dir", l.Dir)}
	if l.Stuck != nil {
		attrs = append(attrs, slog.Any("stuck", bounded(l.Stuck)), slog.String("journal", "locked until they have returned, or the process ends"))
	}
	if l.Err != nil { // what the figures count may not be on disk
		attrs = append(attrs, slog.Any("error", l.Err))
	}
	if l.LeftOut > 0 || l.Stuck != nil || l.Err != nil {
		level = slog.LevelWarn
	}
	if all != nil {
		attrs = append(attrs, slog.Uint64("done", all.Done), slog.Uint64("failed", all.Failed),
			slog.Uint64("buried", all.Buried), slog.Uint64("discarded", all.Discarded), slog.Int("waiting", all.Payloads))
		if all.Halted > 0 {
			attrs = append(attrs, slog.Int("halted", all.Halted))
		}
	}
	if l.LeftOut > 0 {
		attrs = append(attrs, slog.Int("left_out", l.LeftOut))
	}
	attrs = append(attrs, slog.Duration("ran_for", l.RanFor), slog.Duration("took", l.Took))
	logger.LogAttrs(ctx, level, "executor stopped", attrs...)
}
