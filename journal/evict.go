package journal

import (
	"slices"
	"sync"
)

// Blocks leave memory oldest first, whether or not their entries are the next to
// run: what is put off for a year must not make the traffic of today be read
// back all the time.

// hold counts what the entries of a block take of memory. The caller holds mu.
func (c *chain) hold(b *Block) {
	if h := b.home.Load(); h != nil {
		b.held = len(h.data)
		c.held += b.held
	}
}

// release is the opposite of hold, when the bytes have gone. The caller holds mu.
func (c *chain) release(b *Block) {
	c.held -= b.held
	b.held = 0
}

// crowded reports whether some block should leave memory. The caller holds mu.
func (c *chain) crowded() bool {
	return c.reader != nil && c.held > c.budget && c.chilled < len(c.blocks)
}

// evict lets blocks go from memory until what stays is within the budget. All of
// them are committed. mu guards the accounts; one goroutine at a time calls it.
func (c *chain) evict(mu sync.Locker) {
	for {
		mu.Lock()
		b, h := c.coldest()
		mu.Unlock()
		if b == nil {
			return
		}
		out := &home{cold: c.reader.chill(b.seq, h.data)}
		mu.Lock()
		if b.home.Load() == h { // something in it is live
			b.home.Store(out)
			c.release(b)
		}
		mu.Unlock()
	}
}

// coldest returns the block to leave memory next, or nil. One that a full disk
// had written in pieces stays: it is not on disk as it is in memory. The caller
// holds mu.
func (c *chain) coldest() (*Block, *home) {
	for c.crowded() {
		b := c.blocks[c.chilled]
		c.chilled++
		if h := b.home.Load(); h != nil && h.data != nil && b.parts == nil {
			return b, h
		}
	}
	return nil, nil
}

// settleIn gives a block that is read at open its home: in memory while there is
// room. Who comes first is the first to run.
func (c *chain) settleIn(b *Block, data []byte) *home {
	if c.reader != nil && c.settled+len(data) > c.budget {
		return &home{cold: c.reader.chill(b.seq, data)}
	}
	c.settled += len(data)
	return &home{data: slices.Clone(data)}
}

// thaw reads back what is to be carried forward, for the next [chain.trim].
// Nothing else takes blocks out of the log meanwhile.
func (c *chain) thaw(doomed []*Block) error {
	clear(c.thawed)
	for _, b := range doomed {
		h := b.home.Load()
		if h == nil || h.cold == nil {
			continue
		}
		data, err := h.cold.all()
		if err != nil {
			return err
		}
		if c.thawed == nil {
			c.thawed = make(map[*Block][]byte)
		}
		c.thawed[b] = data
	}
	return nil
}

// doomed lists the blocks that trim would carry into b now.
func (c *chain) doomed(b *writer, s strain) (list []*Block) {
	if c.reader == nil {
		return nil
	}
	size, live := c.size, c.live
	budget := c.allowance(b, s)
	for _, b := range c.blocks {
		if b.live > 0 {
			if budget <= 0 || !c.wasteful(size, live, s.tight()) {
				break
			}
			list = append(list, b)
			budget -= b.bytes
			live -= b.bytes
		}
		size -= b.size
	}
	return list
}

// entriesOf returns the entries of a block, or nil: they would have to be read
// back first.
func (c *chain) entriesOf(b *Block) []byte {
	if h := b.home.Load(); h.cold == nil {
		return h.data
	}
	return c.thawed[b]
}
