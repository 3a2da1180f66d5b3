package executor

import "github.com/strandjobs/strand/shard"

// recorder writes down what the shards of a queue decide.
type recorder struct{ queue *queue }

// Record implements [shard.Recorder].
func (r recorder) Record(c *shard.Change) {
	if q := r.queue; q.events.Watched() {
		tell := q.events.Decided(c)
		r.write(c)
		tell()
		return
	}
	r.write(c)
}

func (r recorder) write(c *shard.Change) {
	q := r.queue
	locks := len(c.Staged) > 0 && q.x.land(c)
	if q.admission == nil && !locks {
		q.x.log.Record(&c.Change)
	} else {
		q.x.ledger.Settle(q.admission, c, func() { q.x.lockFollowUps(c) })
		for f := range followUps(c) {
			f.queue.reconsider(string(f.entry.ID), f.keys)
		}
	}
	q.backlog.Settle(c.Over, c.Surplus)
	if q.awaited.Any() {
		q.awaited.Record(c, q.x.log.Recorded(&c.Change))
	}
	if len(c.Buried) > 0 {
		q.undertaker.buried()
	}
}
