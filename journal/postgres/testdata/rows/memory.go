package journal

import (
	"sync"

	"github.com/strandjobs/strand/journal/internal/store"
)

// Disk is what a log of a test is on, instead of memory. Its stores and copies are made by
// it. Its methods may be called from any goroutine, in a bubble or not.
type Disk interface {
	Open() (store.Store, error)

	// Copy returns a disk with what the last commit has left on this one.
	Copy() (Disk, error)
}

// NewDisk makes an empty one. It is set before a main function runs.
var NewDisk func() (Disk, error)

// Memory is [Disk] with the faults of the disk that it stands for.
type Memory struct {
	mu             sync.Mutex // one commit, or copy, at a time
	disk           Disk
	before, synced func()
	unread         error

	once   sync.Once
	shadow *store.Memory
}

// faults is a disk that sees all commits, and says which are to fail. Nothing is read back from
// it.
func (m *Memory) faults() *store.Memory {
	m.once.Do(func() {
		if m.shadow == nil {
			m.shadow = new(store.Memory)
		}
	})
	return m.shadow
}

// FailNext is that of store.Memory, and so are all others.
func (m *Memory) FailNext(errs ...error) { m.faults().FailNext(errs...) }

// Limit makes a disk of so many bytes.
func (m *Memory) Limit(bytes int) { m.faults().Limit(bytes) }

// Fill leaves so much room.
func (m *Memory) Fill(bytes, results int) { m.faults().Fill(bytes, max(results, 1)) }

// OnCommit has f called after every commit.
func (m *Memory) OnCommit(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.synced = f
}

// BeforeCommit has f called before every commit.
func (m *Memory) BeforeCommit(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.before = f
}

// FailReads makes every attempt to read back what has left memory fail.
func (m *Memory) FailReads(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unread = err
}

// Crash returns a copy of what is found after a crash.
func (m *Memory) Crash() *Memory { return m.copied((*store.Memory).Crash) }

// Kill is Crash, and all commits from then on fail with err.
func (m *Memory) Kill(err error) *Memory {
	return m.copied(func(faults *store.Memory) *store.Memory { return faults.Kill(err) })
}

func (m *Memory) copied(faults func(*store.Memory) *store.Memory) *Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &Memory{shadow: faults(m.faults())}
	if m.disk != nil {
		var err error
		if c.disk, err = m.disk.Copy(); err != nil {
			panic(err)
		}
	}
	return c
}

func (m *Memory) open() (store.Store, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.disk == nil {
		disk, err := NewDisk()
		if err != nil {
			return nil, err
		}
		m.disk = disk
	}
	s, err := m.disk.Open()
	return faulty{s, m}, err
}

// OpenMemory opens a log on m's disk, and with a nil m on a new one. Neither is in memory.
func OpenMemory(m *Memory, cfg Config) (*Log, error) {
	if m == nil {
		m = new(Memory)
	}
	s, err := m.open()
	if err != nil {
		return nil, err
	}
	return openOn(s, cfg, false)
}

// faulty is a store with the faults of its disk.
type faulty struct {
	store.Store
	m *Memory
}

func (f faulty) Commit(t *store.Transaction) error {
	f.m.mu.Lock()
	if before := f.m.before; before != nil {
		f.m.mu.Unlock()
		before()
		f.m.mu.Lock()
	}
	err := f.m.faults().Commit(t)
	if err == nil {
		err = f.Store.Commit(t)
	}
	synced := f.m.synced
	f.m.mu.Unlock()
	if err == nil && synced != nil {
		synced()
	}
	return err
}

func (f faulty) Room(need, run int) (store.Room, error) { return f.m.faults().Room(need, run) }

func (f faulty) Read(seq uint64, first, n int) ([]byte, error) {
	f.m.mu.Lock()
	unread := f.m.unread
	f.m.mu.Unlock()
	if unread != nil {
		return nil, unread
	}
	return f.Store.Read(seq, first, n)
}

// In a directory: each name is a disk for as long as the process lives.
var directories sync.Map // name → *Memory

func openElsewhere(dir string, cfg Config) (*Log, error) {
	m, _ := directories.LoadOrStore(dir, new(Memory))
	return OpenMemory(m.(*Memory), cfg)
}
