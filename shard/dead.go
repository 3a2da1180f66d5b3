package shard

import (
	"cmp"
	"slices"
	"sort"

	"github.com/strandjobs/strand/journal"
)

// dead is what a shard knows of dead letters.
//
// Under MergeSupersede an id has one dead letter at most, and none beside a newer payload.
//
// A dead letter that is put back has its old place in the order of its id, but what stood
// behind it may have run since, and does not run again. So a core remembers, for the dead
// letters that it has buried itself, what was done of their ids after that. While there are
// none it costs nothing. Under MergeSupersede nothing comes back late.
type dead struct {
	throttle
	graves   map[string]grave     // dead letters, under MergeSupersede: one of an id at most
	outlived map[string]*outlived // ids with dead letters, under any other policy; see Late
}

// grave is the dead letter of an id.
type grave struct {
	version
	leaving bool // a person has asked for it to be put back, or deleted
	guilty  bool // it has killed the process too often; see succeed
}

// outlived is an id of which a core has buried dead letters itself.
type outlived struct {
	dead []moment // by position
	done []moment // what was done since, but for what is earlier in the order of the id than something that tells as much
	now  int      // counts what is noted
}

// moment is when something has happened to a payload.
type moment struct {
	version
	when int
}

// find returns where the dead letter at a position is, or would be.
func (o *outlived) find(at journal.Position) (i int, found bool) {
	return slices.BinarySearchFunc(o.dead, at, func(m moment, at journal.Position) int { return cmp.Compare(m.at, at) })
}

func (o *outlived) died(v version) {
	o.now++
	i, _ := o.find(v.at)
	o.dead = slices.Insert(o.dead, i, moment{v, o.now})
}

func (o *outlived) ended(v version) {
	n := len(o.done)
	for n > 0 && o.done[n-1].before(v) {
		n--
	}
	if o.done = o.done[:n]; n > 0 && o.done[n-1].when == o.now {
		return // nothing has died since that was done, which comes after v
	}
	o.now++
	o.done = append(o.done, moment{v, o.now})
}

func (o *outlived) forget(at journal.Position) {
	switch i, found := o.find(at); {
	case !found:
	case i == 0: // most go in their order
		o.dead = o.dead[1:]
	default:
		o.dead = slices.Delete(o.dead, i, i+1)
	}
}

// late reports whether what comes after a dead letter was done since it died. Of what was, the first
// that is left is the last in the order of the id.
func (o *outlived) late(died moment) bool {
	i := sort.Search(len(o.done), func(i int) bool { return o.done[i].when > died.when })
	return i < len(o.done) && died.before(o.done[i].version)
}

// LoadDead takes in a dead letter of a superseding queue, before anything is loaded. Guilty:
// it was condemned.
func (c *dead) LoadDead(e *journal.Entry, guilty bool) {
	id, v := string(e.ID), versionOf(e, e.Position)
	if g := c.graves[id]; v.before(g.version) { // of another policy
		c.graves[id] = grave{version: v, guilty: guilty}
		v, guilty = g.version, g.guilty
	}
	c.exhume(id, v)
	c.graves[id] = grave{version: v, guilty: guilty}
}

func (c *dead) bury(now int64, it *Item, payloads []Payload, reason string) {
	history := it.Failed(now, reason)
	for _, p := range payloads {
		if c.supersedes() && c.inGrave(p, it.Outcome.Crashed) {
			continue
		}
		if !c.supersedes() && !c.broken() {
			id := string(c.lanes.entries.id(p.Ref)) // "" of one that can't be read, and the core is broken then
			if c.outlived[id] == nil {
				c.outlived[id] = new(outlived)
			}
			c.outlived[id].died(p.version())
		}
		c.after(it.Outcome.Say)
		c.went(p.Ref)
		c.counts.Buried++
		b := journal.Burial{Ref: p.Ref, Retry: it.Retry, Reason: reason, At: now, History: history, Crashed: it.Outcome.Crashed}
		if it.combined {
			b.Payload = it.Folded
		}
		c.change.Buried = append(c.change.Buried, b)
	}
}

