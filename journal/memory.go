package journal

import "github.com/strandjobs/strand/journal/internal/store"

// Memory is a disk in memory, with faults on demand, for tests; see [OpenMemory]. The
// zero Memory is an empty disk. Its methods may be called from any goroutine.
type Memory store.Memory

func (m *Memory) disk() *store.Memory { return (*store.Memory)(m) }

// FailNext makes the next commits return errs, in turn, without writing anything. A
// nil in the list lets that commit pass.
func (m *Memory) FailNext(errs ...error) { m.disk().FailNext(errs...) }

// OnCommit has f called after every commit, before a caller learns of it: the place
// to call Crash from. Nil ends it.
func (m *Memory) OnCommit(f func()) { m.disk().OnCommit(f) }

// Limit makes a disk of so many bytes: a commit that would leave more on it fails as
// on any full disk. 0: there is no limit.
func (m *Memory) Limit(bytes int) { m.disk().Limit(bytes) }

// FailReads makes every attempt to read back what has left memory fail with err; nil
// ends it. See [Config.MemoryBudget].
func (m *Memory) FailReads(err error) { m.disk().FailReads(err) }

// Crash returns a copy of what is found on this disk after a crash at this moment.
// The copy has no faults pending.
func (m *Memory) Crash() *Memory { return (*Memory)(m.disk().Crash()) }

// OpenMemory opens a log on m, for tests. With a nil m the log works in memory only,
// keeps what is live, and ends with the process.
func OpenMemory(m *Memory, cfg Config) (*Log, error) {
	disk := m.disk()
	if m == nil {
		disk = store.NewVolatile()
	}
	l := newLog(disk, cfg, m == nil)
	if err := l.boot(); err != nil {
		return nil, err
	}
	return l, nil
}
