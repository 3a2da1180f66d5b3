package tell

import (
	"time"

	"github.com/strandjobs/strand/executor/events"
	"github.com/strandjobs/strand/executor/internal/admin"
	"github.com/strandjobs/strand/shard"
)

// about returns an event about payloads that a handler has in hand.
func about(kind events.Kind, it *shard.Item, in []shard.Payload) events.Event {
	return events.Event{Kind: kind, ID: it.ID, Position: uint64(in[0].Ref.Position()), Payloads: len(in), Attempt: it.Retry + admin.FirstAttempt}
}

// Parked tells that a job is blocked, whose turn had come.
func (s *Source) Parked(it *shard.Item) { s.Tell(about(events.Parked, it, s.core.InHand(it))) }

// Progress tells how far a handler has come with a job.
func (s *Source) Progress(it *shard.Item, at time.Time, done, total int64, message string) {
	e := about(events.Progress, it, s.core.InHand(it))
	e.Time, e.Done, e.Total, e.Error = at, done, total, message
	s.Tell(e)
}

// Started tells that a handler is about to be called, and returns when: zero if no reader
// wants to know how long it takes.
func (s *Source) Started(batch []*shard.Item) (began time.Time) {
	if !s.wants(calls) {
		return began
	}
	began = time.Now()
	for _, it := range batch {
		e := about(events.Started, it, s.core.InHand(it))
		e.Time = began
		s.Tell(e)
	}
	return began
}

// since is how long a handler has been at it, 0 if that is not known.
func since(began, now time.Time) time.Duration {
	if began.IsZero() {
		return 0
	}
	return now.Sub(began)
}

// Passed tells that a payload is done whose item has another one: the one before that in
// hand, which was at that retry.
func (s *Source) Passed(it *shard.Item, retry int, began time.Time) {
	now := time.Now()
	s.Tell(events.Event{
		Kind: events.Done, ID: it.ID, Time: now, Position: uint64(it.Payloads[it.Outcome.Done-1].Ref.Position()), Payloads: 1,
		Attempt: retry + admin.FirstAttempt, Duration: since(began, now),
	})
}

// Outcomes tells what came of a batch, of which the first few were started. Without errs only
// payloads that don't decode may have fared otherwise than well.
func (s *Source) Outcomes(batch []*shard.Item, started int, errs bool, began time.Time) {
	wanted := successes
	if errs {
		wanted = verdicts
	}
	if !s.wants(wanted) {
		return
	}
	now := time.Now()
	for i, it := range batch {
		s.outcome(it, i < started, events.Event{ID: it.ID, Time: now, Payloads: 1, Attempt: it.Retry + admin.FirstAttempt, Duration: since(began, now)})
	}
}

// ends are the events of the verdicts.
var ends = [...]events.Kind{
	shard.VerdictDone: events.Done, shard.VerdictFailed: events.Failed, shard.VerdictSnoozed: events.Snoozed,
	shard.VerdictInterrupted: events.Interrupted, shard.VerdictCanceled: events.Cancelled, shard.VerdictDiscarded: events.Discarded,
}

func (s *Source) outcome(it *shard.Item, started bool, e events.Event) {
	out, in := &it.Outcome, s.core.InHand(it)
	parts := out.Parts
	for _, part := range parts {
		its := e
		its.Kind, its.Position, its.Error = ends[part.Verdict], uint64(it.Payloads[part.Index].Ref.Position()), part.Error
		s.Tell(its)
	}
	left, first := 0, 0 // payloads of which the verdict is
	for i, p := range in {
		switch {
		case len(parts) > 0 && parts[0].Index == i:
			parts = parts[1:]
		case s.removed(it, p, e):
		default:
			if left++; left == 1 {
				first = i
			}
		}
	}
	if left == 0 || out.Verdict == shard.VerdictUnstarted || out.Verdict == shard.VerdictInterrupted && !started {
		return // nothing was cut short
	}
	if v := out.Verdict; it.Folded != nil && (v == shard.VerdictDone || v == shard.VerdictDiscarded || v == shard.VerdictCanceled) {
		left = 1 // that the others are merged into it its shard tells
	}
	e.Kind, e.Payloads, e.Position = ends[out.Verdict], left, uint64(in[first].Ref.Position())
	exhausts := s.core.Exhausts(it)
	if e.Error = out.Error; !exhausts {
		e.Delay = max(out.Delay, 0)
	}
	s.Tell(e)
	if exhausts && s.core.Halt && s.core.Merge != shard.MergeSupersede {
		e.Kind, e.Duration = events.Halted, 0
		s.Tell(e)
	}
}

// Halted returns the event of a state that halts its id, unless a newer one is there: Outcomes does not tell it.
func (s *Source) Halted(it *shard.Item) *events.Event {
	e := about(events.Halted, it, s.core.InHand(it))
	e.Error = it.Outcome.Error
	return &e
}

// removed reports whether a payload ends because a person wants it so, and says so if it
// is canceled. That it is deleted its shard tells.
func (s *Source) removed(it *shard.Item, p shard.Payload, e events.Event) bool {
	if v := it.Outcome.Verdict; v == shard.VerdictDone || v == shard.VerdictDiscarded || v == shard.VerdictUnstarted {
		return false // it is over, or was not in hand
	}
	r := it.RemovalOf(p)
	if r == nil {
		return false
	}
	if r.Verdict == shard.VerdictCanceled {
		e.Kind, e.Position, e.Error = events.Cancelled, uint64(p.Ref.Position()), r.Reason
		s.Tell(e)
	}
	return true
}
