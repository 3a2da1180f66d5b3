package executor

import (
	"fmt"
	"math"
	"time"

	"github.com/strandjobs/strand/shard"
)

// Merge says what becomes of two payloads of one waiting id with equal bytes. Payloads
// with different bytes are never merged, but for MergeSupersede.
type Merge uint8

const (
	MergeKeepAll   Merge = iota // both stay: for events, each of which counts; the default
	MergeMinScore               // the one with the lower score stays, the earlier one when they are equal
	MergeKeepFirst              // the one that was accepted first stays
	MergeKeepLast               // of equal bytes the one that was accepted last stays; of different ones all do: not for state
	MergeSupersede              // the newest stays, whatever the bytes: for state, as HandleLatest has it; see The newest state
)

// OnFailure says what a failed run means for payloads of its id that arrived
// meanwhile or arrive before the retry.
type OnFailure uint8

const (
	OnFailureMerge OnFailure = iota // the retry gets all of them, in score order; the default
	OnFailureBlock                  // the failed ones run alone until they are done or buried; what Handle does
)

// OnExhausted says what happens when a job has used up its retries.
type OnExhausted uint8

const (
	OnExhaustedBuryOldest OnExhausted = iota // the failed payload with the lowest score goes to the morgue, the others start again; the default
	OnExhaustedBuryAll                       // all failed payloads go to the morgue; with Handle that is one
	OnExhaustedHalt                          // the id stops, with all its payloads, until RunNow, or until one comes back from the morgue
)

// OnFresh says what a fresh payload does to a job that waits for a retry.
type OnFresh uint8

const (
	OnFreshWait OnFresh = iota // it waits for the retry; the default
	OnFreshPull                // the job becomes due when the fresh payload is, if that is earlier; its retry count stays
)

// FreshDue says what a fresh payload does to the due time of a job that waits, also
// if that was snoozed, but not for a retry: see [OnFresh].
type FreshDue uint8

const (
	FreshDueKeep FreshDue = iota // the job is due when its first payload is; the default
	FreshDuePull                 // it becomes due when the fresh payload is, if that is earlier
	FreshDuePush                 // it becomes due when the fresh payload is, if that is later, again and again; Debounce has a bound
)

// Debounce has a job wait until no payload has come for some time: one run for a burst
// of changes.
//
// The job is due Quiet after the last payload that came, and MaxWait after the first
// at the latest; a payload with [At] or [In] counts as if it came then. Payloads that
// are merged count, too. Those that come while the job runs gather for its next run.
// A retry, a snooze, RunNow, Requeue, and what a run has left over have their own due
// times, which later payloads don't move. A restart makes no difference.
type Debounce struct {
	// Quiet is the pause after the last payload. Default, and below zero: a job
	// waits for no pause.
	Quiet time.Duration

	// MaxWait bounds how long a job is put off, from its first payload on. At least
	// Quiet. Default ten times Quiet; below zero there is no bound.
	MaxWait time.Duration
}

// checkThrottle refuses a throttle beside what moves due times in another way.
func checkThrottle(throttle time.Duration, d Debounce, f FreshDue) error {
	if throttle > 0 && (d.Quiet > 0 || f != FreshDueKeep) {
		return fmt.Errorf("%w: Throttle is %v, Debounce.Quiet is %v and FreshDue is %v: choose one of them", ErrConfig, throttle, d.Quiet, f)
	}
	return nil
}

// settings checks a Debounce and fills in what is left out.
func (d Debounce) settings(f FreshDue) (shard.Debounce, error) {
	switch {
	case d.Quiet <= 0 && d.MaxWait > 0:
		return shard.Debounce{}, fmt.Errorf("%w: Debounce.MaxWait is %v without Quiet, so it bounds no wait", ErrConfig, d.MaxWait)
	case d.Quiet <= 0:
		return shard.Debounce{}, nil
	case f != FreshDueKeep:
		return shard.Debounce{}, fmt.Errorf("%w: FreshDue is %v, and Debounce.Quiet is %v: both say when a job is due, choose one", ErrConfig, f, d.Quiet)
	case d.MaxWait > 0 && d.MaxWait < d.Quiet:
		return shard.Debounce{}, fmt.Errorf("%w: Debounce.MaxWait is %v, it must be 0 (the default) or at least Quiet, which is %v", ErrConfig, d.MaxWait, d.Quiet)
	case d.MaxWait < 0 || d.MaxWait == 0 && d.Quiet > math.MaxInt64/quietTimes:
		d.MaxWait = math.MaxInt64
	case d.MaxWait == 0:
		d.MaxWait = quietTimes * d.Quiet
	}
	return shard.Debounce(d), nil
}

// quietTimes is how many times Quiet a MaxWait is by default.
const quietTimes = 10

// Policies are handed down as they are: they have the numbers of the room below.
var _ = [1]struct{}{}[int(MergeSupersede-Merge(shard.MergeSupersede))+int(OnFailureBlock-OnFailure(shard.OnFailureBlock))+
	int(OnExhaustedHalt-OnExhausted(shard.OnExhaustedHalt))+int(OnFreshPull-OnFresh(shard.OnFreshPull))+
	int(FreshDuePush-FreshDue(shard.FreshDuePush))]
