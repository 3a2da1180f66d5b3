package store

import (
	"bytes"
	"cmp"
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/strandjobs/strand/journal/internal/format"
)

// Memory is a disk in memory, with faults on demand, for tests. The zero
// Memory is an empty disk. Its methods may be called from any goroutine.
type Memory struct {
	volatile bool // blocks are not kept: there is nothing to come back to

	faults // whose mutex guards what follows, too
	blocks map[uint64][]byte
	side   map[format.Bucket]map[string][]byte
	sorted map[format.Bucket][]string // the keys of a bucket, and some that are gone, unless one has come since page was last asked
	limit  int                        // see Limit
	kept   int                        // see Fill; 0: a sixteenth of limit
}

// NewVolatile returns a disk that keeps no blocks, for a log that ends with the
// process.
func NewVolatile() *Memory { return &Memory{volatile: true} }

// faults say how a disk behaves.
type faults struct {
	mu     sync.Mutex // guards all of the disk
	next   []error    // what the next commits return
	synced func()     // see OnCommit
	unread error      // see FailReads
	before func()     // see BeforeCommit
	dead   error      // see Memory.Kill
}

// locked changes how the disk behaves from now on.
func (d *faults) locked(change func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change()
}

// FailNext makes the next commits return errs, in turn, without writing
// anything. A nil in the list lets that commit pass.
func (d *faults) FailNext(errs ...error) { d.locked(func() { d.next = append(d.next, errs...) }) }

// Heal takes back what FailNext has left.
func (d *faults) Heal() { d.locked(func() { d.next = nil }) }

// OnCommit has f called after every commit, before a caller learns of it: the place
// to call Crash from. Nil ends it.
func (d *faults) OnCommit(f func()) { d.locked(func() { d.synced = f }) }

// BeforeCommit has f called before every commit, on the goroutine that commits: the disk
// is as slow as f. Nil ends it.
func (d *faults) BeforeCommit(f func()) { d.locked(func() { d.before = f }) }

// FailReads makes every attempt to read back what has left memory fail with err;
// nil ends it. See Config.MemoryBudget.
func (d *faults) FailReads(err error) { d.locked(func() { d.unread = err }) }

// Limit makes it a disk of so many bytes: a commit that would leave more on it fails as
// on any full disk. 0: there is no limit.
func (m *Memory) Limit(bytes int) { m.locked(func() { m.limit, m.kept = bytes, 0 }) }

// Fill makes it a disk that has room for so many bytes more than are on it now, and for so
// many of results beside them, 1 at least. Limit(0) ends it.
func (m *Memory) Fill(bytes, results int) {
	results = max(results, 1)
	m.locked(func() { m.limit, m.kept = m.Content()+bytes+results, results })
}

// Kill returns what Crash does, and makes m a disk on which every later commit fails with
// err: a commit is in the copy, or was not acknowledged.
func (m *Memory) Kill(err error) *Memory {
	m.locked(func() { m.dead = err })
	return m.Crash()
}

// Crash returns a copy of what is found on this disk after a crash at this
// moment. The copy has no faults pending.
func (m *Memory) Crash() *Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &Memory{blocks: maps.Clone(m.blocks), side: make(map[format.Bucket]map[string][]byte)}
	for name, kv := range m.side {
		c.side[name] = maps.Clone(kv)
	}
	return c
}

func (m *Memory) Commit(t *Transaction) error {
	var before, synced func()
	if m.locked(func() { before = m.before }); before != nil {
		before()
	}
	var err error
	m.locked(func() { synced, err = m.synced, m.apply(t) })
	if err == nil && synced != nil {
		synced()
	}
	return err
}

func (m *Memory) apply(t *Transaction) error {
	if m.dead != nil {
		return m.dead
	}
	if len(m.next) > 0 {
		err := m.next[0]
		m.next = m.next[1:]
		if err != nil {
			return err
		}
	}
	if m.volatile && len(t.Changes) == 0 {
		return nil // the manifest will never be read
	}
	if m.limit > 0 && m.Content()+t.takes() > m.limit {
		return format.ErrFull
	}
	if m.blocks == nil { // an empty disk, or a copy of one
		m.blocks, m.side = make(map[uint64][]byte), make(map[format.Bucket]map[string][]byte)
	}
	if !m.volatile && len(t.Block) > 0 {
		for _, d := range t.Drop {
			delete(m.blocks, d.Seq)
		}
		m.blocks[t.Seq] = bytes.Clone(t.Block)
	}
	for _, c := range t.Changes {
		m.put(c.Bucket, c.Key, c.Value)
	}
	m.put(format.BucketMeta, format.KeyManifest, t.Manifest.Encode())
	return nil
}

