package shard

import (
	"slices"

	"github.com/strandjobs/strand/journal"
)

// Removal is what a person wants of payloads of an id that have not ended.
type Removal struct {
	Verdict Verdict // Canceled or Deleted
	Reason  string  // of Canceled; with Failed the last error follows
	// Of are the positions that are meant, in ascending order. Nil: all that the id
	// has at the moment.
	Of []journal.Position
	// Before: only what has a lower position is meant. 0: all.
	Before journal.Position
	// Failed: only what waits for a retry is meant, or is halted, and no job that
	// runs: what failed, under Config.Block without what waits behind it.
	Failed bool
	// Version, under MergeSupersede, has all that is accepted from Before on be newer than what is done of the id, runs
	// or is dead, whatever the scores. Remove counts a version that was done among those that it has ended.
	Version bool
	// Claim is what the recorder gets for a job that no worker has, as that of an
	// item that ran. Nil: none.
	Claim Held
	// Room is what was taken of the disk for dead letters, see journal.Change.
	Room int

	kept    int  // of Room, until what a worker has in hand has ended
	crashed bool // it kills the process; see Core.Condemn
}

func (r *Removal) means(p journal.Position) bool {
	if r.Before != 0 && p >= r.Before {
		return false
	}
	if r.Of == nil {
		return true
	}
	_, found := slices.BinarySearch(r.Of, p)
	return found
}

// alone reports whether only what a lane holds is meant: the others have not failed. Under Config.Block they
// have not either where nothing is held, because what was condemned was not the next of them.
func (r *Removal) alone(l *lane, block bool) bool {
	return r.Failed && (l.holds() || block && l.known().crashed)
}

// Removal returns what a person wants of a payload that is in hand, under
// Config.Single of the one payload; nil: nothing. Any goroutine may call it while a worker
// has the item. The worker need not heed it: if the payload is over by what the worker
// says, that counts, and otherwise what the person says.
func (it *Item) Removal(single bool) *Removal {
	if it.removals.Load() == nil {
		return nil
	}
	inHand := it.Payloads
	if single {
		n := min(int(it.passed.Load()), len(inHand)-1)
		inHand = inHand[n : n+1]
	}
	for _, p := range inHand {
		if r := it.RemovalOf(p); r != nil {
			return r
		}
	}
	return nil
}

// RemovalOf returns what a person wanted last of a payload of the item; nil: nothing. It
// does not look whether the payload is over. Any goroutine may call it, as Removal.
func (it *Item) RemovalOf(p Payload) *Removal {
	all := it.removals.Load()
	if all == nil {
		return nil
	}
	for _, r := range slices.Backward(*all) {
		if r.means(p.Ref.Position()) {
			return r
		}
	}
	return nil
}

// doom notes what is to become of payloads that a worker has in hand, and returns how
// many that are. Under Config.Single it wants back what the worker has not begun.
func (it *Item) doom(r *Removal, single bool) (n int) {
	var letters journal.Room
	for _, p := range it.Payloads[max(it.settled, int(it.passed.Load())):] {
		if r.means(p.Ref.Position()) {
			if n++; it.RemovalOf(p) == nil { // or it has room
				letters.AddLetter(p.Ref.Size(), len(r.Reason))
			}
		}
	}
	if n == 0 {
		return 0
	}
	r.kept = min(r.Room, letters.Bytes)
	var all []*Removal
	if before := it.removals.Load(); before != nil {
		all = slices.Clone(*before)
	}
	all = append(all, r)
	it.removals.Store(&all)
	if single {
		it.recalled.Store(true)
	}
	return n
}

// Spend says that so many bytes of the disk were taken for what is buried; see journal.Change.
func (c *ledger) Spend(bytes int) { c.change.Room += bytes }

// Letters is what the payloads of an id that r ends take on the disk as dead letters.
func (c *looks) Letters(id string, r *Removal) (all journal.Room) {
	l := c.lanes.find([]byte(id))
	if l == nil || r.Failed && l.retry() < 0 && !l.halted {
		return all
	}
	add := func(p Payload) bool {
		if r.means(p.Ref.Position()) {
			all.AddLetter(p.Ref.Size(), len(r.Reason))
		}
		return false
	}
	if it := l.item(); it != nil {
		if r.Failed && it.state.Load() == started {
			return all
		}
		for _, p := range it.Payloads[it.settled:] {
			add(p)
		}
	}
	if r.alone(l, c.cfg.Block) {
		for _, p := range l.held() {
			add(p)
		}
		return all
	}
	l.hasAny(add)
	return all
}

