package journaltest

import (
	"testing"

	"github.com/strandjobs/strand/journal"
)

// Frugal is a disk whose logs let everything go from memory that is on it.
type Frugal struct{ Disk }

// Open implements [Disk].
func (f Frugal) Open(cfg journal.Config) (*journal.Log, error) { return f.Disk.Open(frugal(cfg)) }

// Crash implements [Disk].
func (f Frugal) Crash(t testing.TB) Disk { return Frugal{f.Disk.Crash(t)} }

// FrugalFaulty is Frugal for a disk that can be made to fail.
type FrugalFaulty struct{ Faulty }

// Open implements [Disk].
func (f FrugalFaulty) Open(cfg journal.Config) (*journal.Log, error) {
	return f.Faulty.Open(frugal(cfg))
}

// Crash implements [Disk].
func (f FrugalFaulty) Crash(t testing.TB) Disk { return FrugalFaulty{f.Faulty.Crash(t).(Faulty)} }

func frugal(cfg journal.Config) journal.Config {
	cfg.MemoryBudget = 1
	return cfg
}
