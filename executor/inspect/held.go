package inspect

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/strandjobs/strand/executor/internal/brief"
)

// LeaseStatus is a key of [executor.Unique] that a job waits for. Jobs are named as
// queue/id.
type LeaseStatus struct {
	Key     string
	By      string        `wire:",owner"` // the job that has it; empty: it is free, and about to be granted, or kept for Called
	Called  string        `wire:",owner"` // the job whose turn it is: it waits for a worker, and none in Waiters overtakes it
	Token   uint64        // of its lease
	HeldFor time.Duration `wire:"held_seconds"` // so far
	// Remaining is how long the lease lasts if it is not extended; 0: it does not end by
	// itself.
	Remaining time.Duration `wire:",omit"`
	Waiters   []LeaseWaiter // in the order in which they will get it
	More      int           // waiters that are not in Waiters
}

// LeaseWaiter is a job that waits for a lease.
type LeaseWaiter struct {
	By  string        `wire:",owner"`         // as queue/id
	For time.Duration `wire:"waited_seconds"` // how long it has waited
}

// String is one line, as that of [Explanation]: which job has the key, for how long, and which wait.
func (s LeaseStatus) String() string {
	var b strings.Builder
	b.WriteString(brief.Text(s.Key) + ": ")
	switch {
	case s.Called != "":
		b.WriteString("kept for " + brief.Text(s.Called) + ", which waits for a worker")
	case s.By == "":
		b.WriteString("free")
	default:
		fmt.Fprintf(&b, "held by %s (token %d) for %v", brief.Text(s.By), s.Token, s.HeldFor)
	}
	if s.Remaining > 0 {
		fmt.Fprintf(&b, ", %v left", s.Remaining)
	}
	if len(s.Waiters) > 0 {
		b.WriteString("; waiting: " + brief.Some(s.Waiters, s.More, func(w LeaseWaiter) string {
			return fmt.Sprintf("%s for %v", brief.Text(w.By), w.For)
		}))
	}
	return b.String()
}

// SlotHeld is a value of [executor.Slots] that a job has.
type SlotHeld struct {
	Slot  string    // the name of the sequence, and the value
	By    string    `wire:",owner"` // the job, as queue/id
	Until time.Time // zero: it does not end by itself
}

// KeyLockStatus is a locked key. Jobs are named as queue/id; either is quoted when
// it does not print.
type KeyLockStatus struct {
	Key         string
	Locks       []LockHeld // oldest first, 100 at most; none while it is kept for those in Called
	MoreLocks   int        // that are not in Locks
	Called      []string   `wire:",owner"` // jobs whose turn it is, 100 at most: they wait for a worker, and none in Waiting overtakes them
	MoreCalled  int        // that are not in Called
	Waiting     []string   `wire:",owner"` // jobs that wait for it, first come first, 100 at most
	MoreWaiting int        // that are not in Waiting
}

// LockHeld is one lock of a key.
type LockHeld struct {
	By           string    `wire:",owner"` // the job, as queue/id, or "a person"
	Since, Until time.Time // Until is zero when it does not end by itself
}

// String is one line: which jobs have the key, for how much longer, and which wait.
// It shows the first ten of each, and says how many more there are.
func (s KeyLockStatus) String() string {
	locks := brief.Some(s.Locks, s.MoreLocks, func(h LockHeld) string {
		return brief.Text(h.By) + left(h.Until)
	})
	line := strconv.Quote(brief.Clip(s.Key)) + " unlocked"
	if locks != "" {
		line = strconv.Quote(brief.Clip(s.Key)) + " locked by " + locks
	}
	if called := brief.Some(s.Called, s.MoreCalled, brief.Text); called != "" {
		line += "; called: " + called
	}
	if waiting := brief.Some(s.Waiting, s.MoreWaiting, brief.Text); waiting != "" {
		line += "; waiting: " + waiting
	}
	return line
}

// left says how long something is held; "": until it is given back.
func left(until time.Time) string {
	if until.IsZero() {
		return ""
	}
	return fmt.Sprintf(" (%v left)", max(time.Until(until), 0).Round(time.Millisecond))
}

// LimitSetting is what a limit allows: an [executor.LimitConfig].
type LimitSetting struct {
	// Concurrent is how many jobs of a key may run at a time, over all queues that use
	// the limit. Default: any number; at most 131072.
	Concurrent int

	// Rate is how many jobs of a key may start in the time Per, at most one in a
	// microsecond. No span as long as Per sees more than Rate + Burst − 1 starts.
	// Starts are spread evenly, at a pace slower than Rate by 1/200, so that a start
	// which comes up to Per/200 late can be made up for. Default: any number.
	Rate int

	// Per is the time that Rate counts in. Default a second; at most 366 days. It is
	// refused without Rate.
	Per time.Duration

	// Burst is how many jobs of a key may start together after a pause; unused starts
	// are saved up at the pace of Rate, from when the limit is made. Default 1; at most
	// 1048576, and what takes ten years to save up. It is refused without Rate.
	Burst int

	// Cluster has the limit hold for all nodes of a cluster together, at the price that the README
	// of journal/postgres tells. It can't be changed. Default false: for each node by itself.
	Cluster bool
}

// LimitStats is an [executor.Limit] with its figures.
type LimitStats struct {
	Limit   string
	Config  LimitSetting `wire:"setting"`     // with its defaults
	InUse   int          `wire:"keys_in_use"` // keys: of jobs that run or wait, that are paused, or whose Burst is not saved up
	Running int          // jobs; one that has several keys counts for each
	Waiting int          // jobs that wait for it
	Keys    []LimitKey   // as [Inspector.Limits] was asked
}

// LimitKey is the state of one key of a limit.
type LimitKey struct {
	Limit, Key string
	Config     LimitSetting `wire:"setting"` // that holds for it, with its defaults
	Running    int          // jobs
	Waiting    int          // jobs
	Kept       int          // places kept free for jobs that also wait for other keys
	// Until is when the next job may start: the end of a pause, or as the rate
	// says. Zero: now, or when one that runs has ended.
	Until time.Time
	// Paused is the end of a pause. Zero: it is not paused.
	Paused time.Time `wire:"paused_until"`
}

// String is one line, as that of [Explanation]: how many run of Concurrent, until when it waits, and how many wait.
func (k LimitKey) String() string {
	line := "limit " + brief.Text(k.Limit)
	if k.Key != "" {
		line += ", key " + brief.Text(k.Key)
	}
	if k.Config.Concurrent > 0 {
		line += fmt.Sprintf(", %d of %d running", k.Running, k.Config.Concurrent)
	}
	if k.Kept > 0 {
		line += fmt.Sprintf(", %d kept for jobs that wait for other keys, too", k.Kept)
	}
	if !k.Until.IsZero() {
		line += ", until " + k.Until.Format(time.RFC3339Nano)
	}
	if k.Waiting > 1 {
		line += fmt.Sprintf(", %d waiting", k.Waiting)
	}
	return line
}
