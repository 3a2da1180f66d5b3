package main

import (
	"path/filepath"
	"slices"
	"sync"
)

// supervisor is asked about each system call of a child on the files of its
// journal, before it happens: one at a time, in one order over all threads. So
// the k-th call of a kind is one and the same, whichever thread makes it.
type supervisor struct {
	dir string // of the journal
	// decide says what becomes of the n-th call of its name, counted from 1.
	decide func(c call, n int) effect

	mu    sync.Mutex
	calls []call // decided ones, in order
	fault error  // of the supervision itself
	done  chan struct{}
}

// effect is what becomes of a call. The zero effect lets it happen.
type effect struct {
	errno  int             // it does not happen, and fails with this
	kill   bool            // it does not happen: the child dies
	resume <-chan struct{} // it happens when this is closed
}

func newSupervisor(dir string, decide func(c call, n int) effect) *supervisor {
	return &supervisor{dir: dir, decide: decide, done: make(chan struct{})}
}

// result returns the calls in their order, once the child is dead.
func (s *supervisor) result() ([]call, error) {
	<-s.done
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls, s.fault
}

// ours reports whether a file belongs to the journal, or holds its directory.
func (s *supervisor) ours(path string) bool {
	return path == s.dir || path == filepath.Dir(s.dir) || filepath.Dir(path) == s.dir
}

// judge decides about a call. It does not count before it was noted: a call
// that a signal interrupts asks again.
func (s *supervisor) judge(c call) effect {
	s.mu.Lock()
	n := 1
	for _, other := range s.calls {
		if other.name == c.name {
			n++
		}
	}
	s.mu.Unlock()
	return s.decide(c, n)
}

// note counts a call that was decided.
func (s *supervisor) note(c call, e effect) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.failed = e.errno != 0
	c.forced = c.failed || e.kill
	s.calls = append(s.calls, c)
}

// supervisedCalls are those that write, make or unmake a file, or map one.
var supervisedCalls = []string{"fdatasync", "pwrite64", "ftruncate", "fsync", "openat", "mmap", "renameat", "unlinkat"}

func total(calls []call, name string) (n int) {
	for _, c := range calls {
		if c.name == name {
			n++
		}
	}
	return n
}

// forced returns the call that was made to fail, and its number among those of
// its name; 0: there was none.
func forced(calls []call) (c call, at int) {
	i := slices.IndexFunc(calls, func(c call) bool { return c.forced })
	if i < 0 {
		return c, 0
	}
	return calls[i], total(calls[:i+1], calls[i].name)
}
