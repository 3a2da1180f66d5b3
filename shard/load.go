package shard

import (
	"cmp"
	"runtime"
	"slices"
	"sync"

	"github.com/strandjobs/strand/journal"
)

// load takes in an entry that was live when the journal was opened. Entries
// come in position order, before anything is delivered; loaded follows.
func (c *Core) load(e *journal.Entry, ref journal.Ref) {
	c.loading = true
	if e.Kind == journal.KindEnqueued {
		c.deliver(e, ref, hashOf(e.ID))
		return
	}
	if c.loadRest(e, ref) {
		return
	}
	l := c.lanes.find(e.ID)
	if c.broken() {
		return
	}
	if c.stale(l, e) || rests(e) && l != nil && l.known().hasState() { // what rests had nothing to do, under another name of the queue
		c.end(ref)
		if e.Crashed {
			c.inherit(string(e.ID), l.one.Ref.Position())
			c.enqueue(l, l.due)
		}
		return
	}
	if l == nil {
		// The payload that the state was written for has been replaced by a
		// later one, or nothing comes: loaded sees to that.
		l = c.lanes.add(hashOf(e.ID))
		c.loosen(l)
	}
	c.endState(l)
	p := l.remember()
	p.state, p.pulled, p.resting = ref, false, rests(e)
	p.err, p.crashed, p.history = string(e.Error), e.Crashed, slices.Clone(e.History)
	p.unbound()
	due, longest := e.Due, c.restUntil(c.now) // of a rest: Throttle may be less by now
	if p.resting {
		due = min(due, longest)
	}
	switch {
	case gathers(e):
		c.bound(l, int64(e.Failed[1]))
	case restsUntil(e) && c.cfg.Throttle > 0:
		due = l.remember().dueAfter(due, min(int64(e.Failed[1]), longest))
	case p.resting && l.n() > 0:
		due = l.remember().dueAfter(l.due, due)
	case len(e.Failed) > 0 && !p.resting:
		c.loosen(l)
	}
	c.setRetry(l, e.Retry)
	c.setHalted(l, e.Halted)
	c.enqueue(l, due)
}

// gathers reports whether a state is that of a job with a limit: then it stands in the
// place of the failed payloads, behind a position that none has. A version of this
// package that knows no limits finds no payload by it.
func gathers(e *journal.Entry) bool { return len(e.Failed) == 2 && e.Failed[0] == 0 }

// restsUntil reports whether a state is that of a job whose id rests: its due time is the job's
// own, and the end of the rest stands behind a position that none has, before that of the payload.
func restsUntil(e *journal.Entry) bool { return len(e.Failed) == 3 && e.Failed[0] == 0 }

// loaded ends the loading.
func (c *Core) loaded() {
	c.loading = false
	for _, l := range c.loose {
		l.loose = false
		if c.cfg.Block {
			c.regroup(l)
		}
		switch {
		case c.outrun(l):
		case l.empty():
			c.displace(l)
			hash := hashOf(l.id(&c.lanes.entries))
			c.restOn(l)
			c.drop(l, hash)
		case l.known().pulled:
			l.past().pulled = false
			c.writeState(l)
		case l.unpinned:
			c.pinDue(l)
		}
	}
	c.loose = nil
}

// regroup holds the payloads that failed according to the state of a lane, and
// merges the others.
func (c *gather) regroup(l *lane) {
	var e journal.Entry
	if l.known().hasState() {
		c.lanes.entries.read(l.past().state, &e)
	}
	failed := e.Failed
	if len(failed) > 0 && failed[0] == 0 {
		failed = nil // it says something else
	}
	slices.Sort(failed)
	most := c.cfg.MaxPayloads // as many as run at a time: it may be less by now
	if c.cfg.Single {
		most = 1
	}
	var others []Payload
	for l.n() > 0 {
		p := l.take()
		_, found := slices.BinarySearch(failed, p.Ref.Position())
		if found && (most == 0 || len(l.held()) < most) {
			l.past().held = append(l.past().held, p)
		} else {
			others = append(others, p)
		}
	}
	c.returnTo(l, others, false)
}

