package journal_test

import (
	"path/filepath"
	"strconv"
	"testing"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/journal/internal/journaltest"
)

func TestContractOnFile(t *testing.T) {
	journaltest.Run(t, func(t *testing.T) journaltest.Disk {
		t.Parallel()
		return journaltest.Dir(filepath.Join(t.TempDir(), "jobs.strand"))
	})
}

// logged is a journal in a directory with a log of so many bytes before bbolt.
type logged struct {
	journaltest.Disk
	bytes int
}

func (l logged) Open(cfg journal.Config) (*journal.Log, error) {
	cfg.WALBytes = l.bytes
	return l.Disk.Open(cfg)
}

func (l logged) Crash(t testing.TB) journaltest.Disk { return logged{l.Disk.Crash(t), l.bytes} }

// The same with a log that is full all the time, and with none.
func TestContractOnFileAndLog(t *testing.T) {
	sizes := []int{8 << 10, -1, 32 << 10}
	if journal.EveryDay {
		sizes = sizes[:1]
	}
	for _, bytes := range sizes {
		t.Run(strconv.Itoa(bytes), func(t *testing.T) {
			journaltest.Run(t, func(t *testing.T) journaltest.Disk {
				t.Parallel()
				return logged{journaltest.Dir(filepath.Join(t.TempDir(), "jobs.strand")), bytes}
			})
		})
	}
}

// The same with nothing in memory that is on disk. The detector has seen the goroutines of the contract in the
// others of its kind.
func TestContractWithoutMemory(t *testing.T) {
	if journal.RaceEnabled {
		t.Skip("without the detector it is made, too")
	}
	t.Run("file", func(t *testing.T) {
		journaltest.Run(t, func(t *testing.T) journaltest.Disk {
			t.Parallel()
			return journaltest.Frugal{Disk: journaltest.Dir(filepath.Join(t.TempDir(), "jobs.strand"))}
		})
	})
	t.Run("memory", func(t *testing.T) {
		if journal.EveryDay {
			t.Skip("the file shows it: STRAND_PUSH=1 does both")
		}
		journaltest.Run(t, func(t *testing.T) journaltest.Disk {
			t.Parallel()
			return journaltest.Frugal{Disk: journaltest.Memory{Memory: new(journal.Memory)}}
		})
	})
}

// volatile is no disk: what is kept ends with the log.
type volatile struct{}

func (volatile) Open(cfg journal.Config) (*journal.Log, error) { return journal.OpenMemory(nil, cfg) }

func (volatile) Crash(t testing.TB) journaltest.Disk {
	t.Fatal("nothing is left")
	return nil
}

// The part of it that is about a log alone, and not about what the next one finds.
func TestContractOfAnInstant(t *testing.T) {
	journaltest.Run(t, func(*testing.T) journaltest.Disk { return volatile{} },
		"order/positions are dense", "order/positions of many appenders", "order/deliveries by route", "order/wait for the consumer",
		"order/merged reaches the ticket", "limits/context ended before", "limits/nothing", "limits/entries may be reused",
		"limits/payloads are read only", "morgue/a list longer than a page", "morgue/loop that restores",
		"morgue/restore heeds its context", "morgue/restored before it is back", "trim/slow consumer", "trim/ended while it was carried")
}

func TestContractInMemory(t *testing.T) {
	journaltest.Run(t, func(t *testing.T) journaltest.Disk {
		t.Parallel()
		return journaltest.Memory{Memory: new(journal.Memory)}
	})
}
