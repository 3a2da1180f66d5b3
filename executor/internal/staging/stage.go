package staging

import (
	"errors"
	"slices"
)

// The limits of one job.
const (
	MaxCount = 1000
	MaxBytes = 4 << 20
)

// Errors of Stage.Add.
var (
	ErrOver     = errors.New("staging: the call is over")
	ErrTooMany  = errors.New("staging: too many for one job")
	ErrTooLarge = errors.New("staging: too many bytes for one job")
)

// Stage is what was staged in one attempt. The zero Stage is in its first call, which
// has the number 0.
type Stage[J comparable, F any] struct {
	call  int
	jobs  []staged[J, F]
	index map[J]int // in jobs; nil while there are few of them
}

// staged is what was staged for one job.
type staged[J comparable, F any] struct {
	job   J
	call  int // in which that was
	list  []F
	bytes int
}

// few is how many jobs are looked through one after the other: one job has one.
const few = 8

// Over is the call of an attempt that is over.
const Over = -1

// Begin begins a later call, or with [Over] ends the attempt.
func (s *Stage[J, F]) Begin(call int) { s.call = call }

// Add stages something for a job, from a call of its handler.
func (s *Stage[J, F]) Add(job J, call int, what F, bytes int) error {
	if call != s.call {
		return ErrOver
	}
	j := s.of(job)
	if j == nil {
		j = s.add(job)
	}
	switch {
	case len(j.list) >= MaxCount:
		return ErrTooMany
	case len(j.list) > 0 && j.bytes+bytes > MaxBytes:
		return ErrTooLarge
	}
	j.call, j.list, j.bytes = call, append(j.list, what), j.bytes+bytes
	return nil
}

func (s *Stage[J, F]) add(job J) *staged[J, F] {
	s.jobs = append(s.jobs, staged[J, F]{job: job})
	switch n := len(s.jobs); {
	case n == few+1:
		s.index = make(map[J]int)
		for i := range s.jobs {
			s.index[s.jobs[i].job] = i
		}
	case n > few:
		s.index[job] = n - 1
	}
	return &s.jobs[len(s.jobs)-1]
}

// of returns what was staged for a job; nil: nothing was.
func (s *Stage[J, F]) of(job J) *staged[J, F] {
	i, found := -1, false
	if s.index != nil {
		i, found = s.index[job]
	} else {
		i = slices.IndexFunc(s.jobs, func(j staged[J, F]) bool { return j.job == job })
		found = i >= 0
	}
	if !found {
		return nil
	}
	return &s.jobs[i]
}

// Forget forgets what was staged in a call, which did not count.
func (s *Stage[J, F]) Forget(call int) {
	for i := range s.jobs {
		if j := &s.jobs[i]; j.call == call {
			j.list, j.bytes = nil, 0
		}
	}
}

// Of returns what was staged for a job, in order, and how many bytes that is.
func (s *Stage[J, F]) Of(job J) (all []F, bytes int) {
	if j := s.of(job); j != nil {
		return j.list, j.bytes
	}
	return nil, 0
}
