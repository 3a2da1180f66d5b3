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

// judge finds out what becomes of those in hand whose handler has returned errors.
type judge struct {
	*inHand
	fatal error // of batch, or of its last payload, that is to end the executor; nil: none
	unrun bool  // the handler was not called with the item that is judged
}

// end judges the item at a place in the batch. What it holds has a part in an end that is not the morgue.
func (j *judge) end(i int) {
	it, goesOn := j.batch[i], j.fatal == nil
	j.of(it, j.errs[i])
	if v := it.Outcome.Verdict; (v == shard.VerdictDone || v == shard.VerdictDiscarded) && len(it.Outcome.Parts) < len(it.Payloads) {
		if err := j.conclude(it, v); err != nil {
			j.errs[i] = err
			j.of(it, err)
		}
	}
	if goesOn && j.fatal != nil {
		j.outlive(it)
	}
}

// of judges an item whose handler has returned an error. The verdict
// is set last: it says that the judgement is complete.
func (j *judge) of(it *shard.Item, err error) {
	out := &it.Outcome
	if unread, ok := err.(*Unread); ok {
		out.Parts, out.Verdict = nil, shard.VerdictInterrupted
		if !errors.Is(unread, journal.ErrClosed) {
			j.crew.Fail(unread.Err) // at once: it would be handed out again
		}
		return
	}
	wish := j.queue.Wish(it, err)
	j.fatal, j.unrun = cmp.Or(j.fatal, wish.Fatal), j.unrun || wish.Undecoded
	if each := wish.Payloads; each != nil && j.queue.tellsPayloadsApart() {
		j.ofEach(it, each, err)
		return
	} else if each != nil && j.queue.Folder != nil {
		if err = j.queue.ofTheOne(it, each, err); err == nil {
			out.Verdict = shard.VerdictDone
			return
		}
		wish = j.queue.Wish(it, err)
		j.fatal = cmp.Or(j.fatal, wish.Fatal)
	}
	if j.grant(it, wish, err) {
		return
	}
	overdue := j.overdue()
	if overdue == nil && j.interrupted(it, err) {
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
	out.Error = guard.Text(func() string { return j.queue.FormatError(err) }, err.Error)
	j.fail(it, wish)
}

// grant fills in an outcome that is not a failure, and that a stop leaves alone.
func (j *judge) grant(it *shard.Item, wish Wish, err error) bool {
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
func (j *judge) fail(it *shard.Item, wish Wish) {
	out, core := &it.Outcome, &j.queue.Core
	last := core.LastTry(it) && core.OnExhausted != shard.OnExhaustedHalt && wish.Kind != FullDisk
	if (last || wish.Kind == Cancel) && !j.buriable(it) {
		wish = j.queue.Wish(it, j.crew.Border(journal.ErrFull))
	}
	switch wish.Kind {
	case Cancel:
		out.Verdict = shard.VerdictCanceled
		return
	case FullDisk:
		if c := admit.ClaimOf(it.Claim); c != nil {
			c.Full = true
		}
		out.Delay, out.Verdict = max(j.retryIn(0), wish.After), shard.VerdictSnoozed // no retry ends it
		return
	case Panicked:
		j.queue.Lines.Panicked(it.ID, out.Error, wish.Stack)
	case FailFor:
		out.Delay = wish.After
	}
	if wish.Kind != FailFor && !j.queue.Core.LastTry(it) {
		out.Delay = j.retryIn(it.Retry + 1)
	}
	j.crew.Logger.LogAttrs(context.Background(), slog.LevelDebug, "job failed", slog.String("queue", j.queue.Name), slog.String("id", it.ID),
		slog.Int("attempt", it.Retry+admin.FirstAttempt), slog.String("error", out.Error))
	out.Verdict = shard.VerdictFailed
}

// outlive has the failure of a job that ends the executor written down even on a disk that is short
// of room: or the next process would do the same, without end.
func (j *judge) outlive(it *shard.Item) {
	out := &it.Outcome
	bytes := 1<<10 + len(it.ID) + len(it.LastError) + len(it.History) + len(out.Error)
	again := out.Verdict == shard.VerdictFailed || out.Verdict == shard.VerdictSnoozed
	if again && out.Room == 0 && j.crew.Log.TakeRoom(j.crew.Handlers.Done(), journal.Room{Bytes: bytes}) {
		out.Room = bytes
	}
}

// buriable reports whether the morgue has room on the disk for an item: in the room that
// burials leave a person deletes.
func (j *judge) buriable(it *shard.Item) bool {
	var letters journal.Room
	for _, p := range j.queue.Core.InHand(it) {
		letters.AddLetter(int(p.Ref.Bytes), len(it.Outcome.Error))
	}
	if !j.crew.Log.TakeRoom(j.crew.Handlers.Done(), letters) {
		return false
	}
	it.Outcome.Room += letters.Bytes
	return true
}

// overdue returns why the context of the last attempt has ended, if that was because its time was
// over: before its handler returned, and before anything else kept it from its work.
func (j *judge) overdue() error {
	ended, late := j.attempt.Ended()
	deadline, _ := j.attempt.Deadline()
	switch hurried := j.crew.Hurried.Load(); {
	case j.unrun:
	case late && (hurried == nil || !hurried.Before(deadline)):
		return fmt.Errorf("%w after %v", attempt.ErrTimeout, j.queue.Timeout)
	case j.queue.Heartbeat > 0 && ended == attempt.ErrNoHeartbeat:
		return fmt.Errorf("%w for %v", attempt.ErrNoHeartbeat, j.queue.Heartbeat)
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
func (j *judge) giveUp(it *shard.Item) {
	out := &it.Outcome
	out.Unrun = j.unrun
	if context.Cause(j.crew.Handlers) != nil {
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
func (j *judge) interrupted(it *shard.Item, err error) bool {
	ended, _ := j.attempt.Ended()
	kept := ended != nil && ended != attempt.ErrReturned && ended != attempt.ErrNoHeartbeat
	return kept || it.Outcome.Unrun || admit.ClaimOf(it.Claim).Lost() || context.Cause(j.crew.Handlers) != nil ||
		j.crew.Draining.Load() && errors.Is(err, j.crew.Closed)
}

// retryIn asks the formula of the queue.
func (j *judge) retryIn(n int) time.Duration {
	d := RetryIn(n)
	guard.Hook(j.crew.Logger, "RetryIn", func() { d = j.queue.RetryIn(n) })
	return d
}

// ofEach finds out what became of each payload of an item. Those that have ended
// become parts of the outcome, which is about the others.
func (j *judge) ofEach(it *shard.Item, each map[uint64]error, whole error) {
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
		out := j.ofOne(it, i, err)
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

// ofOne judges the error of one of several payloads.
func (j *judge) ofOne(it *shard.Item, i int, err error) shard.Outcome {
	if err == nil {
		return shard.Outcome{Verdict: shard.VerdictDone}
	}
	one := shard.Item{ID: it.ID, Payloads: it.Payloads[i : i+1], Retry: it.Retry, Claim: it.Claim}
	j.of(&one, err)
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
