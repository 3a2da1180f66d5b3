package journal_test

import (
	"path/filepath"
	"testing"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/journal/journaltest"
)

func TestContractOnFile(t *testing.T) {
	journaltest.Run(t, func(t *testing.T) journaltest.Disk {
		return journaltest.Dir(filepath.Join(t.TempDir(), "jobs.strand"))
	})
}

func TestContractInMemory(t *testing.T) {
	journaltest.Run(t, func(*testing.T) journaltest.Disk {
		return journaltest.Memory{Memory: new(journal.Memory)}
	})
}
