package verdict

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/strandjobs/strand/executor/internal/admin"
	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/executor/internal/attempt"
	"github.com/strandjobs/strand/executor/internal/engine"
	"github.com/strandjobs/strand/executor/internal/guard"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// Judge finds out what becomes of an item whose handler has returned an error.
type Judge struct {
	*engine.Engine
	*Rules
	Queue   *engine.Queue
	Attempt *attempt.Attempt // the context of the last call of the handler

	Unrun bool  // the handler was not called with the item, as the worker knows, or the error says
	Fatal error // of the batch so far, that is to end the executor; nil: none

	failing *shard.Item // it is a failure that FormatError is asked about; nil: none is
	wish    Wish        // of that failure
}

// End judges the item. What it holds has a part in an end that is not the morgue: if that does not
// succeed, its error takes the place of the handler's. That the time was over is told before that.
func (j *Judge) End(it *shard.Item, err *error) {
	// The methods of an error are the user's code, too: Unwrap of a nil pointer, say.
	if guard.Call(func() error { j.end(it, err); return nil }) != nil {
		j.GiveUp(it)
	}
	it.Outcome.Unrun = j.Unrun
}

func (j *Judge) end(it *shard.Item, err *error) {
	goesOn := j.Fatal == nil
	j.of(it, err)
	if v := it.Outcome.Verdict; (v == shard.VerdictDone || v == shard.VerdictDiscarded) && len(it.Outcome.Parts) < len(it.Payloads) {
		if failed := admit.ClaimOf(it.Claim).Conclude(j.Handlers, v); failed != nil {
			*err = failed
			j.of(it, err)
		}
	}
	if goesOn && j.Fatal != nil {
		j.outlive(it)
	}
}

