package journal

import "github.com/strandjobs/strand/journal/internal/store"

// Memory is a disk in memory, with faults on demand, for tests; see [OpenMemory].
type Memory = store.Memory

// OpenMemory opens a log on m, for tests. With a nil m the log works in memory only,
// keeps what is live, and ends with the process.
func OpenMemory(m *Memory, cfg Config) (*Log, error) {
	if m == nil {
		return openOn(store.NewVolatile(), cfg, true)
	}
	return openOn(m, cfg, false)
}
