package journal_test

import (
	"path/filepath"
	"testing"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/journal/internal/journaltest"
)

func TestContractOnFile(t *testing.T) {
	journaltest.Run(t, func(t *testing.T) journaltest.Disk {
		return journaltest.Dir(filepath.Join(t.TempDir(), "jobs.strand"))
	})
}

// The same with nothing in memory that is on disk.
func TestContractWithoutMemory(t *testing.T) {
	t.Run("file", func(t *testing.T) {
		journaltest.Run(t, func(t *testing.T) journaltest.Disk {
			return journaltest.Frugal{Disk: journaltest.Dir(filepath.Join(t.TempDir(), "jobs.strand"))}
		})
	})
	t.Run("memory", func(t *testing.T) {
		journaltest.Run(t, func(*testing.T) journaltest.Disk {
			return journaltest.FrugalFaulty{Faulty: journaltest.Memory{Memory: new(journal.Memory)}}
		})
	})
}

func TestContractInMemory(t *testing.T) {
	journaltest.Run(t, func(*testing.T) journaltest.Disk {
		return journaltest.Memory{Memory: new(journal.Memory)}
	})
}
