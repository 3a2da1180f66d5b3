package executor

import "github.com/strandjobs/strand/journal"

// OpenOn opens an executor on a disk in memory, with faults on demand.
func OpenOn(disk *journal.Memory, cfg Config) (*Executor, error) {
	return open(cfg, false, func(c journal.Config) (*journal.Log, error) { return journal.OpenMemory(disk, c) })
}
