package executor

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"
)

// logStart is the one line about a start, before its first job runs. No lock is
// held: a logger is user code.
func (x *Executor) logStart() {
	s, _ := x.Stats(context.Background()) // an error: a shard has failed, and Start says so
	all := s.Total()
	attrs := []slog.Attr{
		slog.String("dir", x.dir), slog.Int("workers", x.cfg.Workers), slog.Int("queues", len(x.registered())),
		slog.Int("waiting", all.Payloads), slog.Int("unclaimed", all.Unclaimed),
	}
	attrs = append(attrs, ifHalted(all.Halted)...)
	recovered, level := x.recovered()
	attrs = append(append(attrs, recovered...), slog.Duration("took", time.Since(x.opening)))
	x.cfg.Logger.LogAttrs(x.handlers, level, "executor starts", attrs...)
}

// ifHalted says how many jobs wait for a person, if any do.
func ifHalted(n int) []slog.Attr {
	if n == 0 {
		return nil
	}
	return []slog.Attr{slog.Int("halted", n)}
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
	return []slog.Attr{
		slog.Bool("recovered", true), slog.String("cause", d.How), slog.Int("running_then", d.Ran),
		slog.Int("run_again_at_once", x.again()), slog.Any("suspects", bounded(names)),
	}, level
}

// again returns how many of the jobs that ran at the death run again at once.
func (x *Executor) again() (n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, q := range x.queues {
		n += q.again
	}
	return n
}

// sum returns the figures of all queues together, for the line about a stop; zero
// for an executor that never began to run jobs.
func (x *Executor) sum() (all QueueStats, known bool) {
	if x.began.IsZero() {
		return all, false
	}
	s, err := x.Stats(context.Background())
	return s.Total(), err == nil
}

// leftBehind says which handlers a stop did not wait for, and what that means.
func leftBehind(names []string, stuck error) []slog.Attr {
	if stuck == nil {
		return nil
	}
	return []slog.Attr{slog.Any("stuck", bounded(names)), slog.String("journal", "locked until they have returned, or the process ends")}
}

// logStop is the one line about a stop. Burials that were not logged because there
// were too many, and handlers that were left behind, are no less than a warning.
func (x *Executor) logStop(all QueueStats, known bool, stopping time.Time, behind []slog.Attr) {
	leftOut := 0
	for _, q := range x.queues { // no more are made
		leftOut += q.burials.Unsaid()
	}
	if x.began.IsZero() && leftOut == 0 {
		return
	}
	level := slog.LevelInfo
	attrs := append([]slog.Attr{slog.String("dir", x.dir)}, behind...)
	if leftOut+len(behind) > 0 {
		level = slog.LevelWarn
	}
	if known {
		attrs = append(attrs, slog.Uint64("done", all.Done), slog.Uint64("failed", all.Failed),
			slog.Uint64("buried", all.Buried), slog.Uint64("discarded", all.Discarded), slog.Int("waiting", all.Payloads))
		attrs = append(attrs, ifHalted(all.Halted)...)
	}
	if leftOut > 0 {
		attrs = append(attrs, slog.Int("left_out", leftOut))
	}
	attrs = append(attrs, slog.Duration("ran_for", stopping.Sub(cmp.Or(x.began, stopping))), slog.Duration("took", time.Since(stopping)))
	x.cfg.Logger.LogAttrs(x.handlers, level, "executor stopped", attrs...)
}
