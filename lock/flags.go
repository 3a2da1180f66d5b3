package lock

import (
	"context"
	"time"
)

var (
	_ Service = (*Flags)(nil)
	_ Service = (*Counters)(nil)
	_ Watcher = (*Flags)(nil)
	_ Watcher = (*Counters)(nil)
)

// Flags is a [Service] with a plain flag per key: locking twice is like locking once, and one unlock clears it.
// Besides Lock and Unlock it has Locked, Watch (see [Watcher]), Snapshot and Restore (see [Count]). All methods may be
// called by any number of goroutines. The zero value is ready to use; a Flags must not be copied after first use.
type Flags struct {
	// TTL after the last Lock at which a flag clears itself, so that one whose job is gone does not block for ever.
	// 0 = it does not; negative makes Lock return [ErrDuration]. Set it before first use.
	TTL time.Duration
	board
}

// Lock sets the flag, whoever set it before, and starts its TTL anew. It returns [ErrEmptyKey] or [ErrDuration].
func (f *Flags) Lock(_ context.Context, key string) error {
	return f.change(key, f.TTL, func(int) (int, error) { return 1, nil })
}

// Unlock clears the flag, whoever set it, and wakes all who watch it, in the order in which they came. A flag that is
// not set stays so, without an error. It returns [ErrEmptyKey].
func (f *Flags) Unlock(_ context.Context, key string) error {
	return f.change(key, 0, func(int) (int, error) { return 0, nil })
}

// Clear is Unlock for people; it says whether the flag was set.
func (f *Flags) Clear(key string) bool { return f.clear(key) > 0 }

// Counters is a [Service] with a counter per key, which is locked while its counter is above zero: three locks need
// three unlocks. Besides Lock and Unlock it has Locked, Watch (see [Watcher]), Snapshot and Restore (see [Count]). All
// methods may be called by any number of goroutines. The zero value is ready to use; a Counters must not be copied
// after first use.
type Counters struct {
	// TTL after the last Lock at which a counter falls to zero. 0 = it does not; negative makes Lock return [ErrDuration].
	// Set it before first use.
	TTL time.Duration
	board
}

// Lock adds one and starts the TTL of the key anew. It returns [ErrEmptyKey] or [ErrDuration].
func (c *Counters) Lock(_ context.Context, key string) error {
	return c.change(key, c.TTL, func(n int) (int, error) { return n + 1, nil })
}

// Unlock takes one away, whoever added it; the last one wakes all who watch the key, in the order in which they came.
// It returns [ErrNotLocked], without effect, when the counter is zero, and [ErrEmptyKey].
func (c *Counters) Unlock(_ context.Context, key string) error {
	return c.change(key, 0, func(n int) (int, error) {
		if n == 0 {
			return 0, ErrNotLocked
		}
		return n - 1, nil
	})
}

// Count is the number of locks on key.
func (c *Counters) Count(key string) int { return c.count(key) }

// Clear sets the counter of key to zero, for people, and returns what it was.
func (c *Counters) Clear(key string) int { return c.clear(key) }
