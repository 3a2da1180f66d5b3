package executor

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
)

// logStart is the one line about a start, before its first job runs. No lock is
// held: a logger is user code.
func (x *Executor) logStart() {
	s, _ := x.inspector.Stats(context.Background()) // an error: a shard has failed, and Start says so
	all := s.Total()
	attrs := []slog.Attr{
		slog.String("dir", x.dir), slog.Int("workers", x.cfg.Workers), slog.Int("queues", len(x.registered())),
		slog.Int("waiting", all.Payloads), slog.Int("unclaimed", all.Unclaimed),
	}
	if all.Halted > 0 { // these wait for a person
		attrs = append(attrs, slog.Int("halted", all.Halted))
	}
	recovered, level := x.recovered()
	attrs = append(append(attrs, recovered...), slog.Duration("took", time.Since(x.opening)))
	x.cfg.Logger.LogAttrs(x.handlers, level, "executor starts", attrs...)
}

// maxNamed bounds the jobs that a log line names.
const maxNamed = 10

// bounded returns the first names, and how many there are beside them.
func bounded(names []string) []string {
	names = slices.Sorted(slices.Values(names))
	if more := len(names) - maxNamed; more > 0 {
		names = append(names[:maxNamed], fmt.Sprintf("and %d more", more))
	}
	return names
}

// recovered says what the last process left behind when it died. With suspects the
// line is a warning.
func (x *Executor) recovered() (attrs []slog.Attr, level slog.Level) {
	d, _ := x.log.Crash()
	if d == nil {
		return []slog.Attr{slog.Bool("recovered", false)}, slog.LevelInfo
	}
	names := x.quarantine.Named()
	level = slog.LevelInfo
	if len(names) > 0 {
		level = slog.LevelWarn
	}
	again := 0
	for _, q := range x.registered() {
		again += q.again
	}
	return []slog.Attr{
		slog.Bool("recovered", true), slog.String("cause", d.How), slog.Int("running_then", d.Ran),
		slog.Int("run_again_at_once", again), slog.Any("suspects", bounded(names)),
	}, level
}

// aMoment is how long a stop waits so that its line has what handlers have just enqueued.
const aMoment = 100 * time.Millisecond

// sum returns the figures of all queues together, for the line about a stop; zero
// for an executor that never began to run jobs.
func (x *Executor) sum() (all inspect.QueueStats, known bool) {
	ctx, cancel := context.WithTimeout(context.Background(), aMoment)
	defer cancel()
	_ = x.log.Settled(ctx)
	if x.began.IsZero() {
		return all, false
	}
	s, err := x.inspector.Stats(context.Background())
	return s.Total(), err == nil
}

// logStop is the one line about a stop. Burials that were not logged because there
// were too many, and handlers that were left behind, are no less than a warning.
func (x *Executor) logStop(all inspect.QueueStats, known bool, stopping time.Time, stuck []string) {
	leftOut := 0
	for _, q := range x.queues { // no more are made
		leftOut += q.Lines.Unsaid()
	}
	if x.began.IsZero() && leftOut == 0 {
		return
	}
	level := slog.LevelInfo
	attrs := []slog.Attr{slog.String("dir", x.dir)}
	if stuck != nil {
		attrs = append(attrs, slog.Any("stuck", bounded(stuck)), slog.String("journal", "locked until they have returned, or the process ends"))
	}
	if leftOut > 0 || stuck != nil {
		level = slog.LevelWarn
	}
	if err := x.failure(); err != nil { // what the figures count may not be on disk
		level, attrs = slog.LevelWarn, append(attrs, slog.Any("error", err))
	}
	if known {
		attrs = append(attrs, slog.Uint64("done", all.Done), slog.Uint64("failed", all.Failed),
			slog.Uint64("buried", all.Buried), slog.Uint64("discarded", all.Discarded), slog.Int("waiting", all.Payloads))
		if all.Halted > 0 {
			attrs = append(attrs, slog.Int("halted", all.Halted))
		}
	}
	if leftOut > 0 {
		attrs = append(attrs, slog.Int("left_out", leftOut))
	}
	attrs = append(attrs, slog.Duration("ran_for", stopping.Sub(cmp.Or(x.began, stopping))), slog.Duration("took", time.Since(stopping)))
	x.cfg.Logger.LogAttrs(x.handlers, level, "executor stopped", attrs...)
}
