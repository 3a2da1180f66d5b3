package journal

import (
	"context"
	"iter"
	"math"

	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/strandjobs/strand/journal/internal/store"
)

// stateKeys are small values beside the log. What they mean is their writer's business.
type stateKeys struct{ beside }

// beside reads what the last commit left beside the log.
type beside struct{ c *committer }

func (b *beside) get(name format.Bucket, key []byte) ([]byte, error) {
	if b.c.isClosed() {
		return nil, ErrClosed
	}
	return b.c.store.Get(name, key)
}

func (b *beside) each(name format.Bucket, from []byte) iter.Seq2[format.Pair, error] {
	return store.Each(func(from []byte) ([]format.Pair, error) {
		if b.c.isClosed() {
			return nil, ErrClosed
		}
		return b.c.store.Page(name, from)
	}, from)
}

// Get returns the committed value of a state key, nil when there is none. It
// returns ErrClosed after Close.
func (k *stateKeys) Get(key string) ([]byte, error) { return k.get(format.BucketState, []byte(key)) }

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
		c.Owner = noOwner
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

// noOwner is that of changes that are refused by themselves: no entry is at this
// offset.
const noOwner = math.MaxUint32

// Keys lists the committed state keys with a prefix in key order, from the key first on;
// from the beginning if that is empty. A read error is yielded once and ends the list.
func (k *stateKeys) Keys(prefix, first string) iter.Seq2[Set, error] {
	return store.Sets(k.each(format.BucketState, []byte(max(prefix, first))), prefix)
}