// loader has the cores of a queue take in what was pending when the journal was
// opened, a stride at a time and in position order. Every processor takes part:
// each reads some entries of the stride, then each goes through all of them for
// its own cores. So what is not in memory is read back once, as it stands on
// the disk.
type loader struct {
	cores []*Core
	route func(id []byte) int
	see   func([]journal.Entry)

	// Of the stride.
	refs    []journal.Ref
	entries []journal.Entry
	coreOf  []int

	weights []Weight // by processor
}

// strideBytes bounds the entries of a stride, which is a part of a page: their
// readers should still have them at hand when they take them in.
const strideBytes = 2 << 20

// LoadAll has new cores take in the pending entries of their queue, before [New] gets
// them, lets go of the pages and ends the loading. It returns what the payloads weigh. route returns
// the index of the core for an id; see is shown each entry once, some at a time. Both
// are called by several goroutines. When an entry can't be read, LoadAll returns the
// error of the [journal], and the cores are of no use.
func LoadAll(cores []*Core, pending [][]journal.Ref, route func(id []byte) int, see func([]journal.Entry)) (all Weight, err error) {
	l := &loader{cores: cores, route: route, see: see, weights: make([]Weight, runtime.GOMAXPROCS(0))}
	for i, page := range pending {
		if err := l.page(page); err != nil {
			return Weight{}, err
		}
		pending[i] = nil
	}
	for _, w := range l.weights {
		all = all.Plus(w)
	}
	return all, l.together(l.end)
}

// end has a part of the cores end the loading, so that who has them loaded knows what has merged.
func (l *loader) end(part int) (err error) {
	for i := part; i < len(l.cores); i += len(l.weights) {
		l.cores[i].loaded()
		err = cmp.Or(err, l.cores[i].Err())
	}
	return err
}

// page has the cores take in a page, in strides.
func (l *loader) page(refs []journal.Ref) error {
	l.entries = slices.Grow(l.entries[:0], len(refs))[:len(refs)]
	l.coreOf = slices.Grow(l.coreOf[:0], len(refs))[:len(refs)]
	for len(refs) > 0 {
		n := stride(refs)
		l.refs, refs = refs[:n], refs[n:]
		if err := l.together(l.read); err != nil {
			return err
		}
		if err := l.together(l.takeIn); err != nil {
			return err
		}
	}
	return nil
}

// stride returns how many entries the next stride has.
func stride(refs []journal.Ref) (n int) {
	for bytes := 0; n < len(refs) && bytes < strideBytes; n++ {
		bytes += refs[n].Size()
	}
	return n
}

// together has every processor do its part.
func (l *loader) together(do func(part int) error) error {
	errs := make([]error, len(l.weights))
	var group sync.WaitGroup
	for part := range errs {
		group.Go(func() { errs[part] = do(part) })
	}
	group.Wait()
	return cmp.Or(errs...)
}

// read reads a part of the stride and finds out whose the entries are.
func (l *loader) read(part int) error {
	parts, weight := len(l.weights), Weight{}
	from, to := part*len(l.refs)/parts, (part+1)*len(l.refs)/parts
	for i := from; i < to; i++ {
		e := &l.entries[i]
		if err := l.refs[i].Read(e); err != nil {
			return err
		}
		if e.Kind == journal.KindEnqueued {
			weight = weight.Plus(weightOf(l.refs[i]))
		}
		l.coreOf[i] = l.route(e.ID)
	}
	l.weights[part] = l.weights[part].Plus(weight)
	l.see(l.entries[from:to])
	return nil
}

// takeIn has a part of the cores take in what is theirs, some entries at a time:
// what each begins with is seldom in the cache.
func (l *loader) takeIn(part int) error {
	mine := make([]int, 0, 64)
	for i := 0; i < len(l.refs); mine = mine[:0] {
		for ; i < len(l.refs) && len(mine) < cap(mine); i++ {
			if s := l.coreOf[i]; s%len(l.weights) == part {
				l.cores[s].lanes.prefetchID(l.entries[i].ID)
				mine = append(mine, i)
			}
		}
		for _, i := range mine {
			l.cores[l.coreOf[i]].load(&l.entries[i], l.refs[i])
		}
	}
	return nil
}
