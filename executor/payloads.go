package executor

import (
	"errors"

	"github.com/strandjobs/strand/shard"
)

// tellsPayloadsApart reports whether some payloads of a job may be done and others
// not.
func (q *queue) tellsPayloadsApart() bool {
	return !q.core.Single && (q.keys == nil || q.keys.Unlock == nil) && q.folder == nil
}

// judgeEach finds out what became of each payload of an item. Those that have ended
// become parts of the outcome, which is about the others.
func (w *worker) judgeEach(it *shard.Item, each PayloadErrors, whole error) {
	errs, stray := w.queue.perPayload(it, each)
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
	if worst.Verdict == shard.VerdictUnstarted { // nothing is left to run again
		worst.Verdict = shard.VerdictDone
		parts = notDone(parts)
	}
	worst.Parts = it.Outcome.Parts
	for _, part := range parts {
		worst.AddPart(part)
	}
	it.Outcome = worst
}

// perPayload returns the errors by index; stray: there is one for a position that
// the item does not have.
func (q *queue) perPayload(it *shard.Item, each PayloadErrors) (errs map[int]error, stray bool) {
	errs = make(map[int]error, len(each))
	for i, p := range it.Payloads {
		if err, named := each[uint64(p.Ref.Position())]; named {
			errs[i] = err
		}
	}
	return errs, len(errs) < len(each)
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

// notDone returns the parts that are not done: those that are need no mention where
// the verdict is Done.
func notDone(parts []shard.Part) (others []shard.Part) {
	for _, part := range parts {
		if part.Verdict != shard.VerdictDone {
			others = append(others, part)
		}
	}
	return others
}
