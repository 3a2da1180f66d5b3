package journal

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"sync"
)

// Memory is a disk in memory, with faults on demand, for tests. The zero
// Memory is an empty disk. Its methods may be called from any goroutine.
type Memory struct {
	volatile bool // blocks are not kept: there is nothing to come back to

	mu     sync.Mutex
	blocks map[uint64][]byte
	side   map[bucket]map[string][]byte
	sorted map[bucket][]string // the keys of a bucket, and some that are gone, unless one has come since page was last asked
	faults []error             // what the next commits return
	synced func()              // see OnCommit
	limit  int                 // see Limit
	unread error               // see FailReads
}

// NewVolatile returns a disk that keeps no blocks: nothing outlives the process.
func NewVolatile() *Memory { return &Memory{volatile: true} }

// FailNext makes the next commits return errs, in turn, without writing
// anything. A nil in the list lets that commit pass.
func (m *Memory) FailNext(errs ...error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.faults = append(m.faults, errs...)
}

// OnCommit has f called after every commit, before anybody learns of it: the
// place to call Crash from. Nil ends it.
func (m *Memory) OnCommit(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.synced = f
}

// Limit makes a disk of so many bytes: a commit that would leave more on it
// fails as on any full disk. 0: there is no limit.
func (m *Memory) Limit(bytes int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.limit = bytes
}

// FailReads makes every attempt to read back what has left memory fail with err;
// nil ends it. See [Config.MemoryBudget].
func (m *Memory) FailReads(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unread = err
}

// Crash returns a copy of what is found on this disk after a crash at this
// moment. The copy has no faults pending.
func (m *Memory) Crash() *Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &Memory{blocks: maps.Clone(m.blocks), side: make(map[bucket]map[string][]byte)}
	for name, kv := range m.side {
		c.side[name] = maps.Clone(kv)
	}
	return c
}

func (m *Memory) commit(t *transaction) error {
	m.mu.Lock()
	synced := m.synced
	err := m.apply(t)
	m.mu.Unlock()
	if err == nil && synced != nil {
		synced()
	}
	return err
}

func (m *Memory) apply(t *transaction) error {
	if len(m.faults) > 0 {
		err := m.faults[0]
		m.faults = m.faults[1:]
		if err != nil {
			return err
		}
	}
	if m.volatile && len(t.changes) == 0 {
		return nil // nobody will ever read the tail
	}
	if m.limit > 0 && m.content()+t.growth(m.blocks) > m.limit {
		return ErrFull
	}
	if m.blocks == nil { // an empty disk, or a copy of one
		m.blocks, m.side = make(map[uint64][]byte), make(map[bucket]map[string][]byte)
	}
	if !m.volatile && len(t.block) > 0 {
		for _, d := range t.drop {
			delete(m.blocks, d.seq)
		}
		m.blocks[t.seq] = bytes.Clone(t.block)
	}
	for _, c := range t.changes {
		m.put(c.bucket, c.key, c.value)
	}
	m.put(bucketMeta, keyTail, t.tail.encode())
	return nil
}

// room keeps an eighth of a limited disk for results.
func (m *Memory) room(need int) (room, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.limit == 0 {
		return endless, nil
	}
	free := max(m.limit-m.content(), 0)
	return room{free, free - m.limit/8 - need}, nil
}

// content is how many bytes are on the disk.
func (m *Memory) content() (n int) {
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

// growth is how much more of a disk is used after t.
func (t *transaction) growth(blocks map[uint64][]byte) int {
	n := len(t.block)
	for _, d := range t.drop {
		n -= len(blocks[d.seq])
	}
	for _, c := range t.changes {
		n += len(c.key) + len(c.value)
	}
	return n
}

func (m *Memory) put(name bucket, key, value []byte) {
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

func (m *Memory) scan(block func(seq uint64, data []byte) error) error {
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

func (m *Memory) chunkSize() int { return memoryChunk }

func (m *Memory) read(seq uint64, first, n int) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.unread != nil {
		return nil, m.unread
	}
	b := m.blocks[seq]
	if first*memoryChunk >= len(b) {
		return nil, &CorruptError{Block: seq, Offset: -1, Reason: fmt.Sprintf("chunk %d is missing", first)}
	}
	return bytes.Clone(b[first*memoryChunk : min((first+n)*memoryChunk, len(b))]), nil
}

func (m *Memory) get(name bucket, key []byte) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return bytes.Clone(m.side[name][string(key)]), nil
}

// page sorts the whole bucket when a key was added since the last call, or
// half of them are gone: this is a disk for tests and for what does not outlive
// the process.
func (m *Memory) page(name bucket, from []byte) (page []pair, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	keys, known := m.sorted[name]
	if !known || len(keys) > 2*len(m.side[name]) {
		keys = slices.Sorted(maps.Keys(m.side[name]))
		if m.sorted == nil {
			m.sorted = make(map[bucket][]string)
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
			page = append(page, pair{[]byte(key), bytes.Clone(value)})
			size += len(value)
		}
	}
	return page, nil
}

func (m *Memory) buried() map[uint32]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	dead := make(map[uint32]int)
	for key := range m.side[bucketMorgue] {
		dead[queueOf([]byte(key))]++
	}
	return dead
}

func (m *Memory) size() int { return 0 } // there is nothing to compact

func (m *Memory) used() (int, error) { return 0, nil }

func (m *Memory) compact(<-chan struct{}) (replaced bool, err error) { return false, nil }

func (m *Memory) close() error { return nil }
