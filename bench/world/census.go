package world

import (
	"context"
	"slices"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
)

// census is what is in the executor at a moment when nothing is under way.
type census struct {
	stats inspect.Stats
	jobs  map[string]map[string]inspect.JobDetail // by queue and id
	stale bool                                    // it took too long, or has not all
}

// ids are those of a queue that anything was enqueued for.
func (l *ledger) ids(queue string) (ids []string) {
	for _, i := range l.items {
		if i.queue == queue && i.state != refused && !slices.Contains(ids, i.id) {
			ids = append(ids, i.id)
		}
	}
	return ids
}

func (w *world) takeCensus() {
	c := &census{jobs: make(map[string]map[string]inspect.JobDetail)}
	ctx := context.Background()
	for _, q := range w.queues {
		c.jobs[q.name] = make(map[string]inspect.JobDetail)
		w.mu.Lock()
		ids := w.ledger.ids(q.name)
		w.mu.Unlock()
		if !w.look(c, q, ids) {
			return
		}
	}
	var err error
	if c.stats, err = w.x.Stats(ctx); err != nil {
		w.fail("Stats: %v", err)
		return
	}
	for _, f := range w.features {
		if f.peek != nil {
			f.peek(w)
		}
	}
	if w.town == nil || w.epoch%5 == 0 { // it asks much
		w.compare(c)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count(c)
	w.known, w.counted = w.epoch, time.Now()
	for _, f := range w.features {
		if f.calm != nil {
			f.calm(w, c)
		}
	}
}

// idsAtOnce is how many ids a call of JobsByID takes.
const idsAtOnce = 25

// look takes in what there is of some ids, a list at a time.
func (w *world) look(c *census, q *queue, ids []string) bool {
	for some := range slices.Chunk(ids, idsAtOnce) {
		jobs, err := w.x.Inspect().JobsByID(context.Background(), q.name, some...)
		if err != nil {
			w.fail("Inspector.JobsByID: %v", err)
			return false
		}
		for _, job := range jobs {
			c.stale = c.stale || job.More > 0 || job.MoreDead > 0 || job.DeadUnread
			c.jobs[q.name][job.ID] = job
		}
	}
	return true
}

// count finds each payload in one place at most, and asks of what is nowhere how it has
// ended.
func (w *world) count(c *census) {
	found := make(map[*item]place)
	for _, q := range w.queues {
		for id, job := range c.jobs[q.name] {
			for _, p := range job.InHand {
				w.found(found, q, id, p, waits)
			}
			for _, p := range job.Waiting {
				w.found(found, q, id, p, waits)
			}
			for _, p := range job.Dead {
				for _, i := range w.found(found, q, id, p.PayloadInfo, dead) {
					w.closes(q, i, p.Error)
					w.wasTold(q, i, p.Error)
				}
			}
		}
	}
	if c.stale {
		return
	}
	for _, i := range w.ledger.items {
		if w.queueOf(i.queue) != nil {
			w.check(i, found)
		}
	}
}

func (w *world) found(found map[*item]place, q *queue, id string, p inspect.PayloadInfo, where place) []*item {
	v, ok := p.Value.(payload)
	if ok && q.spoils(v) {
		w.fail("codec: %v of %s/%s is shown, and its codec can't read it", v, q.name, id)
	}
	if !ok {
		v, ok = q.unreadable(p)
	}
	if !ok {
		w.fail("unreadable: position %d of %s/%s: %v", p.Position, q.name, id, p.Decode)
		return nil
	}
	items, strange := w.ledger.find(q.name, id, p.Position, v)
	if strange != "" {
		w.fail("%s, %v", strange, where)
	}
	for _, i := range items {
		if found[i] != nowhere {
			w.fail("twice: %v is %v and %v", i, found[i], where)
		}
		found[i] = where
	}
	return items
}

// check compares where a payload is with what is known of it.
func (w *world) check(i *item, found map[*item]place) {
	where := found[i]
	defer func() {
		if !i.booked && i.state == acked {
			w.book(i, where)
		}
		i.place, i.seen = where, w.epoch
	}()
	switch {
	case i.state == refused || i.told != "":
		return
	case i.state == acked:
		i.sure = true
	}
	if i.doom == 0 && w.inheritsGuilt(i) {
		i.doom = w.epoch
	}
	if where != nowhere {
		if i.hint == "done" || i.hint == "discarded" {
			if i.hintLife == w.term(i.id) && !w.underWay(i) && !i.last.refused() && !w.mayForget(i) {
				w.fail("ended and still there: %v is %v", i, where)
			}
		}
		if where == dead && i.place != dead && i.doom == 0 {
			w.fail("buried for no reason: %v", i)
		}
		if where == waits && i.place == dead && !i.revive {
			w.fail("back from the dead by itself: %v", i)
		}
		if where == waits && i.revive {
			i.putBack(w.counted)
			i.buried = i.buried || i.doom > i.lived || w.queueOf(i.queue).rings() // which buries it without a run
		}
		if where == waits {
			i.revive, i.lived = false, w.epoch
		} else {
			w.laid(i)
			i.buried = true
		}
		if !w.underWay(i) && !w.behind(i) {
			i.hint = ""
		}
		return
	}
	if i.state != acked {
		return
	}
	if i.hint == "" && w.queueOf(i.queue).conf.has("merge") && w.ledger.twin(i, found) {
		i.hint = "merged"
	}
	if i.hint == "" && w.superseded(i, tried) {
		i.hint = "merged"
	}
	if i.hint == "" && w.queueOf(i.queue).conf.str("when") == "skip" {
		i.hint = "skipped" // as its key was locked
	}
	if i.hint == "" && w.expired(i) {
		i.hint = "expired"
		w.inItsTurn(i, found)
	}
	if i.hint == "" {
		w.fail("lost: %v", i)
	}
	i.told = i.hint
}

func (w *world) inHand(i *item) bool {
	return slices.ContainsFunc(w.running, func(r *run) bool { return slices.Contains(r.items, i) })
}

// behind reports whether a payload may be in the hand of a worker that runs another one of its id:
// what a person does to it is done when its turn comes.
func (w *world) behind(i *item) bool {
	return slices.ContainsFunc(w.running, func(r *run) bool { return r.queue.name == i.queue && r.id == i.id })
}

// underWay reports whether a payload is in a run, or was in a part of a batch of which another
// part runs, or a hook is told of one: what comes of a batch is noted when all of it has ended.
func (w *world) underWay(i *item) bool {
	return w.listening[w.queueOf(i.queue)] > 0 || slices.ContainsFunc(w.running, func(r *run) bool {
		return slices.Contains(r.items, i) || r.queue.name == i.queue && r.queue.conf.str("shape") == "batch"
	})
}
