//go:build unix

package postgres

import (
	"testing"

	"github.com/strandjobs/strand/journal/internal/journaltest"
	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

// What the package comment of journal promises holds on the rows of a partition.
func TestContract(t *testing.T) {
	t.Parallel()
	r := newRig(t, pgtest.Shared(t).URL(), 4096)
	journaltest.Run(t, func(*testing.T) journaltest.Disk { return r.disk(nil) })
}

// The same with nothing in memory that is on the server, and blocks of many parts.
func TestContractWithoutMemory(t *testing.T) {
	third(t, 2)
	t.Parallel()
	r := newRig(t, pgtest.Shared(t).URL(), 4096)
	journaltest.Run(t, func(*testing.T) journaltest.Disk {
		return journaltest.Frugal{Disk: r.disk(func(s *partitionStore) { s.part = 20_000 })}
	})
}
