package work

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/strandjobs/strand/executor/internal/admin"
	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/executor/internal/attempt"
	"github.com/strandjobs/strand/executor/internal/guard"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// judge finds out what becomes of an item whose handler has returned an error. The verdict
// is set last: it says that the judgement is complete.
func (w *worker) judge(it *shard.Item, err error) {
	out := &it.Outcome
	if unread, ok := err.(*Unread); ok {
		out.Parts, out.Verdict = nil, shard.VerdictInterrupted
		if !errors.Is(unread, journal.ErrClosed) {
			w.crew.Fail(unread.Err) // at once: it would be handed out again
		}
		return
	}
	wish := w.queue.Wish(it, err)
	w.fatal = cmp.Or(w.fatal, wish.Fatal)
	if each := wish.Payloads; each != nil && w.queue.tellsPayloadsApart() {
		w.judgeEach(it, each, err)
		return
	} else if each != nil && w.queue.Folder != nil {
		if err = w.queue.ofTheOne(it, each, err); err == nil {
			out.Verdict = shard.VerdictDone
			return
		}
		wish = w.queue.Wish(it, err)
		w.fatal = cmp.Or(w.fatal, wish.Fatal)
	}
	if w.grant(it, wish, err) {
		return
	}
	overdue := w.overdue()
	if overdue == nil && w.interrupted(it, err) {
		out.Verdict = shard.VerdictInterrupted
		return
	}
	switch {
	case overdue == nil || wish.Kind == Panicked:
	case err == attempt.ErrTimeout || err == attempt.ErrNoHeartbeat: // the cause of its context, which says less
		err = overdue
	default:
		err = fmt.Errorf("%w: %w", overdue, err)
	}
	out.Error = guard.Text(func() string { return w.queue.FormatError(err) }, err.Error)
	w.fail(it, wish)
}

// grant fills in an outcome that is not a failure, and that a stop leaves alone.
func (w *worker) grant(it *shard.Item, wish Wish, err error) bool {
	out := &it.Outcome
	if wish.Asks != nil {
		wish.Asks(admit.ClaimOf(it.Claim))
	}
	if wish.Text {
		out.Error = guard.Text(err.Error)
	}
	switch wish.Kind {
	case Refused:
		out.Verdict = shard.VerdictCanceled
	case Discard:
		out.Verdict = shard.VerdictDiscarded
	case Snooze:
		out.Delay, out.Verdict = wish.After, shard.VerdictSnoozed
	default:
		return false
	}
	return true
}

// fail fills in the outcome of a failure.
func (w *worker) fail(it *shard.Item, wish Wish) {
	out, core := &it.Outcome, &w.queue.Core
	last := core.LastTry(it) && core.OnExhausted != shard.OnExhaustedHalt && wish.Kind != FullDisk
	if (last || wish.Kind == Cancel) && !w.buriable(it) {
		wish = w.queue.Wish(it, w.crew.Border(journal.ErrFull))
	}
	switch wish.Kind {
	case Cancel:
		out.Verdict = shard.VerdictCanceled
		return
	case FullDisk:
		out.Delay, out.Verdict = max(w.retryIn(0), wish.After), shard.VerdictSnoozed // no retry ends it
		return
	case Panicked:
		w.queue.Lines.Panicked(it.ID, out.Error, wish.Stack)
	case FailFor:
		out.Delay = wish.After
	}
	if wish.Kind != FailFor && !w.queue.Core.LastTry(it) {
		out.Delay = w.retryIn(it.Retry + 1)
	}
	w.crew.Logger.LogAttrs(context.Background(), slog.LevelDebug, "job failed", slog.String("queue", w.queue.Name), slog.String("id", it.ID),
		slog.Int("attempt", it.Retry+admin.FirstAttempt), slog.String("error", out.Error))
	out.Verdict = shard.VerdictFailed
}

// buriable reports whether the morgue has room on the disk for an item: in the room that
// burials leave a person deletes.
func (w *worker) buriable(it *shard.Item) bool {
	var letters journal.Room
	for _, p := range w.queue.Core.InHand(it) {
		letters.AddLetter(int(p.Ref.Bytes), len(it.Outcome.Error))
	}
	if !w.crew.Log.TakeRoom(w.crew.Handlers.Done(), letters) {
		return false
	}
	it.Outcome.Room += letters.Bytes
	return true
}

// overdue returns why the context of the last attempt has ended before its handler
// returned, if its time was over; then it is no stop that kept it from its work.
func (w *worker) overdue() error {
	switch a := w.attempt; {
	case a.Late():
		return fmt.Errorf("%w after %v", attempt.ErrTimeout, w.queue.Timeout)
	case w.queue.Heartbeat > 0 && a.Ended() == attempt.ErrNoHeartbeat:
		return fmt.Errorf("%w for %v", attempt.ErrNoHeartbeat, w.queue.Heartbeat)
	}
	return nil
}

