package shard

import "github.com/strandjobs/strand/journal"

// Under MergeSupersede an id has one dead letter at most, and none beside a newer payload.

// grave is the dead letter of an id.
type grave struct {
	version
	leaving bool // a person has asked for it to be put back, or deleted
}

// LoadDead takes in a dead letter of a superseding queue, before anything is loaded.
func (c *dead) LoadDead(e *journal.Entry) {
	if !c.supersedes() {
		return
	}
	id, v := string(e.ID), versionOf(e, e.Position)
	if g := c.graves[id]; v.before(g.version) { // of another policy
		c.graves[id] = grave{version: v}
		v = g.version
	}
	c.exhume(id, v)
	c.graves[id] = grave{version: v}
}

// inGrave reports whether a payload that is about to go to the morgue is older than the
// dead letter of its id, and ends it then. Otherwise it is that from now on.
func (c *dead) inGrave(p Payload) bool {
	id, v := string(c.lanes.entries.id(p.Ref)), p.version() // "" of one that can't be read, and the core is broken then
	if g := c.graves[id]; v.before(g.version) {
		c.supersede(p, g.at, true)
		return true
	}
	c.exhume(id, v)
	c.graves[id] = grave{version: v}
	return false
}

// exhume takes the dead letter of an id out of the morgue if a version is newer,
// unless a person is at it: then it is done when that is over.
func (c *dead) exhume(id string, v version) {
	if g, dead := c.graves[id]; dead && !g.leaving && g.before(v) {
		delete(c.graves, id)
		c.counts.SupersededDead++
		c.change.Queue = c.queue
		c.change.Exhumed = append(c.change.Exhumed, g.at)
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
		} else {
			newer, _ := c.newer(g.version, c.lanes.find([]byte(id)), id)
			c.exhume(id, newer)
		}
	}
	c.Let(id, HoldDead)
}
