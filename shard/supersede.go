package shard

import (
	"math"
	"slices"

	"github.com/strandjobs/strand/journal"
)

// Under MergeSupersede a payload is a state of its id, and the newest counts: the one
// with the highest score, and of equal scores the one that was accepted last. This file
// says what becomes of the others. It is asked at two moments.
//
// When a payload arrives (arrive): it takes the place of one that waits, is retried, is
// held or is halted, as a new job with its own due time; it waits behind one that runs;
// and what is older than any of these, or than what has run, is superseded at once. So
// at most one payload of an id waits, and no bag and no bytes are looked at.
//
// When a run ends (overtaken): what is done is done. All else gives way to a newer
// payload that has come meanwhile: it is not tried again, and does not go to the morgue.
//
// What must be known of an id that has nothing to do is its last version, if it has
// scores: it is among the rested, as a state without a payload. And its dead letter, of
// which it has one at most: a newer payload takes that out of the morgue, in the change
// that tells of its arrival.

// version is what tells which of two states of an id is newer. Zero: none.
type version struct {
	score float64
	at    journal.Position
}

func (p Payload) version() version { return version{p.Score, p.Ref.Position()} }

func (v version) before(w version) bool {
	return v.score < w.score || v.score == w.score && v.at < w.at
}

// grave is the dead letter of an id.
type grave struct {
	version
	leaving bool // a person has asked for it to be put back, or deleted
}

func (c *Core) supersedes() bool { return c.cfg.Merge == MergeSupersede }

// arrive takes in a payload, whose id has a lane unless l is nil. It returns the
// position of what is newer, or 0.
func (c *Core) arrive(l *lane, e *journal.Entry, ref journal.Ref) (into journal.Position) {
	p := Payload{e.Score, ref}
	c.came(e, ref)
	if l != nil && l.item() != nil && l.item().revoke() {
		c.putBack(l, l.item())
	}
	c.isBack(string(e.ID), ref.Position())
	if newest, over := c.newest(l, string(e.ID)); newest.at != 0 && p.version().before(newest) {
		c.supersede(p, newest.at, over)
		c.counts.Replaced-- // its caller hears of it at once
		return newest.at
	}
	c.exhume(string(e.ID), p.version())
	if l == nil {
		l = c.lanes.add(e.ID)
	}
	if l.n() > 0 {
		old := l.one
		l.one = p
		c.supersede(old, ref.Position(), false)
		c.takePlace(l, e)
		return 0
	}
	l.one = p
	if l.item() == nil {
		c.anew(l) // while loading: a state may have been left over
	}
	c.open(l, e.Due, e.Restored)
	c.stand(l, c.rouseFor(e, l.due))
	return 0
}

// newest returns the newest version of an id that is known, and whether that is over.
func (c *Core) newest(l *lane, id string) (v version, over bool) {
	v, over = c.rested.byID[id].ran, true
	if l == nil {
		return v, over
	}
	if it := l.item(); it != nil && v.before(it.Payloads[0].version()) || v.at == 0 && it != nil {
		v, over = it.Payloads[0].version(), false
	}
	if l.n() > 0 && (v.at == 0 || v.before(l.one.version())) {
		v, over = l.one.version(), false
	}
	return v, over
}

// supersede ends a payload, because the one at a position is newer. Over: that one has
// ended, too.
func (c *Core) supersede(p Payload, into journal.Position, over bool) {
	c.counts.Merged++
	c.counts.Replaced++
	c.counts.Superseded++
	c.endPayload(p.Ref)
	c.change.Merged = append(c.change.Merged, Merged{p.Ref.Position(), into, over})
}

// takePlace makes the payload of a lane, which has just taken the place of another one,
// a new job. What is due at once keeps the place in line that the id has, or an id that
// changes all the time would never run; and what gathers under Debounce goes on to. A
// job that waited for something else than its time is tried at once: it may not need it.
func (c *Core) takePlace(l *lane, e *journal.Entry) {
	at, limit, gathers := l.due, int64(0), c.gathers(l, e)
	if p := l.past(); p != nil && p.bounded {
		limit = p.limit
	} else if gathers {
		limit = c.limitOf(l)
	}
	if l.item() == nil {
		c.anew(l)
	}
	switch {
	case gathers:
		c.bound(l, limit)
		c.stand(l, c.moved(at, limit, e.Due))
		c.pinDue(l)
	default:
		c.open(l, e.Due, e.Restored)
		due := l.due
		if e.Due <= c.now && !c.debounces() {
			due = min(at, due)
		}
		c.stand(l, c.rouseFor(e, due))
	}
	if len(c.held) > 0 && l.item() == nil {
		c.Let(string(e.ID), HoldWait)
	}
}

