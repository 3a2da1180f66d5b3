package journal

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/strandjobs/strand/journal/internal/format"
)

// Config says how a log works. The zero Config is usable.
type Config struct {
	// Deliver takes in what was committed: one call per route and block, one at a time, in
	// position order. It must not block for long, and must see to it that [Delivery.Done]
	// is called once for each. A log that works in memory only may call it for several
	// routes at a time: in position order for each of them. Nil: each counts as taken in.
	Deliver func(*Delivery)

	// Failed is called once, from the committer's goroutine, when a commit has
	// failed and the log stops. Nil: Err is the only sign.
	Failed func(error)

	// Committed is called with how long the disk took for a commit, from the
	// goroutine that made it, before what it holds is delivered: a delivery waits
	// for it. Nil: only the totals of Stats tell.
	Committed func(took time.Duration)

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

	// Logger gets what an operator should know and no call can return: that all
	// users may write to the directory, that the crash recorder was lost, whom
	// OpenContext waits for, once that the disk is full, and once that there has
	// been room again for five seconds. Default nil: silence.
	Logger *slog.Logger

	trimSlack int // see below; less only in tests, to trim all the time
	minCarry  int

	compactAbove int           // see defaultCompactAbove; less only in tests
	compactAfter time.Duration // see defaultCompactAfter
}

const (
	defaultMaxBlockBytes = 4 << 20
	defaultMemoryBudget  = 64 << 20
	// defaultTrimSlack is how much dead weight is left alone: below it,
	// carrying costs more than it frees.
	defaultTrimSlack = 1 << 20
	// defaultMinCarry is how much one commit may carry forward when it has
	// little of its own to write. Otherwise it carries as much as it writes.
	defaultMinCarry = 256 << 10
	// defaultCompactAfter is how long a log is idle before it compacts by itself.
	defaultCompactAfter = 10 * time.Second
	// fullRetry is the pause between two looks at a full disk.
	fullRetry = 100 * time.Millisecond
)

// complete returns the configuration with its defaults.
func (cfg Config) complete() Config {
	if cfg.MaxBlockBytes = cmp.Or(cfg.MaxBlockBytes, defaultMaxBlockBytes); cfg.MaxBlockBytes < 0 {
		cfg.MaxBlockBytes = format.MaxAppendBytes
	}
	cfg.MemoryBudget = cmp.Or(cfg.MemoryBudget, defaultMemoryBudget)
	cfg.trimSlack = cmp.Or(cfg.trimSlack, defaultTrimSlack)
	cfg.minCarry = cmp.Or(cfg.minCarry, defaultMinCarry)
	cfg.compactAbove = cmp.Or(cfg.compactAbove, defaultCompactAbove)
	cfg.compactAfter = cmp.Or(cfg.compactAfter, defaultCompactAfter)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return cfg
}
