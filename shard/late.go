package shard

import (
	"slices"

	"github.com/strandjobs/strand/journal"
)

// A dead letter that is put back has its old place in the order of its id, but what stood
// behind it may have run since, and does not run again. So a core remembers, for the dead
// letters that it has buried itself, what was done of their ids after that. While there are
// none it costs nothing. Under MergeSupersede nothing comes back late.

// outlived is what a core knows of an id with dead letters.
type outlived struct {
	dead []version
	done version // the newest that was done since; zero: none
}

// noteDead notes that a payload goes to the morgue.
func (c *dead) noteDead(p Payload) {
	if c.supersedes() || c.broken() {
		return
	}
	id := string(c.lanes.entries.id(p.Ref)) // "" of one that can't be read, and the core is broken then
	if c.outlived == nil {
		c.outlived = make(map[string]outlived)
	}
	o := c.outlived[id]
	o.dead = append(o.dead, p.version())
	c.outlived[id] = o
}

// noteDone notes that payloads of an item are done.
func (c *dead) noteDone(it *Item, payloads []Payload) {
	if len(c.outlived) == 0 {
		return
	}
	o, dead := c.outlived[it.ID]
	for _, p := range payloads {
		if v := p.version(); dead && o.done.before(v) {
			o.done = v
			c.outlived[it.ID] = o
		}
	}
}

// Forget notes that a dead letter of an id is in the morgue no more.
func (c *dead) Forget(id string, at journal.Position) {
	o, dead := c.outlived[id]
	if !dead {
		return
	}
	if o.dead = slices.DeleteFunc(o.dead, func(v version) bool { return v.at == at }); len(o.dead) > 0 {
		c.outlived[id] = o
	} else {
		delete(c.outlived, id)
	}
}

// Late reports whether a payload that comes after a dead letter of its id was done since
// that died, or runs; known false: the dead letter is older than the core.
func (c *dead) Late(id string, at journal.Position) (late, known bool) {
	o := c.outlived[id]
	i := slices.IndexFunc(o.dead, func(v version) bool { return v.at == at })
	if i < 0 {
		return false, false
	}
	v := o.dead[i]
	if l := c.lanes.find([]byte(id)); l != nil && l.item() != nil {
		late = slices.ContainsFunc(l.item().Payloads, func(p Payload) bool { return v.before(p.version()) })
	}
	return late || v.before(o.done), true
}