// gathers reports whether a payload that takes the place of one that waits puts the job
// off under Debounce, and does not begin anew.
func (c *Core) gathers(l *lane, e *journal.Entry) bool {
	if !c.debounces() || e.Restored {
		return false
	}
	p := l.past()
	bounded := p != nil && p.bounded
	if l.item() != nil {
		return bounded
	}
	return l.retry() < 0 && !l.halted && (bounded || !l.hasState())
}

// anew lets go of all that a lane whose payloads wait remembers of its runs, and of its
// place in the agenda.
func (c *Core) anew(l *lane) {
	c.displace(l)
	c.endState(l)
	c.setRetry(l, -1)
	c.setHalted(l, false)
	l.unpinned = false
	if l.rest != nil {
		l.rest.past = nil
	}
}

// stand makes what waits in a lane due at a time.
func (c *Core) stand(l *lane, due int64) {
	if l.item() != nil {
		l.due = due
		return
	}
	c.enqueue(l, due)
}

// rouseFor is rouse for a payload whose id may be resting, and stays among the rested.
func (c *Core) rouseFor(e *journal.Entry, due int64) int64 {
	if e.Restored || c.cfg.Throttle <= 0 {
		return due
	}
	return max(due, c.rested.byID[string(e.ID)].until)
}

// overtaken reports whether the payload of an item that has ended gave way to a newer
// one, and otherwise notes what is done.
func (c *Core) overtaken(it *Item) bool {
	verdict := it.Outcome.Verdict
	if len(it.Outcome.Parts) > 0 {
		verdict = it.Outcome.Parts[0].Verdict
	}
	switch verdict {
	case VerdictDone, VerdictDiscarded:
		it.ran = it.Payloads[0]
		return false
	case VerdictDeleted:
		return false
	}
	if it.lane.n() == 0 {
		return false
	}
	switch verdict {
	case VerdictFailed:
		c.counts.Failed++
	case VerdictSnoozed:
		c.counts.Snoozed++
	case VerdictInterrupted:
		c.counts.Interrupted++
	}
	c.giveWay(it.lane, it)
	return true
}

// giveWay ends what an item has, because a newer payload waits behind it, and has that
// begin as a new job.
func (c *Core) giveWay(l *lane, it *Item) {
	c.release(l)
	c.supersede(it.Payloads[0], l.one.Ref.Position(), false)
	due, unpinned, limit := l.due, l.unpinned, int64(0)
	p := l.past()
	bounded := p != nil && p.bounded
	if bounded {
		limit = p.limit
	}
	c.anew(l)
	if bounded {
		c.bound(l, limit)
	}
	c.enqueue(l, due)
	if unpinned {
		c.pinDue(l)
	}
	c.Let(it.ID, HoldWait)
}