// Unread is what comes of a job that did not run, because the journal could
// not give back its payloads.
type Unread struct{ Err error }

func (e *Unread) Error() string { return e.Err.Error() }
func (e *Unread) Unwrap() error { return e.Err }

// giveUp judges an error that can't be asked: its methods, or a hook for it,
// panicked or ended the goroutine. No user code is called.
func (w *worker) giveUp(it *shard.Item) {
	out := &it.Outcome
	if context.Cause(w.crew.Handlers) != nil {
		out.Verdict = shard.VerdictInterrupted
		return
	}
	if out.Error == "" {
		out.Error = guard.NoText
	}
	out.Delay, out.Verdict = RetryIn(it.Retry+1), shard.VerdictFailed
}

// interrupted reports whether the stop, a pause, the loss of a lease, or a person who wants one
// of the batch gone, kept the handler from its work. A handler may dress up the end of its context
// as any error, so every error after that end counts.
func (w *worker) interrupted(it *shard.Item, err error) bool {
	ended := w.attempt.Ended()
	if err == errPaused || admit.ClaimOf(it.Claim).Lost() || errors.Is(ended, attempt.ErrCanceled) || errors.Is(ended, attempt.ErrDeleted) {
		return true
	}
	return context.Cause(w.crew.Handlers) != nil || (w.crew.Draining.Load() && errors.Is(err, w.crew.Closed))
}

// retryIn asks the formula of the queue.
func (w *worker) retryIn(n int) time.Duration {
	d := RetryIn(n)
	guard.Hook(w.crew.Logger, "RetryIn", func() { d = w.queue.RetryIn(n) })
	return d
}

// judgeEach finds out what became of each payload of an item. Those that have ended
// become parts of the outcome, which is about the others.
func (w *worker) judgeEach(it *shard.Item, each map[uint64]error, whole error) {
	errs := make(map[int]error, len(each))
	for i, p := range it.Payloads {
		if err, named := each[uint64(p.Ref.Position())]; named {
			errs[i] = err
		}
	}
	stray := len(errs) < len(each) // there is one for a position that the item does not have
	if stray {
		whole = errors.New(whole.Error()) // no more than a text: it must not come here again
	}
	var worst shard.Outcome
	room := 0
	var parts []shard.Part
	for i := range it.Payloads {
		err, named := errs[i]
		if stray && !named {
			err = whole
		}
		out := w.judgeOne(it, i, err)
		room += out.Room
		switch out.Verdict {
		case shard.VerdictDone, shard.VerdictDiscarded, shard.VerdictCanceled:
			parts = append(parts, shard.Part{Index: i, Verdict: out.Verdict, Error: out.Error})
		default:
			worst = worse(worst, out)
		}
	}
	if worst.Verdict == shard.VerdictUnstarted { // nothing is left to run again; what is done needs no mention
		worst.Verdict = shard.VerdictDone
		parts = slices.DeleteFunc(parts, func(p shard.Part) bool { return p.Verdict == shard.VerdictDone })
	}
	worst.Parts, worst.Room = it.Outcome.Parts, room
	for _, part := range parts {
		worst.AddPart(part)
	}
	it.Outcome = worst
}

// judgeOne judges the error of one of several payloads.
func (w *worker) judgeOne(it *shard.Item, i int, err error) shard.Outcome {
	if err == nil {
		return shard.Outcome{Verdict: shard.VerdictDone}
	}
	one := shard.Item{ID: it.ID, Payloads: it.Payloads[i : i+1], Retry: it.Retry, Claim: it.Claim}
	w.judge(&one, err)
	return one.Outcome
}

// worse returns the outcome of payloads that run again together.
func worse(a, b shard.Outcome) shard.Outcome {
	rank := map[shard.Verdict]int{shard.VerdictInterrupted: 1, shard.VerdictSnoozed: 2, shard.VerdictFailed: 3}
	longest := max(a.Delay, b.Delay)
	if a.Delay, b.Delay = longest, longest; rank[b.Verdict] > rank[a.Verdict] {
		return b
	}
	return a
}

// ofTheOne returns what PayloadErrors say of the one payload of a job.
func (q *Queue) ofTheOne(it *shard.Item, each map[uint64]error, whole error) error {
	i := oldest(it.Outcome.Parts)
	if i >= len(q.Core.InHand(it)) || len(each) != 1 {
		return whole
	}
	if err, named := each[uint64(it.Payloads[i].Ref.Position())]; named {
		return err
	}
	return whole
}
