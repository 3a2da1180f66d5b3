package rest

import (
	"bytes"
	"cmp"
	"maps"
	"slices"

	"github.com/strandjobs/strand/journal/internal/format"
)

// copies are what was found of the values of one sealed bucket. The tree of pages
// leads to one of each key; pages that it does not lead to may have others: the
// only one when a page above them is damaged, or else older ones, and values that
// were deleted long ago.
type copies struct {
	name    format.Bucket
	tree    map[string][]byte // as they stand in the file
	total   format.Sum        // of tree
	broken  map[string][]byte // the tree leads to them, and nothing vouches for them
	loose   map[string][]byte // the youngest of each key on other pages
	pages   []pageCopies      // the same, by page
	claimed [][2]string       // the first and the last key of each page of the tree
}

// pageCopies are the values of a bucket on one page.
type pageCopies struct {
	total  format.Sum
	values map[string][]byte
}

func newCopies(name format.Bucket) *copies {
	return &copies{name: name, tree: map[string][]byte{}, broken: map[string][]byte{}, loose: map[string][]byte{}}
}

// vouched returns the number of the block that was the newest one when v was
// written.
func (c *copies) vouched(key, v []byte) (seq uint64, ok bool) {
	value, seq, err := format.Unseal(c.name, key, v)
	if err != nil || len(key) == 0 {
		return 0, false
	}
	return seq, c.name != format.BucketQueues || len(value) == 4 && len(key) <= format.MaxQueueName
}

// reached files a value that the tree leads to.
func (c *copies) reached(key, v []byte) {
	if _, ok := c.vouched(key, v); !ok {
		c.broken[string(key)] = bytes.Clone(v)
		return
	}
	c.tree[string(key)] = bytes.Clone(v)
	c.total.Add(key, v)
}

// page begins to file the values of a page that the tree does not lead to.
func (c *copies) page() {
	if n := len(c.pages); n == 0 || len(c.pages[n-1].values) > 0 {
		c.pages = append(c.pages, pageCopies{values: map[string][]byte{}})
	}
}

// found files a value of that page, if it is of this bucket.
func (c *copies) found(key, v []byte) bool {
	seq, ok := c.vouched(key, v)
	if !ok {
		return false
	}
	v = bytes.Clone(v)
	p := &c.pages[len(c.pages)-1]
	if p.values[string(key)] == nil {
		p.values[string(key)] = v
		p.total.Add(key, v)
	}
	if before := c.loose[string(key)]; before == nil || seq > c.seq(string(key), before) {
		c.loose[string(key)] = v
	}
	return true
}

// resolve returns the values that make up a sum, or else, inexact, those that are
// most likely right: what the tree leads to, and for the keys beside that the
// youngest there is. A stale sum is that of older values.
func (c *copies) resolve(want format.Sum, stale bool) (values map[string][]byte, exact bool) {
	if stale {
		return c.likely(), false
	}
	if c.total == want {
		return c.tree, true
	}
	for _, p := range c.pages {
		if p.total == want {
			return p.values, true
		}
		if (format.Sum{Count: c.total.Count + p.total.Count, Hash: c.total.Hash + p.total.Hash}) == want {
			values = maps.Clone(c.tree)
			maps.Copy(values, p.values)
			if uint64(len(values)) == want.Count {
				return values, true
			}
		}
	}
	values = c.likely()
	var total format.Sum
	for key, v := range values {
		total.Add([]byte(key), v)
	}
	return values, total == want
}

func (c *copies) likely() map[string][]byte {
	values := maps.Clone(c.tree)
	slices.SortFunc(c.claimed, func(a, b [2]string) int { return cmp.Compare(a[0], b[0]) })
	for key, v := range c.loose {
		if _, damaged := c.broken[key]; values[key] == nil && (damaged || !c.deleted(key)) { // what is sealed is not nil
			values[key] = v
		}
	}
	return values
}

// deleted reports whether a key would be on a page of the tree if it were in the
// bucket.
func (c *copies) deleted(key string) bool {
	n, found := slices.BinarySearchFunc(c.claimed, key, func(page [2]string, key string) int {
		return cmp.Compare(page[0], key)
	})
	return found || n > 0 && key <= c.claimed[n-1][1]
}

// seq is the number of the block that was the newest one when a value was
// written.
func (c *copies) seq(key string, v []byte) uint64 {
	seq, _ := c.vouched([]byte(key), v)
	return seq
}