// Room keeps a sixteenth of a limited disk for results, as a file does.
func (m *Memory) Room(need, _ int) (Room, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.limit == 0 {
		return Endless, nil
	}
	free := max(m.limit-m.Content(), 0)
	return Room{Bytes: free, Spare: free - cmp.Or(m.kept, m.limit/16) - need, Run: math.MaxInt32}, nil
}

// Content is how many bytes are on the disk.
func (m *Memory) Content() (n int) {
	for _, b := range m.blocks {
		n += len(b)
	}
	for _, kv := range m.side {
		for k, v := range kv {
			n += len(k) + len(v)
		}
	}
	return n
}

// takes is how much room t takes on a disk, before what it deletes gives some back.
func (t *Transaction) takes() int {
	n := len(t.Block)
	for _, c := range t.Changes {
		n += len(c.Key) + len(c.Value)
	}
	for _, b := range t.before {
		n += len(b.Block)
	}
	return n
}

func (m *Memory) put(name format.Bucket, key, value []byte) {
	kv := m.side[name]
	if kv == nil {
		kv = make(map[string][]byte)
		m.side[name] = kv
	}
	if _, known := kv[string(key)]; !known && value != nil {
		delete(m.sorted, name)
	}
	if value == nil {
		delete(kv, string(key))
		return
	}
	kv[string(key)] = bytes.Clone(value)
}

func (m *Memory) Scan(block func(seq uint64, data []byte) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, seq := range slices.Sorted(maps.Keys(m.blocks)) {
		if err := block(seq, m.blocks[seq]); err != nil {
			return err
		}
	}
	return nil
}

// memoryChunk is short, so that most entries in tests are in two.
const memoryChunk = 64

func (m *Memory) ChunkSize() int { return memoryChunk }

func (m *Memory) Read(seq uint64, first, n int) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.unread != nil {
		return nil, m.unread
	}
	b := m.blocks[seq]
	if first*memoryChunk >= len(b) {
		return nil, format.DamagedBlock(seq, "chunk %d is missing", first)
	}
	return bytes.Clone(b[first*memoryChunk : min((first+n)*memoryChunk, len(b))]), nil
}

func (m *Memory) Get(name format.Bucket, key []byte) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return bytes.Clone(m.side[name][string(key)]), nil
}

// Page sorts the whole bucket when a key was added since the last call, or
// half of them are gone: this is a disk for tests and for what does not outlive
// the process.
func (m *Memory) Page(name format.Bucket, from []byte) (page []format.Pair, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	keys, known := m.sorted[name]
	if !known || len(keys) > 2*len(m.side[name]) {
		keys = slices.Sorted(maps.Keys(m.side[name]))
		if m.sorted == nil {
			m.sorted = make(map[format.Bucket][]string)
		}
		m.sorted[name] = keys
	}
	first, _ := slices.BinarySearch(keys, string(from))
	size := 0
	for _, key := range keys[first:] {
		if len(page) == pageCount || size >= pageBytes {
			break
		}
		if value, there := m.side[name][key]; there {
			page = append(page, format.Pair{Key: []byte(key), Value: bytes.Clone(value)})
			size += len(value)
		}
	}
	return page, nil
}

// CopyTo copies what is there after a crash now: nothing changes that.
func (m *Memory) CopyTo(path string, _ <-chan struct{}) error { return Copy(m.Crash(), path) }

func (m *Memory) Buried() map[uint32]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	dead := make(map[uint32]int)
	for key := range m.side[format.BucketMorgue] {
		dead[format.QueueOf([]byte(key))]++
	}
	return dead
}

// Nothing is to be compacted, nor to be closed.
func (m *Memory) Size() int                                          { return 0 }
func (m *Memory) Used() (int, error)                                 { return 0, nil }
func (m *Memory) Compact(<-chan struct{}) (replaced bool, err error) { return false, nil }
func (m *Memory) Close() error                                       { return nil }
