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

// Fill makes it a disk that has room for so many bytes more than are on it now, and
// for so many of results beside them, 1 at least. Limit(0) ends it.
func (m *Memory) Fill(bytes, results int) { m.disk().Fill(bytes, max(results, 1)) }

// BeforeCommit has f called before every commit, on the goroutine that commits: the
// disk is as slow as f. Nil ends it.
func (m *Memory) BeforeCommit(f func()) { m.disk().BeforeCommit(f) }

// FailReads makes every attempt to read back what has left memory fail with err; nil
// ends it. See [Config.MemoryBudget].
func (m *Memory) FailReads(err error) { m.disk().FailReads(err) }

// Crash returns a copy of what is found on this disk after a crash at this moment.
// The copy has no faults pending.
func (m *Memory) Crash() *Memory { return (*Memory)(m.disk().Crash()) }

// Kill returns what Crash does, and makes m a disk on which every later commit fails
// with err: a commit is in the copy, or was not acknowledged.
func (m *Memory) Kill(err error) *Memory { return (*Memory)(m.disk().Kill(err)) }

// OpenMemory opens a log on m, for tests. With a nil m the log works in memory only,
// keeps what is live, and ends with the process.
func OpenMemory(m *Memory, cfg Config) (*Log, error) {
	disk := m.disk()
	if m == nil {
		disk = store.NewVolatile()
	}
	return openOn(disk, cfg, m == nil)
}
