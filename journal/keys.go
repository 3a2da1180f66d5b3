package journal

import (
	"context"
	"iter"
	"math"

	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/strandjobs/strand/journal/internal/store"
)

// State keys are small values beside the log. What they mean is their writer's business.

// get and page read what the last commit left beside the log.
func (c *committer) get(name format.Bucket, key []byte) ([]byte, error) {
	if c.isClosed() {
		return nil, ErrClosed
	}
	return c.store.Get(name, key)
}

func (c *committer) page(name format.Bucket, from []byte) ([]format.Pair, error) {
	if c.isClosed() {
		return nil, ErrClosed
	}
	return c.store.Page(name, from)
}

// Get returns the committed value of a state key, nil when there is none. It
// returns ErrClosed after Close.
func (c *committer) Get(key string) ([]byte, error) { return c.get(format.BucketState, []byte(key)) }

// Put writes state keys that belong to no entry, all in one commit, and waits
// for it. It returns ErrFull, ErrFailed, ErrClosed, or the cause of ctx when that
// ended before: then nothing is written. After ErrUnknown it may be either way.
func (c *committer) Put(ctx context.Context, sets ...Set) error {
	if err := cause(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	if err := c.refusal(); err != nil {
		c.mu.Unlock()
		return err
	}
	for _, s := range sets {
		edit := s.Edit()
		edit.Owner = math.MaxUint32 // no entry is at this offset: they are refused by themselves
		c.open.changes = append(c.open.changes, edit)
	}
	ticket := Ticket{commit: c.open.commit}
	c.mu.Unlock()
	if len(sets) == 0 {
		return nil // no commit would ever come
	}
	c.wakeCommitter()
	return ticket.Wait(ctx)
}

// Keys lists the committed state keys with a prefix in key order, from the key first on;
// from the beginning if that is empty. A read error is yielded once and ends the list.
func (c *committer) Keys(prefix, first string) iter.Seq2[Set, error] {
	return store.Pages(c.page).Sets(prefix, first)
}
