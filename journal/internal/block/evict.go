package block

import (
	"slices"
	"sync"
)

// Blocks leave memory oldest first, whether or not their entries are the next to run: what
// is put off for a year must not make the traffic of today be read back all the time.

// release counts what the entries of a block took of memory as given back. The caller holds mu.
func (c *Chain) release(b *Block) {
	c.Held -= b.held
	b.held = 0
}

// Crowded reports whether some block should leave memory. The caller holds mu.
func (c *Chain) Crowded() bool {
	return c.Reader != nil && c.Held > c.budget && c.evicted < len(c.Blocks)
}

// Evict lets blocks go from memory until what stays is within the budget. All of
// them are committed. mu guards the accounts; one goroutine at a time calls it.
func (c *Chain) Evict(mu sync.Locker) {
	for {
		mu.Lock()
		b, h := c.coldest()
		mu.Unlock()
		if b == nil {
			return
		}
		out := &blockData{Cold: c.Reader.evict(b.Seq, h.data)}
		mu.Lock()
		if b.Home.Load() == h { // something in it is live
			b.Home.Store(out)
			c.release(b)
		}
		mu.Unlock()
	}
}

// coldest returns the block to leave memory next, or nil. One that a full disk had written
// in pieces stays: it is not on disk as it is in memory. The caller holds mu.
func (c *Chain) coldest() (*Block, *blockData) {
	for c.Crowded() {
		b := c.Blocks[c.evicted]
		c.evicted++
		if h := b.Home.Load(); h != nil && h.data != nil && b.parts == nil {
			return b, h
		}
	}
	return nil, nil
}

// SettleIn gives a block that is read at open its home: in memory while there is
// room. Who comes first is the first to run.
func (c *Chain) SettleIn(b *Block, data []byte) *blockData {
	if c.Reader != nil && c.settled+len(data) > c.budget {
		return &blockData{Cold: c.Reader.evict(b.Seq, data)}
	}
	c.settled += len(data)
	return &blockData{data: slices.Clone(data)}
}

// PageIn reads back what is to be carried forward, for the next [Chain.Trim].
// Nothing else takes blocks out of the log meanwhile.
func (c *Chain) PageIn(doomed []*Block) error {
	clear(c.pagedIn)
	for _, b := range doomed {
		h := b.Home.Load()
		if h == nil || h.Cold == nil {
			continue
		}
		all, err := h.Cold.read(0, h.Cold.end)
		if err != nil {
			return err
		}
		c.pagedIn[b] = all.data
	}
	return nil
}

// Doomed lists the blocks that trim would carry into b now: the first also where the disk has not given the room for
// it yet, and gives.
func (c *Chain) Doomed(b *Writer, s Strain) (list []*Block) {
	size, live := c.Size, c.Live
	budget, dropped := c.allowance(b, s), 0
	for _, b := range c.Blocks {
		if dropped >= mostDropped {
			break
		}
		dropped += max(len(b.parts), 1)
		if b.Live > 0 {
			first := len(list) == 0
			if budget <= 0 || !c.wasteful(size, live, s) || !(first && s.Room.Gives) && !s.bears(b.Bytes, budget, first) {
				break
			}
			list = append(list, b)
			budget -= b.Bytes
			live, s.Room.Spare = live-b.Bytes, s.Room.Spare-b.Bytes
		}
		size -= b.Size
	}
	return list
}

// entriesOf returns the entries of a block, or nil: they would have to be read back first.
func (c *Chain) entriesOf(b *Block) []byte {
	if h := b.Home.Load(); h.Cold == nil {
		return h.data
	}
	return c.pagedIn[b]
}
