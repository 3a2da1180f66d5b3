package journal

import (
	"context"
	"iter"
	"math"

	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/strandjobs/strand/journal/internal/store"
)

// Get returns the committed value of a state key, nil when there is none. It
// returns ErrClosed after Close.
func (l *Log) Get(key string) ([]byte, error) { return l.get(format.BucketState, []byte(key)) }

// Put writes state keys that belong to no entry, all in one commit, and waits
// for it. It returns ErrFull, ErrFailed, ErrClosed, or the cause of ctx when that
// ended before: then nothing is written. After ErrUnknown it may be either way.
func (l *Log) Put(ctx context.Context, sets ...Set) error {
	if err := cause(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	if err := l.refusal(); err != nil {
		l.mu.Unlock()
		return err
	}
	for _, s := range sets {
		c := s.Edit()
		c.Owner = noOwner
		l.open.changes = append(l.open.changes, c)
	}
	ticket := Ticket{commit: l.open.commit}
	l.mu.Unlock()
	if len(sets) == 0 {
		return nil // no commit would ever come
	}
	l.wakeCommitter()
	return ticket.Wait(ctx)
}

// noOwner is that of changes that are refused by themselves: no entry is at this
// offset.
const noOwner = math.MaxUint32

// Keys lists the committed state keys with a prefix in key order, from the key first on;
// from the beginning if that is empty. A read error is yielded once and ends the list.
func (l *Log) Keys(prefix, first string) iter.Seq2[Set, error] {
	return store.Sets(l.each(format.BucketState, []byte(max(prefix, first))), prefix)
}
