package executor

import (
	"fmt"
	"math"
	"time"

	"github.com/strandjobs/strand/shard"
)

// Merge says what becomes of payloads of one waiting id that have equal bytes. Payloads
// with different bytes are never merged, except under MergeSupersede.
type Merge string

const (
	// MergeKeepAll: both stay. It is the default, and right for events, each of which
	// counts.
	MergeKeepAll Merge = "KeepAll"
	// MergeMinScore: the one with the lower score stays, of equal scores the earlier one.
	MergeMinScore Merge = "MinScore"
	// MergeKeepFirst: the one that was accepted first stays.
	MergeKeepFirst Merge = "KeepFirst"
	// MergeKeepLast: the one that was accepted last stays. Payloads with different bytes
	// all stay, so it is not for state.
	MergeKeepLast Merge = "KeepLast"
	// MergeSupersede: the newest payload of the id stays, whatever the bytes. It is for
	// state; see [HandleLatest].
	MergeSupersede Merge = "Supersede"
)

// OnExhausted says what happens when a job has used up its retries. A payload that does not decode becomes a dead
// letter, and its job goes on without it. Under OnExhaustedHalt, if the error is temporary (see [Codec]), the id is
// halted instead.
type OnExhausted string

const (
	// OnExhaustedBuryOldest: the failed payload with the lowest score becomes a dead
	// letter, and the others start again. The default.
	OnExhaustedBuryOldest OnExhausted = "BuryOldest"
	// OnExhaustedBuryAll: all failed payloads become dead letters; with [Handle] that is
	// one.
	OnExhaustedBuryAll OnExhausted = "BuryAll"
	// OnExhaustedHalt: the id is halted, with all its payloads, until RunNow, RetryNow, a Requeue of one of its dead
	// letters, or the end of its failed payloads lets it go on. It is for events that depend on each other.
	OnExhaustedHalt OnExhausted = "Halt"
)

// FreshDue says what a new payload does to the due time of a job that waits, also of
// one that was snoozed. For one that waits for a retry see Gather.Pull.
type FreshDue string

const (
	// FreshDueKeep: the job stays due when its first payload is. The default.
	FreshDueKeep FreshDue = "Keep"
	// FreshDuePull: the job becomes due when the new payload is, if that is earlier.
	FreshDuePull FreshDue = "Pull"
	// FreshDuePush: the job becomes due when the new payload is, if that is later, each
	// time and without a bound; Debounce has one.
	FreshDuePush FreshDue = "Push"
)

// Debounce delays a job until no payload has come for some time: one run for a burst of
// changes.
//
// The job is due when Quiet has passed since its last payload, and at the latest when
// MaxWait has passed since its first; a payload with [At] or [In] counts as if it came
// at that time. Payloads that are merged count, too. Payloads that come while the job
// runs gather for its next run. A retry, a snooze, RunNow, Requeue, and what a run has
// left over have due times of their own, which later payloads do not move, unless they
// are newer states: see [HandleLatest]. All of it survives a restart.
type Debounce struct {
	// Quiet is how long no payload must have come. Default, and below zero: no delay.
	Quiet time.Duration

	// MaxWait is the longest that a job is delayed, counted from its first payload. Above zero it needs
	// a Quiet, and must not be less: else it is ErrConfig. Default ten times Quiet; below zero: no bound.
	MaxWait time.Duration
}

// settings checks a Debounce, with what else moves due times, fills in what is left out, and
// hands it down.
func (d Debounce) settings(f FreshDue, throttle time.Duration, core *shard.Config) error {
	const times = 10 // Quiet, which MaxWait is by default
	switch {
	case throttle > 0 && (d.Quiet > 0 || f != FreshDueKeep):
		return fmt.Errorf("%w: Gather.Throttle is %v, Gather.Debounce.Quiet is %v and Gather.FreshDue is %v: choose one of them", ErrConfig, throttle, d.Quiet, f)
	case d.Quiet <= 0 && d.MaxWait > 0:
		return fmt.Errorf("%w: Gather.Debounce.MaxWait is %v without Quiet, so it bounds no wait", ErrConfig, d.MaxWait)
	case d.Quiet <= 0:
		return nil
	case f != FreshDueKeep:
		return fmt.Errorf("%w: Gather.FreshDue is %v, and Gather.Debounce.Quiet is %v: both say when a job is due, choose one", ErrConfig, f, d.Quiet)
	case d.MaxWait > 0 && d.MaxWait < d.Quiet:
		return fmt.Errorf("%w: Gather.Debounce.MaxWait is %v, it must be 0 (the default) or at least Quiet, which is %v", ErrConfig, d.MaxWait, d.Quiet)
	case d.MaxWait < 0 || d.MaxWait == 0 && d.Quiet > math.MaxInt64/times:
		d.MaxWait = math.MaxInt64
	case d.MaxWait == 0:
		d.MaxWait = times * d.Quiet
	}
	core.Quiet, core.MaxWait = d.Quiet, d.MaxWait
	return nil
}

// checkSupersede refuses what makes no sense where a newer payload takes the place of an
// older one.
func checkSupersede(m Merge, most int, block, pull bool, due FreshDue) error {
	var what string
	switch {
	case m != MergeSupersede:
		return nil
	case most > 1 || most < 0:
		what = fmt.Sprintf("Gather.MaxPayloads is %d, but one payload of an id waits", most)
	case block:
		what = "Gather.Block is set, but no newer payload waits behind one that failed"
	case pull:
		what = "Gather.Pull is set, but a newer payload begins anew, and waits for no retry"
	case due != FreshDueKeep:
		what = fmt.Sprintf("Gather.FreshDue is %v, but a newer payload has its own due time", due)
	default:
		return nil
	}
	return fmt.Errorf("%w: Merge is %v and %s; leave it out", ErrConfig, m, what)
}
