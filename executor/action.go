package executor

import (
	"context"
	"log/slog"

	"github.com/strandjobs/strand/shard"
)

// RunNow makes the waiting jobs that are meant due now, with all retries given back,
// and lets halted ones go on, as [Queue.RunNow] does: it overrides no pause and no
// lock. A job is meant as a whole: with [SelectPayloads], if it has one of the payloads.
// It returns how many waited, also with an error: ErrUnknownQueue,
// ErrInvalidQuery, ErrInvalidID, and then no job was; ErrClosed, ErrFailed,
// ErrContext, or the cause of ctx when that ends first, and then jobs of one more visit
// to a shard, a hundred or two, may be due, too.
func (i *Inspector) RunNow(ctx context.Context, which Selection) (int, error) {
	return i.hasten(ctx, which, (*shard.Core).RunNow)
}

// RetryNow is RunNow that gives no retries back: a job whose second retry is due
// tomorrow makes it now, and one that was halted after its last retry has that once
// more. It is for trying whether the cause of the failures is gone, without the jobs
// starting all over if it is not.
func (i *Inspector) RetryNow(ctx context.Context, which Selection) (int, error) {
	return i.hasten(ctx, which, (*shard.Core).RetryNow)
}

// hasten makes the jobs that are meant due, each with now.
func (i *Inspector) hasten(ctx context.Context, which Selection, now func(c *shard.Core, id string, at int64) bool) (int, error) {
	q, ctx, err := i.selected(ctx, &which)
	if err != nil {
		return 0, err
	}
	return q.act(ctx, &which, func(c *shard.Core, at int64, id string) int {
		if which.of != nil && !c.HasAny(id, which.of) || !now(c, id, at) {
			return 0
		}
		return 1
	})
}

// Cancel sends the payloads that are meant to the morgue, with their history, and with
// [ErrCanceledByOperator] and the reason, if there is one, as their last error, of
// which 4 KiB are kept, as of each. What
// they have locked stays locked unless Locks.UnlockOnBurial says otherwise, as when a
// handler does so.
//
// Of a job that runs, the context of the handler ends with that error as its cause.
// When the handler has returned, its payloads go to the morgue whatever it says, unless
// it says that they are done, or discarded; so they do when it wanted to be retried.
// Those of its payloads that were not meant, and the other jobs of its batch, run again
// and spend no retry, unless they are done. A process that dies before a handler has
// returned has not canceled its job, which runs again.
//
// It returns how many payloads are affected, those in hand of handlers included, also
// with an error: see RunNow, also for what may be affected beside those. Without one all
// else is on disk by then; with one it may not be yet. Calls for the same payloads
// at the same time count what waits once, and what runs each.
func (i *Inspector) Cancel(ctx context.Context, which Selection, reason string) (int, error) {
	full := ErrCanceledByOperator.Error()
	if reason != "" {
		full += ": " + reason
	}
	kept := text(func() string { return full })
	return i.remove(ctx, which, shard.Removal{Verdict: shard.VerdictCanceled, Reason: kept})
}

// Delete ends the payloads that are meant, for good: QueueStats.Deleted counts
// them. What they have locked is unlocked, but for the keys of
// a Locks.Service. A job that runs has its context ended with [ErrDeletedByOperator];
// otherwise it is as with Cancel, and so are the results.
func (i *Inspector) Delete(ctx context.Context, which Selection) (int, error) {
	return i.remove(ctx, which, shard.Removal{Verdict: shard.VerdictDeleted})
}

// KillFailed sends to the morgue what waits for a retry, or is halted, of the jobs that
// are meant: with [Handle], and under OnFailureBlock, what has failed, and what is
// behind it goes on; otherwise all payloads of the job. Their last error goes on with
// that of the failure. A job that runs is left alone. See Cancel for the rest.
func (i *Inspector) KillFailed(ctx context.Context, which Selection) (int, error) {
	return i.remove(ctx, which, shard.Removal{Verdict: shard.VerdictCanceled, Reason: ErrCanceledByOperator.Error() + ": after its failure", Failed: true})
}

// DeleteFailed deletes what KillFailed would send to the morgue, as Delete does.
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
