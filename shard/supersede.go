package shard

import (
	"math"
	"slices"

	"github.com/strandjobs/strand/journal"
)

// Under MergeSupersede the newest state of an id counts, see the package comment. This file
// says what becomes of the others, when a payload arrives (arrive) and when a run ends
// (overtaken). One that takes the place of another is a new job with its own due time; no
// bag and no bytes are looked at.
//
// What must be known of an id that has nothing to do is its last version, if it has
// scores: it is among the rested, as a state without a payload. And its dead letter: a
// newer payload takes that out of the morgue, in the change that tells of its arrival.

// version is what tells which of two states of an id is newer: their scores, if both have
// one. The score of a state that came without is NaN, which is neither below any other nor
// above. Zero: none.
type version struct {
	score float64
	at    journal.Position
}

func (p Payload) version() version { return version{p.Score, p.Ref.Position()} }

// versionOf is the version of a payload as the journal has it.
func versionOf(e *journal.Entry, at journal.Position) version {
	if !Scored(e) {
		return version{math.NaN(), at}
	}
	return version{e.Score, at}
}

// isBorder reports whether v is newer than all that has a lower position, and older than all else.
func (v version) isBorder() bool { return math.IsInf(v.score, -1) }

func (v version) before(w version) bool {
	switch {
	case v.at == 0 || w.at == 0:
		return w.at != 0
	case v.isBorder():
		return v.at <= w.at
	case w.isBorder():
		return v.at < w.at
	}
	return v.score < w.score || !(v.score > w.score) && v.at < w.at
}

func (c *timing) supersedes() bool { return c.cfg.Merge == MergeSupersede }

// arrive takes in a payload, whose id has a lane unless l is nil. It returns the
// position of what is newer, or 0.
func (c *gather) arrive(l *lane, e *journal.Entry, ref journal.Ref, hash uint32) (into journal.Position) {
	v := versionOf(e, ref.Position())
	p := Payload{v.score, ref}
	c.came(e, ref)
	if c.graves[string(e.ID)].at == v.at { // it comes back
		delete(c.graves, string(e.ID))
	}
	if newer, over := c.newer(v, l, string(e.ID)); newer.at != 0 {
		c.supersede(p, newer.at, over)
		c.counts.Replaced-- // its caller hears of it at once
		return newer.at
	}
	c.succeed(string(e.ID), v)
	if l == nil {
		l = c.lanes.add(hash)
	}
	if l.n() > 0 {
		old := l.one
		l.one = p
		if l.halted && l.past().crashed {
			c.inherit(string(e.ID), v.at)
		}
		c.ages.inherit(ref.Position(), old.Ref.Position())
		c.supersede(old, ref.Position(), false)
		c.takePlace(l, e)
		return 0
	}
	l.one = p
	if l.item() == nil {
		c.anew(l) // while loading: a state may have been left over
	}
	c.open(l, e.Due, e.Restored)
	c.stand(l, c.rouseFor(l, e, l.due))
	return 0
}

// newer returns a version of an id that is newer than one, if there is, and whether it is
// over.
func (c *gather) newer(v version, l *lane, id string) (w version, over bool) {
	ran := c.rested.byID[id].ran
	if l != nil {
		if w = l.one.version(); v.before(w) && !w.before(ran) {
			return w, false
		}
		// What a person wants to end need not be done: what comes after that waits behind it.
		if it := l.item(); it != nil && it.RemovalOf(it.Payloads[0]) == nil && v.before(it.Payloads[0].version()) {
			return it.Payloads[0].version(), false
		}
	}
	if v.before(ran) {
		return ran, true
	}
	return version{}, false
}

// takePlace makes the payload of a lane, which has just taken the place of another one,
// a new job. What is due at once keeps the place in line that the id has, or an id that
// changes all the time would never run; and what gathers under Config.Quiet goes on to. A
// job that waited for something else than its time is tried at once: it may not need it.
func (c *gather) takePlace(l *lane, e *journal.Entry) {
	at, limit, gathers := l.due, c.limitOf(l), c.gathering(l) && !l.known().decided && !e.Restored && !l.halted
	if l.item() == nil {
		c.anew(l)
	}
	if gathers {
		c.bound(l, limit)
		c.stand(l, c.moved(at, limit, e.Due))
		c.pinDue(l)
	} else {
		c.open(l, e.Due, e.Restored)
		due := l.due
		if e.Due <= c.now && !c.debounces() {
			due = min(at, due)
		}
		c.stand(l, c.rouseFor(l, e, due))
	}
	if len(c.held) > 0 && l.item() == nil && c.unhold(string(e.ID), HoldWait) {
		c.enqueue(l, l.due)
	}
}

