package executor

import (
	"errors"
	"fmt"

	"github.com/strandjobs/strand/executor/internal/ownership"
)

func init() {
	ownership.Refuse = func(x any, id string) error { return x.(*Executor).cfg.Splitter.refuse(id) }
}

// ErrNotOwned is matched by the [NotOwnedError] that is returned for an id of another
// process; see [Splitter].
var ErrNotOwned = errors.New("executor: id of another process")

// NotOwnedError says whose an id is.
type NotOwnedError struct {
	ID    string
	Owner int // the number of its process
	Self  int // the number of this one
}

func (e *NotOwnedError) Error() string {
	return fmt.Sprintf("%v: %s belongs to %d, and this is %d", ErrNotOwned, brief(e.ID), e.Owner, e.Self)
}

// Is makes errors.Is(err, ErrNotOwned) true.
func (e *NotOwnedError) Is(target error) bool { return target == ErrNotOwned }

// Splitter divides ids among processes, each with an executor and a journal of its
// own, numbered from 0. The zero Splitter does not: all ids belong to this process.
// Inside a process any worker serves any shard, other than with the splitters of
// Lowkiq: Weight, Priority and MaxConcurrent of [QueueConfig] share the workers.
//
// An id of another process is refused, at Enqueue, EnqueueMany, their raw kinds, Do and
// FollowUp, in a handler, too, with a [NotOwnedError] that says whose it is: to send it
// there is the program's business. A follow-up is in the commit of its job, so that it
// can't be in another journal: let Owner go by what the ids of a chain have in common,
// the customer in "customer/order" say, and all of it stays in one process; or have a
// follow-up of this process's own send it there, with an [IdempotencyKey] made of its
// position and process. No other call asks. What the journal has of an id that is not
// this process's any more, because Nodes has changed, runs here, and can be put back
// from the morgue here: it was accepted here, and is not lost. So when Nodes changes,
// an id may have jobs in two processes until the old one has done its own, without an
// order between the two; where that counts, let the old ones run dry first. A
// schedule of executor/cron has to be added in all processes: the one fires a tick that
// its job's id belongs to.
type Splitter struct {
	// Nodes is how many processes there are. Default 0: ids are not divided, and Self and
	// Owner must be zero, too.
	Nodes int

	// Self is the number of this one, from 0 to Nodes − 1.
	Self int

	// Owner returns whose an id is, from 0 to Nodes − 1: the same in each process
	// and at each time. It is called by the goroutine of each call, for each id. A
	// number that is out of range, or a panic, is ErrConfig, and nothing is
	// accepted. Default nil: ids are divided evenly by a hash, which stays what it
	// is in later versions; from n to n + 1 processes one id of n + 1 moves, to the
	// new one.
	Owner func(id string) int
}

// ByNode is the [Splitter] of process number self, from 0, of so many, each of which
// has an even share of the ids.
func ByNode(nodes, self int) Splitter { return Splitter{Nodes: nodes, Self: self} }

// check returns an error for numbers that make no sense.
func (s *Splitter) check() error {
	switch {
	case s.Nodes == 0 && s.Self == 0 && s.Owner == nil:
		return nil
	case s.Nodes < 1 || s.Nodes > maxNodes:
		return fmt.Errorf("%w: Splitter.Nodes is %d, with Self or Owner it must be from 1 to %d", ErrConfig, s.Nodes, maxNodes)
	case s.Self < 0 || s.Self >= s.Nodes:
		return fmt.Errorf("%w: Splitter.Self is %d, of %d processes it must be from 0 to %d", ErrConfig, s.Self, s.Nodes, s.Nodes-1)
	}
	return nil
}

const maxNodes = 1 << 20

// OwnerOf returns whose an id is, by the same rule in each process that has the same
// Nodes and Owner: where to send what is refused here with [ErrNotOwned]. Without Nodes
// it is Self. It returns ErrConfig when Owner panics, or returns a number that is out of
// range. Any goroutine may call it, if Owner allows that.
func (s Splitter) OwnerOf(id string) (int, error) {
	if s.Nodes == 0 {
		return s.Self, nil
	}
	if s.Owner == nil {
		return jump(fnv1a(id), s.Nodes), nil
	}
	owner := 0
	if err := guarded(func() error { owner = s.Owner(id); return nil }); err != nil {
		return 0, fmt.Errorf("%w: Splitter.Owner of id %s: %w", ErrConfig, brief(id), err)
	}
	if owner < 0 || owner >= s.Nodes {
		return 0, fmt.Errorf("%w: Splitter.Owner of id %s is %d, of %d processes it must be from 0 to %d", ErrConfig, brief(id), owner, s.Nodes, s.Nodes-1)
	}
	return owner, nil
}

// refuse returns an error for an id that is not this process's.
func (s *Splitter) refuse(id string) error {
	if s.Nodes == 0 {
		return nil
	}
	owner, err := s.OwnerOf(id)
	if err == nil && owner != s.Self {
		err = &NotOwnedError{ID: id, Owner: owner, Self: s.Self}
	}
	return err
}

// fnv1a is the 64-bit FNV-1a hash (RFC 9923). No other may take its place: processes
// of two versions must agree.
func fnv1a(id string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(id) {
		h = (h ^ uint64(id[i])) * 1099511628211
	}
	return h
}

// jump is the jump consistent hash of Lamping and Veach (2014): even shares, and with
// one bucket more only what goes there moves.
func jump(key uint64, buckets int) int {
	b, j := int64(-1), int64(0)
	for j < int64(buckets) {
		b = j
		key = key*2862933555777941757 + 1
		j = int64(float64(b+1) * (float64(1<<31) / float64(key>>33+1)))
	}
	return int(b)
}