// endAs ends payloads as a person wants it.
func (c *dead) endAs(now int64, it *Item, payloads []Payload, r *Removal) {
	it.Outcome.Crashed = r.crashed
	reason := r.Reason
	if r.Failed && it.LastError != "" {
		reason += ": " + it.LastError
	}
	c.endWith(now, it, r.Verdict, payloads, reason)
}

// endWith ends payloads with a verdict after which they are over. What goes to the morgue has
// a reason.
func (c *dead) endWith(now int64, it *Item, v Verdict, payloads []Payload, reason string) {
	switch v {
	case VerdictDeleted:
		c.delete(payloads)
		return
	case VerdictDone:
		c.counts.Done += uint64(len(payloads))
	case VerdictDiscarded:
		c.counts.Discarded += uint64(len(payloads))
	default:
		c.bury(now, it, payloads, reason)
		return
	}
	c.endAll(payloads)
	c.noteDone(it, payloads)
}

// inGrave reports whether a payload that is about to go to the morgue is older than the
// dead letter of its id, and ends it then. Otherwise it is that from now on.
func (c *dead) inGrave(p Payload, guilty bool) bool {
	id, v := string(c.lanes.entries.id(p.Ref)), p.version() // "" of one that can't be read, and the core is broken then
	if g := c.graves[id]; v.before(g.version) {
		c.supersede(p, g.at, true)
		return true
	}
	c.exhume(id, v)
	c.graves[id] = grave{version: v, guilty: guilty}
	return false
}

// exhume takes the dead letter of an id out of the morgue if a version is newer,
// unless a person is at it: then it is done when that is over. It reports whether that
// was a guilty one.
func (c *dead) exhume(id string, v version) (guilty bool) {
	g, dead := c.graves[id]
	if !dead || g.leaving || !g.before(v) {
		return false
	}
	delete(c.graves, id)
	c.counts.SupersededDead++
	c.change.Queue, c.change.Exhumed = c.queue, append(c.change.Exhumed, g.at)
	return g.guilty
}

// succeed is exhume for a payload that is to run instead. After a guilty dead letter it does
// not: the id is held, and the recorder has it condemned.
func (c *dead) succeed(id string, v version) {
	if c.exhume(id, v) {
		c.inherit(id, v.at)
	}
}

// inherit has the payload of an id, which takes the place of a condemned one, condemned by
// the recorder. Until then the id is held.
func (c *dead) inherit(id string, at journal.Position) {
	c.hold(id, c.held[id]|HoldSuspect)
	if c.change.Heirs == nil {
		c.change.Heirs = make(map[string]journal.Position)
	}
	c.change.Heirs[id] = at
}

// noteDone notes that payloads of an item are done.
func (c *dead) noteDone(it *Item, payloads []Payload) {
	if o := c.outlived[it.ID]; o != nil {
		for _, p := range payloads {
			o.ended(p.version())
		}
	}
}

// Forget notes, for Late, that a dead letter of an id is in the morgue no more. Under MergeSupersede Departed says so.
func (c *dead) Forget(id string, at journal.Position) {
	if o := c.outlived[id]; o != nil {
		if o.forget(at); len(o.dead) == 0 {
			delete(c.outlived, id)
		}
	}
}

// Late reports whether a payload that comes after a dead letter of its id was done since that
// died, runs, or has failed and goes first; known false: that letter is older than the core.
func (c *dead) Late(id string, at journal.Position) (late, known bool) {
	o := c.outlived[id]
	if o == nil {
		return false, false
	}
	i, found := o.find(at)
	if !found {
		return false, false
	}
	died := o.dead[i]
	after := func(p Payload) bool { return died.before(p.version()) }
	if l := c.lanes.find([]byte(id)); l != nil {
		it := l.item()
		late = it != nil && slices.ContainsFunc(it.Payloads, after) || slices.ContainsFunc(l.held(), after)
	}
	return late || o.late(died), true
}
