package journal

import (
	"context"
	"iter"
	"math"
	"strings"
)

// Set puts a value under a key of the state bucket, in the commit of the
// [Change] that it is part of. A nil Value deletes the key. What the state
// means is the consumer's business; keys begin with a word of its own and a
// slash.
type Set struct {
	Key   string
	Value []byte
}

func (s Set) change() change { return change{bucket: bucketState, key: []byte(s.Key), value: s.Value} }

// Get returns the committed value of a state key, nil when there is none. It
// returns ErrClosed after Close.
func (l *Log) Get(key string) ([]byte, error) { return l.get(bucketState, []byte(key)) }

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
		c := s.change()
		c.owner = nobody
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

// nobody owns changes that are refused by themselves: no entry is at this offset.
const nobody = math.MaxUint32

// Keys lists the committed state keys with a prefix, in key order. A read error
// is yielded once and ends the list.
func (l *Log) Keys(prefix string) iter.Seq2[Set, error] { return l.KeysFrom(prefix, prefix) }

// KeysFrom is Keys without what comes before the key first.
func (l *Log) KeysFrom(prefix, first string) iter.Seq2[Set, error] {
	return func(yield func(Set, error) bool) {
		from := []byte(max(prefix, first))
		for {
			page, err := l.page(bucketState, from)
			if err != nil {
				yield(Set{}, err)
				return
			}
			for _, kv := range page {
				if !strings.HasPrefix(string(kv.key), prefix) || !yield(Set{string(kv.key), kv.value}, nil) {
					return
				}
			}
			if len(page) < morguePage {
				return
			}
			from = append(page[len(page)-1].key, 0)
		}
	}
}