// anew lets go of all that a lane whose payloads wait remembers of its runs, and of its
// place in the agenda. What waits keeps its limit.
func (c *gather) anew(l *lane) {
	c.displace(l)
	c.endState(l)
	c.setRetry(l, -1)
	c.setHalted(l, false)
	l.unpinned = false
	if p := l.past(); p != nil {
		l.rest.past = nil
		if p.bounded {
			l.rest.past = &runHistory{limit: p.limit, bounded: true, decided: p.decided}
		}
	}
}

// stand makes what waits in a lane due at a time.
func (c *gather) stand(l *lane, due int64) {
	if l.item() != nil {
		l.due = due
		return
	}
	c.enqueue(l, due)
}

// overtaken notes what has run, and reports whether the payload of an item that has ended
// gave way to a newer one.
func (c *ends) overtaken(now int64, it *Item) bool {
	verdict := it.Outcome.Verdict
	if len(it.Outcome.Parts) > 0 {
		verdict = it.Outcome.Parts[0].Verdict
	}
	p := it.Payloads[0].version()
	switch verdict {
	case VerdictDone, VerdictDiscarded:
		c.ran(now, it, p)
		return false
	case VerdictUnstarted, VerdictInterrupted: // as if it had not begun
	default:
		c.ran(now, it, version{})
	}
	if verdict == VerdictDeleted || !p.before(it.lane.one.version()) {
		return false
	}
	switch verdict {
	case VerdictFailed:
		c.counts.Failed++
	case VerdictSnoozed:
		c.counts.Snoozed++
	case VerdictInterrupted:
		if !it.Outcome.Unrun {
			c.counts.Interrupted++
		}
	}
	it.Outcome.Verdict = verdict // for what it holds
	c.giveWay(it.lane, it)
	return true
}

// giveWay ends what an item has, because a newer payload waits behind it, and has that
// begin as a new job.
func (c *hands) giveWay(l *lane, it *Item) {
	c.release(l)
	c.ages.inherit(l.one.Ref.Position(), it.Payloads[0].Ref.Position())
	c.supersede(it.Payloads[0], l.one.Ref.Position(), false)
	due, unpinned := l.due, l.unpinned
	c.anew(l)
	c.enqueue(l, c.dueWhenRested(l, it.ID, due))
	if unpinned {
		c.pinDue(l)
	}
	if c.unhold(it.ID, HoldWait) {
		c.enqueue(l, l.due)
	}
}

// ran notes that an item has run: which version of its id is done, if one is and has a
// score, and until when the id rests. One without is not noted: all that comes later is
// newer.
func (c *ends) ran(now int64, it *Item, done version) {
	before, noted := c.rested.byID[it.ID]
	r := rest{ran: before.ran, until: before.until}
	if !math.IsNaN(done.score) && r.ran.before(done) {
		r.ran = done
	}
	if p := it.lane.one; !p.Ref.IsZero() && p.version().before(r.ran) {
		it.lane.one = Payload{}
		c.supersede(p, r.ran.at, true)
	}
	if c.cfg.Throttle > 0 && !it.Outcome.Unrun {
		r.until = c.restUntil(now)
	}
	if r.ran == before.ran && r.until == before.until || c.broken() {
		return
	}
	if noted && !before.state.IsZero() {
		c.end(before.state)
	}
	c.writeRest(now, it.ID, r)
}

