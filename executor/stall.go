package executor

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/strandjobs/strand/shard"
)

// stallAfter is how long nothing may end, while calls are refused or wait, before
// that is told.
const stallAfter = time.Minute

// refuse returns why there is no room for a call. Nil: there is some by now.
func (b *backlog) refuse(q *queue, more shard.Weight) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.obstacle(q, more, b.turn+1)
	if c == nil || b.closed != nil {
		return b.closed
	}
	c.refused++
	b.held(c, more)
	return b.full(c, more)
}

// held notes that there was no room for a call. The caller holds mu.
func (b *backlog) held(c *quota, more shard.Weight) {
	if c.still == 0 {
		c.still, c.wanted = b.now(), more
		b.arm(stallAfter)
	}
}

// moved notes that something has ended, or that a call was let in. The caller holds
// mu.
func (b *backlog) moved(c *quota) {
	c.still, c.told = 0, false
	if first := c.line.Front(); first != nil {
		b.held(c, first.Value.(*waiter).weight)
	}
}

// arm has somebody look after a while, unless that is to happen sooner. The caller
// holds mu.
func (b *backlog) arm(after time.Duration) {
	switch {
	case b.armed || b.closed != nil:
		return
	case b.watch == nil:
		b.watch = time.AfterFunc(after, b.look)
	default:
		b.watch.Reset(after)
	}
	b.armed = true
}

// look logs what stands still: once, until it has moved.
func (b *backlog) look() {
	for _, err := range b.newlyStalled() {
		b.x.cfg.Logger.Warn("backlog stands still", slog.Any("error", err))
	}
}

func (b *backlog) newlyStalled() (stalled []error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.armed = false
	oldest := time.Duration(-1)
	for _, c := range b.quotas {
		switch age := b.age(c); {
		case c.still == 0 || c.told:
		case age < stallAfter:
			oldest = max(oldest, age)
		default:
			c.told = true
			stalled = append(stalled, b.stalled(c, age))
		}
	}
	if oldest >= 0 {
		b.arm(stallAfter - oldest)
	}
	return stalled
}

// age is how long a quota has stood still. The caller holds mu.
func (b *backlog) age(c *quota) time.Duration {
	if c.still == 0 {
		return 0
	}
	return time.Duration(b.now() - c.still)
}

// err returns ErrStalled if something has stood still for too long.
func (b *backlog) err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.quotas {
		if age := b.age(c); age >= stallAfter {
			return b.stalled(c, age)
		}
	}
	return nil
}

func (b *backlog) stalled(c *quota, age time.Duration) error {
	return fmt.Errorf("%w for %v: %w", ErrStalled, age.Round(time.Second), b.full(c, c.wanted))
}
