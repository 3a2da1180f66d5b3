package shard

import "github.com/strandjobs/strand/journal"

// Weight is what payloads count for in a backlog.
type Weight struct {
	Payloads int
	Bytes    int // in the journal, ids included
}

// Plus returns the sum of two weights.
func (w Weight) Plus(o Weight) Weight { return Weight{w.Payloads + o.Payloads, w.Bytes + o.Bytes} }

// Minus returns the difference of two weights.
func (w Weight) Minus(o Weight) Weight { return Weight{w.Payloads - o.Payloads, w.Bytes - o.Bytes} }

// announcedOverhead is more than the journal adds to a payload and its id.
const announcedOverhead = 64

// Announced is what an enqueued payload counts for before its shard has taken it in
// and knows how many bytes it takes, which are a little fewer.
func Announced(e *journal.Entry) Weight {
	return Weight{1, len(e.ID) + len(e.Payload) + len(e.Metadata) + announcedOverhead}
}

func weightOf(ref journal.Ref) Weight { return Weight{1, ref.Size()} }

// surplus is what an entry that is taken in counts for beyond what was announced:
// what comes back from the morgue was not.
func surplus(e *journal.Entry, ref journal.Ref) Weight {
	if e.Restored {
		return weightOf(ref)
	}
	return weightOf(ref).Minus(Announced(e))
}
