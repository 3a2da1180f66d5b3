package backlog

import (
	"time"

	"github.com/strandjobs/strand/shard"
)

// StallAfter is how long nothing may end, while calls are refused or wait, before
// that is told.
const StallAfter = time.Minute

// Stall is a limit that stands still.
type Stall struct {
	Full *Full // of the call that was the first to be refused, or to wait
	For  time.Duration
}

// held notes that there was no room for a call. The caller holds mu.
func (b *Backlog) held(c *quota, more shard.Weight) {
	if c.still == 0 {
		c.still, c.wanted = b.now(), more
		b.arm(StallAfter)
	}
}

// moved notes that something has ended, or that a call was let in. The caller holds
// mu.
func (b *Backlog) moved(c *quota) {
	c.still, c.told = 0, false
	if first := c.line.Front(); first != nil {
		b.held(c, first.Value.(*Waiter).weight)
	}
}

// arm sets the timer to look after a while, unless it looks sooner. The caller
// holds mu.
func (b *Backlog) arm(after time.Duration) {
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

// look tells of what stands still: once, until it has moved.
func (b *Backlog) look() {
	for _, s := range b.newlyStalled() {
		b.stalled(s)
	}
}

func (b *Backlog) newlyStalled() (stalled []Stall) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.armed = false
	oldest := time.Duration(-1)
	for _, c := range b.quotas {
		switch age := b.age(c); {
		case c.still == 0 || c.told:
		case age < StallAfter:
			oldest = max(oldest, age)
		default:
			c.told = true
			stalled = append(stalled, Stall{b.full(c, c.wanted), age})
		}
	}
	if oldest >= 0 {
		b.arm(StallAfter - oldest)
	}
	return stalled
}

// age is how long a quota has stood still. The caller holds mu.
func (b *Backlog) age(c *quota) time.Duration {
	if c.still == 0 {
		return 0
	}
	return time.Duration(b.now() - c.still)
}

// Stalled returns a limit that has stood still for StallAfter, or nil.
func (b *Backlog) Stalled() *Stall {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.quotas {
		if age := b.age(c); age >= StallAfter {
			return &Stall{b.full(c, c.wanted), age}
		}
	}
	return nil
}