// Remove ends payloads of an id before they run, and returns how many. Those that a
// worker has in hand end when it gives them back, unless they are over by then:
// inHand says how many.
//
// The job that r.Claim stands for is in no line any more, though payloads of its id may
// be left: they are due when they were, and ask again. It is over for r.Claim if none of
// those that ran, or were to run next, is left.
func (c *Core) Remove(now int64, id string, r *Removal) (ended, inHand int) {
	c.Spend(r.Room)
	forgot := 0
	if r.Version {
		forgot = c.forgetVersion(now, id, r.Before)
	}
	l := c.lanes.find([]byte(id))
	if l == nil {
		return forgot, 0
	}
	if it := l.item(); it != nil {
		switch {
		case it.revoke():
			c.putBack(l, it)
		case r.Failed:
			return 0, 0
		default:
			ended, inHand = c.removeBehind(now, l, r), it.doom(r, c.cfg.Single)
			c.Spend(-r.kept)
			return forgot + ended, inHand
		}
	}
	if r.Failed && l.retry() < 0 && !l.halted {
		return 0, 0
	}
	next := l.upNext().Ref
	held, others := l.takeOut(r, !r.alone(l, c.cfg.Block))
	if ended = len(held) + len(others); ended == 0 {
		return forgot, 0
	}
	c.endRemoved(now, l, held, others, r)
	anew := len(held) > 0 && !l.holds()
	over := l.empty() || anew || c.cfg.Single && len(others) > 0 && others[0].Ref == next
	if l.empty() {
		if until := c.restLeft(now, l); until > now && !c.supersedes() {
			c.writeRest(now, id, rest{until: until})
		}
		c.displace(l)
		c.drop(l, hashOf([]byte(id)))
	} else {
		c.leaveOver(now, l, anew)
	}
	c.Let(id, HoldWait) // the recorder takes it out of its lines
	if r.Claim != nil {
		c.change.Claims = append(c.change.Claims, claim{r.Claim, r.Verdict, over})
	}
	return forgot + ended, 0
}

// leaveOver has the rest of a job go on, of which some payloads are gone: without
// those that failed it begins again, as after their burial.
func (c *ends) leaveOver(now int64, l *lane, anew bool) {
	if anew {
		var e journal.Entry
		due, rest := c.firstDue(now, l, &e), c.restLeft(now, l)
		c.setRetry(l, -1)
		c.setHalted(l, false)
		l.remember().err = ""
		c.displace(l)
		if c.open(l, due, e.Restored); rest > now {
			l.due = l.remember().dueAfter(l.due, rest)
		}
		c.enqueue(l, l.due)
	}
	c.writeState(l) // the due time may have come from one that is gone
}

// endRemoved ends payloads that were taken out of a lane. History and retry count are
// about those that failed.
func (c *ends) endRemoved(now int64, l *lane, held, others []Payload, r *Removal) {
	it := Item{Retry: l.retry()}
	it.LastError, it.History = l.known().failures()
	c.endAs(now, &it, held, r)
	if len(held) > 0 || l.holds() {
		it = Item{Retry: -1}
	}
	c.endAs(now, &it, others, r)
}

// removeBehind ends what arrived for an id that runs.
func (c *ends) removeBehind(now int64, l *lane, r *Removal) int {
	_, others := l.takeOut(r, true)
	c.endAs(now, &Item{Retry: -1}, others, r)
	for _, p := range others {
		c.pinDue(l)
		c.pinDueOut(l, p.Ref.Position())
	}
	return len(others)
}

// remove carries out what a person wants of the payloads of an item that its worker
// has given back. What is over is over.
func (c *ends) remove(now int64, it *Item) {
	for _, r := range *it.removals.Load() {
		c.Spend(r.kept)
	}
	out := &it.Outcome
	ended := out.Verdict == VerdictDone || out.Verdict == VerdictDiscarded
	if c.cfg.Single {
		n := out.Done + 1
		it.Payloads = append(it.Payloads[:n:n], slices.DeleteFunc(slices.Clone(it.Payloads[n:]), func(p Payload) bool {
			r := it.RemovalOf(p)
			if r != nil {
				c.endAs(now, &Item{Retry: -1}, []Payload{p}, r)
			}
			return r != nil
		})...)
		if r := it.RemovalOf(it.Payloads[out.Done]); r != nil && !ended {
			out.Verdict, out.Error, out.Say = r.Verdict, r.Reason, nil
		}
		return
	}
	if ended {
		return
	}
	for i, p := range it.Payloads {
		if r := it.RemovalOf(p); r != nil {
			out.AddPart(Part{Index: i, Verdict: r.Verdict, Error: r.Reason})
			out.Say = nil
		}
	}
}
