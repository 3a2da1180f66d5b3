package cron

import "errors"

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
