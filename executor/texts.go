package executor

import (
	"fmt"
	"strings"
)

// The texts of constants, in their order: each is the name of the constant without what
// all of its type begin with.
var (
	durabilityNames  = strings.Fields("Default Sync Async")
	overflowNames    = strings.Fields("Refuse Wait")
	uniquenessNames  = strings.Fields("Default Never WhileRunning")
	mergeNames       = strings.Fields("KeepAll MinScore KeepFirst KeepLast Supersede")
	onFailureNames   = strings.Fields("Merge Block")
	onExhaustedNames = strings.Fields("BuryOldest BuryAll Halt")
	onFreshNames     = strings.Fields("Wait Pull")
	freshDueNames    = strings.Fields("Keep Pull Push")
)

func wordOf[T ~uint8](v T, names []string) string {
	if int(v) < len(names) {
		return names[v]
	}
	return fmt.Sprintf("%T(%d)", v, uint8(v))
}

// String is the text of a constant, and executor.Durability(n) of what is none.
func (d Durability) String() string { return wordOf(d, durabilityNames) }

// String is the text of a constant, and executor.Overflow(n) of what is none.
func (o Overflow) String() string { return wordOf(o, overflowNames) }

// String is the text of a constant, and executor.Uniqueness(n) of what is none.
func (u Uniqueness) String() string { return wordOf(u, uniquenessNames) }

// String is the text of a constant, and executor.Merge(n) of what is none.
func (m Merge) String() string { return wordOf(m, mergeNames) }

// String is the text of a constant, and executor.OnFailure(n) of what is none.
func (f OnFailure) String() string { return wordOf(f, onFailureNames) }

// String is the text of a constant, and executor.OnExhausted(n) of what is none.
func (e OnExhausted) String() string { return wordOf(e, onExhaustedNames) }

// String is the text of a constant, and executor.OnFresh(n) of what is none.
func (f OnFresh) String() string { return wordOf(f, onFreshNames) }

// String is the text of a constant, and executor.FreshDue(n) of what is none.
func (f FreshDue) String() string { return wordOf(f, freshDueNames) }
