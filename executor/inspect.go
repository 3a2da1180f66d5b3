package executor

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/strandjobs/strand/shard"
)

// Errors of looking.
var (
	// ErrInvalidQuery is returned for a query or a filter that makes no sense; the
	// text names the field, with its value.
	ErrInvalidQuery = errors.New("executor: invalid query")

	// ErrInvalidCursor is returned for a cursor that is none, or that comes from
	// another list, queue or order.
	ErrInvalidCursor = errors.New("executor: invalid cursor")

	// ErrUnknownJob is returned for an id that has neither a job nor dead letters.
	ErrUnknownJob = errors.New("executor: unknown job")
)

// Inspector shows what is in an executor while it runs: to people, dashboards and
// tools, by the names of queues, whatever their payload types. [Executor.Inspect]
// returns it.
type Inspector struct{ x *Executor }

// Inspect returns the inspector of the executor. It may be called at any time,
// also before Start and after Stop.
func (x *Executor) Inspect() *Inspector { return &Inspector{x} }

// usable returns why there is nothing to list. A stop that is under way is looked at.
func (i *Inspector) usable() error {
	if i == nil || i.x == nil {
		return errNoInspector
	}
	select {
	case <-i.x.stopped:
		return ErrClosed
	default:
		return nil
	}
}

// The states of jobs in lists. Each job is in one of six at any moment:
//
//	in a list        it                                      [Executor.Explain] says
//	────────────────────────────────────────────────────────────────────────────────
//	[JobReady]       is due and waits for a worker, also     JobReady
//	                 one that has failed
//	[JobScheduled]   is due later, and has not failed        JobScheduled, Attempt 1
//	[JobRetrying]    is due later, because it failed         JobRetrying, Attempt above 1
//	[JobParked]      waits for a key, lease, slot, limit or  JobBlocked, JobWaiting,
//	                 turn, or a person has paused its id,    JobLimited, JobSuspected,
//	                 or a prefix of it                       JobPaused
//	[JobHalted]      waits for RunNow                        JobHalted
//	[JobRunning]     is handed to a worker                   JobRunning
//
// A job that runs is running, whatever else is true; one that is halted comes
// before one that is blocked, and that before the three that only time decides. So
// what is due is JobReady, and what waits is all but JobRunning. Dead letters are
// payloads in the morgue and no jobs: see [Inspector.Dead]. A pause of the queue or
// the executor changes no state here: [QueueStats] and Explain say so.
const (
	// JobRetrying: its last run failed, and it waits for the next one.
	JobRetrying JobState = "retrying"
	// JobParked: it is blocked: it waits for a key, lease, slot, limit or turn, or its id, or a prefix of it, is paused.
	JobParked JobState = "parked"
	// JobFresh: it has used up no retry, whatever it does now; these jobs are those that
	// QueueStats.Fresh counts. It can be asked for as a state can, and no job shows it.
	JobFresh JobState = "fresh"
)

// listed are the states of jobs in lists.
var listed = [...]JobState{
	shard.StateReady: JobReady, shard.StateScheduled: JobScheduled, shard.StateRetrying: JobRetrying,
	shard.StateParked: JobParked, shard.StateHalted: JobHalted, shard.StateRunning: JobRunning,
}

// stateOf is the state of a job in lists.
func stateOf(s shard.State) JobState { return listed[s] }

// stateSet is which jobs are asked for by their states.
type stateSet struct {
	of    [len(listed)]bool // by shard.State
	fresh bool              // also those that have used up no retry
}

// statesOf returns the set of some states; none: all.
func statesOf(states []JobState) (set stateSet, err error) {
	set.fresh = len(states) == 0
	for _, s := range states {
		i := slices.Index(listed[:], s)
		switch {
		case s == JobFresh:
			set.fresh = true
		case i < 0:
			return set, fmt.Errorf("%w: no list has jobs in the state %q; those are %q and %q, and dead payloads are listed by Inspector.Dead",
				ErrInvalidQuery, clip(string(s)), listed, JobFresh)
		default:
			set.of[i] = true
		}
	}
	for i := range set.of {
		set.of[i] = set.of[i] || len(states) == 0
	}
	return set, nil
}

// has reports whether a job is asked for.
func (s *stateSet) has(v *shard.View) bool { return s.of[v.State] || s.fresh && v.Retry < 0 }

// none reports whether a shard with these figures has no job that is asked for.
func (s *stateSet) none(c shard.Counts) bool {
	w := &s.of
	return c.Jobs == 0 || (!s.fresh || c.Jobs == c.Retrying) &&
		!w[shard.StateReady] && !w[shard.StateScheduled] &&
		(!w[shard.StateRetrying] || c.Retrying == 0) && (!w[shard.StateParked] || c.Parked+c.Paused+c.Prefixes == 0) &&
		(!w[shard.StateHalted] || c.Halted == 0) && (!w[shard.StateRunning] || c.Running == 0)
}

// JobFilter picks jobs, or dead letters, by what they are: those for which all
// that is set is true. The zero JobFilter picks all.
type JobFilter struct {
	// IDPrefix is how the id begins, byte by byte. At most MaxIDBytes.
	IDPrefix string

	// ErrorContains is a part of the last error, as it is written. At most 1 KiB. A
	// job that has not failed has none.
	ErrorContains string

	// OlderThan: the payload that runs or comes next, or the dead one, was enqueued
	// longer ago. 0: whenever; below zero is refused.
	OlderThan time.Duration

	// Failed: the job has used up a retry, whatever it does now: those that
	// QueueStats.Retrying counts. It is true of every dead letter.
	Failed bool
}

// maxFilterBytes bounds ErrorContains.
const maxFilterBytes = 1 << 10

func (f *JobFilter) check() error {
	switch {
	case len(f.IDPrefix) > MaxIDBytes:
		return fmt.Errorf("%w: IDPrefix has %d bytes, and no id more than %d", ErrInvalidQuery, len(f.IDPrefix), MaxIDBytes)
	case len(f.ErrorContains) > maxFilterBytes:
		return fmt.Errorf("%w: ErrorContains has %d bytes, the limit is %d", ErrInvalidQuery, len(f.ErrorContains), maxFilterBytes)
	case f.OlderThan < 0:
		return fmt.Errorf("%w: OlderThan is %v, it must not be negative", ErrInvalidQuery, f.OlderThan)
	}
	return nil
}

// means reports whether the filter picks what has an id and an error, as far as these
// tell. Lists and selections ask it, so that what is acted upon is what is shown.
func (f *JobFilter) means(id, last string, failed bool) bool {
	return strings.HasPrefix(id, f.IDPrefix) && strings.Contains(last, f.ErrorContains) && (failed || !f.Failed)
}
