package executor

import (
	"context"
	"log/slog"

	"github.com/strandjobs/strand/shard"
)

// RunNow makes the selected jobs that wait due now: those that are delayed, snoozed or
// waiting for a retry. It gives all of their retries back, and lets halted ones go on. A
// job that is paused, locked out or limited still waits for that, and one that runs is
// left alone. Jobs are selected as a whole: with [SelectPayloads], those that have one.
//
// It returns how many jobs waited, also with an error. After ErrUnknownQueue,
// ErrInvalidQuery and ErrInvalidID nothing was changed. After ErrClosed, ErrFailed,
// ErrContext, and the cause of ctx when that ends first, the jobs of one more visit to
// a shard, a hundred or two, may be due, too.
func (i *Inspector) RunNow(ctx context.Context, which Selection) (int, error) {
	return i.hasten(ctx, which, true)
}

// RetryNow is RunNow that gives no retries back. A job whose second retry is due
// tomorrow makes it now. A job that was halted after its last retry makes that one once
// more. So a person can try whether the cause of the failures is gone, without the jobs
// starting all over if it is not. It returns what RunNow does.
func (i *Inspector) RetryNow(ctx context.Context, which Selection) (int, error) {
	return i.hasten(ctx, which, false)
}

// hasten makes the jobs that are meant due.
func (i *Inspector) hasten(ctx context.Context, which Selection, anew bool) (int, error) {
	q, ctx, err := i.selected(ctx, &which)
	if err != nil {
		return 0, err
	}
	return q.act(ctx, &which, func(c *shard.Core, at int64, id string) int {
		if which.of != nil && !c.HasAny(id, which.of) || !c.RunNow(id, at, anew) {
			return 0
		}
		return 1
	})
}

// Cancel turns the selected payloads into dead letters, with their history. Their last
// error is [ErrCanceledByOperator], followed by the reason if there is one; 4 KiB of it
// are kept. What they have locked stays locked unless Locks.UnlockOnBurial is set.
//
// If a job runs, the context of its handler ends with that error as its cause. When the
// handler has returned, the selected payloads are dead-lettered, unless the handler
// says that they are done or discarded. The job's other payloads, and the other jobs of
// its batch, run again without spending a retry, unless they are done. If the process
// dies before the handler has returned, the job was not canceled, and runs again.
//
// It returns how many payloads are affected, also with an error; those that a handler
// has in hand count. Without an error, everything but those is on disk. The errors are
// those of RunNow; after one, the changes that are counted may not be on disk yet, and
// those of one more visit to a shard may have been made, too. When several calls select
// the same payloads at the same time, a payload that waits is counted by one of them,
// and one that runs by each.
func (i *Inspector) Cancel(ctx context.Context, which Selection, reason string) (int, error) {
	full := ErrCanceledByOperator.Error()
	if reason != "" {
		full += ": " + reason
	}
	kept := text(func() string { return full })
	return i.remove(ctx, which, shard.Removal{Verdict: shard.VerdictCanceled, Reason: kept})
}

// Delete ends the selected payloads for good, without dead letters; QueueStats.Deleted
// counts them. What they have locked is unlocked, except for the keys of a
// Locks.Service. If a job runs, the context of its handler ends with
// [ErrDeletedByOperator]. All else is as with Cancel, the results included.
//
// With [SelectIDs] the executor also forgets the newest version of each id that was
// done, as [MergeSupersede] keeps it, which counts as one in the result. What is
// accepted after that is newer, whatever its score.
func (i *Inspector) Delete(ctx context.Context, which Selection) (int, error) {
	return i.remove(ctx, which, shard.Removal{Verdict: shard.VerdictDeleted, Version: which.ids != nil && which.of == nil})
}

// KillFailed turns what waits for a retry, or is halted, into dead letters, for the
// selected jobs. With [Handle], and under OnFailureBlock, these are the payloads that
// have failed, and those behind them go on; otherwise they are all payloads of the job.
// Their last error names the cancellation and then the failure. A job that runs is left
// alone. All else is as with Cancel.
func (i *Inspector) KillFailed(ctx context.Context, which Selection) (int, error) {
	return i.remove(ctx, which, shard.Removal{Verdict: shard.VerdictCanceled, Reason: ErrCanceledByOperator.Error() + ": after its failure", Failed: true})
}

// DeleteFailed deletes what KillFailed would turn into dead letters, as Delete does.
func (i *Inspector) DeleteFailed(ctx context.Context, which Selection) (int, error) {
	return i.remove(ctx, which, shard.Removal{Verdict: shard.VerdictDeleted, Failed: true})
}

func (i *Inspector) remove(ctx context.Context, which Selection, r shard.Removal) (int, error) {
	q, ctx, err := i.selected(ctx, &which)
	if err != nil {
		return 0, err
	}
	r.Of, r.Before = which.of, q.x.log.Stats().Next
	n, err := q.act(ctx, &which, q.remover(r))
	if n > 0 && r.Verdict == shard.VerdictCanceled {
		if rest, ok := q.burials.Line(tenASecond); ok {
			q.warn("jobs were canceled: they are in the morgue, or will be when their handlers return", append([]slog.Attr{
				slog.String("queue", q.name), slog.Int("payloads", n), slog.String("error", r.Reason)}, rest...)...)
		}
	}
	return n, err
}
