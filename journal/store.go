package journal

import (
	"errors"

	"github.com/strandjobs/strand/journal/internal/store"
)

// OpenStore opens a log on a disk of another kind than a bbolt file. It is for packages
// below this one, which alone can name the type of s: journal/postgres keeps a log in
// the rows of a database with it.
//
// The log calls s as store.Store says, and s has to keep what is promised there: what
// the package comment says of commits, crashes and damage is as true as that. It has one
// writer: when another one may commit to the same disk, s has to refuse one of the two by
// an error of Commit, which latches that log. The first commit makes the new epoch
// durable before OpenStore returns. There is no directory, so there is no LOCK and no
// crash recorder: no position is suspected after a crash.
//
// It returns an error of s, or a [CorruptError] when what s has is damaged; s is still
// the caller's to close then. Otherwise [Log.Close] closes it.
func OpenStore(s store.Store, cfg Config) (*Log, error) {
	if s == nil {
		return nil, errors.New("journal: no store; give the one that the log is to be on")
	}
	return openOn(s, cfg, false)
}

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

// openOn opens a log on a store that has no directory.
func openOn(s store.Store, cfg Config, volatile bool) (*Log, error) {
	l := newLog(s, cfg, volatile)
	if err := l.boot(); err != nil {
		return nil, err
	}
	return l, nil
}