// forgetVersion has what is accepted of an id from a position on be newer than what was done of
// it, runs or is dead. It returns how many versions it has forgotten.
func (c *ends) forgetVersion(now int64, id string, next journal.Position) (n int) {
	before := c.rested.byID[id]
	if !c.supersedes() || c.broken() {
		return 0
	}
	if before.ran.at != 0 && !before.ran.isBorder() {
		n = 1
	}
	r := rest{until: before.until}
	l := c.lanes.find([]byte(id))
	if _, dead := c.graves[id]; dead || l != nil && l.item() != nil {
		r.ran = version{math.Inf(-1), next}
		c.exhume(id, r.ran)
	}
	if !before.state.IsZero() {
		c.end(before.state)
	}
	delete(c.rested.byID, id)
	if r.until > now || r.ran.at != 0 {
		c.writeRest(now, id, r)
	}
	return n
}

// Scored reports whether the score of an entry is its caller's, as far as the journal
// tells: it is not the time at which the entry was accepted, to the microsecond.
func Scored(e *journal.Entry) bool {
	off := journal.ScoreOf(e.AcceptedAt()) - e.Score
	return !(math.Abs(off) < 1e-6)
}

// versions reports whether a state is the last version of an id, without a payload; a
// state like that of an id that rests (see rests). It may be both.
func versions(e *journal.Entry) bool {
	return len(e.Failed) == 4 && e.Failed[0] == 0 && e.Failed[1] == 0
}

// loadRest takes in the state of an id that rests, or of which a version has run. It
// reports whether the state is such a one, which only a superseding queue keeps: in others an
// id that rests has a lane until all is loaded.
func (c *gather) loadRest(e *journal.Entry, ref journal.Ref) bool {
	switch {
	case !c.supersedes() && (versions(e) || rests(e) && c.cfg.Throttle <= 0):
		c.end(ref)
		return true
	case !c.supersedes() || !versions(e) && !rests(e):
		return false
	}
	r := rest{state: ref}
	if c.cfg.Throttle > 0 {
		r.until = min(e.Due, c.restUntil(c.now)) // it may be less by now
	}
	if versions(e) {
		r.ran = version{math.Float64frombits(uint64(e.Failed[2])), e.Failed[3]}
	}
	if r.ran.at == 0 && r.until == 0 {
		c.end(ref) // there is no throttle any more
		return true
	}
	id := string(e.ID)
	if before, noted := c.rested.byID[id]; noted { // under two names of the queue
		c.joinRests(id, r, before)
	} else {
		c.rested.add(id, r)
	}
	c.exhume(id, c.rested.byID[id].ran)
	if l := c.lanes.find(e.ID); l != nil && l.n() > 0 {
		c.loosen(l) // its payload may be older than what was done
		var w journal.Entry
		if !l.known().hasState() && c.lanes.entries.read(l.one.Ref, &w) {
			c.enqueue(l, c.rouseFor(l, &w, l.due))
		}
	}
	return true
}

// joinRests has the newer version and the longer rest of an id count. If they are of two states, another
// one says both; one that is not written yet is joined by the next start.
func (c *gather) joinRests(id string, r, before rest) {
	if r.ran.before(before.ran) {
		r, before = before, r
	}
	if !before.state.IsZero() {
		c.end(before.state)
	}
	if before.until <= r.until {
		c.rested.add(id, r)
		return
	}
	if !r.state.IsZero() {
		c.end(r.state)
	}
	c.writeRest(before.until, id, rest{until: before.until, ran: r.ran})
}

// outrun ends a lane whose payload is older than the version of its id that was done: it
// was accepted while that one ran, and had not ended when the process died. All is loaded.
func (c *gather) outrun(l *lane) bool {
	if !c.supersedes() || l.n() == 0 {
		return false
	}
	id := l.id(&c.lanes.entries)
	ran, hash, p := c.rested.byID[string(id)].ran, hashOf(id), l.one
	if !p.version().before(ran) {
		return false
	}
	l.one = Payload{}
	c.supersede(p, ran.at, true)
	c.displace(l)
	c.drop(l, hash)
	return true
}

// stale reports, while loading, whether a state is about a payload that a newer one has
// superseded: one that was accepted before the state was written, and delivered after it.
func (c *gather) stale(l *lane, e *journal.Entry) bool {
	return c.supersedes() && l != nil && l.n() > 0 && len(e.Failed) > 0 && !gathers(e) && !slices.Contains(e.Failed, l.one.Ref.Position())
}
