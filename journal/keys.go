package journal

import (
	"context"
	"iter"
	"math"

	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/strandjobs/strand/journal/internal/store"
)

// stateKeys are small values beside the log. What they mean is their writer's business.
type stateKeys struct{ c *committer }

// get and each read what the last commit left beside the log.
func (c *committer) get(name format.Bucket, key []byte) ([]byte, error) {
	if c.isClosed() {
		return nil, ErrClosed
	}
	return c.store.Get(name, key)
}

func (c *committer) each(name format.Bucket, from []byte) iter.Seq2[format.Pair, error] {
	return store.Each(func(from []byte) ([]format.Pair, error) {
		if c.isClosed() {
			return nil, ErrClosed
		}
		return c.store.Page(name, from)
	}, from)
}

// Get returns the committed value of a state key, nil when there is none. It
// returns ErrClosed after Close.
func (k *stateKeys) Get(key string) ([]byte, error) { return k.c.get(format.BucketState, []byte(key)) }

// Put writes state keys that belong to no entry, all in one commit, and waits
// for it. It returns ErrFull, ErrFailed, ErrClosed, or the cause of ctx when that
// ended before: then nothing is written. After ErrUnknown it may be either way.
func (k *stateKeys) Put(ctx context.Context, sets ...Set) error {
	if err := cause(ctx); err != nil {
		return err
	}
	k.c.mu.Lock()
	if err := k.c.refusal(); err != nil {
		k.c.mu.Unlock()
		return err
	}
	for _, s := range sets {
		c := s.Edit()
		c.Owner = math.MaxUint32 // no entry is at this offset: they are refused by themselves
		k.c.open.changes = append(k.c.open.changes, c)
	}
	ticket := Ticket{commit: k.c.open.commit}
	k.c.mu.Unlock()
	if len(sets) == 0 {
		return nil // no commit would ever come
	}
	k.c.wakeCommitter()
	return ticket.Wait(ctx)
}

// Keys lists the committed state keys with a prefix in key order, from the key first on;
// from the beginning if that is empty. A read error is yielded once and ends the list.
func (k *stateKeys) Keys(prefix, first string) iter.Seq2[Set, error] {
	return store.Sets(k.c.each(format.BucketState, []byte(max(prefix, first))), prefix)
}