// ranOut notes that the run of an item is over: which version of its id was done, if the
// id has scores, and until when the id rests.
func (c *Core) ranOut(now int64, it *Item) {
	before, noted := c.rested.byID[it.ID]
	r := rest{ran: before.ran}
	if done := it.ran; !done.Ref.IsZero() && (before.ran.at != 0 || c.scored(done)) && before.ran.before(done.version()) {
		r.ran = done.version()
	}
	if c.cfg.Throttle > 0 {
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

// scored reports whether a payload has a score of its own. One that is the time of its
// acceptance, which all others have, can't be told from those: see [Scored].
func (c *Core) scored(p Payload) bool {
	var e journal.Entry
	return c.lanes.entries.read(p.Ref, &e) && Scored(&e)
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
// reports whether the state is such a one, which only a superseding queue keeps.
func (c *Core) loadRest(e *journal.Entry, ref journal.Ref) bool {
	switch {
	case !c.supersedes() && versions(e):
		c.end(ref)
		return true
	case !c.supersedes() || !versions(e) && !rests(e):
		return false
	}
	r := rest{state: ref}
	if c.cfg.Throttle > 0 {
		r.until = e.Due
	}
	if versions(e) {
		r.ran = version{math.Float64frombits(uint64(e.Failed[2])), e.Failed[3]}
	}
	if r.ran.at == 0 && r.until == 0 {
		c.end(ref) // there is no throttle any more
		return true
	}
	id := string(e.ID)
	if before, noted := c.rested.byID[id]; noted {
		c.end(before.state)
	}
	c.rested.add(id, r)
	c.exhume(id, r.ran)
	if l := c.lanes.find(e.ID); l != nil && l.n() > 0 {
		if p := l.one; r.ran.at != 0 && p.version().before(r.ran) {
			l.one = Payload{}
			c.supersede(p, r.ran.at, true)
			c.loosen(l)
			return true
		}
		var w journal.Entry
		if c.lanes.entries.read(l.one.Ref, &w) {
			c.enqueue(l, c.rouseFor(&w, l.due))
		}
	}
	return true
}

// stale reports, while loading, whether a state is about a payload that a newer one has
// superseded: one that was accepted before the state was written, and delivered after it.
func (c *Core) stale(l *lane, e *journal.Entry) bool {
	return c.supersedes() && l != nil && l.n() > 0 && len(e.Failed) > 0 && !gathers(e) && !slices.Contains(e.Failed, l.one.Ref.Position())
}

// about is the position of the payload that a state is about.
func (l *lane) about() journal.Position {
	if it := l.item(); it != nil {
		return it.Payloads[0].Ref.Position()
	}
	return l.one.Ref.Position()
}

// LoadDead takes in a dead letter of a superseding queue, before anything is loaded.
func (c *Core) LoadDead(id string, score float64, at journal.Position) {
	if !c.supersedes() {
		return
	}
	v := version{score, at}
	if g, dead := c.graves[id]; dead && v.before(g.version) { // of another policy
		c.takeOutOfMorgue(v)
		return
	}
	c.exhume(id, v)
	c.dig(id, v)
}

func (c *Core) dig(id string, v version) {
	if c.graves == nil {
		c.graves = make(map[string]grave)
	}
	c.graves[id] = grave{version: v}
}

// inGrave reports whether a payload that is about to go to the morgue is older than the
// dead letter of its id, and ends it then. Otherwise it is that from now on.
func (c *Core) inGrave(p Payload) bool {
	var e journal.Entry
	if !c.lanes.entries.read(p.Ref, &e) {
		return false
	}
	id, v := string(e.ID), p.version()
	if g, dead := c.graves[id]; dead && v.before(g.version) {
		c.supersede(p, g.at, true)
		return true
	}
	c.exhume(id, v)
	c.dig(id, v)
	return false
}

// exhume takes the dead letter of an id out of the morgue if a version is newer, unless
// a person is at it: then it is done when that is over.
func (c *Core) exhume(id string, v version) {
	if len(c.graves) == 0 {
		return
	}
	if g, dead := c.graves[id]; dead && !g.leaving && g.before(v) {
		delete(c.graves, id)
		c.takeOutOfMorgue(g.version)
	}
}

func (c *Core) takeOutOfMorgue(v version) {
	c.counts.SupersededDead++
	c.change.Queue = c.queue
	c.change.Exhumed = append(c.change.Exhumed, v.at)
}

// isBack notes that a dead letter has come back, if the payload at a position is one.
func (c *Core) isBack(id string, at journal.Position) {
	if len(c.graves) > 0 && c.graves[id].at == at {
		delete(c.graves, id)
	}
}

// Depart says that a dead letter of a superseding queue is about to be put back, or
// deleted. It reports whether that is still one; then the id is held until Departed, so
// that no newer payload runs before it is known what has become of the dead letter.
func (c *Core) Depart(id string, at journal.Position) bool {
	g, dead := c.graves[id]
	if !dead || g.at != at || g.leaving {
		return false
	}
	g.leaving = true
	c.graves[id] = g
	c.Hold(id, HoldDead)
	return true
}

// Departed ends what Depart has begun, if it has. Gone: the dead letter is in the morgue no
// more.
func (c *Core) Departed(id string, at journal.Position, gone bool) {
	if g, dead := c.graves[id]; dead && g.at == at {
		g.leaving = false
		c.graves[id] = g
		if gone {
			delete(c.graves, id)
		} else if newest, _ := c.newest(c.lanes.find([]byte(id)), id); newest.at != 0 {
			c.exhume(id, newest)
		}
	}
	c.Let(id, HoldDead)
}