// of judges an item whose handler has returned an error. The verdict
// is set last: it says that the judgement is complete.
func (j *Judge) of(it *shard.Item, said *error) {
	out, err := &it.Outcome, *said
	if unread, ok := err.(*Unread); ok {
		out.Parts, out.Verdict = nil, shard.VerdictInterrupted
		if !errors.Is(unread, journal.ErrClosed) {
			j.Fail(unread.Err) // at once: it would be handed out again
		}
		return
	}
	wish := j.Wish(it, err)
	j.Fatal, j.Unrun = cmp.Or(j.Fatal, wish.Fatal), j.Unrun || wish.Undecoded
	if each := wish.Payloads; each != nil && j.Apart {
		j.ofEach(it, each, err)
		return
	} else if each != nil && j.Core.Fold != nil {
		if err = j.ofTheOne(it, each, err); err == nil {
			out.Verdict = shard.VerdictDone
			return
		}
		wish = j.Wish(it, err)
		j.Fatal = cmp.Or(j.Fatal, wish.Fatal)
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
	*said = err
	j.failing, j.wish = it, wish
	out.Error = guard.Text(func() string { return j.FormatError(err) }, err.Error)
	j.failing = nil
	j.fail(it, wish)
}

// grant fills in the outcome that a handler has asked for, if that is no failure. It counts during a stop, too, which
// otherwise makes an interruption of an error.
func (j *Judge) grant(it *shard.Item, wish Wish, err error) bool {
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
func (j *Judge) fail(it *shard.Item, wish Wish) {
	out, core := &it.Outcome, &j.Core
	last := core.LastTry(it) && !core.Halt && wish.Kind != FullDisk
	if (last || wish.Kind == Cancel) && !j.buriable(it) {
		wish = j.Wish(it, j.Border(journal.ErrFull))
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
		j.Queue.Lines.Panicked(it.ID, out.Error, wish.Stack)
	case FailFor:
		out.Delay = wish.After
	}
	if wish.Kind != FailFor && !j.Core.LastTry(it) {
		out.Delay = j.retryIn(it.Retry + 1)
	}
	j.Logger.LogAttrs(context.Background(), slog.LevelDebug, "job failed", slog.String("queue", j.Queue.Name), slog.String("id", it.ID),
		slog.Int("attempt", it.Retry+admin.FirstAttempt), slog.String("error", out.Error))
	out.Verdict = shard.VerdictFailed
}

// outlive has the failure of a job that ends the executor written down even on a disk that is short
// of room: or the next process would do the same, without end.
func (j *Judge) outlive(it *shard.Item) {
	out := &it.Outcome
	bytes := 1<<10 + len(it.ID) + len(it.LastError) + len(it.History) + len(out.Error)
	again := out.Verdict == shard.VerdictFailed || out.Verdict == shard.VerdictSnoozed
	if again && out.Room == 0 && j.Log.TakeRoom(j.Handlers.Done(), journal.Room{Bytes: bytes}) {
		out.Room = bytes
	}
}

// buriable reports whether the morgue has room on the disk for an item: in the room that
// burials leave a person deletes.
func (j *Judge) buriable(it *shard.Item) bool {
	var letters journal.Room
	for _, p := range j.Core.InHand(it) {
		letters.AddLetter(int(p.Ref.Bytes), len(it.Outcome.Error))
	}
	if !j.Log.TakeRoom(j.Handlers.Done(), letters) {
		return false
	}
	it.Outcome.Room += letters.Bytes
	return true
}

// overdue returns why the context of the last attempt has ended, if that was because its time was
// over: before its handler returned, and before anything else kept it from its work.
func (j *Judge) overdue() error {
	ended, late := j.Attempt.Ended()
	deadline, _ := j.Attempt.Deadline()
	switch hurried := j.Hurried.Load(); {
	case j.Unrun:
	case late && (hurried == nil || !hurried.Before(deadline)):
		return fmt.Errorf("%w after %v", attempt.ErrTimeout, j.Timeout)
	case j.Heartbeat > 0 && ended == attempt.ErrNoHeartbeat:
		return fmt.Errorf("%w for %v", attempt.ErrNoHeartbeat, j.Heartbeat)
	}
	return nil
}

// GiveUp judges an error that can't be asked: its methods, or a hook for it, panicked or ended
// the goroutine. What the error is known to ask for counts all the same.
func (j *Judge) GiveUp(it *shard.Item) {
	out, known := &it.Outcome, j.failing == it
	if out.Unrun, j.failing = j.Unrun, nil; known { // its text is not
		out.Error = guard.NoText
		j.fail(it, j.wish)
		return
	}
	if context.Cause(j.Handlers) != nil {
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
func (j *Judge) interrupted(it *shard.Item, err error) bool {
	ended, _ := j.Attempt.Ended()
	kept := ended != nil && ended != attempt.ErrReturned && ended != attempt.ErrNoHeartbeat
	return kept || it.Outcome.Unrun || admit.ClaimOf(it.Claim).Lost() || context.Cause(j.Handlers) != nil ||
		j.Draining.Load() && errors.Is(err, j.Closed)
}

// retryIn asks the formula of the queue.
func (j *Judge) retryIn(n int) time.Duration {
	d := RetryIn(n)
	if j.RetryIn != nil {
		guard.Hook(j.Logger, "RetryIn", func() { d = j.RetryIn(n) })
	}
	return d
}

// rank is higher for the outcome that counts of payloads which run again together.
var rank = map[shard.Verdict]int{shard.VerdictInterrupted: 1, shard.VerdictSnoozed: 2, shard.VerdictFailed: 3}

// ofEach finds out what became of each payload of an item. Those that have ended
// become parts of the outcome, which is about the others.
func (j *Judge) ofEach(it *shard.Item, each map[uint64]error, whole error) {
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
	for i := range it.Payloads {
		if _, named := errs[i]; stray && !named {
			errs[i] = whole
		}
		if errs[i] == nil { // before user code is asked of the others, which may end the goroutine
			delete(errs, i)
			it.Outcome.AddPart(shard.Part{Index: i, Verdict: shard.VerdictDone})
		}
	}
	var worst shard.Outcome
	for _, i := range slices.Sorted(maps.Keys(errs)) {
		err, one := errs[i], shard.Item{ID: it.ID, Payloads: it.Payloads[i : i+1], Retry: it.Retry, Claim: it.Claim}
		j.of(&one, &err)
		out := one.Outcome
		it.Outcome.Room += out.Room
		switch out.Verdict {
		case shard.VerdictDone, shard.VerdictDiscarded, shard.VerdictCanceled:
			it.Outcome.AddPart(shard.Part{Index: i, Verdict: out.Verdict, Error: out.Error})
		default:
			longest := max(worst.Delay, out.Delay)
			if rank[out.Verdict] > rank[worst.Verdict] {
				worst = out
			}
			worst.Delay = longest
		}
	}
	worst.Parts, worst.Room = it.Outcome.Parts, it.Outcome.Room
	if worst.Verdict == shard.VerdictUnstarted { // nothing is left to run again; what is done needs no mention
		worst.Verdict = shard.VerdictDone
		worst.Parts = slices.DeleteFunc(worst.Parts, func(p shard.Part) bool { return p.Verdict == shard.VerdictDone })
	}
	it.Outcome = worst
}

// ofTheOne returns what PayloadErrors say of the one payload of a job.
func (r *Rules) ofTheOne(it *shard.Item, each map[uint64]error, whole error) error {
	if i := oldest(it.Outcome.Parts); i < len(r.Core.InHand(it)) && len(each) == 1 {
		if err, named := each[uint64(it.Payloads[i].Ref.Position())]; named {
			return err
		}
	}
	return whole
}
