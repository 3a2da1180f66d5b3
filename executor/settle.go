package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/strandjobs/strand/executor/internal/guard"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// settle turns the errors of a batch into outcomes, from the first item that has
// none on.
func (w *worker) settle() {
	w.phase = settling
	if w.staged != nil {
		w.stageAll()
	}
	if w.passOn() {
		return
	}
	for ; w.settled < len(w.batch); w.settled++ {
		it := w.batch[w.settled]
		if w.errs == nil || w.errs[w.settled] == nil {
			it.Outcome.Verdict = shard.VerdictDone
			continue
		}
		// The methods of an error are the user's code, too: Unwrap of a nil
		// pointer, say.
		err := guard.Call(func() error {
			w.judge(it, w.errs[w.settled])
			return nil
		})
		if err != nil {
			w.giveUp(it)
		}
		if w.queue.Awaited.Any() {
			w.queue.noteFailure(it, w.errs[w.settled])
		}
	}
	if w.queue.events.Watched() {
		w.queue.events.Outcomes(w.batch, w.errs != nil, w.attempt.Called) // before user code is called
	}
	if w.fatal != nil {
		w.x.endWith(w.fatal)
		w.fatal = nil
	}
	w.returned()
	w.tellExhausted()
	w.tellBuried()
	w.tellFailed()
	w.endBatch()
}

// tellExhausted calls the hook for those that failed for the last time.
func (w *worker) tellExhausted() {
	if w.queue.exhausted == nil || w.errs == nil {
		return
	}
	w.phase = ending
	var last []*shard.Item
	for _, it := range w.batch {
		if w.queue.core.Exhausts(it) {
			last = append(last, it)
		}
	}
	if len(last) > 0 {
		w.x.guardHook("RetriesExhausted", func() { w.queue.exhausted(w.x.handlers, last) })
	}
}

// judge finds out what a handler's error asks for. The verdict is set last: it says
// that the judgement is complete.
func (w *worker) judge(it *shard.Item, err error) {
	out := &it.Outcome
	if unread, ok := err.(*unreadError); ok {
		out.Parts, out.Verdict = nil, shard.VerdictInterrupted
		if !errors.Is(unread, journal.ErrClosed) {
			w.x.fail(unread.error) // at once: it would be handed out again
		}
		return
	}
	if u, ok := err.(*undecodable); ok && !u.mayPass(w.queue, it) {
		out.Error, out.Verdict = err.Error(), shard.VerdictCanceled
		return
	}
	panicked, _ := err.(*PanicError)
	if f, ok := asWish[FatalError](err); ok && panicked == nil {
		w.fatal = cmp.Or(w.fatal, f)
	}
	if each, ok := errors.AsType[PayloadErrors](err); ok && panicked == nil && w.queue.tellsPayloadsApart() {
		w.judgeEach(it, each, err)
		return
	} else if ok && panicked == nil && w.queue.Folder != nil {
		if err = ofTheOne(it, each, err); err == nil {
			out.Verdict = shard.VerdictDone
			return
		}
	}
	if panicked == nil && (wish(out, err) || w.throttled(it, err)) {
		return
	}
	overdue := w.overdue()
	if overdue == nil && w.interrupted(it, err) {
		out.Verdict = shard.VerdictInterrupted
		return
	}
	switch {
	case overdue == nil || panicked != nil:
	case err == ErrTimeout || err == ErrNoHeartbeat: // the cause of its context, which says less
		err = overdue
	default:
		err = fmt.Errorf("%w: %w", overdue, err)
	}
	out.Error = guard.Text(func() string { return w.queue.formatError(err) }, err.Error)
	if panicked != nil {
		w.queue.Lines.Panicked(it.ID, out.Error, panicked.Stack)
	} else if _, ok := asWish[CancelError](err); ok {
		out.Verdict = shard.VerdictCanceled
		return
	}
	if retry, ok := asWish[RetryError](err); ok && panicked == nil {
		out.Delay = retry.After
	} else if panicked == nil && fromFullDisk(err) {
		out.Delay, out.Verdict = max(w.retryIn(0), retryFullDisk), shard.VerdictSnoozed // no retry ends it
		return
	} else if !w.queue.core.LastTry(it) {
		out.Delay = w.retryIn(it.Retry + 1)
	}
	w.debugFailure(it)
	out.Verdict = shard.VerdictFailed
}

