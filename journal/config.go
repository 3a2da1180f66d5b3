package journal

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/strandjobs/strand/journal/internal/format"
)

// Config says how a log works. The zero Config is usable.
type Config struct {
	// Deliver takes in what was committed: one call per route and block, one at a time, in position order, but for
	// what came back from the morgue or waited for room on a full disk. It must not block for long, and must see to it
	// that [Delivery.Done] is called once for each. A log that works in memory only may call it for several routes at
	// a time: in that order for each of them. Nil: each counts as taken in.
	Deliver func(*Delivery)

	// Failed is called once, from the committer's goroutine, when the log stops: a commit has failed, or the disk did
	// not give back what was written. Nil: Err is the only sign.
	Failed func(error)

	// Committed is called with how long the disk took for a commit, from the
	// goroutine that made it, before what it holds is delivered: a delivery waits
	// for it. Nil: only the totals of Stats tell.
	Committed func(took time.Duration)

	// Life is until when [Log.Copy] and [Log.Compact] may be at work, which commits wait for:
	// then they are given up with ErrClosed. Nil: until the log is closed.
	Life context.Context

	// MaxBlockBytes is where Append starts to wait for the committer instead of
	// making the open block larger. One call's entries go into one
	// block. Default 4 MiB; below zero it is the most that a block can have, a GiB.
	MaxBlockBytes int

	// MemoryBudget is how many bytes of entries stay in memory, as they stand in their
	// blocks. Above it the oldest blocks are on disk only, and what is read of them is read
	// back: entries that follow one another by up to 64 KiB at a time. Blocks that are not
	// on disk yet come on top, and so do those that a full disk had written in pieces,
	// until they are over or the journal is opened again. A log that works in memory only
	// has no bound. Default 64 MiB; below zero there is none.
	MemoryBudget int

	// WALBytes is how large journal.wal is, which small commits go to first; see the package comment. Its room is
	// written when it is made: after the first 32 commits, or at once where this is set. A quarter of its size may wait
	// in memory until it is in journal.db: at least 512 KiB (less if the file is smaller), at most 8 MiB. That comes on
	// top of MemoryBudget. Default 4 MiB, rounded up to 4 KiB; less than 8 KiB is taken for 8 KiB, and more than a GiB
	// for a GiB; below zero there is none.
	WALBytes int

	// Logger gets what an operator should know and no call can return: that all
	// users may write to the directory, that the crash recorder was lost, whom
	// OpenContext waits for, once that the disk is full, and once that there has
	// been room again for five seconds. Default nil: silence.
	Logger *slog.Logger

	// All of these are less only in tests.
	// trimSlack is how much dead weight is left alone: below it, carrying costs more than
	// it frees. minCarry is how much one commit may carry forward when it has little of
	// its own to write. Otherwise it carries as much as it writes.
	trimSlack, minCarry int

	walAfter     int           // commits before journal.wal is made: a short life does without it
	compactAbove int           // the size that a file may have, however little of it is in use
	compactAfter time.Duration // how long a log is idle before it compacts by itself
}

// fullRetry is the pause between two looks at a full disk.
const fullRetry = 100 * time.Millisecond

// complete returns the configuration with its defaults.
func (cfg Config) complete() Config {
	if cfg.MaxBlockBytes = cmp.Or(cfg.MaxBlockBytes, 4<<20); cfg.MaxBlockBytes < 0 {
		cfg.MaxBlockBytes = format.MaxAppendBytes
	}
	cfg.MemoryBudget = cmp.Or(cfg.MemoryBudget, 64<<20)
	if cfg.WALBytes == 0 {
		cfg.walAfter = 32
	}
	cfg.WALBytes = min(cmp.Or(cfg.WALBytes, 4<<20), 1<<30)
	cfg.trimSlack = cmp.Or(cfg.trimSlack, 1<<20)
	cfg.minCarry = cmp.Or(cfg.minCarry, 256<<10)
	cfg.compactAbove = cmp.Or(cfg.compactAbove, 64<<20)
	cfg.compactAfter = cmp.Or(cfg.compactAfter, 10*time.Second)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.Deliver == nil {
		cfg.Deliver = (*Delivery).Done
	}
	return cfg
}
