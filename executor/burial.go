package executor

import (
	"log/slog"
	"sync"
	"time"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// maxBurialLines is how many burials of a queue are logged in a second. When
// what all jobs depend on is down, a line for each would fill the disk.
const maxBurialLines = 10

// burials counts the lines about what went to the morgue.
type burials struct {
	mu      sync.Mutex
	second  int64 // Unix time
	lines   int   // in this second
	leftOut int   // burials since the last line
}

// line reports whether to log a burial, and how many were left out before it.
func (b *burials) line(now time.Time) (leftOut int, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if second := now.Unix(); second != b.second {
		b.second, b.lines = second, 0
	}
	if b.lines == maxBurialLines {
		b.leftOut++
		return 0, false
	}
	b.lines++
	leftOut, b.leftOut = b.leftOut, 0
	return leftOut, true
}

// rest returns how many were left out since the last line.
func (b *burials) rest() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.leftOut
}

// tellBuried logs what of the batch goes to the morgue.
func (w *worker) tellBuried() {
	for _, it := range w.batch {
		if n, first, reason := w.queue.doomed(it); n > 0 {
			w.phase = ending
			w.queue.logBurial(it.ID, it.Payloads[first].Ref.Position(), reason, slog.Int("payloads", n))
		}
	}
}

// doomed returns how many payloads of a settled item the shard will bury, which
// of them is the first, and why.
func (q *queue) doomed(it *shard.Item) (n, first int, reason string) {
	out := &it.Outcome
	first = len(it.Payloads)
	for _, part := range out.Parts {
		if part.Verdict != shard.Canceled {
			continue
		}
		if n++; n == 1 {
			first, reason = part.Index, part.Error
		}
	}
	exhausted := q.core.Exhausts(it)
	if q.core.Single {
		if out.Verdict == shard.Canceled || exhausted && q.core.OnExhausted != shard.Halt {
			return 1, out.Done, out.Error
		}
		return 0, 0, ""
	}
	switch {
	case len(out.Parts) == len(it.Payloads): // whatever the others of its batch came to
	case out.Verdict == shard.Canceled, exhausted && q.core.OnExhausted == shard.BuryAll:
		return n + len(it.Payloads) - len(out.Parts), min(first, oldest(out.Parts)), out.Error
	case exhausted && q.core.OnExhausted == shard.BuryOldest:
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

// logBurial tells a person that there is something to decide about.
func (q *queue) logBurial(id string, first journal.Position, reason string, more ...any) {
	leftOut, ok := q.burials.line(time.Now())
	if !ok {
		return
	}
	if leftOut > 0 {
		more = append(more, slog.Int("left_out", leftOut))
	}
	q.x.cfg.Logger.With(more...).Warn("job went to the morgue", slog.String("queue", q.name), slog.String("id", id),
		slog.Uint64("position", uint64(first)), slog.String("error", reason))
}
