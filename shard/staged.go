package shard

import "slices"

// staged is what the recorder gets with the end of a payload. The worker adds to the
// list while the shard may read it, see Core.recall.
type staged struct {
	what    any
	payload int // Outcome.Done when it was staged
	next    *staged
}

// Stage says what the recorder is to get, among [Change].Staged, with the change that
// ends the payload in hand, if it ends as done, and not otherwise; without
// Config.Single, with the end of those that the verdict is about. It is for the worker,
// before it says what has become of the payload.
func (it *Item) Stage(what any) {
	it.staged.Store(&staged{what, it.Outcome.Done, it.staged.Load()})
}

// takeStaged adds what was staged with those of the first n payloads of an item, which
// are done, that have not ended before.
func (c *ledger) takeStaged(it *Item, n int) {
	from := len(c.change.Staged)
	for s := it.staged.Load(); s != nil && s.payload >= it.settled; s = s.next {
		if s.payload < n {
			c.change.Staged = append(c.change.Staged, s.what)
		}
	}
	slices.Reverse(c.change.Staged[from:])
}
