package block

import "github.com/strandjobs/strand/journal/internal/store"

// Chain is the blocks of a log, oldest first, and the accounts of them: what they
// take on disk and in memory, and how much of it is live. It says which of them
// are to leave memory, and which the log.
//
// The mutex of the log guards it, except for what is said to belong to the committer.
type Chain struct {
	Blocks []*Block // sealed, ascending; Invariant: each delete takes a prefix
	Size   int      // bytes of all blocks
	Live   int      // bytes of live entries in these blocks
	Held   int      // bytes of memory that the entries of these blocks take

	evicted int     // blocks at the beginning that were looked at to be let go from memory
	Reader  *reader // of what left memory; nil: nothing does
	budget  int     // of bytes held
	settled int     // of these, taken while the log is read

	trimSlack int // dead weight that is left alone
	minCarry  int // that one commit may carry, however little it writes

	// pagedIn are the entries of blocks that the next commit may carry. They
	// belong to the committer.
	pagedIn map[*Block][]byte
}

// Limits are those of a chain.
type Limits struct {
	Memory    int // bytes of entries that stay in memory; below zero: all
	TrimSlack int // see Chain
	MinCarry  int
}

// NewChain returns the accounts of a log that has no blocks yet. What has left memory is
// read back from s; failed is told when it can't be, perhaps more than once.
func NewChain(s store.Store, most Limits, failed func(error)) *Chain {
	c := &Chain{trimSlack: most.TrimSlack, minCarry: most.MinCarry}
	if most.Memory >= 0 {
		windows := min(most.Memory/8, maxWindows)
		c.budget = most.Memory - windows
		c.Reader = &reader{store: s, failed: failed, limit: windows}
	}
	return c
}

// ReadBacks is how often the disk was read for entries that are not in memory.
func (c *Chain) ReadBacks() uint64 {
	if c.Reader == nil {
		return 0
	}
	return c.Reader.Reads.Load()
}
