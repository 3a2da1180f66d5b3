// Package listing makes pages of what is too much to be sorted as a whole, or too
// restless: a page is the first rows behind a key, picked in one pass over all of
// them, in any order, with room for two pages.
//
// # What is promised
//
//   - A page that is full has the first rows behind its cursor, of all that were
//     offered. A cursor is the key of a row, not a count: what comes and goes moves
//     no row to another page. So what is there all the time, with one key, is on
//     exactly one page, in either direction.
//   - A cursor is a text that says which list it belongs to. One of another list, or
//     that was changed, is refused.
//
// It knows neither jobs nor time, takes no lock and starts no goroutine.
package listing

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"hash/fnv"
	"slices"
	"strings"
)

// Key is the place of a row in an order: what comes first decides first. No two rows
// of a list have the same.
type Key struct {
	First, Second int64
	ID            string
	Last          int64
}

// Compare is below zero when k comes before o, and zero when they are the same.
func (k Key) Compare(o Key) int {
	if c := k.numbers(o.First, o.Second); c != 0 {
		return c
	}
	return cmp.Or(strings.Compare(k.ID, o.ID), cmp.Compare(k.Last, o.Last))
}

// numbers compares what is known of a row before its ID is. There may be millions of
// rows, so it compares no more than it must.
func (k *Key) numbers(first, second int64) int {
	return cmp.Or(cmp.Compare(k.First, first), cmp.Compare(k.Second, second))
}

// Page picks the first rows behind a key. The zero Page has no room; see NewPage.
type Page[T any] struct {
	limit int
	sign  int // −1: from the last to the first
	after *Key
	rows  []row[T] // some more than the page has: those behind it go together
	last  *Key     // of a full page: no row behind that is on it; nil: not known yet
	more  bool
}

type row[T any] struct {
	key   Key
	value T
}

// NewPage returns a page with room for limit rows, which is above zero, behind a
// key, or from the beginning of the order if that is nil; from its end back if
// descending.
func NewPage[T any](limit int, descending bool, after *Key) *Page[T] {
	p := &Page[T]{limit: limit, sign: 1, after: after}
	if descending {
		p.sign = -1
	}
	return p
}

// May reports whether a row with these numbers might be on the page, whatever its
// ID. One that is not, because the page is full of others before it, counts as
// offered.
func (p *Page[T]) May(first, second int64) bool {
	if p.after != nil && p.sign*p.after.numbers(first, second) > 0 {
		return false
	}
	if p.last != nil && p.sign*p.last.numbers(first, second) < 0 {
		p.more = true
		return false
	}
	return true
}

// Takes is May for the whole key of a row.
func (p *Page[T]) Takes(k Key) bool {
	if p.after != nil && p.sign*k.Compare(*p.after) <= 0 {
		return false
	}
	if p.last == nil || p.sign*k.Compare(*p.last) < 0 {
		return true
	}
	p.more = p.more || k != *p.last
	return false
}

// Offer puts a row on the page if it is behind the key and among the first.
func (p *Page[T]) Offer(k Key, value T) {
	if p.Takes(k) {
		p.rows = append(p.rows, row[T]{k, value})
	}
	if len(p.rows) == 2*p.limit {
		p.cut()
	}
}

// cut leaves the first rows, in order.
func (p *Page[T]) cut() {
	slices.SortFunc(p.rows, func(a, b row[T]) int { return p.sign * a.key.Compare(b.key) })
	// What is there twice went and came back while the rows were gone through.
	p.rows = slices.CompactFunc(p.rows, func(a, b row[T]) bool { return a.key == b.key })
	if len(p.rows) >= p.limit {
		p.more = p.more || len(p.rows) > p.limit
		p.rows = slices.Delete(p.rows, p.limit, len(p.rows))
		p.last = new(p.rows[p.limit-1].key)
	}
}

// Rows returns what is on the page, in order, the key of the last of them, and
// whether rows were offered that come behind it. The page is of no use afterwards.
func (p *Page[T]) Rows() (values []T, last Key, more bool) {
	p.cut()
	for _, r := range p.rows {
		values, last = append(values, r.value), r.key
	}
	return values, last, p.more
}

// FirstKeys returns the first n of some keys behind one, in their order, and how many
// more there are. It does not sort the others.
func FirstKeys(all []string, after string, n int) (first []string, more int) {
	page := NewPage[string](n, false, nil)
	for _, key := range all {
		if key <= after {
			continue
		}
		more++
		page.Offer(Key{ID: key}, key)
	}
	first, _, _ = page.Rows()
	return first, more - len(first)
}

// Cursor returns the text that stands for a key in the list of that name.
func Cursor(list string, k Key) string {
	b := binary.AppendVarint(nil, k.First)
	b = binary.AppendVarint(b, k.Second)
	b = binary.AppendVarint(b, k.Last)
	b = append(b, k.ID...)
	return base64.RawURLEncoding.EncodeToString(append(sum(list, b), b...))
}

// Parse returns the key that a text stands for. False: it is no cursor of that list.
func Parse(list, text string) (k Key, ok bool) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) < sumBytes || string(sum(list, b[sumBytes:])) != string(b[:sumBytes]) {
		return Key{}, false
	}
	b = b[sumBytes:]
	for _, number := range [...]*int64{&k.First, &k.Second, &k.Last} {
		n := 0
		if *number, n = binary.Varint(b); n <= 0 {
			return Key{}, false
		}
		b = b[n:]
	}
	k.ID = string(b)
	return k, Cursor(list, k) == text // base64 would pass over line ends
}

const sumBytes = 8

// sum is there against mistakes, not against who means harm: a key tells nothing,
// and allows nothing, beyond the list.
func sum(list string, key []byte) []byte {
	h := fnv.New64a()
	h.Write(binary.AppendUvarint(nil, uint64(len(list))))
	h.Write([]byte(list))
	h.Write(key)
	return h.Sum(nil)
}
