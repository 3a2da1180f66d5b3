package block

import (
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/strandjobs/strand/journal/internal/store"
)

// Windows are what is read of a block at once. An entry somewhere in it takes the
// chunks that it stands in; a caller that goes on reading gets twice as much each
// time, as from a kernel that reads ahead.
const (
	firstWindow = 16 << 10 // of a block that is read from its beginning
	MaxWindow   = 64 << 10
	// maxWindows bounds all windows that are kept. They count as an eighth of
	// the budget, below it.
	maxWindows = 4 << 20
	// windowsEach bounds how many a block is searched for.
	windowsEach = 8
	// guessedEntry is how long an entry is taken to be when that is not known.
	guessedEntry = 64
)

// cold is where the entries of a block are after they left memory: on disk, in
// chunks, as they were written.
type cold struct {
	reader *reader
	Seq    uint64
	end    int      // of the entries in the block
	sums   []uint32 // CRC32C of the entries in each chunk

	// windows are kept for those who read on, in the order in which they were
	// read. The list is replaced, never changed.
	windows atomic.Pointer[[]*window]
}

// window is a part of a block that was read back and checked.
type window struct {
	cold *cold
	from int // where data begins in the block
	data []byte
}

func (w *window) end() int { return w.from + len(w.data) }

// reader reads back what left memory. Its methods may be called from any
// goroutine, but not with the mutex of the log.
type reader struct {
	store  store.Store
	failed func(error) // told that something can't be read; it may be called again
	limit  int         // bytes of windows that are kept, beside the newest one
	Reads  atomic.Uint64

	// turns are held, one for each block, while its window is read: of many who
	// miss it, one reads. They come before mu.
	turns [16]sync.Mutex

	// mu is held for memory work only.
	mu    sync.Mutex
	kept  []*window // oldest first
	Bytes int       // of these
}

// evict returns where to find the entries of a block that leaves memory. data
// begins as the block does and ends with its entries.
func (r *reader) evict(seq uint64, data []byte) *cold {
	c := &cold{reader: r, Seq: seq, end: len(data)}
	c.windows.Store(new([]*window))
	chunk := r.store.ChunkSize()
	c.sums = make([]uint32, (c.end+chunk-1)/chunk)
	for i := range c.sums {
		from, to := c.span(i)
		c.sums[i] = crc32.Checksum(data[from:to], format.Castagnoli)
	}
	return c
}

// span is where the entries in a chunk stand in the block. The header, which is
// stamped later, and the marks are not among them.
func (c *cold) span(chunk int) (from, to int) {
	size := c.reader.store.ChunkSize()
	return max(chunk*size, format.HeaderSize), min((chunk+1)*size, c.end)
}

// decode calls f with a decoder at off, where an entry of about size bytes
// begins; again with more bytes when it turns out to be longer. What f says of
// the decoder is a bug: the bytes were checked.
func (c *cold) decode(off, size int, f func(*format.Decoder)) (bug, err error) {
	for {
		w, err := c.window(off, min(off+size, c.end))
		if err != nil {
			return nil, err
		}
		d := format.Decoder{B: w.data, Off: off - w.from}
		if f(&d); d.Err == nil || w.end() == c.end {
			return d.Err, nil
		}
		size = 2 * max(size, w.end()-off)
	}
}

// window returns one that has the bytes from one offset to another.
func (c *cold) window(from, to int) (*window, error) {
	if w := c.find(from, to); w != nil {
		return w, nil
	}
	turn := &c.reader.turns[c.Seq%uint64(len(c.reader.turns))]
	turn.Lock()
	defer turn.Unlock()
	if w := c.find(from, to); w != nil {
		return w, nil
	}
	w, err := c.read(from, c.ahead(from, to))
	if err == nil {
		c.reader.keep(w)
	}
	return w, err
}

func (c *cold) find(from, to int) *window {
	for _, w := range *c.windows.Load() {
		if w.from <= from && to <= w.end() {
			return w
		}
	}
	return nil
}

// ahead returns up to where to read for a caller that needs the bytes from one
// offset to another.
func (c *cold) ahead(from, to int) int {
	size := 0
	if from < c.reader.store.ChunkSize() {
		size = firstWindow
	}
	for _, w := range *c.windows.Load() {
		// Where it ends, the entry that it has half of, or a little further:
		// the next entries may be other shards'.
		if w.from <= from && from <= w.end()+len(w.data) {
			size = max(size, min(2*len(w.data), MaxWindow))
		}
	}
	return min(max(to, from+size), c.end)
}

// read reads the chunks that have the bytes from one offset to another, and checks them.
func (c *cold) read(from, to int) (*window, error) {
	size := c.reader.store.ChunkSize()
	first, last := from/size, (to-1)/size
	data, err := c.reader.store.Read(c.Seq, first, last-first+1)
	if err != nil {
		return nil, err
	}
	c.reader.Reads.Add(1)
	w := &window{cold: c, from: first * size, data: data}
	for i := first; i <= last; i++ {
		from, to := c.span(i)
		if to > w.end() {
			return nil, format.DamagedBlock(c.Seq, "chunk %d is cut short", i)
		}
		if got := crc32.Checksum(data[from-w.from:to-w.from], format.Castagnoli); got != c.sums[i] {
			return nil, format.DamagedBlock(c.Seq, "chunk %d was read back with checksum %08x, want %08x", i, got, c.sums[i])
		}
	}
	w.data = data[:min(len(data), c.end-w.from)]
	return w, nil
}

// keep keeps a window for the next one to read there, and lets the oldest go.
func (r *reader) keep(w *window) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := *w.cold.windows.Load()
	list := append(slices.Clone(old[max(0, len(old)-windowsEach+1):]), w)
	w.cold.windows.Store(&list)
	r.kept = append(r.kept, w)
	r.Bytes += len(w.data)
	for r.Bytes > r.limit && len(r.kept) > 1 {
		oldest := r.kept[0]
		r.kept[0] = nil
		r.kept = r.kept[1:]
		r.Bytes -= len(oldest.data)
		rest := slices.DeleteFunc(slices.Clone(*oldest.cold.windows.Load()), func(w *window) bool { return w == oldest })
		oldest.cold.windows.Store(&rest)
	}
}

// fail makes of an error what the reader of an entry gets, and has the log stop.
func (r *reader) fail(err error) error {
	if errors.Is(err, format.ErrClosed) {
		return err
	}
	r.failed(err)
	return fmt.Errorf("%w: %w", format.ErrFailed, err)
}

// Blocks leave memory oldest first, whether or not their entries are the next to run: what
// is put off for a year must not make the traffic of today be read back all the time.

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
			c.Held, b.held = c.Held-b.held, 0
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