// wish fills in an outcome that is not a failure, and that a stop leaves alone.
func wish(out *shard.Outcome, err error) bool {
	if _, ok := asWish[DiscardError](err); ok {
		out.Verdict = shard.VerdictDiscarded
		return true
	}
	if snooze, ok := asWish[SnoozeError](err); ok {
		if err != error(snooze) { // what is around it says why
			out.Error = guard.Text(err.Error)
		}
		out.Delay, out.Verdict = snooze.After, shard.VerdictSnoozed
		return true
	}
	return false
}

// giveUp judges an error that can't be asked: its methods, or a hook for it,
// panicked or ended the goroutine. No user code is called.
func (w *worker) giveUp(it *shard.Item) {
	out := &it.Outcome
	if context.Cause(w.x.handlers) != nil {
		out.Verdict = shard.VerdictInterrupted
		return
	}
	if out.Error == "" {
		out.Error = guard.NoText
	}
	out.Delay, out.Verdict = RetryIn(it.Retry+1), shard.VerdictFailed
}

// interrupted reports whether the stop, a pause, the loss of a lease, or a person who wants one
// of the batch gone, kept the handler from its work. A handler may dress up the end of its context as any error, so
// every error after that end counts.
func (w *worker) interrupted(it *shard.Item, err error) bool {
	ended := w.attempt.Ended()
	if err == errPaused || claimOf(it.Claim).Lost() || errors.Is(ended, ErrCanceledByOperator) || errors.Is(ended, ErrDeletedByOperator) {
		return true
	}
	return context.Cause(w.x.handlers) != nil || (w.x.draining.Load() && errors.Is(err, ErrClosed))
}

// debugFailure logs each failure at level Debug.
func (w *worker) debugFailure(it *shard.Item) {
	if l := w.x.cfg.Logger; l.Enabled(context.Background(), slog.LevelDebug) {
		l.Debug("job failed", slog.String("queue", w.queue.Name), slog.String("id", it.ID),
			slog.Int("attempt", it.Retry+firstAttempt), slog.String("error", it.Outcome.Error))
	}
}

// RetryIn is the default pause before retry n, which counts from 0: n⁴ + 15 +
// rand(30)·(n+1) seconds. Without the random part these are 15 s, 16 s, 31 s, 96 s, 271
// s, …; 25 retries take about 20 days. An n below zero counts as 0, and no pause is
// longer than 100 years. Any goroutine may call it.
func RetryIn(n int) time.Duration {
	n = min(max(n, 0), 1000) // 1000⁴ s is 30,000 years, and far from overflow
	seconds := n*n*n*n + 15 + rand.IntN(30)*(n+1)
	return min(time.Duration(seconds), maxRetryIn/time.Second) * time.Second
}

const maxRetryIn = 100 * 365 * 24 * time.Hour

// retryIn asks the formula of the queue.
func (w *worker) retryIn(n int) time.Duration {
	d := RetryIn(n)
	w.x.guardHook("RetryIn", func() { d = w.queue.retryIn(n) })
	return d
}

// tellsPayloadsApart reports whether some payloads of a job may be done and others
// not.
func (q *queue) tellsPayloadsApart() bool {
	return !q.core.Single && (q.Locks == nil || q.Locks.Unlock == nil) && q.Folder == nil
}

// judgeEach finds out what became of each payload of an item. Those that have ended
// become parts of the outcome, which is about the others.
func (w *worker) judgeEach(it *shard.Item, each PayloadErrors, whole error) {
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
	var parts []shard.Part
	for i := range it.Payloads {
		err, named := errs[i]
		if stray && !named {
			err = whole
		}
		out := w.judgeOne(it, err)
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
	worst.Parts = it.Outcome.Parts
	for _, part := range parts {
		worst.AddPart(part)
	}
	it.Outcome = worst
}

// judgeOne judges the error of one of several payloads.
func (w *worker) judgeOne(it *shard.Item, err error) shard.Outcome {
	if err == nil {
		return shard.Outcome{Verdict: shard.VerdictDone}
	}
	one := shard.Item{ID: it.ID, Retry: it.Retry, Claim: it.Claim}
	w.judge(&one, err)
	return one.Outcome
}

// worse returns the outcome of payloads that run again together.
func worse(a, b shard.Outcome) shard.Outcome {
	rank := map[shard.Verdict]int{shard.VerdictInterrupted: 1, shard.VerdictSnoozed: 2, shard.VerdictFailed: 3}
	delay := max(a.Delay, b.Delay)
	if rank[b.Verdict] > rank[a.Verdict] {
		a = b
	}
	a.Delay = delay
	return a
}
