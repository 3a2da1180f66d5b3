package journal

import (
	"context"
	"iter"
	"math"

	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/strandjobs/strand/journal/internal/store"
)

// sides are small values beside the log: state keys, of which what they mean is their writer's
// business, and what else the last commit left there.
type sides struct{ c *committer }

func (s *sides) get(name format.Bucket, key []byte) ([]byte, error) {
	if s.c.isClosed() {
		return nil, ErrClosed
	}
	return s.c.store.Get(name, key)
}

func (s *sides) page(name format.Bucket, from []byte) ([]format.Pair, error) {
	if s.c.isClosed() {
		return nil, ErrClosed
	}
	return s.c.store.Page(name, from)
}

// Get returns the committed value of a state key, nil when there is none. It
// returns ErrClosed after Close.
func (s *sides) Get(key string) ([]byte, error) { return s.get(format.BucketState, []byte(key)) }

// Put writes state keys that belong to no entry, all in one commit, and waits
// for it. It returns ErrFull, ErrFailed, ErrClosed, or the cause of ctx when that
// ended before: then nothing is written. After ErrUnknown it may be either way.
func (s *sides) Put(ctx context.Context, sets ...Set) error {
	if err := cause(ctx); err != nil {
		return err
	}
	s.c.mu.Lock()
	if err := s.c.refusal(); err != nil {
		s.c.mu.Unlock()
		return err
	}
	for _, set := range sets {
		edit := set.Edit()
		edit.Owner = math.MaxUint32 // no entry is at this offset: they are refused by themselves
		s.c.open.changes = append(s.c.open.changes, edit)
	}
	ticket := Ticket{commit: s.c.open.commit}
	s.c.mu.Unlock()
	if len(sets) == 0 {
		return nil // no commit would ever come
	}
	s.c.wakeCommitter()
	return ticket.Wait(ctx)
}

// Keys lists the committed state keys with a prefix in key order, from the key first on;
// from the beginning if that is empty. A read error is yielded once and ends the list.
func (s *sides) Keys(prefix, first string) iter.Seq2[Set, error] {
	return store.Pages(s.page).Sets(prefix, first)
}
