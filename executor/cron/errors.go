package cron

import (
	"errors"
	"fmt"

	"github.com/strandjobs/strand/executor/internal/guard"
)

// Errors of adding a schedule, which is not added then.
var (
	// ErrDuplicate is returned when there is a schedule, or in a group a member, of
	// that name.
	ErrDuplicate = errors.New("cron: name is taken")
	// ErrConfig is returned when something is missing or makes no sense: a name that is
	// empty or has more than 256 bytes, a spec that can't be read or has no tick, an
	// unknown time zone. The text names it.
	ErrConfig = errors.New("cron: invalid configuration")
)

// Errors of schedules that are there.
var (
	// ErrNotFound is returned for a name that has no schedule.
	ErrNotFound = errors.New("cron: no such schedule")
	// ErrOverlap is returned by TriggerNow under OverlapSkip while the job of an
	// earlier tick is not over.
	ErrOverlap = errors.New("cron: the former job is not over")
	// ErrClosed is returned after Stop, and after the executor has stopped or
	// failed.
	ErrClosed = errors.New("cron: closed")
	// ErrStuck is returned by Stop when a tick is still being enqueued; the text
	// names the schedules.
	ErrStuck = errors.New("cron: stopped without waiting for everything")
)

// PayloadError says that the Payload function of a schedule panicked or called
// runtime.Goexit. The tick is over; the next one asks again.
type PayloadError struct {
	Schedule string
	Value    any    // what it panicked with; nil: Goexit
	Stack    string // of the panic
}

func (e *PayloadError) Error() string {
	if e.Value == nil {
		return "cron: the payload function of " + e.Schedule + " ended its goroutine"
	}
	value := guard.Text(func() string { return fmt.Sprint(e.Value) }, func() string { return fmt.Sprintf("%T", e.Value) })
	return "cron: the payload function of " + e.Schedule + " panicked: " + value
}
