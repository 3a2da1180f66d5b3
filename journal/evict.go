package journal

import "slices"

// Blocks leave memory oldest first, whether or not their entries are the next to
// run: what is put off for a year must not make the traffic of today be read
// back all the time.

const defaultMemoryBudget = 64 << 20

// divide gives the reader its part of the memory budget. What is negative has no
// bound.
func (l *Log) divide(budget int) {
	if budget < 0 || l.volatile {
		return
	}
	windows := min(budget/8, maxWindows)
	l.budget = budget - windows
	l.reader = &reader{store: l.store, failed: l.unreadable, limit: windows}
}

// hold counts what the entries of a block take of memory. The caller holds mu.
func (l *Log) hold(b *Block) {
	if h := b.home.Load(); h != nil {
		b.held = len(h.data)
		l.held += b.held
	}
}

// release is the opposite of hold, when the bytes have gone. The caller holds mu.
func (l *Log) release(b *Block) {
	l.held -= b.held
	b.held = 0
}

// crowded reports whether some block should leave memory. The caller holds mu.
func (l *Log) crowded() bool {
	return l.reader != nil && l.held > l.budget && l.chilled < len(l.blocks)
}

// evict lets blocks go from memory until what stays is within the budget. All of
// them are committed. The caller holds committing.
func (l *Log) evict() {
	for {
		l.mu.Lock()
		b, h := l.coldest()
		l.mu.Unlock()
		if b == nil {
			return
		}
		out := &home{cold: l.reader.chill(b.seq, h.data)}
		l.mu.Lock()
		if b.home.Load() == h { // something in it is live
			b.home.Store(out)
			l.release(b)
		}
		l.mu.Unlock()
	}
}

// coldest returns the block to leave memory next, or nil. One that a full disk
// had written in pieces stays: it is not on disk as it is in memory. The caller
// holds mu.
func (l *Log) coldest() (*Block, *home) {
	for l.crowded() {
		b := l.blocks[l.chilled]
		l.chilled++
		if h := b.home.Load(); h != nil && h.data != nil && b.parts == nil {
			return b, h
		}
	}
	return nil, nil
}

// settleIn gives a block that is read at open its home: in memory while there is
// room. Who comes first is the first to run.
func (l *Log) settleIn(b *Block, data []byte) *home {
	if l.reader != nil && l.settled+len(data) > l.budget {
		return &home{cold: l.reader.chill(b.seq, data)}
	}
	l.settled += len(data)
	return &home{data: slices.Clone(data)}
}

// thaw reads back what the next commit is likely to carry forward. The caller
// holds committing; nothing else takes blocks out of the log.
func (l *Log) thaw(r room) error {
	clear(l.thawed)
	for _, b := range l.doomed(r) {
		h := b.home.Load()
		if h == nil || h.cold == nil {
			continue
		}
		data, err := h.cold.all()
		if err != nil {
			return err
		}
		if l.thawed == nil {
			l.thawed = make(map[*Block][]byte)
		}
		l.thawed[b] = data
	}
	return nil
}

// doomed lists the blocks that trim would carry now.
func (l *Log) doomed(r room) (list []*Block) {
	if l.reader == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	size, live := l.size, l.live
	budget, tight := l.allowance(l.open, r)
	for _, b := range l.blocks {
		if b.live > 0 {
			if budget <= 0 || !l.wasteful(size, live, tight) {
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
func (l *Log) entriesOf(b *Block) []byte {
	if h := b.home.Load(); h.cold == nil {
		return h.data
	}
	return l.thawed[b]
}

// unreadable has the committer stop the log because of what it could not read
// back.
func (l *Log) unreadable(err error) {
	l.mu.Lock()
	if l.lost == nil {
		l.lost = err
	}
	l.mu.Unlock()
	l.wakeCommitter()
}
