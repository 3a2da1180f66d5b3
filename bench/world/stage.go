package world

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

// stage is the test that a world takes itself to be in: its first failure is kept, and
// the real test goes on, with another world perhaps.
type stage struct {
	testing.TB
	mu       sync.Mutex
	failed   string
	cleanups []func()
	log      io.Writer
}

func (s *stage) Helper() {}

func (s *stage) Errorf(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed == "" {
		s.failed = fmt.Sprintf(format, args...)
	}
}

func (s *stage) Fatalf(format string, args ...any) {
	s.Errorf(format, args...)
	runtime.Goexit()
}

func (s *stage) Fatal(args ...any) { s.Fatalf("%s", fmt.Sprint(args...)) }

func (s *stage) Logf(string, ...any) {}

func (s *stage) Output() io.Writer { return s.log }

func (s *stage) Cleanup(f func()) { s.cleanups = append(s.cleanups, f) }

func (s *stage) failure() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// act plays one act, which may end its goroutine, and reports whether it came to its end.
func (s *stage) act(f func()) (whole bool) {
	over := make(chan struct{})
	go func() {
		defer close(over)
		defer func() {
			if r := recover(); r != nil {
				s.Errorf("panic: %v\n%s", r, debug.Stack())
			}
		}()
		f()
		whole = true
	}()
	<-over
	return whole
}

// perform plays a script in a bubble of its own and returns what is wrong with what
// happened; "": nothing.
func perform(t *testing.T, s script, log io.Writer) (failure string) {
	t.Helper()
	return performIn(t, log, func(st *stage) *world { return newWorld(st, s) })
}

// performIn plays a world that is made in the bubble.
func performIn(t *testing.T, log io.Writer, made func(*stage) *world) (failure string) {
	t.Helper()
	var st *stage
	defer func() {
		if r := recover(); r != nil { // goroutines are left, or none can go on
			failure = fmt.Sprint(r)
			if st != nil && st.failure() != "" {
				failure = st.failure() + "\nand then: " + failure
			}
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		st = &stage{TB: t, log: log}
		st.act(func() { made(st).play() })
		for _, f := range slices.Backward(st.cleanups) {
			st.act(f)
		}
	})
	return st.failure()
}

// kind is what failures of one cause have in common: the first line without what is
// counted, so that a shrunk script is one of the same fault.
func kind(failure string) string {
	first, _, _ := strings.Cut(failure, "\n")
	head, rest, _ := strings.Cut(first, ": ")
	if head == "executortest" {
		next, _, _ := strings.Cut(rest, ": ")
		head += ": " + next
	}
	return head
}
