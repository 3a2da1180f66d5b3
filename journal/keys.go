package journal

import (
	"iter"
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

// Get returns the committed value of a state key, nil when there is none.
func (l *Log) Get(key string) ([]byte, error) { return l.store.get(bucketState, []byte(key)) }

// Keys lists the committed state keys with a prefix, in key order. A read error
// is yielded once and ends the list.
func (l *Log) Keys(prefix string) iter.Seq2[Set, error] {
	return func(yield func(Set, error) bool) {
		from := []byte(prefix)
		for {
			page, err := l.store.page(bucketState, from, morguePage)
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
