package executor

import (
	"log/slog"
	"time"

	"github.com/strandjobs/strand/executor/internal/tally"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// How many lines of a kind are logged about a queue.
var (
	tenASecond = tally.Rate{Lines: 10, Per: time.Second}
	oneAMinute = tally.Rate{Lines: 1, Per: time.Minute}
)

// tellBuried logs what of the batch goes to the morgue.
func (w *worker) tellBuried() {
	for _, it := range w.batch {
		if n, first, reason := w.queue.doomed(it); n > 0 {
			w.phase = ending
			w.queue.logBurial(it.ID, it.Payloads[first].Ref.Position(), reason, slog.Int("payloads", n))
		}
	}
}

// doomed returns how many payloads of a settled item the shard will bury, which of
// them is the first, and why.
func (q *queue) doomed(it *shard.Item) (n, first int, reason string) {
	out := &it.Outcome
	first = len(it.Payloads)
	for _, part := range out.Parts {
		if part.Verdict != shard.VerdictCanceled {
			continue
		}
		if n++; n == 1 {
			first, reason = part.Index, part.Error
		}
	}
	exhausted := q.core.Exhausts(it)
	if q.core.Single {
		if out.Verdict == shard.VerdictCanceled || exhausted && q.core.OnExhausted != shard.OnExhaustedHalt {
			return 1, out.Done, out.Error
		}
		return 0, 0, ""
	}
	switch {
	case len(out.Parts) == len(it.Payloads): // whatever the others of its batch came to
	case q.folder != nil:
		if out.Verdict == shard.VerdictCanceled || exhausted && q.core.OnExhausted != shard.OnExhaustedHalt {
			return n + 1, min(first, oldest(out.Parts)), out.Error
		}
	case out.Verdict == shard.VerdictCanceled, exhausted && q.core.OnExhausted == shard.OnExhaustedBuryAll:
		return n + len(it.Payloads) - len(out.Parts), min(first, oldest(out.Parts)), out.Error
	case exhausted && q.core.OnExhausted == shard.OnExhaustedBuryOldest:
		return n + 1, min(first, oldest(out.Parts)), out.Error
	}
	return n, first, reason
}

// oldest returns the index of the first payload that is none of the parts.
func oldest(parts []shard.Part) (i int) {
	for i < len(parts) && parts[i].Index == i {
		i++
	}
	return i
}

// logBurial tells a person that a dead letter waits for a decision.
func (q *queue) logBurial(id string, first journal.Position, reason string, more ...slog.Attr) {
	rest, ok := q.burials.Line(tenASecond)
	if !ok {
		return
	}
	q.warn("job went to the morgue", append(append(more, rest...), slog.String("queue", q.name), slog.String("id", id),
		slog.Uint64("position", uint64(first)), slog.String("error", reason))...)
}

// tellFailed logs the failures of the batch that are neither burials nor panics,
// which have lines of their own.
func (w *worker) tellFailed() {
	if w.errs == nil {
		return
	}
	w.phase = ending
	for i, it := range w.batch {
		_, panicked := w.errs[i].(*PanicError)
		switch exhausted := w.queue.core.Exhausts(it); {
		case it.Outcome.Verdict != shard.VerdictFailed:
		case exhausted && w.queue.core.OnExhausted == shard.OnExhaustedHalt:
			w.queue.logHalt(it.ID, it.Retry+firstAttempt, it.Outcome.Error)
		case !exhausted && !panicked:
			w.queue.logFailure(it)
		}
	}
}

// logHalt tells a person that an id waits for RunNow.
func (q *queue) logHalt(id string, attempt int, reason string) {
	if rest, ok := q.halts.Line(tenASecond); ok {
		q.warn("job is halted: its id runs again after RunNow", append([]slog.Attr{slog.String("queue", q.name), slog.String("id", id),
			slog.Int("attempt", attempt), slog.String("error", reason)}, rest...)...)
	}
}

// logFailure tells of the first failure, so that an outage is seen at once, and
// then how many there are.
func (q *queue) logFailure(it *shard.Item) {
	if rest, ok := q.failures.Line(oneAMinute); ok {
		q.warn("a run failed", append([]slog.Attr{slog.String("queue", q.name), slog.String("id", it.ID),
			slog.Int("attempt", it.Retry+firstAttempt), slog.String("error", it.Outcome.Error)}, rest...)...)
	}
}

func (q *queue) warn(message string, attrs ...slog.Attr) {
	q.x.cfg.Logger.LogAttrs(q.x.handlers, slog.LevelWarn, message, attrs...)
}
