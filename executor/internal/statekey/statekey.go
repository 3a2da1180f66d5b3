// Package statekey says what an executor keeps in the journal beside its jobs: under which
// state keys, and as what. The executor writes and reads it, and the strand command finds
// and leaves out what an executor would refuse.
package statekey

import (
	"fmt"
	"strings"
	"time"

	"github.com/strandjobs/strand/journal"
)

// NewCheck returns a function that is given the state keys of a journal, one after the
// other, and returns an error for each that an executor would refuse: when it opens, when
// what the key belongs to is registered, or when a call needs it. What it refuses counts
// as not being there for those that follow. It can't tell whether the value of a slot is
// one of the type that the slots have.
func NewCheck() func(journal.Set) error {
	c := &sequences{taken: make(map[string]bool), now: time.Now()}
	return func(s journal.Set) (err error) {
		switch {
		case strings.HasPrefix(s.Key, LockPrefix):
			_, err = ParseKeyLock(s)
		case strings.HasPrefix(s.Key, PausePrefix):
			err = CheckPause(s)
		case strings.HasPrefix(s.Key, OffsetPrefix):
			_, err = ParseOffset(s.Value)
		case strings.HasPrefix(s.Key, IdempotencyPrefix):
			_, err = ParseIdempotency(s.Value)
		case strings.HasPrefix(s.Key, SlotPrefix):
			err = c.check(s)
		}
		return err
	}
}

// Refused is the error of an executor that can't do without a state key that Check refuses.
func Refused(key string, err error) error {
	return fmt.Errorf("executor: state key %q: %w; strand salvage DIR NEWDIR writes a journal without it", key, err)
}

func damaged(format string, args ...any) error {
	return &journal.CorruptError{Reason: fmt.Sprintf(format, args...)}
}
