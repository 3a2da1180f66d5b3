// Package pick says which jobs and dead letters a person means. Lists and actions ask it
// both, so that what is acted upon is what is shown. It keeps no lock and starts nothing.
package pick

import (
	"fmt"
	"slices"
	"strings"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/brief"
	"github.com/strandjobs/strand/executor/internal/engine"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// listed are the states of jobs in lists.
var listed = []inspect.JobState{
	inspect.JobReady, inspect.JobScheduled, inspect.JobRetrying, inspect.JobParked, inspect.JobHalted, inspect.JobRunning, inspect.JobFresh,
}

// State is what people call the state of a job.
func State(v *shard.View) inspect.JobState {
	switch {
	case v.Running:
		return inspect.JobRunning
	case v.Halted:
		return inspect.JobHalted
	case v.Parked:
		return inspect.JobParked
	case !v.Delayed:
		return inspect.JobReady
	case v.Retry >= 0:
		return inspect.JobRetrying
	}
	return inspect.JobScheduled
}

// States is which jobs are asked for by their states; none: all.
type States []inspect.JobState

// Has reports whether a job is asked for.
func (s States) Has(v *shard.View) bool {
	return len(s) == 0 || slices.Contains(s, State(v)) || v.Retry < 0 && slices.Contains(s, inspect.JobFresh)
}

// None reports whether a shard with these figures has no job that is asked for.
func (s States) None(c shard.Counts) bool {
	return c.Jobs == 0 || len(s) > 0 && !slices.ContainsFunc(s, func(state inspect.JobState) bool {
		switch state {
		case inspect.JobFresh:
			return c.Jobs > c.Retrying
		case inspect.JobRetrying:
			return c.Retrying > 0
		case inspect.JobParked:
			return c.Parked+c.Paused+c.Prefixes > 0
		case inspect.JobHalted:
			return c.Halted > 0
		case inspect.JobRunning:
			return c.Running > 0
		}
		return true
	})
}

// maxFilterBytes bounds ErrorContains.
const maxFilterBytes = 1 << 10

// means reports whether a filter matches, as far as id and error can tell.
func means(f *inspect.JobFilter, id, last string, failed bool) bool {
	return strings.HasPrefix(id, f.IDPrefix) && strings.Contains(last, f.ErrorContains) && (failed || !f.Failed)
}

// Selection is an [inspect.Selection] at work.
type Selection struct {
	Queue  string
	IDs    map[string]bool    // nil: any
	Of     []journal.Position // in ascending order; nil: any
	Filter inspect.JobFilter
	States States
	before int64 // Unix ns, of Filter.OlderThan
}

// Select returns what is selected. It is not checked yet.
func Select(which inspect.Selection) *Selection {
	s := &Selection{Queue: which.Queue, Filter: which.Filter, States: which.States}
	if which.IDs != nil {
		s.IDs = make(map[string]bool, len(which.IDs))
	}
	for _, id := range which.IDs {
		s.IDs[id] = true
	}
	if which.Positions != nil {
		s.Of = make([]journal.Position, 0, len(which.Positions))
	}
	for _, p := range which.Positions {
		s.Of = append(s.Of, journal.Position(p))
	}
	slices.Sort(s.Of)
	return s
}

// Check returns an error for a selection that makes no sense, at a time in Unix nanoseconds.
func (s *Selection) Check(now int64) error {
	s.before = now - int64(s.Filter.OlderThan)
	switch f := &s.Filter; {
	case len(f.IDPrefix) > engine.MaxIDBytes:
		return fmt.Errorf("%w: IDPrefix has %d bytes, and no id more than %d", inspect.ErrInvalidQuery, len(f.IDPrefix), engine.MaxIDBytes)
	case len(f.ErrorContains) > maxFilterBytes:
		return fmt.Errorf("%w: ErrorContains has %d bytes, the limit is %d", inspect.ErrInvalidQuery, len(f.ErrorContains), maxFilterBytes)
	case f.OlderThan < 0:
		return fmt.Errorf("%w: OlderThan is %v, it must not be negative", inspect.ErrInvalidQuery, f.OlderThan)
	}
	for _, state := range s.States {
		if !slices.Contains(listed, state) {
			return fmt.Errorf("%w: no list has jobs in the state %q; those are %q, and dead payloads are listed by Inspector.Dead",
				inspect.ErrInvalidQuery, brief.Clip(string(state)), listed)
		}
	}
	for id := range s.IDs {
		if err := engine.CheckID(id); err != nil {
			return err
		}
	}
	return nil
}

func (s *Selection) oldEnough(accepted int64) bool {
	return s.Filter.OlderThan == 0 || accepted < s.before
}

// Job reports whether a job is meant. It is called on the shard of the job, and may read what
// has left memory.
func (s *Selection) Job(c *shard.Core, v *shard.View) bool {
	if !s.States.Has(v) {
		return false
	}
	c.Identify(v)
	meant, err := s.Matches(v)
	return meant && err == nil
}

// JobOf is Job for one of IDs: without a filter and States, whatever the id has is meant.
func (s *Selection) JobOf(c *shard.Core, id string, now int64) bool {
	if s.Filter == (inspect.JobFilter{}) && len(s.States) == 0 {
		return true
	}
	d, found := c.Detail(id, now, 0)
	return found && s.Job(c, &d.View)
}

// Matches is Job but for the state of the job, whose id is known. Any goroutine may call it.
func (s *Selection) Matches(v *shard.View) (bool, error) {
	if !means(&s.Filter, v.ID, v.LastError, v.Retry >= 0) {
		return false, nil
	}
	if s.Filter.OlderThan == 0 {
		return true, nil
	}
	var e journal.Entry
	found, err := v.First.Peek(&e)
	return found && s.oldEnough(e.AcceptedAt()), err
}

// Dead reports whether a dead letter is meant.
func (s *Selection) Dead(b *journal.Buried) bool {
	id := string(b.Entry.ID)
	_, found := slices.BinarySearch(s.Of, b.Entry.Position)
	return (found || s.Of == nil) && (s.IDs == nil || s.IDs[id]) &&
		means(&s.Filter, id, b.Reason, true) && s.oldEnough(b.Entry.AcceptedAt())
}
